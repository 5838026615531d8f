/* parts.h - runs the plan partitions of a program on one simulator; each partition has the memory space of a host.
 *
 * Each partition has its own engine, buffers and numbers. Partitions communicate only by messages and a transport
 * (transport_sim.h). The buffers of each memory space are in one region of pages. While a thread of one space runs,
 * the regions of all other spaces are locked, so that an access to another space faults. */
#ifndef RILLE_T_PARTS_H
#define RILLE_T_PARTS_H

#include "actors/plan/compile.h"
#include "actors/plan/verify/verify.h"
#include "actors/plan/verify/verify_program.h"
#include "t/oracles/transport_sim.h"
#include "t/lib/plan/plans.h"
#include "actors/plan/model/program_bytes.h"

#include <sys/mman.h>

static double wire_ns_per_byte; /* network cost of these programs, ns per byte; 0: no hierarchical reductions */

enum { MOST_PARTS = 4, NOBODY = 99 /* NOBODY: process number of the simulator itself, which is no partition */ };

/* The devices 0, 1, ... of each kind, divided among hosts: the memory space of host m has the next n[m] devices. */
struct cut {
    int nmemory, n[MOST_PARTS];
};

struct parts {
    int n;
    struct plan_range range[2 * MOST_PARTS];
    struct plan_map map[MOST_PARTS];
    struct plan *plan[MOST_PARTS];
    struct channel_far *far[MOST_PARTS];
    struct bench bench[MOST_PARTS];
    struct engine *engine[MOST_PARTS];
    struct ground ground[MOST_PARTS];
    int open; /* index of the only region of pages that is not locked; ALL_OPEN: no region is locked */
    struct bus_kind guarded;
    const struct bus_kind *playing; /* bus kind that the partitions use while they run; NULL: bus_sim */
    struct turn {
        struct parts *parts;
        int memory;
        struct bus_user user;
    } turn[2 * MOST_PARTS];
    int nturn;
    struct carrier {
        struct parts *parts;
        const struct transport *wire;
        struct transport transport;
    } carrier[MOST_PARTS];
    struct bus *bus;
    struct sim_wire *wire;
    _Atomic uint64_t gate;
    int status[MOST_PARTS]; /* status of each partition's last run */
    int stop;               /* number of the simulation step before which partition 0 is interrupted; 0: never */
    /* true: after a failure, a coordinator aborts the other partitions; false: the other partitions learn of the
     * failure from their channels */
    bool aborts;
};

static void
parts_map(struct parts *x, const struct cut *cut)
{
    x->n = cut->nmemory;
    int nrange = other_kind == DEV_CPU ? x->n : 2 * x->n;
    for (int i = 0, first = 0; i < nrange; first += cut->n[i++ % x->n]) {
        int m = i % x->n;
        if (m == 0) first = 0;
        x->range[i] = (struct plan_range){.kind = i < x->n ? DEV_CPU : other_kind,
                                          .first = first,
                                          .n = cut->n[m],
                                          .nslot = MIN(cut->n[m], 2),
                                          .memory = m};
    }
    for (int m = 0; m < x->n; m++)
        x->map[m] = (struct plan_map){.nrange = nrange, .nslot = x->range[m].nslot, .memory = m, .range = x->range};
}

/* Compiles one plan per partition from the serialized program. */
static int
parts_compile(struct parts *x, const struct str *bytes, struct atlas *at)
{
    for (int m = 0; m < x->n; m++) {
        struct program *g;
        TRY(program_read(str_text(bytes), bytes->len, at, &g));
        g->map = &x->map[m];
        g->cost.wire_ns = 0;
        g->cost.wire_ns_per_byte = wire_ns_per_byte;
        TRY(plan_compile(g, at, &x->plan[m]));
        x->far[m] = calloc((size_t)x->plan[m]->nchannel + 1, sizeof *x->far[m]);
    }
    return 0;
}

/* Checks the channels from partition b to partition a: the plans of both partitions must agree on them. */
static int
parts_match(struct parts *x, int a, int b)
{
    struct str list = {0};
    channels_write(x->plan[b], a, &list);
    int status = channels_match(x->plan[a], b, str_text(&list), list.len, x->far[a]);
    str_free(&list);
    for (int32_t c = 0; c < x->plan[a]->nchannel; c++)
        if (x->plan[a]->channel[c].peer == b) x->far[a][c].addr = addr_of(b, x->far[a][c].thread);
    return status;
}

static inline int
parts_connect(struct parts *x)
{
    for (int a = 0; a < x->n; a++)
        for (int b = 0; b < x->n; b++)
            if (a != b) TRY(parts_match(x, a, b));
    return 0;
}

/* ---- locking the memory of other hosts ---- */

enum { ALL_OPEN = -1 };

