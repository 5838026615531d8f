/* Tests of actors/cluster/coordinator/coordinator_admit.c: a worker is admitted only if it belongs to the job and
 * its kernels compute the same bits. All workers then compute with the instruction sets that all of them have. */
#include "actors/cluster/coordinator/coordinator_epoch.h"
#include "t/lib/tap.h"

struct heard {
    char refusal[512]; /* text of the last REFUSE packet; "": none */
    int full;          /* number of times that the coordinator reported all ranks as present */
    int welcomed[8];   /* by link: rank in the last WELCOME packet */
};

static void
keep_send(void *arg, int peer, const struct packet *p)
{
    struct heard *t = arg;
    if (p->kind == PACKET_WELCOME && peer < (int)countof(t->welcomed)) t->welcomed[peer] = p->rank;
    if (p->kind == PACKET_REFUSE)
        snprintf(t->refusal, sizeof t->refusal, "%.*s", (int)p->text.n, (const char *)p->text.bytes);
}

static void
keep_cut(void *arg, int peer)
{
    UNUSED(arg), UNUSED(peer);
}

static void
keep_tell(void *arg, const struct notice *n)
{
    ((struct heard *)arg)->full += n->kind == NOTICE_FULL;
}

static struct packet
hello_of(int rank)
{
    return (struct packet){.kind = PACKET_HELLO,
                           .seq = 1,
                           .protocol = WIRE_VERSION,
                           .version = span_text("1"),
                           .host = span_text("h"),
                           .machine = span_text("m"),
                           .devices = span_text("cpu:1"),
                           .rank = rank};
}

static void
form_epoch(struct coordinator *c)
{
    static const uint64_t bytes[] = {4096};
    static const struct slot slot[] = {{0, 0}, {0, 1}, {0, 2}};
    coordinator_form(c,
                     &(struct form){.threads = 1, .segment = "", .bus = "", .nslot = 3, .slot = slot, .bytes = bytes});
}

/* A worker of the coordinator's host is lost before the first epoch. The epoch of an elastic job then has only workers
 * of another host. */
static void
test_lost_early(void)
{
    struct heard t = {0};
    struct coordinator_env env = {&t, keep_send, keep_cut, keep_tell};
    struct coordinator_options o = {.world = 3, .least = 2, .silence = 3, .version = "1", .machine = "m"};
    struct coordinator *c = coordinator_new(&o, &env);
    for (int rank = 0; rank < 3; rank++) {
        struct packet p = hello_of(rank);
        if (rank) p.machine = span_text("other");
        coordinator_receive(c, rank, &p);
        if (rank) continue;
        coordinator_gone(c, 0, "ended");
        ok(!coordinator_recover(c, 3), "the next epoch is gathered");
    }
    is_int(t.full, 1, "an elastic job begins without a lost worker");
    is_int(coordinator_memories(c), 1, "the host of the lost worker has no memory");
    coordinator_free(&c);
}

/* A worker asks for the rank of a member. It must wait: until the member is lost and its rank is free, or until the
 * member has shown that it is alive. */
static void
test_successor(bool alive)
{
    struct heard t = {0};
    struct coordinator_env env = {&t, keep_send, keep_cut, keep_tell};
    struct coordinator_options o = {.world = 2, .silence = 3, .version = "1", .machine = "m"};
    struct coordinator *c = coordinator_new(&o, &env);
    for (int peer = 0; peer < 3; peer++) {
        struct packet p = hello_of(MIN(peer, 1));
        const unsigned char link[CLUSTER_ID] = {1, (unsigned char)peer};
        p.link = (struct span){link, CLUSTER_ID};
        coordinator_receive(c, peer, &p);
    }
    ok(t.welcomed[1] == 1 && t.welcomed[2] == -1 && !*t.refusal, "a worker that asks for the rank of a member waits");
    for (int tick = 0; tick < 3; tick++) {
        struct packet beat = {.kind = PACKET_BEAT, .rank = 1, .count = 1 + (uint64_t)tick, .job = {o.job, CLUSTER_ID}};
        if (alive) coordinator_beat(c, &beat);
        coordinator_tick(c);
    }
    if (alive) {
        ok(strstr(t.refusal, "rank 1 is already taken by another worker"),
           "the waiting worker is refused if the member is alive");
    } else {
        coordinator_gone(c, 1, "ended");
        ok(!*t.refusal && !coordinator_recover(c, 2) && t.welcomed[2] == 1,
           "the waiting worker gets the rank if the member is lost");
    }
    coordinator_free(&c);
}

/* Links of workers that ask for any rank of a job of fixed size. */
static void
test_beyond(void)
{
    struct heard t = {0};
    struct coordinator_env env = {&t, keep_send, keep_cut, keep_tell};
    struct coordinator_options o = {.world = 1, .silence = 3, .version = "1", .machine = "m"};
    struct coordinator *c = coordinator_new(&o, &env);
    struct packet p = hello_of(-1);
    for (int peer = 0; peer < 2; peer++) coordinator_receive(c, peer, &p);
    ok(strstr(t.refusal, "the job already has its 1 worker"), "a worker beyond the job's size is refused");
    *t.refusal = '\0';
    coordinator_gone(c, 0, "ended");
    coordinator_receive(c, 2, &p);
    ok(t.welcomed[2] == -1 && !*t.refusal, "while a rank is lost, such a worker waits");
    ok(!coordinator_recover(c, 1) && t.welcomed[2] == 0, "and gets the rank when the job recovers");
    coordinator_free(&c);
}

