/* Tests of actors/cluster/transport/carrier.c: messages and byte lists between workers of two hosts. Messages and
 * lists must arrive in order. The carrier must drop data of another epoch or job, and data from a sender without the
 * job's key. (t/launch/launch.sh tests the bytes of channels.) */
#include "actors/cluster/memory/bus_host.h"
#include "actors/cluster/transport/fetch.h"
#include "actors/cluster/wire/machine.h"
#include "actors/cluster/memory/segment.h"
#include "runtime/data/arena.h"
#include "runtime/base/error.h"
#include "t/lib/plan/cutter.h"
#include "t/lib/must.h"
#include "t/lib/tap.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

enum { MESSAGES = 3000, LIST = 3000001, PORTS = 2 * CARRIER_PORT + 8 };
static const unsigned char job[CLUSTER_ID] = "job of the test.", other_job[CLUSTER_ID] = "another one's.";

struct side {
    int rank;
    struct carrier *carrier;
    struct segment *segment;
    struct bus *bus;
    char port[CARRIER_PORT];
    atomic_int asked, listed, brought, lost;
    uint64_t count; /* request number in the last answer to a fetch */
    uint64_t program;
    size_t n;
    bool same;
};
static char list[LIST];
/* the option link_ms of carriers that are opened next: time without a link after which a peer is lost, ms */
static int link_ms;

static void
on_asked(void *of, uint32_t epoch, int from, uint64_t program)
{
    struct side *s = of;
    UNUSED(epoch), UNUSED(from);
    s->program = program;
    atomic_fetch_add(&s->asked, 1);
}

static void
on_listed(void *of, uint32_t epoch, int from, uint64_t program, const void *bytes, size_t n)
{
    struct side *s = of;
    UNUSED(epoch), UNUSED(from), UNUSED(program);
    s->n = n;
    s->same = n == LIST && !memcmp(bytes, list, LIST);
    atomic_fetch_add(&s->listed, 1);
}

/* Answers a request to fetch bytes. The list stands for the memory of this side. */
static int
on_give(void *of, uint64_t at, size_t n, void *to)
{
    UNUSED(of);
    if (at + n > LIST) return fail(E_BUS, "no such bytes");
    memcpy(to, list + at, n);
    return 0;
}

static void
on_brought(void *of, int from, uint64_t count, const void *bytes, size_t n)
{
    struct side *s = of;
    s->n = n;
    s->count = count;
    s->same = from == !s->rank && (bytes ? !memcmp(bytes, list + count, n) : count + n > LIST);
    atomic_fetch_add(&s->brought, 1);
}

static void
on_lost(void *of, int rank, const char *how)
{
    UNUSED(rank), UNUSED(how);
    atomic_fetch_add(&((struct side *)of)->lost, 1);
}

static void
await(atomic_int *what, int n)
{
    struct timespec nap = {.tv_nsec = 1000000};
    while (atomic_load(what) < n) nanosleep(&nap, NULL);
}

static void
side_open(struct side *s, int rank, const char *host, const struct key *key)
{
    *s = (struct side){.rank = rank};
    struct carrier_options o = {
        .host = host, .key = key, .link_ms = link_ms, .hear = {s, on_asked, on_listed, on_give, on_brought, on_lost}};
    uint32_t owner = (uint32_t)rank;
    must(carrier_new(&o, &s->carrier), "carrier");
    carrier_port(s->carrier, s->port);
    must(segment_new(bus_host_bytes(1), &s->segment), "segment");
    bus_host_format(segment_base(s->segment), 1);
    must(bus_host_map(segment_base(s->segment), segment_bytes(s->segment), 1, &owner, &s->bus), "bus");
    must(bus_host.open(&(struct bus_options){.process = rank, .nthread = 1, .with = s->bus}, &s->bus), "bus");
}

