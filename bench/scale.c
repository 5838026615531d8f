/* scale.c - measures the time and the bytes that a large cluster costs its coordinator; all workers are state
 * machines in one process.
 *
 * Packets are encoded and decoded as bytes; sockets are not included. A host has eight workers. Times are processor
 * times of the one thread, so that other processes of the machine do not count. Columns:
 *
 *   gather   time from the first HELLO until the epoch is formed
 *   run      time of START to all and END from all, for the coordinator alone and for all state machines
 *   limit    time of a memcpy of the bytes of a run
 *   each     time of a tick (every 100 ms) with a heartbeat from and to each worker
 *   beat     time of a tick if one worker per host relays the heartbeats of the host's other workers
 *   FORM     bytes of the longest FORM packet, for workers with a device and a thread each, up to the number of slots
 */
#include "actors/cluster/coordinator/coordinator_run.h"
#include "actors/cluster/coordinator/coordinator_epoch.h"
#include "actors/cluster/coordinator/member.h"
#include "bench/clock.h"
#include "runtime/data/arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PER_HOST = 8, TIMES = 9, SLOTS = CLUSTER_SLOTS };

struct cluster {
    struct coordinator *c;
    struct member_of {
        struct cluster *of;
        struct worker_member *member;
        int rank;
        uint32_t sent;
        _Atomic uint64_t word[NBEAT_WORD]; /* words in memory that all workers of the host share */
    } * worker;
    int world;
    /* packet: buffer for one packet. up: packets for the coordinator, each preceded by its rank and length. */
    struct str packet, up;
    size_t form; /* bytes of the longest FORM packet */
    bool alone;  /* true: discards the packets to workers, so that only the coordinator is timed */
    bool full, formed, ended;
};

static void
fail_if(bool bad, const char *what)
{
    if (bad) fprintf(stderr, "scale: %s\n", what), exit(1);
}

static void
member_send(void *arg, const struct packet *p)
{
    struct member_of *w = arg;
    struct str *up = &w->of->up;
    uint32_t head[2] = {(uint32_t)w->rank, 0};
    size_t at = up->len;
    str_addn(up, head, sizeof head);
    packet_write(p, up);
    head[1] = (uint32_t)(up->len - at - sizeof head);
    memcpy(up->text + at, head, sizeof head);
    w->sent = p->seq;
}

static void
member_work(void *arg, const struct work *work)
{
    static const unsigned char digest[CLUSTER_ID] = "plan";
    struct member_of *w = arg;
    struct worker_member *m = w->member;
    if (work->kind == WORK_MAKE)
        member_made(m, work->epoch,
                    &(struct made){.text = "",
                                   .segment = "/proc/1/fd/3",
                                   .bus = "/proc/1/fd/4 4096",
                                   .port = "tcp://10.0.0.1:40000 tcp://10.0.0.1:40001"});
    else if (work->kind == WORK_FORM)
        member_ready(m, work->epoch, 0, "");
    else if (work->kind == WORK_PROGRAM)
        member_have(m, work->epoch,
                    &(struct have){.program = work->program, .text = "", .digest = digest, .outline = digest});
    else if (work->kind == WORK_START)
        member_ended(m, &(struct run_end){.epoch = work->epoch, .run = work->packet->run, .node = -1, .text = ""});
}

static _Atomic uint64_t *
word_of(void *arg, int rank, enum beat_word which)
{
    struct member_of *w = arg;
    return w->of->formed ? &w->of->worker[rank].word[which] : NULL;
}

static void
on_send(void *arg, int peer, const struct packet *p)
{
    struct cluster *s = arg;
    struct packet read;
    str_clear(&s->packet);
    packet_write(p, &s->packet);
    if (p->kind == PACKET_FORM) s->form = MAX(s->form, s->packet.len);
    if (s->alone) return;
    fail_if(packet_read(s->packet.text, s->packet.len, &read), "a packet cannot be read");
    member_receive(s->worker[peer].member, &read);
}

static void
on_cut(void *arg, int peer)
{
    (void)arg, (void)peer;
}

static void
on_tell(void *arg, const struct notice *n)
{
    struct cluster *s = arg;
    fail_if(n->kind == NOTICE_LOST || n->kind == NOTICE_REFUSED, n->text);
    s->full |= n->kind == NOTICE_FULL;
    s->formed |= n->kind == NOTICE_FORMED;
    s->ended |= n->kind == NOTICE_ENDED;
}

