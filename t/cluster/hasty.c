/* Tests of actors/cluster/controller/controller.c: a worker that joins last and leaves at once. The controller must
 * report the loss with the worker's reason, and must not start the job without this worker. */
#include "actors/cluster/wire/link.h"
#include "actors/cluster/wire/machine.h"
#include "kernels/exec/identity.h"
#include "actors/cluster/wire/wire.h"
#include "rille.h"
#include "runtime/base/error.h"
#include "t/lib/tap.h"

#include <poll.h>

enum { PATIENCE_MS = 60000, ROUNDS = 8 };

static void
say(struct link *l, struct packet p)
{
    static uint64_t said;
    struct str bytes = {0};
    p.seq = ++said;
    packet_write(&p, &bytes);
    if (link_send(l, LINK_CONTROL, 0, bytes.text, bytes.len)) diag("%s", err_text());
    str_free(&bytes);
}

/* Runs a worker process (arguments: worker ADDRESS RANK; secret on stdin) that sends HELLO and LEAVE. The process
 * then waits to be killed, so that the controller can learn of the departure only from the LEAVE packet. */
static int
leave_at_once(char **argv)
{
    struct link *l;
    struct str machine = {0}, kernels = {0};
    unsigned char secret[RILLE_SECRET];
    struct packet hello = {.kind = PACKET_HELLO,
                           .protocol = WIRE_VERSION,
                           .version = span_text(RILLE_VERSION),
                           .host = span_text("here"),
                           .devices = span_text("cpu:1"),
                           .pid = (uint32_t)getpid(),
                           .cores = 1,
                           .memory = 1 << 20,
                           .rank = atoi(argv[3]),
                           .secret = {secret, RILLE_SECRET}};
    machine_text(NULL, &machine);
    kernels_print(&kernels);
    hello.kernels = span_text(str_text(&kernels));
    hello.isa = kernels_isa();
    hello.machine = span_text(str_text(&machine));
    if (read(0, secret, sizeof secret) != sizeof secret || link_join(argv[2], NULL, &l)) return 1;
    for (int i = 0; i < PATIENCE_MS && link_state(l) != LINK_UP; i++) poll(NULL, 0, 1);
    say(l, hello);
    say(l, (struct packet){.kind = PACKET_LEAVE, .text = span_text("left at once")});
    poll(NULL, 0, PATIENCE_MS);
    return 1;
}

static int
start(void *arg, int rank, const char *address, const unsigned char secret[RILLE_SECRET], int *pid)
{
    int end[2];
    char text[16];
    UNUSED(arg);
    snprintf(text, sizeof text, "%d", rank);
    if (pipe(end) || write(end[1], secret, RILLE_SECRET) != RILLE_SECRET) return -1;
    *pid = fork();
    if (*pid == 0) {
        dup2(end[0], 0);
        execl("/proc/self/exe", "hasty", "hasty", "worker", address, text, (char *)NULL);
        _exit(1);
    }
    close(end[0]);
    close(end[1]);
    return *pid < 0;
}

int
main(int argc, char **argv)
{
    int named = 0;
    if (argc > 3) return leave_at_once(argv);
    for (int i = 0; i < ROUNDS; i++) {
        struct rille_workers w = {.workers = 1, .start = start, .started = 1, .devices = "cpu:1"};
        struct rille_options o = {.cluster = &w};
        struct rille_session *s = NULL;
        if (!rille_open(&o, &s)) continue;
        if (strstr(rille_error(), "left at once"))
            named++;
        else
            diag("%s", rille_error());
    }
    ok(named == ROUNDS, "a worker that joins and leaves at once is lost, with its reason (%d of %d times)", named,
       ROUNDS);
    return done();
}