/* Opens a carrier for the side s. ports: the ports of both sides, by rank. */
static void
side_join(struct side *s, uint32_t epoch, const unsigned char *of, const char *ports)
{
    struct carrier_epoch e = {
        .epoch = epoch, .job = of, .rank = s->rank, .world = 2, .lacks = 0, .ports = ports, .bus = s->bus};
    must(carrier_join(s->carrier, &e), "joining");
}

static void
side_close(struct side *s)
{
    carrier_leave(s->carrier);
    carrier_free(&s->carrier);
    s->bus->kind->close(&s->bus);
    segment_free(&s->segment);
}

static void
say_to(struct side *s, int rank, uint32_t task)
{
    struct msg m = {
        .kind = MSG_FREE, .out = MSG_FAR, .task = task, .from = addr_of(s->rank, 0), .to = addr_of(rank, 0)};
    must(bus_send(s->bus, &m), "send");
}

static void
say(struct side *s, uint32_t task)
{
    say_to(s, !s->rank, task);
}

/* Receives n messages, which the sender numbered from `first`. Returns the number of messages with a wrong number. */
static int
hear(struct side *s, uint32_t first, int n)
{
    struct msg m[32];
    int wrong = 0;
    for (int got = 0; got < n;) {
        int more = bus_recv(s->bus, addr_of(s->rank, 0), m, MIN(32, n - got), BUS_SLEEP);
        for (int i = 0; i < more; i++) wrong += m[i].task != first + (uint32_t)got++;
    }
    return wrong;
}

/* Fetches several ranges of the list from the other side. Checks that each fetch is answered exactly once, with
 * the bytes or with an error. Each fetch has its offset as request number, so that on_brought() knows which bytes
 * to expect. */
static void
test_bring(struct side *a, const char *how)
{
    static const size_t at[] = {0, 1, LIST - CARRIER_PIECE, LIST - 7, LIST - 3},
                        n[] = {1, CARRIER_PIECE, CARRIER_PIECE, 7, 4};
    int wrong = 0;
    for (int i = 0; i < (int)countof(at); i++) {
        carrier_fetch(a->carrier, 1, at[i], at[i], n[i]);
        await(&a->brought, i + 1);
        wrong += !a->same || a->count != at[i] || a->n != n[i];
    }
    ok(wrong == 0, "%s: fetches from the other's memory return the bytes or report their absence", how);
}

static void
test_two(const char *host, const struct key *key, const struct key *other, const char *how)
{
    struct side a, b;
    char ports[PORTS];
    side_open(&a, 0, host, key);
    side_open(&b, 1, host, other);
    snprintf(ports, sizeof ports, "0 %s\n1 %s\n", a.port, b.port);
    side_join(&a, 1, job, ports);
    say(&a, 0); /* the message waits in the link of side a, because side b has not joined */
    side_join(&b, 1, job, ports);
    for (uint32_t i = 1; i < MESSAGES; i++) say(&a, i);
    ok(hear(&b, 0, MESSAGES) == 0, "%s: %d messages arrive in order, also messages sent before the other side joined",
       how, MESSAGES);
    carrier_ask(a.carrier, 1, 77);
    await(&b.asked, 1);
    carrier_list(b.carrier, 0, 77, list, LIST);
    await(&a.listed, 1);
    ok(b.program == 77 && a.same, "%s: a requested list arrives, %zu bytes", how, a.n);
    test_bring(&a, how);
    side_join(&b, 2, job, ports);
    carrier_fetch(a.carrier, 1, 5, 5, 9);
    say(&a, 1000); /* side b is in epoch 2 already, and must drop this message and the fetch */
    side_join(&a, 2, job, ports);
    say(&a, 2000);
    ok(hear(&b, 2000, 1) == 0, "%s: messages of a past epoch are dropped", how);
    side_join(&a, 3, other_job, ports);
    say(&a, 3000);
    side_join(&a, 3, job, ports);
    side_join(&b, 3, job, ports);
    say(&a, 4000);
    ok(hear(&b, 4000, 1) == 0, "%s: messages of another job are dropped", how);
    ok(atomic_load(&a.brought) == 5, "%s: a fetch of a past epoch is not answered", how);
    is_int(atomic_load(&a.lost) + atomic_load(&b.lost), 0, "no link is lost meanwhile");
    side_close(&a);
    side_close(&b);
}