/* Delivers packets to the coordinator until none is in flight. */
static void
drain(struct cluster *s)
{
    while (s->up.len) {
        struct str took = s->up;
        s->up = (struct str){0};
        for (size_t at = 0; at < took.len;) {
            uint32_t head[2];
            struct packet p;
            memcpy(head, took.text + at, sizeof head);
            fail_if(packet_read(took.text + at + sizeof head, head[1], &p), "a packet cannot be read");
            coordinator_receive(s->c, (int)head[0], &p);
            at += sizeof head + head[1];
        }
        str_free(&took);
    }
}

static void
open_cluster(struct cluster *s, int world)
{
    static const struct member_options of = {.silence = 60};
    struct coordinator_env env = {s, on_send, on_cut, on_tell};
    struct coordinator_options o = {.world = world,
                                    .silence = 8,
                                    .version = "1",
                                    .machine = "m0",
                                    .beat = "beat",
                                    .bulk = "bulk",
                                    .job = "job of the bench"};
    *s = (struct cluster){.world = world, .worker = must_alloc(sizeof *s->worker * (size_t)world)};
    s->c = coordinator_new(&o, &env);
    for (int r = 0; r < world; r++) {
        char machine[16];
        struct member_options mo = of;
        struct member_env me = {&s->worker[r], member_send, member_work, word_of};
        snprintf(machine, sizeof machine, "m%d", r / PER_HOST);
        mo.hello = (struct packet){.kind = PACKET_HELLO,
                                   .protocol = WIRE_VERSION,
                                   .version = span_text("1"),
                                   .host = span_text(machine),
                                   .machine = span_text(machine),
                                   .devices = span_text("cpu:1"),
                                   .rank = r};
        s->worker[r] = (struct member_of){.of = s, .rank = r, .member = member_new(&mo, &me)};
        member_linked(s->worker[r].member);
        if (r % PER_HOST == PER_HOST - 1 || r == world - 1) drain(s); /* all packets of a host have arrived */
    }
}

static void
form(struct cluster *s)
{
    static struct range range[SLOTS];
    static struct slot slot[SLOTS];
    int nslot = MIN(s->world, SLOTS), nmemory = coordinator_memories(s->c);
    uint64_t *bytes = must_alloc(sizeof *bytes * (size_t)nmemory);
    for (int i = 0; i < nslot; i++) {
        uint32_t at = (uint32_t)i, memory = at / PER_HOST;
        slot[i] = (struct slot){memory, at};
        range[i] = (struct range){0, at, 1, at % PER_HOST, 1, memory};
    }
    for (int m = 0; m < nmemory; m++) bytes[m] = 1 << 30;
    coordinator_form(s->c, &(struct form){.threads = 8,
                                          .segment = "/proc/1/fd/3",
                                          .bus = "/proc/1/fd/4 4096",
                                          .nrange = nslot,
                                          .nslot = nslot,
                                          .range = range,
                                          .slot = slot,
                                          .bytes = bytes});
    drain(s);
    free(bytes);
    fail_if(!s->formed, "the epoch does not stand");
}

static struct start
start_of(struct cluster *s, struct places *places)
{
    static uint32_t run;
    (void)s;
    return (struct start){.program = 7,
                          .bytes = "program",
                          .nbyte = 8,
                          .digest = "plan",
                          .outline = "plan",
                          .places = places,
                          .run = ++run};
}

static double
run_all(struct cluster *s, struct places *places)
{
    struct start start = start_of(s, places);
    double begin = own_us();
    s->ended = false;
    coordinator_start(s->c, &start);
    drain(s);
    fail_if(!s->ended, "a run does not end");
    return own_us() - begin;
}

/* Times the coordinator alone. The coordinator writes all START packets, and reads END packets, which were encoded
 * beforehand. */
static double
run_alone(struct cluster *s, struct places *places, size_t *bytes)
{
    struct start start = start_of(s, places);
    s->up = (struct str){0};
    for (int r = 0; r < s->world; r++)
        member_send(&s->worker[r],
                    &(struct packet){
                        .kind = PACKET_END, .epoch = 1, .seq = s->worker[r].sent + 1, .run = start.run, .node = -1});
    *bytes = s->up.len;
    s->ended = false;
    s->alone = true;
    double begin = own_us();
    coordinator_start(s->c, &start);
    drain(s);
    double took = own_us() - begin;
    fail_if(!s->ended, "a run does not end");
    return took;
}

