/* schedule_search.c - schedule search: finds the schedule with the least bubble (idle time) within a memory limit.
 *
 * pipeline.c computes costs and bytes of the stages. try_all() runs a table of steps, each of which enumerates
 * candidates. A candidate is a priority rule and the pool sizes of all stages (how many micro-batches each stage may
 * hold). Pool sizes are usually a line: a linear function of the stage's number. Candidates that exceed the limit or
 * were tried before are skipped. The others are simulated, and the search stores the pool sizes that the simulation
 * really used. Lines are tried in large steps, then in small steps near the best line, and then the best pool sizes
 * are improved stage by stage. If the best schedule is still above the lower bound, a random walk (wander) uses the
 * rest of the budget. With one stage per device all lines are tried, so more memory hardly ever yields a slower
 * schedule. */
#include "actors/plan/sim/schedule_search.h"

#include "actors/plan/sim/pipeline.h"

#include "runtime/base/error.h"
#include "runtime/data/hash.h"
#include "runtime/data/str.h"

#include <stdlib.h>
#include <string.h>

struct candidate {
    uint8_t rule;
    struct prog_pool *pool;
    int64_t time, bytes;
    int32_t contexts;
};

struct search {
    struct arena arena, tmp;
    const struct program *program;
    struct stages stages;
    struct pipeline line;
    struct simulator *theatre; /* simulator of the pipeline `line` */
    struct pipeline_sim_rule rule[NRULE];
    const struct schedule_family *family;
    int64_t base;
    int64_t floor;         /* lower bound of the time of any schedule, ns */
    int32_t most_contexts; /* limit of contexts on a lane, in micro-batches; 0: none */
    int64_t most_bytes;
    struct hash_table tried;
    /* acts: number of acts simulated so far; most_acts: budget of acts, after which the search tries no further
     * candidate */
    int64_t acts, most_acts;
    /* true: the search minimises memory instead of time, because no schedule fits or the caller wants the least
     * memory */
    bool given_up;
    /* true: during the random walk. The walk needs candidates that are only as fast as the best one, so these are
     * simulated to their end, too, but not stored as the best */
    bool wanders;
    struct candidate best;
};

/* ---- bytes held ---- */

/* Returns the bytes on the fullest lane with these pool sizes. */
static int64_t
pool_bytes(const struct search *s, const struct prog_pool *pool)
{
    int64_t most = 0;
    for (int32_t lane = 0; lane < s->line.nlane; lane++) {
        int64_t bytes = 0;
        for (int32_t q = 0; q < s->line.n; q++)
            if (s->line.lane[q] == lane)
                bytes += pool[q].backward * s->line.bytes[q].backward + pool[q].weight * s->line.bytes[q].weight +
                         pool[q].behind * s->line.bytes[q].behind;
        most = MAX(most, bytes);
    }
    return most;
}

/* Returns the bytes that the schedule 1F1B holds on the fullest lane. Counts all stages of a lane as one stage:
 * lane k of n lanes holds n - k micro-batches. */
static int64_t
bytes_of_1f1b(struct search *s)
{
    const struct pipeline *l = &s->line;
    struct prog_pool *pool = ARENA_ARRAY(&s->arena, struct prog_pool, l->n);
    for (int32_t q = 0; q < l->n; q++) {
        int32_t n = MIN(l->pieces, l->nlane - l->lane[q]);
        pool[q] = (struct prog_pool){n, n, 1, 2};
    }
    return pool_bytes(s, pool);
}

/* ---- bubble ---- */

static int64_t
lane_work(const struct pipeline *l, int32_t lane)
{
    int64_t ns = 0;
    for (int32_t q = 0; q < l->n; q++)
        for (int a = 0; a < NACT && l->lane[q] == lane; a++) ns += l->cost[q][a];
    return ns * l->pieces;
}

/* Budget of a search, in simulated acts: about a second on one core. */
static const int64_t MOST_ACTS = 20000000;

