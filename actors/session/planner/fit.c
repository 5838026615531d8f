/* fit.c - makes plans with different memory limits until one fits on the devices, and keeps the fastest that
 * fits.
 *
 * Besides activations, a plan holds leaves, scratch memory, gradients and values in flight. Their memory is known
 * only when the plan has been made. If a plan exceeds the limit, the limit of activations in the next plan is
 * lower by the excess. With recompute = "auto", plans first recompute 0, 25, 50, 75 and 100 % of each stage.
 * Then, for a series of memory budgets, plans recompute as little of each stage as fits the budget. Finally,
 * single stages recompute less. The budgets do not depend on the memory limit. So a larger limit tries all plans
 * of a smaller limit, and its result is never a slower step. */
#include "actors/plan/compile.h"
#include "actors/session/planner/fit.h"
#include "actors/plan/memory/peak.h"
#include "actors/plan/outline/estimate.h"
#include "actors/session/step/chart_costs.h"
#include "actors/session/step/measure.h"

#include "actors/plan/sim/account.h"
#include "actors/plan/sim/schedule_search.h"
#include "actors/plan/rewrite/append.h"
#include "actors/plan/rewrite/hoist.h"
#include "actors/plan/sim/plan_sim.h"
#include "actors/plan/rewrite/recompute.h"
#include "actors/session/planner/planned.h"
#include "runtime/base/error.h"

#include <string.h>

struct fitter {
    struct rille_graph *g;
    const struct rille_graph_options *o;
    const struct fit_source *from;
    int64_t limit;   /* memory limit, bytes per device; 0: none */
    int64_t base;    /* memory of 1F1B without recomputation, bytes; 0: not known yet */
    int64_t allowed; /* limit for activations in the last plan, bytes; 0: none */
    /* memory of the smallest plan or schedule found, bytes; 0: none found */
    int64_t least;
    const struct schedule_search_costs *costs; /* costs for the schedule search; NULL: estimated */
    /* memory limit for the planner, bytes per device; differs from `limit`, because the planner does not count all
     * memory of a plan */
    int64_t reckoned;
    bool quick; /* true: searches for the least memory, then takes the first layouts found (sbp/net/options.h) */
    /* least memory that lay_at_once() has found so far, bytes; estimated by the planner, without scratch memory */
    struct assign_least counted;
    /* least memory if no layouts met the limit, estimated by the planner; 0: layouts met the limit */
    struct assign_least possible;
    /* program with the planner's layouts, from which all plans are made; NULL: each plan starts from the traced
     * program */
    struct program *planned;
    struct arena tmp;
    bool searched; /* a search chooses the pipeline schedule */
    bool appends;  /* operands of micro-batches are appended although memory is limited */
    /* number of stages for which a share to recompute is chosen; 0: no shares are chosen */
    int32_t nstage;
};

/* ---- making one plan within the memory limit ---- */

/* Returns the name of the schedule for the schedule search; "memory" (least memory) if the search does not know
 * the user's schedule. */
static const char *
schedule_of(const struct fitter *f)
{
    return f->o->schedule && schedule_search_knows(f->o->schedule) ? f->o->schedule : "memory";
}

static bool
folds(const struct fitter *f)
{
    return f->searched && schedule_search_folds(schedule_of(f));
}

static int
assign_program(struct fitter *f, struct program *p)
{
    if (f->o->auto_parallel) return planned_assign(f->g, p, f->o, f->reckoned, f->quick, &f->possible);
    return f->o->zero ? planned_zero(f->g, p, f->o->zero) : 0;
}

/* Returns a new program with layouts, which recomputes the share parts[i] of stage i (NULL: no shares). If a
 * planner chose the layouts, no pass may reorder nodes, because the planner's result refers to nodes by index. If
 * memory is limited, appends operands of micro-batches only if f->appends, because appended operands take memory. */
static struct program *
laid_out(struct fitter *f, const int32_t *parts, int *status)
{
    struct program *p = f->planned ? program_copy(f->planned) : f->from->program(f->from->arg);
    *status = f->planned ? 0 : assign_program(f, p);
    if (!*status && f->o->auto_parallel && f->searched && !f->planned) f->planned = program_copy(p);
    p->fold = folds(f);
    if (!*status && p->fold && !f->o->auto_parallel) *status = recompute_apart(p);
    if (!*status && parts) *status = recompute_parts(p, parts, f->nstage);
    if (!*status) *status = planned_offload(f->g, p, f->o);
    if (!*status && !f->o->auto_parallel && (!f->limit || f->appends)) append_operands(p, APPEND_LEAST);
    if (!*status && !f->o->auto_parallel) hoist_casts(p);
    if (*status) program_free(&p);
    return p;
}

