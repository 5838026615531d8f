/* Tests of actors/cluster/controller/remote_access.c. A worker must be declared lost if it does not answer a request
 * for values in time, or answers nonsense. A worker that does not answer is first asked for a new connection. A thread
 * plays the worker. */
#include "actors/cluster/controller/remote_access.h"
#include "runtime/base/error.h"
#include "t/lib/tap.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

enum { BYTES = 64, DEADLINE_MS = 900, LINK_MS = 200 };

static const unsigned char job[CLUSTER_ID] = "a job";
static char lost[64]; /* reason why the worker is declared lost; "": the worker is not lost */

static int
keeper(void *of, int memory)
{
    UNUSED(of), UNUSED(memory);
    return *lost ? (fail(E_LOST, "worker 0 %s", lost), -1) : 0;
}

static int
broken(void *of)
{
    UNUSED(of);
    return 0;
}

static atomic_int requested; /* number of requests for a new connection */

static void
request_connection(void *of, int rank)
{
    UNUSED(of), UNUSED(rank);
    atomic_fetch_add(&requested, 1);
}

static void
lose(void *of, int rank, const char *how)
{
    UNUSED(of), UNUSED(rank);
    snprintf(lost, sizeof lost, "%s", how);
}

struct worker {
    struct link *link;
    const struct row *row;
    atomic_bool quit;
};

/* Answers of the worker: VALUE packets with a status and a number of bytes. */
static const struct row {
    /* what: name of the case; how: expected reason why the worker is lost, NULL: it is not lost */
    const char *what, *how;
    bool silent, mute; /* mute: the first connection carries no answers */
    uint32_t status, bytes;
    int want;
} rows[] = {
    {"the value", NULL, false, false, 0, BYTES, 0},
    {"the value over a new connection only", NULL, false, true, 0, BYTES, 0},
    {"an error", NULL, false, false, E_MEMORY, 0, E_MEMORY},
    {"nothing", "did not answer a request for values", true, false, 0, 0, E_LOST},
    {"an unknown status", "sent a malformed packet", false, false, NERR, 0, E_LOST},
    {"too few bytes", "sent a value of 63 bytes, expected 64", false, false, 0, BYTES - 1, E_LOST},
    {"too many bytes", "sent a value of 65 bytes, expected 64", false, false, 0, BYTES + 1, E_LOST},
};

static void
say(struct link *l, const struct packet *p)
{
    struct str s = {0};
    packet_write(p, &s);
    if (link_send(l, LINK_BULK, 0, s.text, s.len)) diag("%s", err_text());
    str_free(&s);
}

/* Sends the first heartbeat on connection number `count`, by which the controller recognises the worker. */
static void
greet(struct worker *w, uint64_t count)
{
    say(w->link, &(struct packet){.kind = PACKET_BEAT, .epoch = 1, .count = count, .job = {job, CLUSTER_ID}});
}

static void *
play_worker(void *arg)
{
    static const unsigned char value[2 * BYTES];
    struct worker *w = arg;
    const void *bytes;
    size_t n;
    int peer;
    struct packet p;
    bool mute = w->row->mute;
    greet(w, 1);
    while (!atomic_load(&w->quit)) {
        poll(NULL, 0, 1);
        if (mute && atomic_load(&requested)) {
            mute = false;
            if (link_reconnect(w->link, LINK_BULK)) diag("%s", err_text());
            greet(w, 2);
        }
        if (!link_receive(w->link, LINK_BULK, &peer, &bytes, &n) || w->row->silent || mute) continue;
        if (packet_read(bytes, n, &p)) diag("%s", err_text());
        say(w->link,
            &(struct packet){
                .kind = PACKET_VALUE, .count = p.count, .status = w->row->status, .bytes = {value, w->row->bytes}});
    }
    return NULL;
}

int
main(void)
{
    struct link *c;
    if (link_serve("tcp://127.0.0.1:*", NULL, &c)) return diag("%s", err_text()), 1;
    for (size_t i = 0; i < countof(rows); i++) {
        struct worker w = {.row = &rows[i]};
        const struct remote_access_options o = {.link = c,
                                                .job = job,
                                                .world = 1,
                                                .keeper = keeper,
                                                .broken = broken,
                                                .deadline_ns = rows[i].silent ? DEADLINE_MS * 1000000ll : 0,
                                                .link_ns = LINK_MS * 1000000ll,
                                                .connect = request_connection,
                                                .lose = lose};
        struct reach *r = remote_access_new(&o);
        char to[BYTES];
        pthread_t thread;
        *lost = '\0';
        atomic_store(&requested, 0);
        if (link_join(link_endpoint(c, LINK_CONTROL), NULL, &w.link) ||
            link_join_more(w.link, LINK_BULK, link_endpoint(c, LINK_BULK)))
            return diag("%s", err_text()), 1;
        pthread_create(&thread, NULL, play_worker, &w);
        int status = remote_access_fetch(r, 0, 0, to, sizeof to);
        ok(status == rows[i].want && !strcmp(lost, rows[i].how ? rows[i].how : ""),
           "a worker that answers %s is %s: %d, %s", rows[i].what, rows[i].how ? "lost" : "kept", status, lost);
        atomic_store(&w.quit, true);
        pthread_join(thread, NULL);
        err_clear();
        remote_access_free(&r);
        link_free(&w.link);
    }
    link_free(&c);
    return done();
}
