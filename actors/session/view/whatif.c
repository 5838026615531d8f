/* whatif.c - plans a step for a cluster that does not exist: moves the step's program to a mesh of meta devices, and
 * plans it again. */
#include "actors/plan/compile.h"
#include "actors/session/build/build_node.h"
#include "actors/session/core/face.h"
#include "actors/session/planner/planned.h"
#include "actors/session/view/explain.h"

#include "actors/plan/model/plan.h"
#include "actors/plan/assign/predict.h"
#include "runtime/device/device.h"
#include "sbp/net/work.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Time limits of a search, and of computing regrets (costs above the best plan), ns of counted work (work.h). Both
 * together are short enough for an interactive user. On the step's own mesh, a search has the step's own time
 * limit. */
enum { SEARCH_NS = 300000000, REGRET_NS = 100000000 };
/* least bandwidth (bytes/s) and speed (operations/s) that are accepted, as in cost files */
enum { SLOWEST = 1000 };

struct cluster {
    struct rille_session *s;
    const struct rille_cluster *c;
    struct arena arena;
    int32_t nplace;
    const struct place **from, **to;
    bool free; /* the mesh has another number of axes than the step's, so all layouts are free */
    bool own;  /* the mesh is the step's own mesh */
};

static int
check_cluster(const struct rille_cluster *c)
{
    int64_t n = 1;
    if (c->naxis < 1 || c->naxis > MAX_AXIS)
        return fail(E_ARG, "whatif: a mesh must have 1 to %d axes, found %d", MAX_AXIS, c->naxis);
    for (int a = 0; a < c->naxis; a++) {
        if (c->mesh[a] < 1)
            return fail(E_ARG, "whatif: the size of a mesh axis must be at least 1, found %d", (int)c->mesh[a]);
        if ((n *= c->mesh[a]) > 1 << 24)
            return fail(E_ARG, "whatif: mesh must have at most %d devices, found at least %lld", 1 << 24, (long long)n);
        if (c->bandwidth[a] && !(c->bandwidth[a] >= SLOWEST))
            return fail(E_ARG, "whatif: bandwidth must be at least %d bytes/s, found %g", SLOWEST, c->bandwidth[a]);
        if (c->has_latency && !(c->latency[a] >= 0 && c->latency[a] <= 1))
            return fail(E_ARG, "whatif: latency must be from 0 to 1 second, found %g", c->latency[a]);
    }
    if (c->flops && !(c->flops >= SLOWEST))
        return fail(E_ARG, "whatif: flops must be at least %d per second, found %g", SLOWEST, c->flops);
    if (c->memory < 0) return fail(E_ARG, "whatif: memory must be above 0, found %lld", (long long)c->memory);
    return 0;
}

/* Creates a mesh of meta devices that is different from all meshes created for k so far. */
static int
storage_place(const struct cluster *k, const struct place **out)
{
    int32_t n = 1;
    for (int a = 0; a < k->c->naxis; a++) n *= k->c->mesh[a];
    int32_t *rank = must_alloc(sizeof *rank * (size_t)n);
    for (int32_t i = 0; i < n; i++) rank[i] = k->nplace * n + i;
    int status = place_new(k->s->atlas, DEV_META, k->c->naxis, k->c->mesh, rank, out);
    free(rank);
    return status;
}

/* Returns the mesh that replaces a placement. On the step's own mesh (own), that is the placement itself. Otherwise
 * it is a new mesh of meta devices, one for each placement of the step. */
static int
place_for(struct cluster *k, const struct place *p, const struct place **out)
{
    for (int32_t i = 0; i < k->nplace; i++)
        if (k->from[i] == p) {
            *out = k->to[i];
            return 0;
        }
    *out = p;
    if (!k->own) TRY(storage_place(k, out));
    const struct place **more = ARENA_ARRAY(&k->arena, const struct place *, 2 * (k->nplace + 1));
    for (int32_t i = 0; i < k->nplace; i++) {
        more[i] = k->from[i];
        more[k->nplace + 1 + i] = k->to[i];
    }
    k->from = more;
    k->to = more + k->nplace + 1;
    k->from[k->nplace] = p;
    k->to[k->nplace++] = *out;
    k->free = k->free || p->naxis != k->c->naxis;
    return 0;
}

static int
layout_for(struct cluster *k, const struct layout *l, const struct layout **out)
{
    const struct place *p;
    *out = NULL;
    if (!l) return 0;
    TRY(place_for(k, l->place, &p));
    if (l->place->naxis == k->c->naxis) return layout_new(k->s->atlas, p, l->sbp, l->order, out);
    *out = layout_broadcast(k->s->atlas, p);
    return 0;
}