static int
describe_schedule(struct search *s, struct program *p, const struct schedule_search_costs *costs)
{
    struct pipeline *l = &s->line;
    s->program = p;
    s->tried.arena = &s->arena;
    s->most_acts = MOST_ACTS;
    TRY(stages_find(&s->stages, p, &s->arena));
    pipeline_find(l, p, &s->stages, costs, &s->arena);
    s->base = bytes_of_1f1b(s);
    s->floor = pipeline_lower_bound(l);
    s->theatre = simulator_open(l, &s->arena);
    return 0;
}

static void
report_best(const struct search *s, struct schedule_search_result *out)
{
    const struct pipeline *l = &s->line;
    const struct candidate *c = &s->best;
    double work = 0;
    for (int32_t lane = 0; lane < l->nlane; lane++) work += (double)lane_work(l, lane);
    *out = (struct schedule_search_result){
        .time = (double)c->time, .bytes = c->bytes, .base = s->base, .contexts = c->contexts};
    double once = 0, again = 0;
    for (int32_t q = 0; q < l->n; q++) once += l->once[q], again += l->again[q];
    out->again = again / MAX(1, once);
    out->bubble = 1 - work / ((double)c->time * l->nlane);
}

/* ---- candidates ---- */

static void
make_rules(struct search *s)
{
    struct program p = *s->program;
    for (int r = 0; r < NRULE; r++) {
        p.rule = (uint8_t)r;
        s->rule[r] = pipeline_rule(&p, &s->stages, &s->arena);
    }
}

static bool
is_new(struct search *s, uint8_t rule, const struct prog_pool *pool)
{
    uint64_t hash = hash_number(0, rule);
    uint32_t at = 0;
    for (int32_t q = 0; q < s->line.n; q++)
        hash = hash_number(hash_number(hash, (uint64_t)(uint32_t)pool[q].backward << 32 | (uint32_t)pool[q].weight),
                           (uint64_t)(uint32_t)pool[q].behind);
    if (hash_next(&s->tried, hash, &at)) return false; /* two candidates with equal hashes count as equal */
    hash_add(&s->tried, hash, s);
    return true;
}

/* Returns true if candidate a is better than the best so far: faster, or equally fast with fewer bytes. If the
 * search minimises memory, fewer bytes count first, then less time. */
static bool
is_better_schedule(const struct search *s, const struct candidate *a)
{
    const struct candidate *b = &s->best;
    bool faster = a->time < b->time, smaller = a->bytes < b->bytes;
    if (b->time == 0) return true;
    return s->given_up ? smaller || (a->bytes == b->bytes && faster) : faster || (a->time == b->time && smaller);
}

static void
keep_schedule(struct search *s, const struct candidate *c)
{
    struct prog_pool *pool = s->best.pool ? s->best.pool : ARENA_ARRAY(&s->arena, struct prog_pool, s->line.n);
    memcpy(pool, c->pool, sizeof *pool * (size_t)s->line.n);
    s->best = *c;
    s->best.pool = pool;
}

static struct pipeline_sim_aim
aim_of(const struct search *s)
{
    const struct candidate *best = &s->best;
    struct pipeline_sim_aim aim = {INT64_MAX, INT64_MAX, s->floor, INT64_MAX, INT32_MAX};
    if (s->most_bytes) aim.most_bytes = s->most_bytes;
    if (s->most_contexts) aim.most_contexts = s->most_contexts;
    if (best->time && s->given_up) aim.most_bytes = best->bytes;
    if (best->time && !s->given_up) aim.time = best->time, aim.bytes = s->wanders ? INT64_MAX : best->bytes;
    return aim;
}

/* Budgets in simulated acts; an act takes about 35 ns. FEW_ACTS: after so many acts the search may stop if it has
 * reached the lower bound, and may leave out small steps; POLISH_ACTS: budget of polish(); WANDER_ACTS: budget of
 * wander(). */
static const int64_t FEW_ACTS = 1000000, POLISH_ACTS = 500000, WANDER_ACTS = 4000000;
static const uint64_t WANDER_DRAWS = 40000;

/* Returns true if the search may stop: the best time is proven optimal, and enough candidates were tried that might
 * take less memory. */