/* Constraints of a schedule search. */
struct search {
    int64_t most; /* memory limit for activations, bytes per device; 0: none */
    bool least;   /* search for the schedule with the least memory */
    bool narrow;  /* allow as few results in flight between stages as possible */
};

static int
search_schedule(struct fitter *f, struct program *p, struct search how)
{
    if (!f->searched) return 0;
    return schedule_search_run(p, &(struct schedule_search_request){.name = schedule_of(f),
                                                                    .memory = f->o->memory,
                                                                    .most = how.most,
                                                                    .least = how.least,
                                                                    .costs = f->costs,
                                                                    .possible = &f->least,
                                                                    .allowed = &f->allowed,
                                                                    .base = &f->base});
}

static int
plan_once(struct fitter *f, const int32_t *parts, struct search how, struct plan **out)
{
    int status;
    struct program *p = laid_out(f, parts, &status);
    if (!status) status = search_schedule(f, p, how);
    for (int32_t q = 0; !status && how.narrow && q < p->npool; q++) p->pool[q].hop = 1;
    if (status) {
        program_free(&p);
        return status;
    }
    return plan_compile(p, f->g->s->atlas, out);
}

static int
too_much(struct fitter *f, const struct plan *p)
{
    int32_t d;
    struct schedule_search_result told = {0};
    int64_t held = f->least = measure_held(p, &d);
    if (held <= f->limit) return 0;
    schedule_search_read(p->program, f->costs, &told);
    int status = fail(E_MEMORY,
                      "graph: no schedule of its stages keeps a device within the limit %lld; the least is %lld bytes, "
                      "on %s:%d, with %.0f %% idle",
                      (long long)f->limit, (long long)held, device_kind_text(p->device[d].kind), (int)p->device[d].rank,
                      100 * told.bubble);
    return plan_peak_blame(p, d, status);
}

static int64_t
activations(struct fitter *f, const struct program *p)
{
    struct schedule_search_result d;
    return schedule_search_read(p, f->costs, &d) ? d.bytes : 0;
}

/* Returns the predicted time of a step. If the user gave no costs, simulates the tasks of the plan, because the
 * pipeline simulator does not know which tasks are fused. */
static double
program_time(struct fitter *f, const struct plan *p)
{
    struct schedule_search_result d;
    if (f->costs) return schedule_search_read(p->program, f->costs, &d) ? d.time : 0;
    struct arena a = {0};
    struct act_time *act;
    int64_t n, *cost = ARENA_ARRAY(&a, int64_t, p->ntask + 1);
    plan_estimate(p, cost);
    double time = !plan_sim_run(p, cost, &(struct plan_sim_options){.share = PLAN_SIM_DEVICES}, &a, &act, &n) && n
                      ? (double)act[n - 1].end
                      : 0;
    arena_fini(&a);
    return time;
}

/* Keeps the faster of two plans and frees the other. */
static void
keep_faster(struct fitter *f, struct plan **best, struct plan *p)
{
    bool slower = *best && program_time(f, p) >= program_time(f, *best);
    if (!slower) plan_free(best);
    if (slower)
        plan_free(&p);
    else
        *best = p;
}

/* Makes the plan of least memory. E_MEMORY: even this plan exceeds the memory limit. If the plan exceeds the
 * limit, the function also tries the fewest results in flight between stages, which are not activations. */
static int
plan_least(struct fitter *f, const int32_t *parts, struct plan **out)
{
    struct plan *narrow;
    TRY(plan_once(f, parts, (struct search){.least = true}, out));
    if (measure_held(*out, NULL) > f->limit &&
        !plan_once(f, parts, (struct search){.least = true, .narrow = true}, &narrow)) {
        bool smaller = measure_held(narrow, NULL) < measure_held(*out, NULL);
        plan_free(smaller ? out : &narrow);
        if (smaller) *out = narrow;
    }
    int status = too_much(f, *out);
    if (status) plan_free(out);
    return status;
}

enum { TRIES = 8 };

/* Searches for a schedule within the memory limit, by bisection. The next limit for activations is halfway between
 * the largest limit whose plan fitted and the smallest whose plan did not fit. */