static bool
has_ipv6(void)
{
    char own[MACHINE_ADDRESS];
    return machine_address("tcp://[::1]:1", own) && !strcmp(own, "[::1]");
}

static bool
new_key(struct key *k)
{
    struct str text = {0};
    bool good = !key_new(&text) && !key_parse(text.text, text.len, k);
    str_free(&text);
    return good;
}

/* Gives side b a wrong key or no key. After a while b must report the link as lost. */
static void
test_stranger(const struct key *key, const struct key *other)
{
    struct side a, b;
    char ports[PORTS];
    side_open(&a, 0, "127.0.0.1", key);
    side_open(&b, 1, "127.0.0.1", other);
    snprintf(ports, sizeof ports, "0 %s\n1 %s\n", a.port, b.port);
    side_join(&a, 1, job, ports);
    side_join(&b, 1, job, ports);
    carrier_ask(b.carrier, 0, 5);
    await(&b.lost, 1);
    is_int(atomic_load(&a.asked), 0, "a worker with another key or none is not heard, and reports the link as lost");
    side_close(&a);
    side_close(&b);
}

/* Checks that a worker's key is valid only for the rank of this worker, also on links between workers. The receiver
 * must drop messages that claim another rank. */
static void
test_impostor(void)
{
    struct str text[3] = {{0}};
    struct key k[3];
    struct side a, b;
    char ports[PORTS];
    if (key_new_ranks(2, text)) return;
    for (int i = 0; i < 3; i++)
        if (key_parse(text[i].text, text[i].len, &k[i])) exit(1);
    test_two("127.0.0.1", &k[1], &k[2], "with one key per rank");
    side_open(&a, 0, "127.0.0.1", &k[1]);
    side_open(&b, 1, "127.0.0.1", &k[2]);
    snprintf(ports, sizeof ports, "0 %s\n1 %s\n", a.port, b.port);
    side_join(&a, 1, job, ports);
    side_join(&b, 1, job, ports);
    b.rank = 2; /* worker b claims the rank 2, although its key is that of rank 1 */
    say_to(&b, 0, 1000);
    b.rank = 1;
    carrier_fetch(a.carrier, 1, 0, 0, 1);
    /* the answer arrives after the dropped message; in this epoch, no later message of b can be accepted */
    await(&a.brought, 1);
    side_join(&a, 2, job, ports);
    side_join(&b, 2, job, ports);
    say_to(&b, 0, 2000);
    ok(hear(&a, 2000, 1) == 0, "a message sent as another rank than the key's is dropped");
    side_close(&a);
    side_close(&b);
    for (int i = 0; i < 3; i++) {
        key_forget(&k[i]);
        str_free(&text[i]);
    }
}

/* ---- connections that end ---- */

enum { CUT_MESSAGES = 8, CUT_BYTES = 1600, PAIRS = CUTTER_PORTS / 4 / 2 };

/* Appends the line of a rank's ports. They are ports of the cutter (t/lib/plan/cutter.h), which forwards to the rank's
 * own ports. */
static void
add_cut_ports(struct cutter *cut, const struct side *s, int64_t after, struct str *out)
{
    int port[2];
    must(sscanf(s->port, "tcp://127.0.0.1:%d tcp://127.0.0.1:%d", &port[0], &port[1]) != 2, "two ports");
    str_addf(out, "%d tcp://127.0.0.1:%d", s->rank, cutter_add(cut, port[0], after));
    str_addf(out, " tcp://127.0.0.1:%d\n", cutter_add(cut, port[1], after));
}

/* Sends messages and requests from each side to the other. */
static void
exchange_begin(struct side *a, struct side *b)
{
    for (uint32_t i = 0; i < CUT_MESSAGES; i++) say(a, i), say(b, i);
    carrier_fetch(a->carrier, 1, 7, 7, 300);
    carrier_fetch(b->carrier, 0, 9, 9, 300);
    carrier_ask(a->carrier, 1, 77);
}