static void
lock(struct ground *h, bool locked)
{
    if (h->base) assert(!mprotect(h->base, GROUND_BYTES, locked ? PROT_NONE : PROT_READ | PROT_WRITE));
}

static void
open_ground(struct parts *x, int memory)
{
    if (x->open == memory) return;
    for (int m = 0; m < x->n; m++) {
        bool was = x->open == ALL_OPEN || x->open == m, is = memory == ALL_OPEN || memory == m;
        if (was != is) lock(&x->ground[m], !is);
    }
    x->open = memory;
}

static bool
take_turn(void *of, bool wait)
{
    struct turn *t = of;
    open_ground(t->parts, t->memory);
    return t->user.turn(t->user.of, wait);
}

static bool
is_busy(const void *of)
{
    const struct turn *t = of;
    return t->user.busy && t->user.busy(t->user.of);
}

/* partitions whose threads attach to the bus now; a global, because attach() receives only the bus, which has no
 * field for them */
static struct parts *guarding;

static void
attach_guarded(struct bus *b, uint32_t end, struct bus_user user)
{
    struct parts *x = guarding;
    int i = 0;
    while (i < x->nturn && x->turn[i].user.of != user.of) i++;
    assert(i < (int)countof(x->turn));
    if (i == x->nturn) x->nturn++;
    x->turn[i] = (struct turn){x, addr_process(end), user};
    bus_sim.attach(b, end, (struct bus_user){.of = &x->turn[i], .turn = take_turn, .busy = is_busy});
}

/* Transport calls. Each partition makes them through a carrier, which unlocks all regions during the call. No
 * other code may access two memory spaces. */
static int
carry_put(void *of, int32_t channel, const struct channel *c, const char *from, int64_t *ticket)
{
    const struct carrier *k = of;
    return k->wire->put(k->wire->of, channel, c, from, ticket);
}

static bool
carry_taken(void *of, int64_t ticket)
{
    const struct carrier *k = of;
    int was = k->parts->open;
    open_ground(k->parts, ALL_OPEN);
    bool taken = k->wire->taken(k->wire->of, ticket);
    open_ground(k->parts, was);
    return taken;
}

static int
carry_take(void *of, int32_t channel, const struct channel *c, char *to)
{
    const struct carrier *k = of;
    int was = k->parts->open;
    open_ground(k->parts, ALL_OPEN);
    int status = k->wire->take(k->wire->of, channel, c, to);
    open_ground(k->parts, was);
    return status;
}

static void
carry_stop(void *of)
{
    const struct carrier *k = of;
    k->wire->stop(k->wire->of);
}

static const struct transport *
carrier(struct parts *x, int m)
{
    struct carrier *k = &x->carrier[m];
    *k = (struct carrier){.parts = x, .wire = sim_wire_end(x->wire, m)};
    k->transport =
        (struct transport){.of = k, .put = carry_put, .taken = carry_taken, .take = carry_take, .stop = carry_stop};
    return &k->transport;
}

/* ---- a run ---- */

