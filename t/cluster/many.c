/* Tests of actors/cluster/coordinator: 1,024 workers, whose connections end again and again while runs go on. All state
 * machines are in one thread; packets wait in one queue. Few workers, and other faults: sim.c. */
#include "actors/cluster/coordinator/coordinator_run.h"
#include "actors/cluster/coordinator/coordinator_epoch.h"
#include "actors/cluster/coordinator/member.h"
#include "runtime/data/arena.h"
#include "t/lib/tap.h"

#include <stdlib.h>
#include <string.h>

enum { WORLD = 1024, RUNS = 6, ONE_IN = 50 };

struct many;
struct one { /* a worker. peer: number of its connection, rank + n * WORLD */
    struct many *of;
    struct worker_member *member;
    int rank, peer;
    unsigned char link[CLUSTER_ID];
};
struct letter { /* a packet. up: sent to the coordinator */
    int rank, peer;
    bool up;
    struct str bytes;
};
struct many {
    struct coordinator *c;
    struct one one[WORLD];
    struct letter *letter;
    int first, n, capacity;
    uint64_t random;
    int nlost, nended, nbroken;
    bool full, formed;
};

static void
post(struct many *s, struct letter l, const struct packet *p)
{
    packet_write(p, &l.bytes);
    GROW(s->letter, s->n + 1, s->capacity);
    s->letter[s->n++] = l;
}

static void
to_worker(void *arg, int peer, const struct packet *p)
{
    post(arg, (struct letter){.rank = peer % WORLD, .peer = peer}, p);
}

static void
to_coordinator(void *arg, const struct packet *p)
{
    const struct one *w = arg;
    post(w->of, (struct letter){.rank = w->rank, .peer = w->peer, .up = true}, p);
}

static void
cut_nothing(void *arg, int peer)
{
    UNUSED(arg);
    UNUSED(peer);
}

static void
tell(void *arg, const struct notice *n)
{
    struct many *s = arg;
    if (n->kind == NOTICE_LOST && !s->nlost++) diag("worker %d %s", n->rank, n->text);
    s->full |= n->kind == NOTICE_FULL;
    s->formed |= n->kind == NOTICE_FORMED;
    s->nended += n->kind == NOTICE_ENDED && !n->status;
}

static void
work(void *arg, const struct work *w)
{
    static const unsigned char digest[CLUSTER_ID] = "plan";
    const struct have have = {.program = w->program, .text = "", .digest = digest, .outline = digest};
    struct one *one = arg;
    if (w->kind == WORK_FORM) member_ready(one->member, w->epoch, 0, "");
    if (w->kind == WORK_PROGRAM) member_have(one->member, w->epoch, &have);
    if (w->kind == WORK_START)
        member_ended(one->member, &(struct run_end){.epoch = w->epoch, .run = w->packet->run, .node = -1, .text = ""});
}

/* Ends a worker's connection, and begins one with another number. Packets on their way are lost, because they have
 * the old number. */
static void
reconnect(struct many *s, struct one *w)
{
    s->nbroken++;
    w->peer += WORLD;
    member_down(w->member);
    member_linked(w->member);
}

/* Delivers packets until none is left. Ends connections meanwhile. */
static void
settle(struct many *s)
{
    for (; s->first < s->n; s->first++) {
        struct letter l = s->letter[s->first];
        struct one *w = &s->one[l.rank];
        struct packet p;
        if (next_random(&s->random) % ONE_IN == 0) reconnect(s, w);
        if (l.peer == w->peer && !packet_read(l.bytes.text, l.bytes.len, &p)) {
            if (l.up)
                coordinator_receive(s->c, l.peer, &p);
            else
                member_receive(w->member, &p);
        }
        str_free(&l.bytes);
    }
    s->first = s->n = 0;
}

static void
many_open(struct many *s)
{
    struct coordinator_env env = {s, to_worker, cut_nothing, tell};
    struct coordinator_options o = {.world = WORLD,
                                    .silence = 8,
                                    .direct = 16,
                                    .version = "1",
                                    .machine = "m",
                                    .name = "many",
                                    .kernels = "1",
                                    .beat = "",
                                    .bulk = "",
                                    .job = "job of the seed"};
    s->c = coordinator_new(&o, &env);
    for (int r = 0; r < WORLD; r++) {
        struct one *w = &s->one[r];
        *w = (struct one){.of = s, .rank = r, .peer = r, .link = {1, (unsigned char)r, (unsigned char)(r >> 8)}};
        struct member_env me = {.arg = w, .send = to_coordinator, .work = work};
        struct member_options mo = {.hello = {.kind = PACKET_HELLO,
                                              .protocol = WIRE_VERSION,
                                              .version = span_text("1"),
                                              .host = span_text("h"),
                                              .machine = span_text("m"),
                                              .devices = span_text("cpu:1"),
                                              .name = span_text("many"),
                                              .kernels = span_text("1"),
                                              .link = {w->link, CLUSTER_ID},
                                              .rank = r},
                                    .silence = 60};
        w->member = member_new(&mo, &me);
        member_linked(w->member);
    }
}

int
main(void)
{
    static const struct places places[1];
    static const struct range range = {0, 0, 1, 0, 1, 0};
    static const struct slot slot;
    static const uint64_t bytes = 4096;
    struct many *s = must_alloc(sizeof *s);
    s->random = seed_of(1);
    many_open(s);
    settle(s);
    ok(s->full, "%d workers join, although their connections end", WORLD);
    coordinator_form(s->c, &(struct form){.threads = 1,
                                          .segment = "s",
                                          .bus = "b",
                                          .nrange = 1,
                                          .nslot = 1,
                                          .range = &range,
                                          .slot = &slot,
                                          .bytes = &bytes});
    settle(s);
    for (uint32_t run = 1; run <= RUNS && s->formed; run++) {
        coordinator_start(s->c, &(struct start){.program = 7 + run % 2,
                                                .bytes = "program",
                                                .nbyte = 7,
                                                .digest = "plan",
                                                .outline = "plan",
                                                .places = places,
                                                .run = run});
        settle(s);
    }
    is_int(s->nended, RUNS, "every run ends");
    is_int(s->nlost, 0, "no worker is lost");
    ok(s->nbroken > WORLD / 4, "%d connections ended", s->nbroken);
    for (int r = 0; r < WORLD; r++) member_free(&s->one[r].member);
    coordinator_free(&s->c);
    free(s->letter);
    free(s);
    return done();
}