static bool
is_content(const struct search *s)
{
    return s->best.time == s->floor && !s->given_up && s->acts > FEW_ACTS;
}

/* Simulates a candidate, unless it was tried before or the budget is used up. Returns true if the schedule ran to
 * its end within the aim (aim_of). */
static bool
try_room(struct search *s, uint8_t rule, const struct prog_pool *pool)
{
    if (s->acts > s->most_acts || !is_new(s, rule, pool)) return false;
    arena_reset(&s->tmp);
    struct pipeline_sim_aim aim = aim_of(s);
    struct pipeline_sim_result r = {.peak = ARENA_ARRAY(&s->tmp, struct prog_pool, s->line.n)};
    pipeline_sim_run(s->theatre, &s->rule[rule], pool, &aim, &r);
    s->acts += r.acts;
    struct candidate c = {.rule = rule, .pool = r.peak, .time = r.time, .bytes = r.bytes, .contexts = r.contexts};
    if (c.time && is_better_schedule(s, &c)) keep_schedule(s, &c);
    return c.time > 0;
}

/* Constants for lines: pool sizes that are a linear function of the stage's number. PARTS: slope and base of a line
 * are counted in 1/PARTS of a micro-batch. SLOPES, BASES: largest slope and base. LARGE_STEP, SMALL_STEP: step
 * sizes of a search. FINE: slopes below FINE advance by 1. */
enum { PARTS = 24, SLOPES = 2 * PARTS, BASES = 2 * PARTS, LARGE_STEP = 2, SMALL_STEP = 1, FINE = PARTS / 2 };
/* Limits for weight gradients, which may run later than backward. LONG: no limit. SHORT: weight gradients may be
 * behind only as far as the pool from forward to backward permits. ALIKE: no limit, but the weight pools of all
 * stages are equal. ALIKE_SHORT: both. */
enum waiting { WAIT_LONG, WAIT_SHORT, WAIT_ALIKE, WAIT_ALIKE_SHORT, NWAIT };

/* Returns true if the pool sizes exceed a limit by more than half, so that a simulation is not worth its time.
 * Smaller excesses are simulated, because pools are rarely full at the same time. */
static bool
is_too_much(const struct search *s, const struct prog_pool *pool)
{
    for (int32_t lane = 0; lane < s->line.nlane; lane++) {
        int64_t n = 0, bytes = 0;
        for (int32_t q = 0; q < s->line.n; q++) {
            if (s->line.lane[q] != lane) continue;
            n += pool[q].backward;
            bytes += pool[q].backward * (s->line.bytes[q].backward + s->line.bytes[q].weight);
        }
        if (s->most_contexts && 2 * n > 3 * s->most_contexts) return true;
        if (s->most_bytes && bytes > 3 * (s->most_bytes / 2)) return true;
    }
    return false;
}

/* Tries one line of pool sizes with all priority rules. Returns true if a candidate is the new best. */
static bool
try_line(struct search *s, int32_t slope, int32_t base, enum waiting wait)
{
    int32_t n = s->line.n, m = s->line.pieces;
    int64_t time = s->best.time, bytes = s->best.bytes;
    if (is_content(s)) return false;
    struct prog_pool *pool = must_alloc(sizeof *pool * (size_t)n);
    for (int32_t q = 0; q < n; q++) {
        int32_t room = MAX(1, (int32_t)MIN(m, ((int64_t)(n - 1 - q) * slope + base + PARTS - 1) / PARTS));
        int32_t weight = wait >= WAIT_ALIKE && q > 0 && !s->line.joint[q] ? pool[0].backward : room;
        pool[q] = (struct prog_pool){room, weight, wait % 2 ? weight - room + 1 : m, m};
    }
    for (uint8_t rule = RULE_DEEP; rule <= (s->stages.nchunk > 1 ? RULE_LEAN : RULE_BACK); rule++)
        if (!is_too_much(s, pool)) try_room(s, rule, pool);
    free(pool);
    return s->best.time != time || s->best.bytes != bytes;
}

/* A capped line, for schedules like zb-v: pool sizes that are linear in the stage's number, but at most `most`.
 * behind: number of micro-batches by which weight gradients may be behind backward; more: additional places in the
 * weight pool. */
