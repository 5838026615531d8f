/* lower_bound.c - tests the lower bound of the time of schedules.
 *
 * For a lane, the bound must equal the largest time that any subset of its acts needs; all subsets are tried. For a
 * pipeline, no schedule may be faster than the bound, whatever the costs and placement of stages. The bound must
 * also equal known formulas for the best schedule. The test tries p = 2 to 16 devices, m = 1 to 64 micro-batches,
 * and v = 1, 2, 4 stages per device. */
#include "actors/plan/sim/lower_bound.h"
#include "actors/plan/sim/pipeline.h"
#include "t/lib/tap.h"

enum { MOST_STAGES = 64 };

/* ---- bounds of single lanes ---- */

/* Returns the largest bound over all subsets of acts. */
static int64_t
all_sets(const struct lower_bound_acts *acts, int n)
{
    int64_t most = 0;
    for (unsigned set = 1; set < 1u << n; set++) {
        int64_t head = INT64_MAX, work = 0, tail = INT64_MAX;
        for (int i = 0; i < n; i++) {
            if (!(set >> i & 1)) continue;
            head = MIN(head, acts[i].head);
            tail = MIN(tail, acts[i].tail);
            work += acts[i].work;
        }
        most = MAX(most, head + work + tail);
    }
    return most;
}

/* Tries all lanes of n acts. Each act has a head (time before it), work and a tail (time after it), each less than
 * `below`. */
static void
try_lanes(int n, int64_t below)
{
    struct lower_bound_acts acts[4];
    int64_t lanes = 1, wrong = 0;
    for (int i = 0; i < 3 * n; i++) lanes *= below;
    for (int64_t k = 0; k < lanes; k++) {
        int64_t digits = k;
        for (int i = 0; i < n; i++) {
            acts[i] = (struct lower_bound_acts){digits % below, digits / below % below, digits / below / below % below};
            digits /= below * below * below;
        }
        int64_t want = all_sets(acts, n);
        wrong += lower_bound_of_lane(acts, n) != want;
    }
    ok(wrong == 0, "%d acts, all numbers below %d: the bound of a lane is that of the worst subset of its acts", n,
       (int)below);
}

/* ---- bounds of pipelines ---- */

/* A pipeline whose stages are placed round robin or V-shaped. */
struct stage_plan {
    struct pipeline l;
    int32_t lane[MOST_STAGES];
    int64_t cost[MOST_STAGES][NACT];
    struct link link[2 * MOST_STAGES];
    bool joint[MOST_STAGES];
    struct stage_bytes bytes[MOST_STAGES];
    struct stage_turn turn[MOST_STAGES][NACT];
    struct prog_pool pool[MOST_STAGES], peak[MOST_STAGES];
    struct pipeline_sim_rule rule;
};

static void
deal(struct stage_plan *s, int p, int v, int m, bool back)
{
    *s = (struct stage_plan){0};
    s->l = (struct pipeline){.n = p * v,
                             .nlane = p,
                             .pieces = m,
                             .lane = s->lane,
                             .cost = s->cost,
                             .link = s->link,
                             .trained = true,
                             .joint = s->joint,
                             .bytes = s->bytes};
    s->joint[0] = true;
    s->rule = (struct pipeline_sim_rule){s->turn, 1, 1};
    for (int q = 0; q < p * v; q++) {
        s->lane[q] = back && q / p % 2 ? p - 1 - q % p : q % p;
        s->pool[q] = (struct prog_pool){m, m, m, m};
        for (int a = 0; a < NACT; a++) s->turn[q][a].first = (uint8_t)a;
        if (q) s->link[s->l.nlink++] = (struct link){q - 1, q};
    }
}

static void
give(struct stage_plan *s, int q, int64_t forward, int64_t backward, int64_t weight)
{
    s->cost[q][PHASE_FORWARD] = forward;
    s->cost[q][PHASE_BACKWARD] = s->joint[q] ? 0 : backward;
    s->cost[q][PHASE_WEIGHT] = weight + (s->joint[q] ? backward : 0);
}

static void
give_all(struct stage_plan *s, int64_t forward, int64_t backward, int64_t weight)
{
    for (int q = 0; q < s->l.n; q++) give(s, q, forward, backward, weight);
}

