/* parts.h - a program as parts of several memories, on one simulator.
 *
 * Each part has an engine, buffers and numbers of its own; nothing but messages and a transport (transport_sim.h) joins
 * them. */
#ifndef RILLE_T_PARTS_H
#define RILLE_T_PARTS_H

#include "actors/act/transport_sim.h"
#include "actors/plan/channel.h"
#include "t/plans.h"

enum { MOST_PARTS = 4, NOBODY = 99 /* the process of the simulator itself */ };

/* How devices 0, 1, ... are cut: memory m has n[m] of them. */
struct cut {
    int nmemory, n[MOST_PARTS];
};

struct parts {
    int n;
    struct plan_range range[MOST_PARTS];
    struct plan_map map[MOST_PARTS];
    struct plan *plan[MOST_PARTS];
    struct channel_far *far[MOST_PARTS];
    struct bench bench[MOST_PARTS];
    struct engine *engine[MOST_PARTS];
    struct bus *bus;
    struct sim_wire *wire;
    _Atomic uint64_t gate;
    int stop; /* after so many steps part 0 is told to stop; 0: never */
};

static void
parts_map(struct parts *x, const struct cut *cut)
{
    x->n = cut->nmemory;
    for (int m = 0, first = 0; m < x->n; first += cut->n[m++])
        x->range[m] = (struct plan_range){
            .kind = DEV_CPU, .first = first, .n = cut->n[m], .nslot = MIN(cut->n[m], 2), .memory = m};
    for (int m = 0; m < x->n; m++)
        x->map[m] = (struct plan_map){.nrange = x->n, .nslot = x->range[m].nslot, .memory = m, .range = x->range};
}

/* The parts of the program with these bytes. */
static int
parts_compile(struct parts *x, const struct str *bytes, struct atlas *at)
{
    for (int m = 0; m < x->n; m++) {
        struct program *g;
        TRY(program_read(str_text(bytes), bytes->len, at, &g));
        g->map = &x->map[m];
        TRY(plan_compile(g, at, &x->plan[m]));
        x->far[m] = calloc((size_t)x->plan[m]->nchannel + 1, sizeof *x->far[m]);
    }
    return 0;
}

/* Parts a and b compare what they say of the channels from b to a. */
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

static int
parts_connect(struct parts *x)
{
    for (int a = 0; a < x->n; a++)
        for (int b = 0; b < x->n; b++)
            if (a != b) TRY(parts_match(x, a, b));
    return 0;
}

static int
parts_open(struct parts *x, uint64_t seed)
{
    struct bus_options o = {.process = NOBODY, .nthread = 1, .seed = seed};
    TRY(bus_sim.open(&o, &x->bus));
    x->wire = sim_wire_new((const struct plan *const *)x->plan, (const struct channel_far *const *)x->far, x->n, seed);
    for (int m = 0; m < x->n; m++) {
        struct engine_options e = {
            .process = m, .threads = x->map[m].nslot, .bus = &bus_sim, .seed = seed, .with = x->bus, .gate = &x->gate};
        TRY(engine_new(&e, &x->engine[m]));
        bench_open(&x->bench[m], x->plan[m]);
        x->bench[m].run.far = x->far[m];
        x->bench[m].run.transport = sim_wire_end(x->wire, m);
        x->bench[m].run.line = calloc((size_t)x->plan[m]->program->nnode + 1, sizeof(struct line));
        x->bench[m].run.id = 1;
    }
    return 0;
}

/* Each part's own outcome. */
static void
parts_run(struct parts *x, int *status)
{
    bool more = true;
    for (int m = 0; m < x->n; m++) engine_begin(x->engine[m], &x->bench[m].run);
    for (int step = 1; more; step++) {
        more = false;
        if (step == x->stop) engine_interrupt(x->engine[0]);
        for (int m = 0; m < x->n; m++) more |= engine_step(x->engine[m]);
    }
    for (int m = 0; m < x->n; m++) status[m] = engine_end(x->engine[m]);
}

/* Once more, whatever became of the last run. */
static inline void
parts_again(struct parts *x, int *status)
{
    sim_wire_reset(x->wire);
    x->stop = 0;
    for (int m = 0; m < x->n; m++) x->bench[m].run.id++;
    parts_run(x, status);
}

static void
parts_close(struct parts *x)
{
    for (int m = 0; m < x->n; m++) {
        free(x->bench[m].run.line);
        if (x->engine[m]) bench_close(&x->bench[m]);
        engine_free(&x->engine[m]);
        plan_free(&x->plan[m]);
        free(x->far[m]);
    }
    sim_wire_free(&x->wire);
    if (x->bus) bus_sim.close(&x->bus);
}

/* Do the parts' roots hold the bytes that the whole plan's do? */
static bool
parts_agree(const struct parts *x, const struct bench *whole)
{
    const struct plan *w = whole->run.plan;
    for (int m = 0; m < x->n; m++) {
        const struct plan *p = x->plan[m];
        for (int32_t i = 0; i < p->nroot_part; i++) {
            const struct plan_part *part = &p->root_part[i];
            const void *want = whole->run.root[w->root_first[part->index] + part->pos], *got = x->bench[m].run.root[i];
            if (part->bytes && memcmp(want, got, (size_t)part->bytes)) return false;
        }
    }
    return true;
}

#endif