struct cap {
    int32_t slope, base, most, behind, more;
};

/* Tries a capped line with the rules for schedules like zb-v. Returns true if a candidate is the new best. */
static bool
try_cap(struct search *s, const struct cap *c)
{
    int32_t n = s->line.n, v = s->stages.nchunk;
    int64_t time = s->best.time, bytes = s->best.bytes;
    if (is_content(s)) return false;
    struct prog_pool *pool = must_alloc(sizeof *pool * (size_t)n);
    for (int32_t q = 0; q < n; q++) {
        int64_t line = ((int64_t)(n - 1 - q) * c->slope + c->base + PARTS * v - 1) / (PARTS * v);
        int32_t room = (int32_t)MAX(1, MIN(c->most, line));
        pool[q] = (struct prog_pool){room, MIN(c->most, room + c->more), c->behind, s->line.pieces};
    }
    for (uint8_t rule = RULE_EVEN; rule <= RULE_INNER; rule++)
        if (!is_too_much(s, pool)) try_room(s, rule, pool);
    free(pool);
    return s->best.time != time || s->best.bytes != bytes;
}

/* Step sizes of the search near the best capped line, in 1/PARTS of a micro-batch. */
enum { CAP_SLOPE_STEP = PARTS / 6, CAP_BASE_STEP = PARTS / 2 };

/* Tries capped lines in large steps, then climbs from the best one in small steps. */
static void
try_caps(struct search *s)
{
    static const struct cap small[] = {
        {.slope = CAP_SLOPE_STEP}, {.base = CAP_BASE_STEP}, {.most = 1}, {.behind = 1}, {.more = 1}};
    int32_t p = s->line.nlane, m = s->line.pieces;
    struct cap best = {0}, c;
    for (c.most = MIN(m, p / 2 + 1); c.most <= MIN(m, p + 3); c.most++)
        for (c.slope = PARTS / 2; c.slope <= 3 * PARTS; c.slope += PARTS / 2)
            for (c.base = 0; c.base <= 4 * PARTS; c.base += PARTS)
                for (c.behind = 1; c.behind <= 3; c.behind++)
                    for (c.more = 0; c.more <= 1; c.more++)
                        if (try_cap(s, &c)) best = c;
    for (bool better = best.most > 0; better;) {
        better = false;
        for (size_t k = 0; k < 2 * countof(small); k++) {
            const struct cap *by = &small[k / 2];
            int32_t sign = k % 2 ? -1 : 1;
            c = (struct cap){best.slope + sign * by->slope, best.base + sign * by->base, best.most + sign * by->most,
                             best.behind + sign * by->behind, best.more + sign * by->more};
            if (c.slope < 0 || c.base < 0 || c.most < 1 || c.behind < 1 || c.more < 0 || !try_cap(s, &c)) continue;
            best = c;
            better = true;
        }
    }
}

/* A range of lines, that is, of slopes and bases of pool sizes, in 1/PARTS of a micro-batch. Slopes below FINE
 * advance by 1, larger slopes by `step`. */
struct line_range {
    int32_t slope, base, last_slope, last_base, step;
};

/* Tries all lines in a range, each with all limits for weight gradients. If a candidate is the new best, sets
 * *slope and *base to its line and returns true. */
static bool
try_range(struct search *s, struct line_range r, int32_t *slope, int32_t *base)
{
    bool better = false;
    for (int wait = 0; wait < NWAIT; wait++)
        for (int32_t a = MAX(0, r.slope); a <= r.last_slope; a += a < FINE ? 1 : r.step)
            for (int32_t b = MAX(0, r.base); b <= r.last_base; b += 2 * r.step) {
                if (!try_line(s, a, b, (enum waiting)wait)) continue;
                better = true;
                *slope = a;
                *base = b;
            }
    return better;
}

/* Tries lines near the best one in small steps, as long as a better line is found. */
static void
refine(struct search *s, int32_t slope, int32_t base)
{
    enum { FAR = 2 };
    struct line_range r;
    do {
        r = (struct line_range){slope - FAR, base - 2 * FAR, slope + FAR, base + 2 * FAR, SMALL_STEP};
    } while (try_range(s, r, &slope, &base));
}