static int
search_plan_within(struct fitter *f, const int32_t *parts, struct plan **out)
{
    int64_t most = 0, good = 0, bad = INT64_MAX;
    int status = 0;
    *out = NULL;
    for (int i = 0; i < TRIES && bad - good > 1; i++) {
        struct plan *p;
        status = plan_once(f, parts, (struct search){.most = most}, &p);
        if (status && i == 0) return status; /* a search that fails without a limit fails with any limit */
        if (status) break;
        int64_t held = activations(f, p->program), over = measure_held(p, NULL) - f->limit;
        *(over > 0 ? &bad : &good) = MAX(1, over > 0 ? held : most);
        if (over > 0)
            plan_free(&p);
        else
            keep_faster(f, out, p);
        if (bad == INT64_MAX) break; /* the plan fits without a limit, so no other limit is tried */
        most = good ? good + (bad - good) / 2 : MAX(1, held - over);
    }
    if (*out) {
        err_clear();
        return 0;
    }
    return !status || status == E_MEMORY ? plan_least(f, parts, out) : status;
}

/* Returns the next memory budget to try: from a quarter of 1F1B's bytes without recomputation, growing by 25 %. The
 * sequence does not depend on the limit, so a larger limit tries a superset of the plans. */
static int64_t
next_share(const struct fitter *f, int64_t share)
{
    return share ? share + MAX(1, share / 4) : MAX(1, f->base / 4);
}

/* Tries lower limits for activations, because a schedule with less memory may be faster when all tasks are
 * simulated. */
static int
search_below(struct fitter *f, const int32_t *parts, struct plan **best)
{
    int64_t taken = activations(f, (*best)->program), allowed = f->allowed;
    for (int64_t most = next_share(f, 0); most < taken; most = next_share(f, most)) {
        struct plan *p;
        int status = plan_once(f, parts, (struct search){.most = most}, &p);
        if (status == E_MEMORY) continue;
        if (status) return status;
        if (f->limit && measure_held(p, NULL) > f->limit)
            plan_free(&p);
        else
            keep_faster(f, best, p);
    }
    f->allowed = allowed;
    err_clear();
    return 0;
}

/* Returns true if the schedule search may choose a schedule of any kind ("auto", "memory"). */
static bool
is_any(const struct fitter *f)
{
    const char *name = schedule_of(f);
    return f->searched && !f->costs && (!strcmp(name, "auto") || !strcmp(name, "memory"));
}

/* Makes one plan: layouts that need at most `reckoned` bytes by the planner's estimate, and a searched schedule.
 * *out stays NULL if the plan exceeds the memory limit. *held: bytes that the plan holds, or a lower bound. */
static int
lay_once(struct fitter *f, int64_t reckoned, struct plan **out, int64_t *held)
{
    f->reckoned = reckoned;
    f->least = 0;
    *out = NULL;
    *held = INT64_MAX;
    program_free(&f->planned);
    int status = f->searched ? search_plan_within(f, NULL, out) : plan_once(f, NULL, (struct search){0}, out);
    if (status == E_MEMORY && f->least) { /* the schedule search found the least memory for these layouts */
        *held = f->least;
        return 0;
    }
    TRY(status);
    *held = measure_held(*out, NULL);
    if (*held > f->limit) plan_free(out);
    return 0;
}

/* Plans again with lower limits for the planner until the plan fits. The next limit is lower by the excess of the
 * last plan, and by 1/256 of the limit: other layouts need other amounts of memory that the planner does not
 * estimate. */
static int
lay_below(struct fitter *f, int64_t held, struct plan **out)
{
    enum { TURNS = 4 };
    int status = 0;
    for (int i = 0; i < TURNS && !status && !*out; i++)
        status =
            lay_once(f, MAX(1, f->g->planning.assigned->solved.peak - (held - f->limit) - f->limit / 256), out, &held);
    return status;
}

/* Makes a plan if the time runs out before any plan fits. Plans greedily for memory limits from twice the planner's
 * known minimum down to the minimum. The result does not depend on the clock or on the user's limit, so a request
 * for the reported minimum finds the same plan. Plans found earlier are not reported. */
static int
lay_at_once(struct fitter *f, struct plan **out, int64_t *least)
{
    enum { STEPS = 2 };
    int64_t held;
    f->quick = true;
    int status = lay_once(f, 1, out, least);
    f->counted = f->possible;
    int64_t possible = f->counted.bytes;
    for (int i = possible > f->limit ? 0 : STEPS; i >= 0 && !*out && (!status || f->possible.bytes); i--) {
        int64_t within = possible + possible * i / STEPS;
        if (i < STEPS && f->g->planning.assigned && f->g->planning.assigned->solved.peak <= within)
            continue; /* the last plan's layouts meet this limit, so the plan would be the same */
        status = lay_once(f, within, out, &held);
        *least = MIN(*least, held);
    }
    f->quick = false;
    return status;
}

