/* plan_sim.c - tests the plan simulator on random plans with random costs.
 *
 * All acts must occur once, and no device may run two acts at a time. No act may begin before its inputs are ready.
 * Every idle time of a device must have a cause. No simulated run may be faster than the lower bound. */
#include "actors/plan/compile.h"
#include "t/lib/plan/acts.h"
#include "t/lib/plan/plans.h"

#include "actors/plan/sim/account.h"
#include "actors/plan/sim/lower_bound.h"

struct count {
    int plans, acts, once, apart, caused, explained, balanced, shared, ran, patient, rows, above;
};

static int64_t *
random_costs(const struct plan *p, uint64_t *rng)
{
    int64_t *cost = must_alloc(sizeof *cost * (size_t)(p->ntask + 1));
    for (int32_t i = 0; i < p->ntask; i++) cost[i] = (int64_t)(next_random(rng) % 5) * 100;
    return cost;
}

/* Checks that the acts of each lane (a device, or a thread if `threads`) do not overlap. Acts are listed by the
 * time at which they end, so those of one lane are in order. */
static bool
one_at_a_time(const struct plan *p, const struct act_time *act, int64_t n, bool threads)
{
    int64_t *until = must_alloc(sizeof *until * (size_t)(p->ndevice + p->nthread));
    bool good = true;
    for (int64_t i = 0; i < n; i++) {
        const struct task *t = &p->task[act[i].task];
        int64_t *u = &until[threads ? t->thread : t->device];
        good = good && act[i].begin >= *u && act[i].end >= act[i].begin;
        *u = act[i].end;
    }
    free(until);
    return good;
}

static bool
keeps_floor(const struct plan *p, const struct act_time *act, int64_t n)
{
    int64_t floor = lower_bound_of_plan(p, act, n), work = 0;
    for (int64_t i = 0; i < n; i++) work += act[i].end - act[i].begin;
    return floor <= (n ? act[n - 1].end : 0) && (floor > 0 || work == 0);
}

/* Simulates lanes that wait for the next act of their schedule row. Returns true if each act runs once and after
 * its inputs, each device runs one act at a time, and the run is not faster than the lower bound. */
static bool
keeps_rows(const struct plan *p, const int64_t *cost, uint64_t *rng, struct arena *a, struct count *c)
{
    struct plan_sim_options how = {.share = PLAN_SIM_DEVICES, .jitter = {0.3, next_random(rng)}};
    struct lane_rows rows;
    struct act_time *act;
    int64_t n;
    if (plan_sim_rows(p, cost, &how, a, &rows)) return false;
    c->rows += rows.nlane > 0;
    how.rows = &rows;
    bool good = !plan_sim_run(p, cost, &how, a, &act, &n) && keeps_floor(p, act, n);
    return good && comes_once(p, act, n) && one_at_a_time(p, act, n, false) && has_inputs(p, act, n);
}

static void
try_plan(const struct plan *p, uint64_t *rng, struct count *c)
{
    struct arena a = {0};
    struct account o;
    struct act_time *act;
    int64_t n, idle = 0, busy = 0, *cost = random_costs(p, rng);
    c->plans++;
    if (plan_sim_run(p, cost, &(struct plan_sim_options){.share = PLAN_SIM_DEVICES}, &a, &act, &n))
        diag("%s", err_text());
    c->acts += (int)n;
    c->once += comes_once(p, act, n);
    c->apart += one_at_a_time(p, act, n, false);
    c->caused += has_inputs(p, act, n);
    c->above += keeps_floor(p, act, n);
    plan_account(p, act, n, 16, &a, &o);
    bool turn = false;
    for (int32_t i = 0; i < o.nstall; i++) {
        idle += o.stall[i].ns;
        turn = turn || o.stall[i].kind == STALL_TURN;
    }
    for (int32_t d = 0; d < p->ndevice; d++) busy += o.busy[d];
    c->explained += !turn;
    c->balanced += idle + busy == (o.end - o.begin) * p->ndevice;
    if (!plan_sim_run(p, cost, &(struct plan_sim_options){.share = PLAN_SIM_THREADS}, &a, &act, &n))
        c->shared += comes_once(p, act, n) && one_at_a_time(p, act, n, true) && has_inputs(p, act, n);
    c->patient += keeps_rows(p, cost, rng, &a, c);
    arena_fini(&a);
    free(cost);
}

int
main(void)
{
    uint64_t seed = seed_of(5);
    struct rille_options o = {.devices = "cpu:4", .threads = 2, .bus = "zmq"};
    struct rille_session *s;
    struct count c = {0};
    struct engine *e = simulator(seed);
    alarm(HANG);
    if (rille_open(&o, &s)) return 1;
    for (int i = 0; i < (getenv("RILLE_LONG") ? 5000 : 300); i++) {
        struct plan *p = random_plan(s, &seed, i % 2);
        if (!p) continue;
        try_plan(p, &seed, &c);
        c.ran += outcome(e, p) != 0;
        plan_free(&p);
    }
    diag("%d plans, %d acts", c.plans, c.acts);
    ok(c.plans > 100, "more than 100 plans are made");
    is_int(c.once, c.plans, "each act of a plan occurs once and in order");
    is_int(c.apart, c.plans, "a device runs one act at a time");
    is_int(c.caused, c.plans, "an act begins after its inputs are ready");
    is_int(c.above, c.plans,
           "no simulated run is faster than the lower bound, and the bound is not 0 if there is work");
    is_int(c.explained, c.plans, "a device that is idle waits for a result or for a register");
    is_int(c.balanced, c.plans, "busy and idle times add up");
    is_int(c.shared, c.plans, "devices of a thread run one act at a time");
    is_int(c.patient, c.plans, "lanes that wait for the next act of their row run the same acts, after their inputs");
    ok(c.rows > 0, "lanes have rows in %d plans", c.rows);
    is_int(c.ran, c.plans, "actors run the simulated plans to their end");
    engine_free(&e);
    rille_close(&s);
    return done();
}