static int
layouts_for(struct cluster *k, struct arena *a, int n, const struct layout *const *l, const struct layout *const **out)
{
    const struct layout **to = ARENA_ARRAY(a, const struct layout *, n + 1);
    for (int i = 0; i < n; i++) TRY(layout_for(k, l[i], &to[i]));
    *out = to;
    return 0;
}

static int
program_for(struct cluster *k, const struct program *p, struct program *q)
{
    *q = *p;
    q->arena = (struct arena){0};
    q->dry_run = true;
    q->node = arena_dup(&q->arena, p->node, sizeof *p->node * (size_t)p->nnode);
    q->leaf = arena_dup(&q->arena, p->leaf, sizeof *p->leaf * (size_t)p->nleaf);
    q->root = arena_dup(&q->arena, p->root, sizeof *p->root * (size_t)p->nroot);
    for (int32_t i = 0; i < q->nleaf; i++) TRY(layout_for(k, p->leaf[i].layout, &q->leaf[i].layout));
    for (int32_t i = 0; i < q->nnode; i++) {
        TRY(layouts_for(k, &q->arena, p->node[i].nin, p->node[i].want, &q->node[i].want));
        TRY(layouts_for(k, &q->arena, p->node[i].nout, p->node[i].layout, &q->node[i].layout));
    }
    for (int32_t i = 0; k->free && i < q->nnode; i++) {
        q->node[i].asked = false;
        q->node[i].strategy = NULL;
    }
    return 0;
}

/* Reuses the schedule that a search found for the step, if the number of stages is the same. The number may differ
 * because stages share devices on the new mesh. */
static int
schedule_for(const struct program *is, struct program *q)
{
    struct arena tmp = {0};
    struct stages s = {0};
    q->npool = 0;
    q->rule = is->rule;
    q->fold = is->fold;
    int status = is->npool ? stages_find(&s, q, &tmp) : 0;
    if (is->npool == s.n) {
        q->npool = is->npool;
        q->pool = is->pool;
    }
    arena_fini(&tmp);
    return status;
}

/* Sets the planner's options for the hypothetical cluster. The arrays in *o are allocated in k's arena. */
static void
options_for(struct cluster *k, struct rille_graph *g, struct program *q, struct assign_options *o)
{
    const struct rille_cluster *c = k->c;
    struct assign_leaf *leaf = ARENA_ARRAY(&k->arena, struct assign_leaf, q->nleaf + 1);
    struct assign_root *root = ARENA_ARRAY(&k->arena, struct assign_root, q->nroot + 1);
    struct assign_links *links = ARENA_NEW(&k->arena, struct assign_links);
    planned_freedom(g, q, -1, leaf, root);
    for (int32_t i = 0; k->free && i < q->nleaf; i++) leaf[i].free = leaf[i].follows < 0;
    for (int32_t i = 0; k->free && i < q->nroot; i++) root[i].fixed = false;
    for (int x = 0; x < c->naxis; x++) {
        links->alpha_ns[x] = c->has_latency ? c->latency[x] * 1e9 : q->cost.alpha_ns;
        links->beta_ns_per_byte[x] = c->bandwidth[x] > 0 ? 1e9 / c->bandwidth[x] : q->cost.beta_ns_per_byte;
    }
    const struct compute_rates *r = &k->s->devices.rates;
    double speed = c->flops > 0 ? c->flops * 1e-9 / r->flops_per_ns : 1;
    *o = (struct assign_options){.links = links, .leaf = leaf, .root = root, .stop = planned_is_late};
    o->searched = g->planning.searched && !q->npool;
    o->rates = (struct compute_rates){r->flops_per_ns * speed, r->bytes_per_ns * speed, r->act_ns, r->measured};
    q->cost.gamma_ns_per_byte /= speed;
    q->cost.copy_ns_per_byte /= speed;
}

static int
too_little(const struct cluster *k, const struct assign_least *least, const char *how)
{
    struct str proved = {0};
    /* the search counts devices of all stages as one device, so the bound is divided by the number of placements */
    int64_t floor = (least->floor + k->nplace - 1) / k->nplace;
    if (floor) str_addf(&proved, "none needs less than %lld, and ", (long long)floor);
    int status =
        fail(E_PLAN, "whatif: memory: no plan found fits in %lld byte%s per device; %sthe least found needs %lld, %s",
             (long long)k->c->memory, k->c->memory == 1 ? "" : "s", str_text(&proved), (long long)least->bytes, how);
    str_free(&proved);
    return status;
}