enum { NPOOL = 3 }; /* number of pools of a stage: backward, weight, behind */

/* Returns a pointer to the size of pool k of a stage. */
static int32_t *
pool_size(struct prog_pool *of, uint64_t k)
{
    int32_t *size[NPOOL] = {&of->backward, &of->weight, &of->behind};
    return size[k];
}

/* Adds or removes one micro-batch in one pool of the best schedule, for all pools in turn. Repeats this as long as
 * a better schedule is found. */
static void
polish(struct search *s)
{
    int32_t n = s->line.n;
    struct prog_pool *pool = must_alloc(sizeof *pool * (size_t)n);
    s->most_acts = s->acts + POLISH_ACTS;
    for (bool better = true; better;) {
        better = false;
        for (int32_t i = 0; i < 2 * NPOOL * n && s->acts < s->most_acts; i++) {
            int64_t time = s->best.time, bytes = s->best.bytes;
            memcpy(pool, s->best.pool, sizeof *pool * (size_t)n);
            int32_t *r = pool_size(&pool[i / (2 * NPOOL)], (uint64_t)(i / 2 % NPOOL));
            *r += i % 2 ? 1 : -1;
            if (*r < 1 || *r > s->line.pieces) continue;
            try_room(s, s->best.rule, pool);
            better = better || s->best.time != time || s->best.bytes != bytes;
        }
    }
    free(pool);
}

/* Changes one to three randomly chosen pool sizes by one micro-batch. */
static void
stray(struct search *s, struct prog_pool *pool, uint64_t draw)
{
    for (uint64_t k = 0; k <= draw % 3; k++) {
        uint64_t at = hash_number(draw, k);
        int32_t *r = pool_size(&pool[at % (uint64_t)s->line.n], (at >> 32) % NPOOL);
        *r = MIN(MAX(1, *r + ((at >> 40) % 2 ? 1 : -1)), s->line.pieces);
    }
}

/* Walks randomly from the best schedule: changes pool sizes by small amounts, and sometimes the priority rule. The
 * walk moves on to each schedule that takes no longer than the best. It helps because the best pool sizes depend on
 * how the last micro-batches of a step end, and a line seldom fits that. The random sequence is always the same. */
static void
wander(struct search *s)
{
    size_t bytes = sizeof(struct prog_pool) * (size_t)s->line.n;
    struct prog_pool *here = must_alloc(bytes), *pool = must_alloc(bytes);
    int64_t time = s->best.time, least = s->best.bytes;
    uint8_t rule = s->best.rule;
    memcpy(here, s->best.pool, bytes);
    s->wanders = true;
    s->most_acts = s->acts + WANDER_ACTS;
    for (uint64_t k = 0; k < WANDER_DRAWS && s->acts < s->most_acts && s->best.time > s->floor; k++) {
        uint64_t draw = hash_number(0, k);
        uint8_t other = draw % 16 ? rule : (uint8_t)(draw >> 8) % NRULE;
        memcpy(pool, here, bytes);
        stray(s, pool, draw >> 16);
        if (!try_room(s, other, pool)) continue;
        memcpy(here, pool, bytes);
        rule = other;
    }
    s->wanders = false;
    free(pool);
    free(here);
    if (s->best.time < time || s->best.bytes < least) polish(s);
}

/* Tries three slopes of pool sizes for devices with v stages that take turns. The slopes are such that each further
 * stage delays the return of a micro-batch by 2, 3 or 5 acts. That takes a third, a half or all of the memory of
 * 1F1B. */
static void
try_lags(struct search *s)
{
    static const int32_t lags[] = {2, 3, 5};
    int32_t slope = 0, base = 0;
    for (size_t k = 0; k < countof(lags); k++) {
        int32_t a = PARTS * lags[k] / (NACT * s->stages.nchunk);
        try_range(s, (struct line_range){a, 0, a, BASES, 2 * LARGE_STEP}, &slope, &base);
    }
    refine(s, slope, base);
}

