/* Tests of actors/cluster/wire/peers.c: the numbers of a million connections. */
#include "actors/cluster/wire/peers.h"
#include "actors/cluster/coordinator/coordinator.h"
#include "runtime/data/arena.h"
#include "t/lib/tap.h"

#include <stdlib.h>

enum { MILLION = 1000000, USED = 5 };

/* Opens a million connections, of which USED are in use at a time. Their numbers must differ, and a released number
 * must name its connection until PEERS_RELEASED others were released. */
static void
test_table(void)
{
    enum { RECENT = USED + PEERS_RELEASED };
    struct peers p = {0};
    static int number[MILLION];
    int equal = 0, forgotten = 0;
    for (int i = 0; i < MILLION; i++) {
        number[i] = peers_number(&p, &i, sizeof i);
        if (i >= USED) peers_release(&p, number[i - USED]);
        for (int k = MAX(0, i - USED); k < i; k++) equal += number[k] == number[i];
        const struct peers_entry *e = i < RECENT ? NULL : peers_entry_of(&p, number[i - RECENT]);
        forgotten += i >= RECENT && (!e || memcmp(e->id, &(int){i - RECENT}, sizeof i));
    }
    ok(equal == 0, "of %d connections, none has the number of another one in use", MILLION);
    is_int(forgotten, 0, "and a released number names its connection for a while");
    is_int(p.n, RECENT + 1, "their table has as many slots as connections are in use, and PEERS_RELEASED more");
    int old = MILLION - USED - 1, again = peers_number(&p, &old, sizeof old);
    ok(again == number[old] && peers_entry_of(&p, again)->released == 0,
       "a released connection that sends is in use again");
    ok(!peers_entry_of(&p, number[0]) && !peers_entry_of(&p, -1),
       "a number of an ended connection names no connection");
    peers_free(&p);
}

/* Fills the table with connections in use. */
static void
test_full(void)
{
    struct peers p = {.entry = must_alloc(sizeof *p.entry * PEERS), .n = PEERS, .capacity = PEERS};
    const int more = PEERS;
    for (int i = 0; i < PEERS; i++) {
        p.entry[i] = (struct peers_entry){.n = sizeof i, .number = i};
        memcpy(p.entry[i].id, &i, sizeof i);
    }
    ok(peers_number(&p, &more, sizeof more) == -1, "beyond %d connections in use, further ones are ignored", PEERS);
    peers_release(&p, 5);
    is_int(peers_number(&p, &more, sizeof more), 5 + PEERS, "a slot that is released then gets the next generation");
    p.entry[5].number = 5 + PEERS * (PEER_GENERATIONS - 1);
    peers_release(&p, p.entry[5].number);
    is_int(peers_number(&p, &(int){more + 1}, sizeof more), 5, "after the last generation, the first one follows");
    peers_free(&p);
}

/* ---- a coordinator whose workers connect a million times ---- */

static struct peers connections;
static int nlost;

static void
send_nothing(void *arg, int peer, const struct packet *p)
{
    UNUSED(arg);
    UNUSED(p);
    if (!peers_entry_of(&connections, peer)) diag("a packet to a connection that has ended");
}

static void
release(void *arg, int peer)
{
    UNUSED(arg);
    peers_release(&connections, peer);
}

static void
count_losses(void *arg, const struct notice *n)
{
    UNUSED(arg);
    nlost += n->kind == NOTICE_LOST;
}

static void
test_coordinator(void)
{
    enum { WORKERS = 2 };
    const struct coordinator_env env = {NULL, send_nothing, release, count_losses};
    const struct coordinator_options o = {.world = WORKERS + 1, /* one worker is absent, so no epoch begins */
                                          .silence = 8,
                                          .direct = 16,
                                          .version = "1",
                                          .machine = "m",
                                          .name = "",
                                          .kernels = "1",
                                          .beat = "",
                                          .bulk = "",
                                          .job = "a job of peers.c"};
    struct coordinator *c = coordinator_new(&o, &env);
    size_t bytes = 0;
    for (int i = 0; i < MILLION; i++) {
        unsigned char link[CLUSTER_ID] = {1, (unsigned char)(i % WORKERS)};
        struct packet p = {.kind = PACKET_HELLO,
                           .protocol = WIRE_VERSION,
                           .version = span_text("1"),
                           .machine = span_text("m"),
                           .devices = span_text("cpu:1"),
                           .kernels = span_text("1"),
                           .rank = i % WORKERS,
                           .count = 1 + (uint64_t)i / WORKERS,
                           .link = {link, sizeof link}};
        int peer = peers_number(&connections, &i, sizeof i);
        coordinator_receive(c, peer, &p);
        if (i == 1000) bytes = coordinator_bytes(c);
    }
    ok(nlost == 0, "workers that connect %d times are not lost", MILLION);
    is_int((long)coordinator_bytes(c), (long)bytes, "and the coordinator's memory is flat");
    for (int r = 0; r < WORKERS; r++)
        ok(coordinator_uses(c, coordinator_member(c, r)->peer), "worker %d is a member on its last connection", r);
    coordinator_free(&c);
    peers_free(&connections);
}

int
main(void)
{
    test_table();
    test_full();
    test_coordinator();
    return done();
}