/* Receives what the other side sent. Returns the number of wrong messages. */
static int
exchange_end(struct side *a, struct side *b)
{
    int wrong = hear(a, 0, CUT_MESSAGES) + hear(b, 0, CUT_MESSAGES);
    await(&a->brought, 1);
    await(&b->brought, 1);
    await(&b->asked, 1);
    return wrong + !a->same + !b->same + atomic_load(&a->lost) + atomic_load(&b->lost) + (atomic_load(&b->asked) != 1);
}

/* Lets n pairs of sides exchange messages. In pair i, ends or mutes the first connection to each port after
 * after[i] bytes. Returns the number of pairs with wrong messages. */
static int
exchange_cut(bool mutes, const int64_t *after, int n, int *ncut)
{
    static struct side side[PAIRS][2];
    struct cutter *cut = must_alloc(sizeof *cut);
    cut->mutes = mutes;
    int wrong = 0;
    for (int i = 0; i < n; i++)
        for (int rank = 0; rank < 2; rank++) side_open(&side[i][rank], rank, "127.0.0.1", NULL);
    for (int i = 0; i < n; i++) {
        struct str ports = {0};
        for (int rank = 0; rank < 2; rank++) add_cut_ports(cut, &side[i][rank], after[i], &ports);
        for (int rank = 0; rank < 2; rank++) side_join(&side[i][rank], 1, job, ports.text);
        str_free(&ports);
    }
    cutter_start(cut);
    for (int i = 0; i < n; i++) exchange_begin(&side[i][0], &side[i][1]);
    for (int i = 0; i < n; i++) {
        int bad = exchange_end(&side[i][0], &side[i][1]);
        if (bad && !wrong) diag("cut after %lld bytes: %d are wrong", (long long)after[i], bad);
        wrong += bad;
    }
    for (int i = 0; i < n; i++)
        for (int rank = 0; rank < 2; rank++) side_close(&side[i][rank]);
    cutter_stop(cut);
    *ncut += cut->ncut;
    free(cut);
    return wrong;
}

/* Ends or mutes connections after each multiple of `step` bytes of an exchange. All messages must arrive once and in
 * order. */
static void
test_cuts(bool mutes, int step)
{
    int64_t after[PAIRS];
    int n = 0, wrong = 0, ncut = 0, ntried = 0;
    for (int64_t bytes = 0; bytes < CUT_BYTES; bytes += step) {
        if (share(bytes / step)) after[n++] = bytes;
        if (n < PAIRS && bytes + step < CUT_BYTES) continue;
        wrong += exchange_cut(mutes, after, n, &ncut);
        ntried += n;
        n = 0;
    }
    ok(!wrong, "connections that %s after any number of bytes are made again, and no message is lost or repeated",
       mutes ? "stay open but carry nothing" : "end");
    ok(ncut > ntried / 2, "%d connections %s in %d exchanges", ncut, mutes ? "were muted" : "ended", ntried);
}

int
main(void)
{
    struct key key, other;
    uint64_t state = seed_of(1);
    for (int i = 0; i < LIST; i++) list[i] = (char)next_random(&state);
    test_cuts(false, 1);
    link_ms = 4000;
    test_cuts(true, 8);
    link_ms = 0;
    test_two("127.0.0.1", NULL, NULL, "without a key");
    if (has_ipv6())
        test_two("[::1]", NULL, NULL, "over IPv6");
    else
        ok(true, "over IPv6 # SKIP this host has no ::1");
    if (!new_key(&key) || !new_key(&other)) {
        ok(true, "keys # SKIP %s", err_text());
        return done();
    }
    test_two("127.0.0.1", &key, &key, "with a key");
    test_stranger(&key, &other);
    test_stranger(&key, NULL);
    test_impostor();
    return done();
}