/* Reads the next packet in a buffer; returns false after the last packet. */
static bool
next_packet(const struct str *all, size_t *at, struct packet *out)
{
    uint32_t body; /* length of the packet's body */
    if (*at == all->len) return false;
    memcpy(&body, all->text + *at + 16, sizeof body);
    fail_if(packet_read(all->text + *at, WIRE_HEAD + (size_t)body, out), "a heartbeat cannot be read");
    *at += WIRE_HEAD + (size_t)body;
    return true;
}

/* Simulates a tick of all workers and the coordinator, including the heartbeats that are due. Adds the coordinator's
 * processor time to *alone. */
static double
tick(struct cluster *s, double *alone)
{
    struct packet p;
    struct str up = {0}, down = {0};
    double begin = own_us();
    for (int r = 0; r < s->world; r++) {
        member_tick(s->worker[r].member);
        if (member_beat(s->worker[r].member, &p)) packet_write(&p, &up);
    }
    double mid = own_us();
    for (size_t at = 0; next_packet(&up, &at, &p);) fail_if(!coordinator_beat(s->c, &p), "a heartbeat is nobody's");
    for (int r = 0; r < s->world; r++)
        if (coordinator_pulse(s->c, r, &p)) packet_write(&p, &down);
    coordinator_tick(s->c);
    *alone += own_us() - mid;
    for (size_t at = 0; next_packet(&down, &at, &p);) member_heard(s->worker[p.rank].member, &p);
    str_free(&up);
    str_free(&down);
    return own_us() - begin;
}

/* Prints the mean time of a tick, averaged over the longest heartbeat interval. Repeats the measurement; the least
 * counts. */
static void
beat(struct cluster *s, double *alone, double *all)
{
    enum { TICKS = 12 };
    *alone = *all = 1e30;
    for (int i = 0; i < TIMES; i++) {
        double one = 0, both = 0;
        for (int k = 0; k < TICKS; k++) both += tick(s, &one);
        *alone = MIN(*alone, one / TICKS);
        *all = MIN(*all, both / TICKS);
    }
}

static void
row(int world)
{
    struct cluster s;
    size_t bytes;
    double all = 1e30, alone = 1e30, each, spoken, theirs, one, begin = own_us();
    open_cluster(&s, world);
    fail_if(!s.full, "the world is not full");
    double gather = own_us() - begin;
    beat(&s, &each, &theirs);
    begin = own_us();
    form(&s);
    gather += own_us() - begin;
    struct places *places = must_alloc(sizeof *places * (size_t)coordinator_memories(s.c));
    run_all(&s, places); /* the first run sends the plan */
    for (int i = 0; i < TIMES; i++) all = MIN(all, run_all(&s, places));
    beat(&s, &spoken, &theirs);
    size_t memory = coordinator_bytes(s.c);
    for (int i = 0; i < TIMES; i++) {
        one = run_alone(&s, places, &bytes);
        alone = MIN(alone, one);
    }
    char *copy = malloc(bytes), *from = calloc(1, bytes);
    double limit = 1e30;
    for (int i = 0; i < TIMES; i++) {
        begin = own_us();
        memcpy(copy, from, bytes);
        __asm__ volatile("" : : "r"(copy) : "memory");
        limit = MIN(limit, own_us() - begin);
    }
    printf("%8d %10.1f %10.2f %12.2f %10.2f %9.2f %9.2f %12.2f %8.0f %8zu\n", world, gather / 1000, alone / 1000,
           all / 1000, limit / 1000, each / 1000, spoken / 1000, theirs / 1000, (double)memory / world, s.form);
    fflush(stdout);
    for (int r = 0; r < world; r++) member_free(&s.worker[r].member);
    coordinator_free(&s.c);
    str_free(&s.packet);
    free(s.worker);
    free(places);
    free(copy);
    free(from);
}

int
main(void)
{
    static const int world[] = {1024, 8192, 65536, 100000};
    printf("%8s %10s %10s %12s %10s %9s %9s %12s %8s %8s\n", "workers", "gather ms", "run ms", "with theirs",
           "limit ms", "each ms", "beat ms", "with theirs", "B each", "FORM B");
    for (size_t i = 0; i < sizeof world / sizeof *world; i++) row(world[i]);
    return 0;
}