static bool
is_least_known(const struct least_found *m, const struct rille_cluster *c)
{
    return m->choice && m->naxis == c->naxis && !memcmp(m->mesh, c->mesh, sizeof *m->mesh * (size_t)m->naxis);
}

/* Returns the bytes of a plan that the planner's count lacks; negative if the count is too high. Exact for a
 * compiled plan; otherwise the scratch memory alone. */
static int64_t
beside(const struct assigned *a)
{
    return a->held ? a->held - a->peak : a->scratch;
}

static void
keep_least(struct least_found *m, const struct rille_cluster *c, const struct assigned *a)
{
    int64_t bytes = a->peak + beside(a);
    if (is_least_known(m, c) && m->bytes <= bytes) return;
    free(m->choice);
    *m = (struct least_found){.naxis = c->naxis, .bytes = bytes, .counted = a->solved.peak, .nchoice = a->net.nnode};
    memcpy(m->mesh, c->mesh, sizeof *m->mesh * (size_t)m->naxis);
    m->choice = must_alloc(sizeof *m->choice * (size_t)m->nchoice);
    memcpy(m->choice, a->solved.choice, sizeof *m->choice * (size_t)m->nchoice);
}

static const struct program *
traced(const struct rille_graph *g)
{
    return g->planning.assigned ? g->planning.traced : graph_program(g);
}

/* Returns true if all nodes of the step are on this mesh, and no schedule is to be searched. */
static bool
is_own(const struct rille_graph *g, const struct rille_cluster *c)
{
    const struct program *p = traced(g);
    bool same = !g->planning.searched;
    for (int32_t i = 0; i < p->nnode && same; i++) {
        const struct place *at = p->node[i].layout[0]->place;
        same = at->naxis == c->naxis && !memcmp(at->axis, c->mesh, sizeof c->mesh[0] * (size_t)c->naxis);
    }
    return same;
}

/* Sets the layouts from which a search starts: under a memory limit, the layouts of the smallest plan found; else
 * the step's present layouts. */
static void
begin_with(const struct cluster *k, const struct rille_graph *g, int64_t within, struct assign_options *o)
{
    bool met = within && is_least_known(&g->planning.least, k->c);
    if (met || (k->own && g->planning.assigned)) {
        o->known = met ? g->planning.least.choice : g->planning.assigned->solved.choice;
        o->nknown = met ? g->planning.least.nchoice : g->planning.assigned->net.nnode;
    }
}

/* Compiles the plan on the step's own mesh, and measures its memory. */
static int
measure(struct cluster *k, struct rille_graph *g, const struct program *q, struct assigned *a)
{
    struct plan *plan;
    struct program *p = program_copy(q);
    p->dry_run = traced(g)->dry_run;
    planned_land(g, p);
    TRY(plan_compile(p, k->s->atlas, &plan));
    planned_measure(a, plan);
    plan_free(&plan);
    return 0;
}

/* Searches once for layouts of at most `within` bytes without scratch memory (0: no limit). E_PLAN: no layouts
 * were found; *least: receives the known bounds of the memory that layouts need. */
static int
lay_out(struct cluster *k, struct rille_graph *g, struct planned_clock *clock, enum solve_mode mode, int64_t within,
        struct program *q, struct assigned **out, struct assign_least *least)
{
    struct assign_options o;
    *least = (struct assign_least){0};
    TRY(program_for(k, traced(g), q));
    TRY(schedule_for(graph_program(g), q));
    options_for(k, g, q, &o);
    o.mode = mode;
    o.memory_limit = within;
    o.least = least;
    o.arg = clock;
    begin_with(k, g, within, &o);
    TRY(planned_end(clock, assign_layouts(q, k->s->atlas, &o, out)));
    TRY(k->own ? measure(k, g, q, *out) : plan_scratch(q, &(*out)->scratch));
    TRY(predict(q, *out));
    keep_least(&g->planning.least, k->c, *out);
    return 0;
}

static bool
keeps(const struct cluster *k, int64_t bytes)
{
    return !k->c->memory || bytes <= k->c->memory;
}

static bool
is_kept(const struct cluster *k, const struct rille_graph *g)
{
    return is_least_known(&g->planning.least, k->c) && keeps(k, g->planning.least.bytes);
}

/* Fails because no plan fits the limit. Reports the smallest plan found so far, with scratch memory. If no plan
 * was found, reports the least memory of any layouts that the search knows, without scratch memory. */
