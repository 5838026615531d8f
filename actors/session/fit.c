/* fit.c - plans are made until one fits, and of several that do the fastest is kept.
 *
 * What a plan holds beside activations - leaves, scratch, gradients, what is on its way - is known when it has been
 * made: what it holds too much, the next one's activations have less. With recompute = "auto" plans are
 * made with no, a quarter, half, three quarters and all of each stage computed again, and with as much of each as it
 * must in shares of memory; then one stage and another keeps more. Shares do not depend on the memory that there is:
 * who has more tries what others try who have less, and is as fast. */
#include "actors/session/fit.h"

#include "actors/plan/account.h"
#include "actors/plan/dial.h"
#include "actors/plan/hoist.h"
#include "actors/plan/play.h"
#include "actors/plan/recompute.h"
#include "actors/session/planned.h"
#include "actors/session/rounds.h"
#include "runtime/error.h"

#include <string.h>

struct fitter {
    struct rille_graph *g;
    const struct rille_graph_options *o;
    const struct fit_source *from;
    int64_t limit;                  /* bytes a device; 0: none */
    int64_t base;                   /* what 1F1B holds when all is kept, once that is known */
    int64_t allowed;                /* what activations might take in the last plan; 0: not said */
    int64_t least;                  /* what would be held, where that is too much at the least; 0: it is not */
    const struct dial_costs *costs; /* NULL: reckoned */
    int64_t reckoned;               /* the limit of a planner, which counts less than a plan holds */
    bool quick;                     /* as solve.h has it */
    struct assign_least possible;   /* what it could do with, where that was too little; 0: it was not */
    struct program *planned; /* as a planner laid it out: once, however many plans are made of it; NULL: none did */
    struct arena tmp;
    bool searched;  /* for its schedule */
    int32_t nstage; /* of which each has a part that is computed again; 0: none has */
};

/* ---- one plan ---- */

/* As the dial knows it: a name, or numbers. */
static const char *
schedule_of(const struct fitter *f)
{
    return f->o->schedule && dial_knows(f->o->schedule) ? f->o->schedule : "memory";
}

static bool
folds(const struct fitter *f)
{
    return f->searched && dial_folds(schedule_of(f));
}

static int
lay_out(struct fitter *f, struct program *p)
{
    if (f->o->auto_parallel) return planned_assign(f->g, p, f->o, f->reckoned, f->quick, &f->possible);
    return f->o->zero ? planned_zero(f->g, p, f->o->zero) : 0;
}

/* Plans of layouts name nodes, which keep their order then. */
static struct program *
laid_out(struct fitter *f, const int32_t *parts, int *status)
{
    struct program *p = f->planned ? program_copy(f->planned) : f->from->program(f->from->arg);
    *status = f->planned ? 0 : lay_out(f, p);
    if (!*status && f->o->auto_parallel && f->searched && !f->planned) f->planned = program_copy(p);
    p->fold = folds(f);
    if (!*status && p->fold && !f->o->auto_parallel) *status = recompute_apart(p);
    if (!*status && parts) *status = recompute_parts(p, parts, f->nstage);
    if (!*status) *status = planned_bring(f->g, p, f->o);
    if (!*status && !f->o->auto_parallel) hoist_casts(p);
    if (*status) program_free(&p);
    return p;
}

/* How a schedule is searched for. */
struct search {
    int64_t most; /* bytes of activations that a device may hold; 0: any */
    bool least;   /* what holds least */
    bool narrow;  /* with as few results on their way from stage to stage as there can be */
};