/* A worker that waits and is silent must not get a rank. */
static void
test_silent(void)
{
    struct heard t = {0};
    struct coordinator_env env = {&t, keep_send, keep_cut, keep_tell};
    struct coordinator_options o = {.world = 1, .least = 1, .silence = 3, .version = "1", .machine = "m"};
    struct coordinator *c = coordinator_new(&o, &env);
    struct packet p = hello_of(-1);
    unsigned char link[CLUSTER_ID] = {1};
    p.link = (struct span){link, CLUSTER_ID};
    for (int peer = 0; peer < 2; peer++) {
        link[1] = (unsigned char)peer;
        coordinator_receive(c, peer, &p);
    }
    for (int tick = 0; tick < 60; tick++) {
        struct packet beat = {.kind = PACKET_BEAT, .rank = 0, .count = 1 + (uint64_t)tick, .job = {o.job, CLUSTER_ID}};
        coordinator_beat(c, &beat);
        if (tick == 12 && !*t.refusal) coordinator_receive(c, 1, &p);
        if (tick == 30) ok(!*t.refusal, "a waiting worker that repeats its HELLO stays");
        coordinator_tick(c);
    }
    ok(strstr(t.refusal, "it stopped responding while it waited for a rank"),
       "a waiting worker that is silent is dismissed");
    coordinator_free(&c);
}

/* Tests the admission of workers by job name, kernels and instruction sets. A row of the table has the values that a
 * worker sends, and the reason with which the coordinator must refuse the worker. */
int
main(void)
{
    test_lost_early();
    test_successor(false);
    test_successor(true);
    test_beyond();
    test_silent();
    static const unsigned char secret[3][CLUSTER_ID] = {{0}, "only the started"}, none[CLUSTER_ID];
    static const struct {
        const char *name, *kernels;
        uint32_t isa;
        const unsigned char *secret;
        const char *why; /* NULL: the worker is admitted */
    } row[] = {
        {"job 1", "kernels 1", 7, none, NULL},
        {"job 2", "kernels 1", 7, none, "expected a worker of job 'job 1', found one of job 'job 2'"},
        {"", "kernels 1", 7, none, "expected a worker of job 'job 1', found one of a job without a name"},
        {"job 1 ", "kernels 1", 7, none, "found one of job 'job 1 '"},
        {"\x1b[2J", "kernels 1", 7, none, "found one of job '\\x1b[2J'"},
        {"job 1", "kernels 2", 7, none, "expected kernels 1, found kernels 2"},
        {"job 1", "", 7, none, "expected kernels 1, found ;"},
        {"", "kernels 1", 0x27, secret[1], NULL},
        {"job 1", "kernels 1", 0x27, none, NULL},
    };
    struct heard t = {0};
    struct coordinator_env env = {&t, keep_send, keep_cut, keep_tell};
    struct coordinator_options o = {.world = 3,
                                    .silence = 3,
                                    .version = "1",
                                    .machine = "m",
                                    .name = "job 1",
                                    .kernels = "kernels 1",
                                    .isa = 0x67,
                                    .secret = secret};
    struct coordinator *c = coordinator_new(&o, &env);
    for (int i = 0; i < (int)countof(row); i++) {
        struct packet p = hello_of(-1);
        p.name = span_text(row[i].name);
        p.kernels = span_text(row[i].kernels);
        p.isa = row[i].isa;
        p.secret = (struct span){row[i].secret, CLUSTER_ID};
        if (row[i].secret != none) p.rank = 1;
        *t.refusal = '\0';
        coordinator_receive(c, i, &p);
        ok(row[i].why ? strstr(t.refusal, row[i].why) != NULL : !*t.refusal, "worker %d is %s: %s", i,
           row[i].why ? "refused" : "admitted", t.refusal);
    }
    form_epoch(c);
    ok(coordinator_isa(c) == 7, "the job computes with the instruction sets that all processes have");
    coordinator_gone(c, 2, "ended");
    ok(!coordinator_recover(c, 3), "a lost worker is replaced");
    struct packet p = hello_of(2);
    p.name = span_text("job 1");
    p.kernels = span_text("kernels 1");
    p.isa = 3;
    coordinator_receive(c, 20, &p);
    ok(strstr(t.refusal, "the instruction set avx, but the job computes with avx2; start the job with "
                         "--isa avx"),
       "a newcomer with fewer instruction sets is refused: %s", t.refusal);
    p.isa = 0x3e7;
    coordinator_receive(c, 21, &p);
    ok(t.full == 2, "a newcomer with more instruction sets is admitted");
    form_epoch(c);
    ok(coordinator_isa(c) == 7, "the job's instruction sets stay");
    coordinator_free(&c);
    return done();
}