static void
try_1f1b(struct search *s)
{
    try_line(s, PARTS, PARTS, WAIT_SHORT);
}

/* Tries pool sizes that hold all micro-batches, as in GPipe. */
static void
try_gpipe(struct search *s)
{
    try_line(s, 0, s->line.pieces * PARTS, WAIT_LONG);
}

static void
try_lines(struct search *s)
{
    int32_t slope = 0, base = 0;
    if (try_range(s, (struct line_range){1, 0, SLOPES, BASES, LARGE_STEP}, &slope, &base)) refine(s, slope, base);
}

/* Tries all lines (slope and base of the pool sizes) in small steps. If devices have several stages, stops when the
 * search has simulated FEW_ACTS acts in total. */
static void
try_fine_lines(struct search *s)
{
    int32_t slope, base;
    if (s->stages.nchunk > 1) s->most_acts = FEW_ACTS;
    try_range(s, (struct line_range){1, 0, SLOPES, BASES, SMALL_STEP}, &slope, &base);
}

/* Conditions for a step of the search. IF_CHUNKS: devices have several stages; IF_FOUND: a schedule was found;
 * IF_FASTEST: the search minimises time, not memory. */
enum { IF_CHUNKS = 1, IF_FOUND = 2, IF_FASTEST = 4 };

/* The steps of the search, in order. Each step tries candidates; the search keeps the best candidate. */
static const struct search_step {
    void (*run)(struct search *s);
    unsigned when;
} steps[] = {
    {try_1f1b, 0},  {try_lags, IF_CHUNKS}, {try_caps, IF_CHUNKS},          {try_lines, 0},
    {try_gpipe, 0}, {try_fine_lines, 0},   {polish, IF_CHUNKS | IF_FOUND}, {wander, IF_CHUNKS | IF_FOUND | IF_FASTEST},
};

static void
try_all(struct search *s)
{
    for (size_t k = 0; k < countof(steps); k++) {
        unsigned now =
            (s->stages.nchunk > 1 ? IF_CHUNKS : 0u) | (s->best.time ? IF_FOUND : 0u) | (s->given_up ? 0u : IF_FASTEST);
        if ((steps[k].when & ~now) == 0) steps[k].run(s);
    }
}

/* ---- named schedules ---- */

static bool
is_line_listed(const struct line *told, int32_t n, struct line at)
{
    for (int32_t k = 0; k < n; k++)
        if (told[k].line == at.line && !strcmp(told[k].file, at.file)) return true;
    return false;
}

/* Appends the source lines at which stages begin, without duplicates, for example "a.lua:3, a.lua:5". */
static void
print_schedule_lines(const struct program *p, const struct stages *s, struct str *text)
{
    enum { MOST = 8 };
    struct line told[MOST];
    for (int32_t q = 0, n = 0; q < s->n && n < MOST; q++) {
        int32_t i = 0;
        while (i < p->nnode && (s->stage[i] != q || s->phase[i] != PHASE_FORWARD || !p->node[i].line.file)) i++;
        if (i == p->nnode || is_line_listed(told, n, p->node[i].line)) continue;
        told[n] = p->node[i].line;
        str_addf(text, "%s%s:%d", n ? ", " : "", told[n].file, (int)told[n].line);
        n++;
    }
}

/* Adds the source lines at which stages begin to the error message about stages, and puts the first of these lines
 * before the message. */
static int
at_stages(const struct program *p, const struct stages *s, int status)
{
    struct str lines = {0};
    print_schedule_lines(p, s, &lines);
    const char *text = str_text(&lines);
    if (*text) {
        fail((enum err_code)status, "%s; stages begin at %s", err_text(), text);
        err_note("%.*s", (int)strcspn(text, ","), text);
    }
    str_free(&lines);
    return status;
}

/* Texts for errors: how a schedule family requires stages to be placed. */
static const char *const dealings[] = {
    [DEALT_ROUND_ROBIN] = "each placement two or more times, always in the same order (0 1 0 1)",
    [DEALT_THERE_AND_BACK] = "each placement twice, there and back (0 1 1 0)",
};