static int
refuse(const struct cluster *k, const struct rille_graph *g, const struct assign_least *least)
{
    struct assign_least all = *least;
    if (!is_least_known(&g->planning.least, k->c)) return too_little(k, least, "without scratch memory of kernels");
    all.bytes = g->planning.least.bytes;
    return too_little(k, &all, "with scratch memory of kernels");
}

/* Searches for the best plan within the memory limit. First searches without a limit, for a part of the time. If
 * the plan found fits the limit, it is also best within the limit, and the search without a limit gets the rest of
 * the time. If it does not fit, each further search has a lower limit: scratch memory is known only for given
 * layouts, so the limit is reduced by the scratch memory of the last plan. E_PLAN: no layouts were found; *known:
 * bounds of the least memory of any layouts, from the last search. */
static int
search_within(struct cluster *k, struct rille_graph *g, struct planned_clock *clock, struct program *q,
              struct assigned **out, struct assign_least *known)
{
    enum { TURNS = 6 };
    int64_t limit = k->c->memory, within = 0, end = clock->until;
    for (int turn = 0; turn < TURNS; turn++) {
        int64_t left = end - work_done();
        clock->until = turn == 1 && within == 0 ? end : end - (turn ? left / 2 : limit ? left * 3 / 4 : 0);
        TRY(lay_out(k, g, clock, SOLVE_OPTIMAL, within, q, out, known));
        bool open = !turn && limit && (*out)->solved.bound < (*out)->solved.cost;
        bool kept = keeps(k, (*out)->peak + beside(*out));
        /* bytes that the search counts on this device although they are on devices of other stages */
        int64_t others = (*out)->solved.peak - (*out)->peak;
        if (kept && !open) {
            clock->until = end;
            return 0;
        }
        if (!kept && within && limit <= beside(*out)) break;
        if (!kept) within = within ? MIN(within - 1, limit - beside(*out) + others) : limit + others;
        assigned_free(out);
        arena_fini(&q->arena);
    }
    *known = (struct assign_least){0};
    return E_PLAN;
}

/* Searches within the limit. If no plan is found, searches for the least memory, with additional time. Then the
 * plan of the second search, or a plan found before, may fit. */
static int
lay_within(struct cluster *k, struct rille_graph *g, struct planned_clock *clock, struct program *q,
           struct assigned **out)
{
    struct assign_least known, again;
    int status = search_within(k, g, clock, q, out, &known);
    if (status != E_PLAN || !(known.bytes || is_least_known(&g->planning.least, k->c))) return status;
    for (int turn = 0; turn < 2; turn++) {
        err_clear();
        assigned_free(out);
        arena_fini(&q->arena);
        if (is_kept(k, g)) return lay_out(k, g, clock, SOLVE_GREEDY, g->planning.least.counted, q, out, &again);
        if (turn || !known.bytes) break;
        *clock = planned_clock(k->s, SEARCH_NS);
        status = lay_out(k, g, clock, SOLVE_OPTIMAL, known.bytes, q, out, &again);
        if (status == E_CANCEL) return status;
    }
    return refuse(k, g, &known);
}

int
rille_graph_whatif(struct rille_graph *g, const struct rille_cluster *cluster, struct rille_explain **out)
{
    struct rille_cluster copy, *c = &copy;
    TRY(face_graph(g, __func__));
    TRY(face_options(cluster, UP_TO(rille_cluster, memory), sizeof copy, &copy, __func__));
    TRY(face_given(out, "out", __func__));
    TRY(check_cluster(c));
    struct cluster k = {.s = g->s, .c = c};
    struct program q = {0};
    struct assigned *a = NULL;
    struct box_cost was = g->s->devices.cost;
    k.own = is_own(g, c);
    struct planned_clock clock = planned_clock(g->s, k.own ? MAX(SEARCH_NS, g->planning.search_ns) : SEARCH_NS);
    planned_call(g->s);
    int status = lay_within(&k, g, &clock, &q, &a);
    clock.until = MIN(clock.until, work_done() + REGRET_NS);
    if (!status) status = assign_regret(a, planned_is_late, &clock);
    status = planned_end(&clock, status);
    g->s->devices.cost = q.cost;
    if (!status) status = explain_program(g->s, &q, a, g->origin, out);
    g->s->devices.cost = was;
    assigned_free(&a);
    arena_fini(&q.arena);
    arena_fini(&k.arena);
    return build_settle(g->s, status);
}