/* Fails with E_MEMORY. The error states the smallest plan found, which may not be the minimum, and the planner's
 * proven lower bound. */
static int
no_plan_fits(const struct fitter *f, int64_t held)
{
    const struct assign_least *l = &f->counted;
    struct str proved = {0};
    if (l->bytes)
        str_add(&proved, "by the planner's estimate, without scratch memory of kernels, the least possible is ");
    if (l->floor < l->bytes) str_addf(&proved, "from %lld to ", (long long)l->floor);
    if (l->bytes) str_addf(&proved, "%lld; ", (long long)l->bytes);
    int status =
        fail(E_MEMORY,
             "graph: memory_limit: no plan found fits in %lld byte%s per device; %stry memory_limit = %lld: the least "
             "plan found "
             "needs %lld",
             (long long)f->limit, f->limit == 1 ? "" : "s", str_text(&proved), (long long)held, (long long)held);
    str_free(&proved);
    return status;
}

/* Makes a plan with layouts from a planner within the memory limit. First plans without a limit for the planner,
 * then with lower and lower limits. The planner's estimate differs from the memory of a plan: it lacks scratch
 * memory of kernels, and some layouts prevent fusions. */
static int
lay_plan_within(struct fitter *f, struct plan **out)
{
    int64_t held;
    int status = lay_once(f, 0, out, &held);
    if (!status && !*out) status = lay_below(f, held, out);
    if (*out || (status && !f->possible.bytes)) return status;
    status = lay_at_once(f, out, &held);
    if (status == E_CANCEL) return status;
    if (*out) err_clear();
    return *out ? 0 : no_plan_fits(f, held);
}

/* Makes a plan whose schedule is not searched. Appends operands of micro-batches if the plan then fits, or if it needs
 * less memory than a plan without. */
static int
plan_unsearched(struct fitter *f, const int32_t *parts, struct plan **out)
{
    struct plan *summed;
    *out = NULL;
    if (!f->limit) return plan_once(f, parts, (struct search){0}, out);
    f->appends = true;
    int status = plan_once(f, parts, (struct search){0}, out);
    f->appends = false;
    TRY(status);
    if (measure_held(*out, NULL) <= f->limit) return 0;
    TRY(plan_once(f, parts, (struct search){0}, &summed));
    bool less = measure_held(summed, NULL) < measure_held(*out, NULL);
    plan_free(less ? out : &summed);
    if (less) *out = summed;
    return measure_fits(*out, f->limit);
}

static int
plan_within(struct fitter *f, const int32_t *parts, struct plan **out)
{
    int status;
    if (f->limit && f->o->auto_parallel) {
        status = lay_plan_within(f, out);
    } else if (f->limit && f->searched) {
        status = search_plan_within(f, parts, out);
    } else {
        status = plan_unsearched(f, parts, out);
    }
    if (!status && is_any(f)) status = search_below(f, parts, out);
    if (status) plan_free(out);
    return status;
}

/* ---- choosing how much each stage recomputes ---- */

/* The fastest plan so far, and the choices of recomputation for which plans were made. */
struct found {
    struct plan *plan;
    double time;
    int64_t most; /* limit for activations, bytes */
    int32_t *parts;
    const int32_t **tried;
    int32_t ntried, capacity;
};

static bool
is_tried(const struct found *best, const int32_t *parts, int32_t n)
{
    for (int32_t i = 0; i < best->ntried; i++)
        if (!memcmp(best->tried[i], parts, sizeof *parts * (size_t)n)) return true;
    return false;
}

/* Makes the plan that recomputes the share parts[i] of the results of stage i. Keeps the plan if it fits and is
 * faster than the best plan. */
static int
try_parts(struct fitter *f, const int32_t *parts, int32_t n, struct found *best)
{
    struct plan *p;
    if (is_tried(best, parts, n)) return 0;
    ARENA_GROW(&f->tmp, best->tried, best->ntried + 1, best->capacity);
    best->tried[best->ntried++] = parts;
    int status = plan_within(f, parts, &p);
    if (status) return status == E_MEMORY ? 0 : status;
    double time = program_time(f, p);
    if (best->plan && time >= best->time) {
        plan_free(&p);
        return 0;
    }
    plan_free(&best->plan);
    best->plan = p;
    best->time = time;
    best->most = f->allowed;
    memcpy(best->parts, parts, sizeof *parts * (size_t)n);
    return 0;
}