static inline int
parts_open(struct parts *x, uint64_t seed)
{
    struct bus_options o = {.process = NOBODY, .nthread = 1, .seed = seed};
    TRY(bus_sim.open(&o, &x->bus));
    x->guarded = bus_sim;
    x->guarded.attach = attach_guarded;
    x->open = ALL_OPEN;
    guarding = x;
    x->wire = sim_wire_new((const struct plan *const *)x->plan, (const struct channel_far *const *)x->far, x->n, seed);
    for (int m = 0; m < x->n; m++) {
        struct engine_options e = {
            .process = m, .threads = x->map[m].nslot, .bus = &bus_sim, .seed = seed, .with = x->bus, .gate = &x->gate};
        x->bus->kind = &x->guarded; /* records each thread that attaches to the bus */
        int status = engine_new(&e, &x->engine[m]);
        x->bus->kind = &bus_sim;
        TRY(status);
        x->ground[m].base =
            mmap(NULL, GROUND_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        assert(x->ground[m].base != MAP_FAILED);
        bench_open_in(&x->bench[m], x->plan[m], &x->ground[m]);
        x->bench[m].run.far = x->far[m];
        x->bench[m].run.transport = carrier(x, m);
        x->bench[m].run.id = 1;
    }
    return 0;
}

/* Ends a partition's run. If the run failed and x->aborts is set, aborts the other partitions. */
static void
part_end(struct parts *x, int m, int *status)
{
    *status = engine_end(x->engine[m]);
    for (int other = 0; other < x->n && *status && x->aborts; other++)
        if (other != m) engine_abort(x->engine[other]);
}

/* Runs all partitions; x->status[m] is the status of partition m. Returns the number of partitions that failed. */
static int
parts_run(struct parts *x)
{
    bool more = true, ended[MOST_PARTS] = {false};
    int failed = 0;
    guarding = x;
    x->bus->kind = &x->guarded;
    for (int m = 0; m < x->n; m++) engine_begin(x->engine[m], &x->bench[m].run);
    x->bus->kind = x->playing ? x->playing : &bus_sim;
    for (int step = 1; more; step++) {
        more = false;
        if (step == x->stop) engine_interrupt(x->engine[0]);
        for (int m = 0; m < x->n; m++) {
            if (ended[m]) continue;
            /* Unlocks the memory of partition m. The bus does so only when it selects a thread to run, and it
             * selects none if a partition has a single thread. */
            open_ground(x, m);
            ended[m] = !engine_step(x->engine[m]);
            if (ended[m]) part_end(x, m, &x->status[m]);
            more |= !ended[m];
        }
    }
    open_ground(x, ALL_OPEN);
    for (int m = 0; m < x->n; m++) failed += x->status[m] != 0;
    return failed;
}

/* Runs all partitions once more, without an injected failure, even if the last run failed. */
static inline int
parts_again(struct parts *x)
{
    sim_wire_reset(x->wire);
    x->stop = 0;
    for (int m = 0; m < x->n; m++) {
        engine_fail_act(x->engine[m], 0);
        x->bench[m].run.id++;
    }
    return parts_run(x);
}

static void
parts_close(struct parts *x)
{
    for (int m = 0; m < x->n; m++) {
        if (x->engine[m]) bench_close(&x->bench[m]);
        if (x->ground[m].base) munmap(x->ground[m].base, GROUND_BYTES);
        engine_free(&x->engine[m]);
        plan_free(&x->plan[m]);
        free(x->far[m]);
    }
    sim_wire_free(&x->wire);
    if (x->bus) bus_sim.close(&x->bus);
}

static bool
same_root(const struct bench *a, int32_t i, const struct bench *b, int32_t k)
{
    unsigned char *x = bench_root(a, i), *y = bench_root(b, k);
    bool same = !memcmp(x, y, (size_t)a->run.plan->root_part[i].bytes);
    free(x);
    free(y);
    return same;
}

/* Compiles a random program, drawn by *rng, in partitions. Returns false if the program cannot be planned. */
static inline bool
parts_random(struct parts *x, struct rille_session *s, uint64_t *rng, bool pieces, const struct cut *cut)
{
    struct plan *p = random_plan(s, rng, pieces);
    struct str bytes = {0};
    *x = (struct parts){0};
    if (!p) return false;
    program_write(p->program, &bytes);
    parts_map(x, cut);
    bool good = !parts_compile(x, &bytes, s->atlas);
    if (!good) parts_close(x);
    str_free(&bytes);
    plan_free(&p);
    return good;
}

/* Returns true if the roots of all partitions hold the same bytes as the roots of the complete plan. */
static inline bool
parts_agree(const struct parts *x, const struct bench *whole)
{
    const struct plan *w = whole->run.plan;
    for (int m = 0; m < x->n; m++) {
        const struct plan *p = x->plan[m];
        for (int32_t i = 0; i < p->nroot_part; i++) {
            const struct plan_part *part = &p->root_part[i];
            if (!same_root(&x->bench[m], i, whole, w->root_first[part->index] + part->pos)) return false;
        }
    }
    return true;
}

/* Returns true if the program, given as bytes, has the results of the complete plan when it runs in partitions. */
static inline bool
same_in_parts(const struct bench *whole, const struct str *bytes, const struct cut *c, struct atlas *at)
{
    struct parts x = {0};
    parts_map(&x, c);
    bool good = !parts_compile(&x, bytes, at) && !parts_connect(&x) && !parts_open(&x, 1);
    good = good && parts_run(&x) == 0;
    if (!good) diag("%d partitions: %s", x.n, err_text());
    good = good && parts_agree(&x, whole);
    parts_close(&x);
    return good;
}

/* ---- planted mistakes ---- */

/* Mistakes that a test puts into plans, counted by kind. name: name of the kind, NULL: not used yet; tried: number
 * of plans with such a mistake; found: number of those plans that the verifier rejected. */
struct planted {
    const char *name[16];
    int tried[16], found[16];
};

static inline void
planted_add(struct planted *n, int kind, const char *name, bool found, uint64_t seed)
{
    n->name[kind] = name;
    n->tried[kind]++;
    n->found[kind] += found;
    if (!found) diag("seed %llu: %s", (unsigned long long)seed, name);
}

/* Checks that mistakes of every kind were planted, and that all were found. */
static inline void
planted_report(const struct planted *n, int kinds)
{
    for (int k = 0; k < kinds; k++)
        ok(covered(n->tried[k] > 0) && n->found[k] == n->tried[k], "%s is found (%d of %d)",
           n->name[k] ? n->name[k] : "nothing", n->found[k], n->tried[k]);
}

#endif