static bool
is_dealt(const struct search *s, enum stage_dealing dealing)
{
    const struct pipeline *l = &s->line;
    int32_t p = l->nlane;
    bool back = dealing == DEALT_THERE_AND_BACK;
    if (dealing == DEALT_ANYHOW) return true;
    bool good = l->n >= 2 * p && l->n % p == 0 && (!back || l->n == 2 * p);
    for (int32_t q = 0; good && q < l->n; q++) good = l->lane[q] == (back && q >= p ? l->n - 1 - q : q % p);
    return good;
}

/* Fails with E_ARG. The error states the placement of stages that the schedule requires, and the one that the user
 * chose (before stages are folded). */
static int
no_dealing(struct search *s)
{
    struct program p = *s->program;
    struct stages st;
    int32_t nlane;
    p.fold = false;
    TRY(stages_find(&st, &p, &s->arena));
    int32_t *lane = pipeline_lanes(&st, &nlane, &s->arena);
    struct str dealt = {0};
    for (int32_t q = 0; q < st.n && q < 16; q++) str_addf(&dealt, "%s%d", q ? " " : "", (int)lane[q]);
    fail(E_ARG,
         "graph: schedule %s needs %s, found stages on placements (%s%s); make each stage a module of its own, or move "
         "values from stage to stage with to_global",
         s->family->name, dealings[s->family->dealing], str_text(&dealt), st.n > 16 ? " ..." : "");
    str_free(&dealt);
    return at_stages(&p, &st, E_ARG);
}

/* Returns the largest number of micro-batches that one chunk of a device holds at once. A chunk is one of the
 * device's v stages. all: number of micro-batches that the device holds over all its chunks. Forward and backward
 * pass through the chunks in groups of p micro-batches. The function counts in the fifth round, which is in the
 * steady state. */
static int32_t
warmup_rounds(int32_t p, int32_t v, int32_t all, int32_t chunk)
{
    int32_t n = p * v, most = 0;
    for (int32_t i = 0; i < p; i++) {
        /* number of backward acts that the device has done, over all chunks */
        int32_t done = 4 * n + chunk * p + i + 1 - all;
        int32_t own = done / n * p + MIN(MAX(done % n - (v - 1 - chunk) * p, 0), p);
        most = MAX(most, 4 * p + i + 1 - own);
    }
    return most;
}

/* Tries the interleaved schedule (Narayanan et al. 2021), in which stages run groups of p micro-batches on p
 * devices. */
static void
try_rounds(struct search *s)
{
    int32_t n = s->line.n, p = s->line.nlane, v = s->stages.nchunk, m = s->line.pieces;
    struct prog_pool *pool = must_alloc(sizeof *pool * (size_t)n);
    for (int32_t q = 0; q < n; q++) {
        int32_t all = s->family->contexts(p, v, s->line.lane[q]);
        int32_t room = MIN(m, warmup_rounds(p, v, all, s->stages.chunk[q]));
        pool[q] = (struct prog_pool){room, room, 1, m};
    }
    try_room(s, RULE_ROUNDS, pool);
    free(pool);
}

static int64_t
bytes_wished(const struct search *s, const struct schedule_search_request *w)
{
    int64_t most = w->memory > 16 ? (int64_t)w->memory : (int64_t)(w->memory * (double)s->base);
    if (w->memory > 0) most = MAX(1, most); /* a limit of 0 would mean no limit */
    return most && w->most ? MIN(most, w->most) : MAX(most, w->most);
}

static int
search_schedules(struct search *s, const struct schedule_search_request *w)
{
    make_rules(s);
    s->most_bytes = bytes_wished(s, w);
    if (w->allowed) *w->allowed = s->most_bytes;
    if (!is_dealt(s, s->family->dealing)) return no_dealing(s);
    if (s->family->rounds) {
        try_rounds(s);
        return 0;
    }
    if (s->family->contexts) s->most_contexts = s->family->contexts(s->line.nlane, s->stages.nchunk, 0);
    try_all(s);
    return 0;
}