static int64_t
time_of(struct stage_plan *s)
{
    static const struct pipeline_sim_aim any = {INT64_MAX, INT64_MAX, 0, INT64_MAX, INT32_MAX};
    struct arena a = {0};
    struct pipeline_sim_result r = {.peak = s->peak};
    pipeline_sim_run(simulator_open(&s->l, &a), &s->rule, s->pool, &any, &r);
    arena_fini(&a);
    return r.time;
}

struct count {
    int tried, ended, above, nothing, below_work;
};

/* Simulates a schedule and compares the time with the bound. */
static void
check(struct stage_plan *s, struct count *c)
{
    int64_t floor = pipeline_lower_bound(&s->l), time = time_of(s), work[MOST_STAGES] = {0}, most = 0;
    for (int q = 0; q < s->l.n; q++)
        for (int a = 0; a < NACT; a++) work[s->lane[q]] += s->cost[q][a] * s->l.pieces;
    for (int k = 0; k < s->l.nlane; k++) most = MAX(most, work[k]);
    c->tried++;
    c->ended += time > 0;
    c->above += time > 0 && floor > time;
    c->nothing += most > 0 && floor <= 0;
    c->below_work += floor < most;
}

/* Varies the costs of stages, the latency, links that skip stages, and the limits of micro-batches in flight. */
static void
vary(struct stage_plan *s, uint64_t *rng, bool uneven)
{
    int n = s->l.n, m = s->l.pieces;
    s->l.hop = (int64_t)(next_random(rng) % 3) * 5;
    for (int q = 0; q < n; q++) {
        uint64_t bits = next_random(rng);
        give(s, q, uneven ? 1 + (int64_t)(bits % 20) : 10, uneven ? (int64_t)(bits >> 8) % 20 : 10,
             uneven ? (int64_t)(bits >> 16) % 20 : 10);
        int room = 1 + (int)((bits >> 24) % (uint64_t)m);
        if (bits >> 60)
            s->pool[q] = (struct prog_pool){room, MIN(m, room + (int)(bits >> 40 & 3)), 1 + (bits >> 50) % 3, m};
    }
    if (next_random(rng) % 2) return;
    for (int q = 0; q + 2 < n && s->l.nlink < 2 * n - 2; q += 2) s->link[s->l.nlink++] = (struct link){q, n - 1};
    for (int i = 1; i < s->l.nlink; i++)
        for (int k = i; k > 0 && s->link[k - 1].from > s->link[k].from; k--) {
            struct link x = s->link[k];
            s->link[k] = s->link[k - 1];
            s->link[k - 1] = x;
        }
}

static void
try_grid(uint64_t *rng)
{
    static struct stage_plan s;
    for (int v = 1; v <= 4; v *= 2) {
        struct count c = {0};
        for (int p = 2; p <= 16; p++)
            for (int m = 1; m <= 64; m++)
                for (int k = 0; k < 4; k++) {
                    deal(&s, p, v, m, k % 2);
                    vary(&s, rng, k / 2);
                    check(&s, &c);
                }
        diag("v = %d: %d pipelines, %d simulated to their end", v, c.tried, c.ended);
        ok(c.ended > c.tried / 2, "v = %d: most schedules end", v);
        ok(c.above == 0, "v = %d: no schedule is faster than the lower bound", v);
        ok(c.nothing == 0, "v = %d: the bound is not 0 if there is work", v);
        ok(c.below_work == 0, "v = %d: the bound is at least the work of each device", v);
    }
}

/* ---- known formulas ---- */

/* Simulates one stage per device with the pool sizes of lookahead 1. Acts run in the order forward, backward,
 * weight gradient. want: time by the schedule's formula. exact: the simulated time and the lower bound must equal
 * `want`; otherwise the time must be at most `want`. Returns true if this holds and no stage holds more than its
 * pools. */
