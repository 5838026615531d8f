/* Tests of actors/cluster/controller/controller.c: a worker that joins last and leaves at once. The controller must
 * report the loss with the worker's reason, and must not start the job without this worker. Workers that run already
 * must get answers while the controller starts others. */
#include "actors/cluster/wire/link.h"
#include "actors/cluster/wire/machine.h"
#include "kernels/exec/identity.h"
#include "actors/cluster/wire/wire.h"
#include "rille.h"
#include "runtime/base/error.h"
#include "t/lib/tap.h"

#include <poll.h>

enum { PATIENCE_MS = 60000, LONG_MS = 2000, ROUNDS = 8, MANY = 4 };

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

/* Writes a byte to a descriptor now, and another one after an answer of the controller. */
static void
report_answer(struct link *l, int fd)
{
    const void *bytes;
    size_t n;
    int peer;
    if (write(fd, "s", 1) != 1) return;
    for (int i = 0; i < PATIENCE_MS && !link_receive(l, LINK_CONTROL, &peer, &bytes, &n); i++) poll(NULL, 0, 1);
    if (write(fd, "a", 1) != 1) return;
}

/* Runs a worker process (arguments: worker ADDRESS RANK REPORT; secret on stdin) that sends HELLO and LEAVE; before
 * LEAVE, it reports the controller's answer to the descriptor REPORT, unless that is 0. The process then waits to be
 * killed, so that the controller can learn of the departure only from the LEAVE packet. */
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
    if (atoi(argv[4])) report_answer(l, atoi(argv[4]));
    say(l, (struct packet){.kind = PACKET_LEAVE, .text = span_text("left at once")});
    poll(NULL, 0, PATIENCE_MS);
    return 1;
}

struct reports { /* reports of worker 0 while the controller starts others */
    int pipe[2], n;
};

/* Waits for a report of worker 0, as if the start of another worker took long. */
static void
count_reports(struct reports *r)
{
    struct pollfd fd = {.fd = r->pipe[0], .events = POLLIN};
    char byte;
    if (r->n < 2 && poll(&fd, 1, LONG_MS) == 1) r->n += read(r->pipe[0], &byte, 1) == 1;
    poll(NULL, 0, 20); /* lets the packet arrive */
}

static int
start(void *arg, int rank, const char *address, const unsigned char secret[RILLE_SECRET], int *pid)
{
    struct reports *reports = arg;
    int end[2];
    char text[16], report[16];
    snprintf(text, sizeof text, "%d", rank);
    snprintf(report, sizeof report, "%d", reports && rank == 0 ? reports->pipe[1] : 0);
    if (reports && rank > 0) count_reports(reports);
    if (pipe(end) || write(end[1], secret, RILLE_SECRET) != RILLE_SECRET) return -1;
    *pid = fork();
    if (*pid == 0) {
        dup2(end[0], 0);
        execl("/proc/self/exe", "hasty", "hasty", "worker", address, text, report, (char *)NULL);
        _exit(1);
    }
    close(end[0]);
    close(end[1]);
    return *pid < 0;
}

static void
test_answers(void)
{
    struct reports r = {0};
    struct rille_workers w = {.workers = MANY, .start = start, .arg = &r, .started = MANY, .devices = "cpu:1"};
    struct rille_options o = {.cluster = &w};
    struct rille_session *s = NULL;
    if (pipe(r.pipe)) diag("no pipe");
    rille_open(&o, &s);
    ok(r.n == 2, "a worker gets an answer while the controller starts others (%d reports)", r.n);
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
    test_answers();
    return done();
}