/* ---- interface ---- */

bool
schedule_search_knows(const char *name)
{
    const struct schedule_family *f = schedule_family(name);
    return f && !f->hidden;
}

bool
schedule_search_folds(const char *name)
{
    const struct schedule_family *f = schedule_family(name);
    return !f || !f->rounds;
}

/* Searches for the schedule with the least memory, whatever its time. */
static int
seek_least(struct search *s)
{
    s->given_up = true;
    s->acts = 0;
    s->most_acts = MOST_ACTS;
    s->tried = (struct hash_table){.arena = &s->arena};
    s->most_bytes = s->most_contexts = 0;
    try_all(s);
    return s->best.time
               ? 0
               : fail(E_PLAN, "graph: internal error: every schedule of the stages deadlocks; please report it");
}

/* Fails with E_MEMORY if even the schedule with the least memory does not fit. */
static int
no_schedule_fits(struct search *s, const struct schedule_search_request *w)
{
    struct schedule_search_result least;
    int64_t most = s->most_bytes;
    int32_t contexts = s->most_contexts;
    TRY(seek_least(s));
    if ((!most || s->best.bytes <= most) && (!contexts || s->best.contexts <= contexts)) return 0;
    report_best(s, &least);
    if (w->possible) *w->possible = least.bytes;
    double factor = s->base ? (double)least.bytes / (double)s->base : 1;
    fail(E_MEMORY,
         "graph: no schedule of %d stage%s and %d micro-batches keeps its activations within %lld byte%s per device "
         "(memory = %g); the least is %lld bytes, %.3g of 1F1B's, with %.0f %% idle",
         (int)s->line.n, s->line.n > 1 ? "s" : "", (int)s->line.pieces, (long long)most, most == 1 ? "" : "s",
         w->memory, (long long)least.bytes, factor, 100 * least.bubble);
    return at_stages(s->program, &s->stages, E_MEMORY);
}

static bool
comes_in_pieces(const struct program *p)
{
    for (int32_t i = 0; i < p->nnode; i++)
        if (p->node[i].piece) return true;
    return false;
}

static int
choose_schedule(struct search *s, struct program *p, const struct schedule_search_request *w)
{
    s->family = schedule_family(w->name);
    assert(s->family);
    p->rule = RULE_DEEP; /* RULE_DEEP gives the stages of a device different priorities */
    p->fold = schedule_search_folds(w->name);
    TRY(describe_schedule(s, p, w->costs ? w->costs : s->family->costs));
    if (!comes_in_pieces(p)) return 0;
    if (w->base && *w->base) s->base = *w->base;
    if (w->base) *w->base = s->base;
    if (w->least) make_rules(s);
    TRY(w->least ? seek_least(s) : search_schedules(s, w));
    if (!w->least && s->best.time == 0) TRY(no_schedule_fits(s, w));
    p->rule = s->best.rule;
    p->npool = s->line.n;
    p->pool = arena_dup(&p->arena, s->best.pool, sizeof *p->pool * (size_t)p->npool);
    return 0;
}

static void
search_fini(struct search *s)
{
    arena_fini(&s->tmp);
    arena_fini(&s->arena);
}

int
schedule_search_run(struct program *p, const struct schedule_search_request *wish)
{
    struct search s = {0};
    int status = p->pieces > 1 ? choose_schedule(&s, p, wish) : 0;
    search_fini(&s);
    return status;
}

bool
schedule_search_read(const struct program *p, const struct schedule_search_costs *costs,
                     struct schedule_search_result *out)
{
    struct search s = {0};
    struct program copy = *p;
    bool good = p->pieces > 1 && !describe_schedule(&s, &copy, costs) && s.line.n > 1;
    if (good) {
        make_rules(&s);
        uint8_t rule = p->rule;
        s.stages.pool = p->npool ? p->pool : s.stages.pool;
        try_room(&s, rule, s.stages.pool);
        good = s.best.time > 0;
        s.best.bytes = pool_bytes(&s, s.stages.pool);
    }
    if (good) report_best(&s, out);
    search_fini(&s);
    return good;
}