static int
turn_dial(struct fitter *f, struct program *p, struct search how)
{
    if (!f->searched) return 0;
    return dial_turn(p, &(struct dial_wish){.name = schedule_of(f),
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
    if (!status) status = turn_dial(f, p, how);
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
    struct dial told = {0};
    struct str most = {0};
    int64_t held = f->least = measure_held(p, &d);
    if (held <= f->limit) return 0;
    dial_read(p->program, f->costs, &told);
    plan_tenants_print(p, d, 3, &most);
    int status = fail(E_MEMORY,
                      "graph: no schedule of its stages keeps a device within the limit %lld; the least is %lld bytes, "
                      "on %s:%d, with %.0f %% idle; most of the registers: %s",
                      (long long)f->limit, (long long)held, device_kind_text(p->device[d].kind), (int)p->device[d].rank,
                      100 * told.bubble, str_text(&most));
    str_free(&most);
    return status;
}

static int64_t
activations(struct fitter *f, const struct program *p)
{
    struct dial d;
    return dial_read(p, f->costs, &d) ? d.bytes : 0;
}

/* Of a step: on the clock of the plan's own tasks, for that of its stages knows nothing of what is computed together.
 */
static double
time_of(struct fitter *f, const struct plan *p)
{
    struct dial d;
    if (f->costs) return dial_read(p->program, f->costs, &d) ? d.time : 0;
    struct arena a = {0};
    struct act_time *act;
    int64_t n, *cost = ARENA_ARRAY(&a, int64_t, p->ntask + 1);
    plan_reckon(p, cost);
    double time =
        !plan_play(p, cost, &(struct play_how){.share = PLAY_DEVICES}, &a, &act, &n) && n ? (double)act[n - 1].end : 0;
    arena_fini(&a);
    return time;
}

/* Of two plans the faster; frees the other. */
static void
keep_faster(struct fitter *f, struct plan **best, struct plan *p)
{
    bool slower = *best && time_of(f, p) >= time_of(f, *best);
    if (!slower) plan_free(best);
    if (slower)
        plan_free(&p);
    else
        *best = p;
}

/* The plan that holds least; E_MEMORY: that is too much. Results that are on their way are no activations, and are few
 * only where there is no room for more. */
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

/* A schedule that is searched for, within the limit: activations have what lies halfway between the most that was
 * little enough and the least that was too much. */
static int
search_within(struct fitter *f, const int32_t *parts, struct plan **out)
{
    int64_t most = 0, good = 0, bad = INT64_MAX;
    int status = 0;
    *out = NULL;
    for (int i = 0; i < TRIES && bad - good > 1; i++) {
        struct plan *p;
        status = plan_once(f, parts, (struct search){.most = most}, &p);
        if (status && i == 0) return status; /* whatever the limit */
        if (status) break;
        int64_t held = activations(f, p->program), over = measure_held(p, NULL) - f->limit;
        *(over > 0 ? &bad : &good) = MAX(1, over > 0 ? held : most);
        if (over > 0)
            plan_free(&p);
        else
            keep_faster(f, out, p);
        if (bad == INT64_MAX) break; /* it has all that it wants */
        most = good ? good + (bad - good) / 2 : MAX(1, held - over);
    }
    if (*out) {
        err_clear();
        return 0;
    }
    return !status || status == E_MEMORY ? plan_least(f, parts, out) : status;
}

/* Shares of what 1F1B holds when all is kept, ever a quarter more than the one before: what is tried at them does not
 * depend on how much there is, and so whoever has more tries all that others try who have less. */
static int64_t
next_share(const struct fitter *f, int64_t share)
{
    return share ? share + MAX(1, share / 4) : MAX(1, f->base / 4);
}

/* A schedule that does with less may be the faster on the clock of all tasks. */
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

/* Is what its name says any schedule that is fast? */
static bool
is_any(const struct fitter *f)
{
    const char *name = schedule_of(f);
    return f->searched && !f->costs && (!strcmp(name, "auto") || !strcmp(name, "memory"));
}

/* A plan with layouts that take no more than that, as the planner counts, and a schedule that it searches for; none if
 * that holds too much. *held: what it holds, or would. */
static int
lay_once(struct fitter *f, int64_t reckoned, struct plan **out, int64_t *held)
{
    f->reckoned = reckoned;
    f->least = 0;
    *out = NULL;
    *held = INT64_MAX;
    program_free(&f->planned);
    int status = f->searched ? search_within(f, NULL, out) : plan_once(f, NULL, (struct search){0}, out);
    if (status == E_MEMORY && f->least) { /* of these layouts */
        *held = f->least;
        return 0;
    }
    TRY(status);
    *held = measure_held(*out, NULL);
    if (*held > f->limit) plan_free(out);
    return 0;
}

/* With less for what the planner counts, as long as a plan holds too much: by as much as the last one did, and a little
 * more, since another choice holds its own share of what is not counted. */
static int
lay_below(struct fitter *f, int64_t held, struct plan **out)
{
    enum { TURNS = 4 };
    int status = 0;
    for (int i = 0; i < TURNS && !status && !*out; i++)
        status = lay_once(f, MAX(1, f->g->assigned->solved.peak - (held - f->limit) - f->limit / 256), out, &held);
    return status;
}

/* Where the clock ends in vain: what is found at once, for up to twice the least that the planner knows of. That
 * depends neither on the clock nor on the limit, so whoever asks for the least that is told finds it again; what was
 * found before is not told. */
static int
lay_at_once(struct fitter *f, struct plan **out, struct rounds_least *least)
{
    enum { STEPS = 2 };
    int64_t held;
    f->quick = true;
    int status = lay_once(f, 1, out, &held);
    *least = (struct rounds_least){held, f->possible};
    int64_t possible = least->counted.bytes;
    for (int i = STEPS; i >= 0 && !*out && (!status || f->possible.bytes); i--) {
        int64_t within = possible + possible * i / STEPS;
        if (i < STEPS && f->g->assigned && f->g->assigned->solved.peak <= within) continue; /* it would be the same */
        status = lay_once(f, within, out, &held);
        if (held < INT64_MAX && !*out) rounds_hold(f->g->s, f->g, held);
        least->held = MIN(least->held, held);
    }
    f->quick = false;
    return status;
}

/* What was found may not be the least that a plan may hold; of what the planner counts it is told what is proved. */
static int
nothing_fits(const struct fitter *f, const struct rounds_least *here)
{
    struct rounds_least l = rounds_least(f->g->s, here);
    struct str proved = {0};
    if (l.counted.bytes) str_add(&proved, "by the planner's count, without scratch of kernels, the least possible is ");
    if (l.counted.floor < l.counted.bytes) str_addf(&proved, "from %lld to ", (long long)l.counted.floor);
    if (l.counted.bytes) str_addf(&proved, "%lld; ", (long long)l.counted.bytes);
    int status =
        fail(E_MEMORY,
             "memory: no plan found keeps within %lld byte%s a device; %sask for memory_limit = %lld: the least "
             "plan found is %lld",
             (long long)f->limit, f->limit == 1 ? "" : "s", str_text(&proved), (long long)l.held, (long long)l.held);
    str_free(&proved);
    return status;
}

/* A plan that a planner lays out, within the limit: the one that it makes without, if that keeps it. A plan holds more
 * or less than is counted: the scratch memory of kernels, chains that a choice breaks up. */
static int
lay_within(struct fitter *f, struct plan **out)
{
    int64_t held;
    struct rounds_least least;
    int status = lay_once(f, 0, out, &held);
    if (!status && !*out) status = lay_below(f, held, out);
    if (*out || (status && !f->possible.bytes)) return status;
    if (rounds_have_best(f->g->s)) return status ? status : fail(E_MEMORY, "memory: no plan of this round fits");
    status = lay_at_once(f, out, &least);
    if (status == E_CANCEL) return status;
    if (*out) err_clear();
    return *out ? 0 : nothing_fits(f, &least);
}

static int
plan_within(struct fitter *f, const int32_t *parts, struct plan **out)
{
    int status;
    if (f->limit && f->o->auto_parallel) {
        status = lay_within(f, out);
    } else if (f->limit && f->searched) {
        status = search_within(f, parts, out);
    } else {
        TRY(plan_once(f, parts, (struct search){0}, out));
        status = f->limit ? measure_fits(*out, f->limit) : 0;
    }
    if (!status && is_any(f)) status = search_below(f, parts, out);
    if (status) plan_free(out);
    return status;
}

/* ---- how much to compute again ---- */

/* The fastest so far, and what was tried. */
struct found {
    struct plan *plan;
    double time;
    int64_t most; /* what activations might take */
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

/* Takes the plan of these parts if it fits and is faster. */
static int
try_parts(struct fitter *f, const int32_t *parts, int32_t n, struct found *best)
{
    struct plan *p;
    if (is_tried(best, parts, n)) return 0;
    ARENA_GROW(&f->tmp, best->tried, best->ntried + 1, best->capacity);
    best->tried[best->ntried++] = parts;
    int status = plan_within(f, parts, &p);
    if (status) return status == E_MEMORY ? 0 : status;
    double time = time_of(f, p);
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

/* Do activations take no more than that in 1F1B, with these parts computed again? */
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

/* Lets stages that have room for it keep more, from the last one on: the first has the most pieces. */
static int32_t *
keep_more(struct fitter *f, int32_t n, const int32_t *most, int64_t bytes)
{
    int32_t *parts = arena_dup(&f->tmp, most, sizeof *parts * (size_t)n);
    for (int32_t q = n - 1; q >= 0; q--)
        for (parts[q] = 0; parts[q] < most[q] && !has_room(f, parts, bytes);) parts[q] += STEP;
    return parts;
}

/* One stage computes a step less again, as long as that is faster. */
static int
improve(struct fitter *f, int32_t n, struct found *best)
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

/* Of each stage as much as it must in 1F1B, in shares of its memory up to the most. */
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

/* So much of each stage. */
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
    if (!best.plan) best.ntried = 0; /* one tells why */
    if (!status) status = best.plan ? improve(f, n, &best) : try_again(f, smallest, n, &best);
    if (!status && !best.plan) status = E_MEMORY; /* which the last one told */
    arena_fini(&f->tmp);
    if (status) plan_free(&best.plan);
    if (!status) err_clear();
    *out = best.plan;
    return status;
}

int
fit_plan(struct rille_graph *g, const struct rille_graph_options *o, const struct fit_source *from, struct plan **out)
{
    struct dial_costs costs;
    struct fitter f = {.g = g, .o = o, .from = from, .limit = o->memory_limit, .reckoned = o->memory_limit};
    f.searched = o->memory > 0 || (o->schedule && dial_knows(o->schedule));
    if (f.searched && !f.limit) f.limit = (int64_t)g->s->memory_limit;
    if (o->costs) {
        TRY(dial_costs_of(o->costs, &costs));
        costs.kept = true;
        f.costs = &costs;
    }
    bool scarce = o->memory > 0 || f.limit;
    int status = o->recompute_auto && scarce ? plan_auto(&f, out) : plan_within(&f, NULL, out);
    program_free(&f.planned);
    return status;
}