/* Returns true if the activations of 1F1B fit into `bytes` when the share parts[i] of stage i is recomputed. */
static bool
has_room(struct fitter *f, const int32_t *parts, int64_t bytes)
{
    int status;
    struct program *p = laid_out(f, parts, &status);
    if (status) return false;
    bool good = activations(f, p) <= bytes;
    program_free(&p);
    return good;
}

enum { STEP = RECOMPUTE_PARTS / 4 };

/* Lowers the share that each stage recomputes, as far as activations still fit in `bytes`. Starts with the last
 * stage, because the first stage holds the most micro-batches. */
static int32_t *
keep_more(struct fitter *f, int32_t n, const int32_t *most, int64_t bytes)
{
    int32_t *parts = arena_dup(&f->tmp, most, sizeof *parts * (size_t)n);
    for (int32_t q = n - 1; q >= 0; q--)
        for (parts[q] = 0; parts[q] < most[q] && !has_room(f, parts, bytes);) parts[q] += STEP;
    return parts;
}

/* Reduces recomputation of one stage at a time, by one step at a time, as long as the plan gets faster. */
static int
improve_parts(struct fitter *f, int32_t n, struct found *best)
{
    const struct plan *was;
    do {
        was = best->plan;
        for (int32_t q = 0; q < n; q++) {
            int32_t *parts = arena_dup(&f->tmp, best->parts, sizeof *parts * (size_t)n);
            parts[q] -= STEP;
            if (parts[q] >= 0) TRY(try_parts(f, parts, n, best));
        }
    } while (best->plan != was);
    return 0;
}

/* Tries memory budgets up to the limit. For each budget, every stage recomputes as little as 1F1B needs to stay
 * within the budget. */
static int
try_levels(struct fitter *f, int32_t n, struct found *best)
{
    int32_t *parts = ARENA_ARRAY(&f->tmp, int32_t, n);
    int64_t most = best->most ? MIN(best->most, f->base) : f->base;
    for (int32_t q = 0; q < n; q++) parts[q] = RECOMPUTE_PARTS;
    for (int64_t share = next_share(f, 0); share <= most; share = next_share(f, share)) {
        parts = keep_more(f, n, parts, share);
        TRY(try_parts(f, parts, n, best));
    }
    return 0;
}

/* Tries plans that recompute the same share `again` of the results of every stage. */
static int
try_again(struct fitter *f, int32_t again, int32_t n, struct found *best)
{
    int32_t *parts = ARENA_ARRAY(&f->tmp, int32_t, n);
    for (int32_t q = 0; q < n; q++) parts[q] = again;
    return try_parts(f, parts, n, best);
}

static int
plan_auto(struct fitter *f, struct plan **out)
{
    struct program *p = f->from->program(f->from->arg);
    p->fold = folds(f);
    int32_t n = f->nstage = recompute_stages(p), smallest = RECOMPUTE_PARTS;
    struct found best = {.parts = ARENA_ARRAY(&f->tmp, int32_t, n)};
    int64_t least = INT64_MAX;
    int status = 0;
    program_free(&p);
    for (int32_t again = 0; !status && again <= RECOMPUTE_PARTS; again += STEP) {
        f->least = 0;
        status = try_again(f, again, n, &best);
        if (f->least == 0 || f->least >= least) continue;
        least = f->least;
        smallest = again;
    }
    if (!status && best.plan) status = try_levels(f, n, &best);
    if (!best.plan) best.ntried = 0; /* if no plan fits, tries one plan again so that its error is reported */
    if (!status) status = best.plan ? improve_parts(f, n, &best) : try_again(f, smallest, n, &best);
    if (!status && !best.plan) status = E_MEMORY; /* the last try reported the error */
    arena_fini(&f->tmp);
    if (status) plan_free(&best.plan);
    if (!status) err_clear();
    *out = best.plan;
    return status;
}

int
fit_plan(struct rille_graph *g, const struct rille_graph_options *o, const struct fit_source *from, struct plan **out)
{
    struct schedule_search_costs costs;
    struct fitter f = {.g = g, .o = o, .from = from, .limit = o->memory_limit, .reckoned = o->memory_limit};
    f.searched = o->memory > 0 || (o->schedule && schedule_search_knows(o->schedule));
    if (f.searched && !f.limit) f.limit = (int64_t)g->s->devices.memory_limit;
    if (o->costs) {
        TRY(schedule_search_costs_of(o->costs, &costs));
        costs.kept = true;
        f.costs = &costs;
    }
    bool scarce = o->memory > 0 || f.limit;
    int status = o->recompute_auto && scarce ? plan_auto(&f, out) : plan_within(&f, NULL, out);
    program_free(&f.planned);
    return status;
}