static bool
keeps_lag(struct stage_plan *s, bool split, int64_t want, bool exact)
{
    int p = s->l.n, m = s->l.pieces;
    for (int q = 0; q < p; q++)
        s->pool[q] = (struct prog_pool){MIN(m, p - q), MIN(m, split ? p : p - q), split ? MIN(m, q + 1) : 1, m};
    int64_t time = time_of(s), floor = pipeline_lower_bound(&s->l);
    bool good = time >= floor && (exact ? time == want : time <= want) && (!exact || floor == want);
    for (int q = 0; q < p; q++)
        good = good && s->peak[q].backward <= s->pool[q].backward && s->peak[q].weight <= s->pool[q].weight &&
               (split || !exact || s->peak[q].weight == s->pool[q].weight);
    return good;
}

static void
try_lags(void)
{
    static struct stage_plan s;
    int joint = 0, apart = 0, split = 0, of = 0;
    for (int p = 2; p <= 16; p++)
        for (int m = 1; m <= 64; m++, of++) {
            int64_t full = 3 * (m + p - 1);
            deal(&s, p, 1, m, false);
            give_all(&s, 1, 2, 0);
            joint += keeps_lag(&s, false, full, true);
            give_all(&s, 1, 1, 1);
            apart += keeps_lag(&s, false, full, false);
            split += keeps_lag(&s, true, m >= p ? 3 * m + p - 1 : full, m >= p);
        }
    is_int(joint, of,
           "1f1b, B and W as one act: takes (m + p - 1) (F + B), the bound, with p - s micro-batches on stage s");
    is_int(apart, of, "1f1b, B and W as two acts: takes at most that");
    is_int(split, of,
           "zb-h1: takes m (F + B + W) + (p - 1) (F + B - W), the bound, if m >= p; else at most as long as 1f1b");
}

static void
try_formulas(void)
{
    static struct stage_plan s;
    for (int v = 1; v <= 4; v *= 2) {
        int joint = 0, apart = 0, forward = 0, round = 0, back = 0, hops = 0, kept = 0, of = 0;
        for (int p = 2; p <= 16; p++)
            for (int m = 1; m <= 64; m++, of++) {
                deal(&s, p, v, m, false);
                give_all(&s, 1, 2, 0);
                int64_t floor = pipeline_lower_bound(&s.l);
                joint += m % p || floor == 3 * (v * m + p - 1);
                kept += v > 1 || (floor == 3 * (m + p - 1) && time_of(&s) == floor);
                s.l.hop = 7;
                hops += v > 1 || pipeline_lower_bound(&s.l) == 3 * m + (p - 1) * (3 + 2 * 7);
                s.l.hop = 0;
                give_all(&s, 1, 1, 1);
                apart += m < p || pipeline_lower_bound(&s.l) == 3 * v * m + p - 1;
                s.l.trained = false;
                give_all(&s, 1, 0, 0);
                s.cost[0][PHASE_WEIGHT] = 0;
                forward += pipeline_lower_bound(&s.l) ==
                           (m >= p || v == 1 ? v * m + p - 1 : MAX(v * m + p - 1, p * v + m - 1));
                round += time_of(&s) >= pipeline_lower_bound(&s.l);
                deal(&s, p, v, m, true);
                give_all(&s, 1, 1, 1);
                back += m < 2 * p || pipeline_lower_bound(&s.l) == 3 * v * m + p - 1;
            }
        ok(joint == of, "v = %d: B and W as one act, p divides m: the bound is (v m + p - 1) (F + B)", v);
        ok(kept == of, "v = %d: GPipe reaches the bound with one stage per device", v);
        ok(hops == of, "v = %d: with latency c the bound is m (F + B) + (p - 1) (F + B + 2 c)", v);
        ok(apart == of, "v = %d: B and W as two acts, m >= p: the bound is v m (F + B + W) + (p - 1) F", v);
        ok(back == of, "v = %d: stages there and back, m >= 2 p: the same bound", v);
        ok(forward == of, "v = %d: forward only: the bound is (v m + p - 1) F, or all micro-batches through one stage",
           v);
        ok(round == of, "v = %d: forward only: no schedule is faster", v);
    }
}

int
main(void)
{
    uint64_t seed = seed_of(11);
    alarm(HANG);
    try_lanes(1, 12);
    try_lanes(2, 5);
    try_lanes(3, 3);
    try_lanes(4, 2);
    try_grid(&seed);
    try_lags();
    try_formulas();
    return done();
}
