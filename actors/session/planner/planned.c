/* planned.c - runs the planner on a step: finds the layouts that the planner may choose, and converts variables
 * to the chosen layouts. */
#include "actors/session/planner/planned.h"
#include "actors/session/step/measure.h"

#include "actors/plan/rewrite/offload.h"
#include "actors/plan/sim/schedule_search.h"
#include "actors/plan/assign/predict.h"
#include "actors/plan/rewrite/rewrite.h"
#include "actors/plan/rewrite/zero.h"
#include "actors/session/core/face.h"
#include "runtime/base/clock.h"
#include "runtime/file/disk/file.h"
#include "sbp/proof/proof.h"
#include "sbp/net/work.h"

#include <stdlib.h>
#include <string.h>

static const char *const mode_name[NSOLVE] = {
    [SOLVE_GREEDY] = "greedy",
    [SOLVE_PROPAGATE] = "propagate",
    [SOLVE_RECURSIVE] = "recursive",
    [SOLVE_OPTIMAL] = "optimal",
};

int
planned_mode(const char *name, enum solve_mode *out)
{
    for (int i = 0; i < NSOLVE; i++)
        if (!strcmp(name, mode_name[i])) {
            *out = (enum solve_mode)i;
            return 0;
        }
    return fail(
        E_ARG,
        "graph: auto_parallel must be \"optimal\" (true), \"propagate\", \"recursive\" or \"greedy\", found \"%s\"",
        name);
}

/* ---- finding the layouts that the planner may choose ---- */

int32_t
planned_leaf_behind(const struct program *p, struct ref r)
{
    while (r.kind == REF_NODE && p->node[r.index].op->flags & OP_MOVE) r = p->node[r.index].in[0];
    return r.kind == REF_LEAF ? r.index : -1;
}

/* Makes the layouts of an optimiser's state follow the layout of its parameter, if the planner may choose the
 * parameter's layout. The state consists of the variables of the parameter's shape that the parameter's update
 * reads. */
static void
follow_updates(const struct rille_graph *g, const struct program *p, struct assign_leaf *leaf)
{
    for (int32_t i = 0; i < p->nnode; i++) {
        const struct prog_node *n = &p->node[i];
        int32_t first = n->op->flags & OP_UPDATE && n->nin ? planned_leaf_behind(p, n->in[0]) : -1;
        if (first < 0 || !leaf[first].free) continue;
        for (int k = 1; k < n->nin; k++) {
            int32_t other = planned_leaf_behind(p, n->in[k]);
            if (other < 0 || other == first || leaf[other].free || leaf[other].follows >= 0) continue;
            if (g->origin[other].kind == FROM_VARIABLE && shape_equal(&p->leaf[other].type, &p->leaf[first].type))
                leaf[other].follows = first;
        }
    }
}

/* Returns the leaf that holds a variable's version before the step; -1: the step does not read the variable.
 * variables: leaves by variable. */
static int32_t
leaf_of(const struct rille_graph *g, const struct hash_table *variables, const struct rille_tensor *t)
{
    uint32_t at = 0;
    int32_t leaf = -1;
    for (const void *found; (found = hash_next(variables, hash_address(t), &at));)
        if (g->origin[hash_index_of(found)].t == t) leaf = MAX(leaf, hash_index_of(found));
    return leaf;
}

/* Sets the layouts of the step's results (roots). A variable's new version gets the variable's layout. Gradients
 * and results joined from micro-batches keep their traced layouts. */
static void
fix_roots(const struct rille_graph *g, const struct program *p, struct assign_root *root)
{
    struct hash_table variables = {0};
    for (int32_t j = 0; j < g->nleaf; j++)
        if (g->origin[j].kind == FROM_VARIABLE) hash_add(&variables, hash_address(g->origin[j].t), hash_index(j));
    for (int32_t k = 0; k < p->nroot; k++) root[k] = (struct assign_root){.leaf = -1, .fixed = p->root[k].join};
    for (int32_t i = 0; i < g->noutcome; i++) {
        const struct outcome *o = &g->outcome[i];
        int32_t k = o->root;
        if (o->kind == TO_RESULT) continue;
        if (o->kind == TO_GRADIENT) root[k].fixed = root[k].leaf < 0;
        int32_t leaf = o->kind == TO_VARIABLE ? leaf_of(g, &variables, o->t) : -1;
        if (leaf >= 0) root[k].leaf = leaf;
        if (o->kind == TO_VARIABLE && root[k].leaf < 0) root[k].fixed = true;
        if (root[k].leaf >= 0) root[k].fixed = false;
    }
    hash_free(&variables);
}

void
planned_freedom(const struct rille_graph *g, const struct program *p, int32_t also, struct assign_leaf *leaf,
                struct assign_root *root)
{
    for (int32_t i = 0; i < p->nleaf; i++)
        leaf[i] = (struct assign_leaf){.free = i == also || g->origin[i].free, .follows = -1};
    follow_updates(g, p, leaf);
    fix_roots(g, p, root);
}

/* Keeps a copy of the traced program for rille_graph_whatif(). */
static void
planned_keep(struct rille_graph *g, const struct program *p)
{
    program_free(&g->planning.traced);
    g->planning.traced = program_copy(p);
}

void
planned_call(struct rille_session *s)
{
    atomic_store(&s->interrupted, 0);
}

struct planned_clock
planned_clock(struct rille_session *s, int64_t ns)
{
    /* limit of computing time on a slow machine, as a multiple of the counted time */
    enum { SLOWER = 4 };
    return (struct planned_clock){s, work_done() + ns, computed_ns() + SLOWER * ns};
}

bool
planned_is_late(void *clock)
{
    const struct planned_clock *c = clock;
    return atomic_load(&c->s->interrupted) || work_done() > c->until || computed_ns() > c->late;
}

int
planned_end(const struct planned_clock *c, int status)
{
    return atomic_load(&c->s->interrupted) ? fail(E_CANCEL, "interrupted") : status;
}

/* Starts the search from the layouts chosen last, even if they were chosen under another memory limit. Keeps the
 * lower bound of the last search only if the last limit was at least as high, because only then the bound holds. */
static void
remember_bound(struct rille_graph *g, struct assign_options *a)
{
    if (!g->planning.assigned) return;
    const struct net *n = &g->planning.assigned->net;
    if (a->memory_limit && (!n->memory_limit || n->memory_limit >= a->memory_limit))
        a->bound = g->planning.assigned->solved.bound;
    a->nknown = n->nnode;
    a->known = arena_dup(&g->arena, g->planning.assigned->solved.choice, sizeof *a->known * (size_t)n->nnode);
}

/* Returns the time limit of the step's search, ns: at most 30 years; 1 s if the user gave no limit. */
static int64_t
time_limit_ns(const struct rille_graph_options *o)
{
    return (int64_t)((o->time_limit > 0 ? MIN(o->time_limit, 1e9) : 1) * 1e9);
}

/* Returns the time limit of a search, ns. Without any limit from the user, the modes "propagate" and "greedy" need
 * a search only for the bound, so their limit is 0.1 s. */
static int64_t
search_limit_ns(const struct rille_graph_options *o)
{
    enum { BOUND_NS = 100000000 };
    bool simple = !strcmp(o->auto_parallel, "propagate") || !strcmp(o->auto_parallel, "greedy");
    return simple && !o->memory_limit && !(o->time_limit > 0) ? BOUND_NS : time_limit_ns(o);
}

/* Estimate of the counted work (work.h) per program node of everything except the search (trace, prices,
 * compilation), ns. */
enum { MADE_NS = 50000 };

int
planned_assign(struct rille_graph *g, struct program *p, const struct rille_graph_options *o, int64_t limit, bool quick,
               struct assign_least *least)
{
    struct rille_session *s = g->s;
    struct planned_clock clock = planned_clock(s, search_limit_ns(o));
    g->planning.search_ns = time_limit_ns(o);
    work_add(p->nnode * MADE_NS);
    /* Leaves time for later searches, which follow if the plan exceeds the memory limit. A search without a limit
     * may use a quarter of the remaining time, a search with a limit 5/8. */
    if (o->memory_limit) clock.until -= MAX(0, clock.until - work_done()) * (limit ? 3 : 6) / 8;
    if (quick) clock.until = clock.late = INT64_MAX;
    struct assign_leaf *leaf = ARENA_ARRAY(&g->arena, struct assign_leaf, p->nleaf + 1);
    struct assign_root *root = ARENA_ARRAY(&g->arena, struct assign_root, p->nroot + 1);
    struct assign_options a = {.leaf = leaf, .root = root, .memory_limit = limit, .stop = planned_is_late};
    a.arg = &clock;
    a.proof = true;
    a.least = least;
    *least = (struct assign_least){0};
    a.quick = quick;
    a.searched = g->planning.searched = o->memory > 0 || (o->schedule && schedule_search_knows(o->schedule));
    if (!quick) remember_bound(g, &a);
    assigned_free(&g->planning.assigned);
    TRY(planned_mode(o->auto_parallel, &a.mode));
    if (quick) a.mode = SOLVE_OPTIMAL; /* a quick search looks for the least memory, which is the same in all modes */
    a.rates = s->devices.rates;
    planned_keep(g, p);
    planned_freedom(g, p, -1, leaf, root);
    int status = assign_layouts(p, s->atlas, &a, &g->planning.assigned);
    status = planned_end(&clock, status);
    if (status == E_CANCEL) *least = (struct assign_least){0};
    return status;
}

/* Returns an array by root (result of the program). If the step assigns the root to a variable, the entry is the
 * index of the variable's leaf; otherwise -1. */
static int32_t *
root_leaves(struct rille_graph *g, const struct program *p)
{
    struct assign_leaf *leaf = ARENA_ARRAY(&g->arena, struct assign_leaf, p->nleaf + 1);
    struct assign_root *root = ARENA_ARRAY(&g->arena, struct assign_root, p->nroot + 1);
    int32_t *of = ARENA_ARRAY(&g->arena, int32_t, p->nroot + 1);
    planned_freedom(g, p, -1, leaf, root);
    for (int32_t k = 0; k < p->nroot; k++) of[k] = root[k].leaf;
    return of;
}

int
planned_zero(struct rille_graph *g, struct program *p, int level)
{
    g->planning.sliced = true;
    return zero_layouts(p, g->s->atlas, level, root_leaves(g, p));
}

/* Returns an array by leaf: true if the leaf is a variable. */
static bool *
planned_variables(struct rille_graph *g, const struct program *p)
{
    bool *is = ARENA_ARRAY(&g->arena, bool, p->nleaf + 1);
    for (int32_t i = 0; i < p->nleaf; i++) is[i] = g->origin[i].kind == FROM_VARIABLE;
    return is;
}

/* Adds second gathers of sharded variables for backward, except for variables whose gathered value is kept. */
void
planned_gather(struct rille_graph *g, struct program *p, const struct rille_graph_options *o)
{
    bool *again = planned_variables(g, p);
    for (int32_t i = 0; i < p->nleaf; i++) again[i] = again[i] && !g->origin[i].t->keeps_gathered;
    offload_gather_again(p, again, o->prefetch);
}

void
planned_land(struct rille_graph *g, struct program *p)
{
    rewrite_land(p, root_leaves(g, p));
}

/* Rewrites the program to save memory. For backward, sharded variables that are read replicated are gathered a
 * second time (ZeRO 3), and values are offloaded. New versions that a move produces overwrite the old versions.
 * With a planner, planned_gather() has already added the gathers, because the planner must count them. */
int
planned_offload(struct rille_graph *g, struct program *p, const struct rille_graph_options *o)
{
    const bool *variable = planned_variables(g, p);
    const int32_t *root_leaf = root_leaves(g, p);
    if (!o->auto_parallel) planned_gather(g, p, o);
    g->planning.sliced = g->planning.sliced || o->offload;
    if (o->offload)
        TRY(offload_values(p, g->s->atlas, (const struct place *)o->offload, variable, root_leaf, o->prefetch));
    rewrite_land(p, root_leaf);
    return 0;
}

/* Returns true if the tensor of the leaf must be stored in the leaf's layout: a variable, or an argument with sbp =
 * "auto", whose layout the planner chooses. */
static bool
is_laid(const struct origin *o)
{
    return o->kind == FROM_VARIABLE || (o->kind == FROM_INPUT && o->free);
}

/* Checks that no tensor is needed in two layouts. A tensor may occur several times: as an argument and a
 * variable, or as two arguments. */
static int
lie_as_wanted(const struct rille_graph *g, const struct program *p)
{
    for (int32_t i = 0; i < g->nleaf; i++)
        if (is_laid(&g->origin[i]) && g->origin[i].t->val->layout != p->leaf[i].layout)
            return fail(E_STATE, "graph: an argument with sbp = \"auto\" is also another argument or a variable, and "
                                 "the planner needs it in two layouts; give it a layout");
    return 0;
}

/* Fixes the layout of an "auto" argument: later arguments at its position must have the same layout. */
static void
settle_argument(struct rille_graph *g, struct origin *o)
{
    g->inputs.layout[o->input] = o->t->val->layout;
    g->inputs.placed[o->input] = true;
    o->t->placed = true;
    o->t->planned = false;
    rille_tensor_free(&o->t);
}

int
planned_settle(struct rille_graph *g)
{
    if (!g->planning.assigned && !g->planning.sliced) return 0;
    const struct program *p = g->runner->plan->program;
    for (int32_t i = 0; i < g->nleaf; i++) {
        const struct origin *o = &g->origin[i];
        if (!is_laid(o) || o->t->val->layout == p->leaf[i].layout) continue;
        TRY(rille_tensor_relayout(o->t, (const struct rille_layout *)p->leaf[i].layout));
    }
    TRY(lie_as_wanted(g, p));
    for (int32_t i = 0; g->planning.assigned && i < g->nleaf; i++) {
        struct origin *o = &g->origin[i];
        if (o->kind == FROM_INPUT && o->free) settle_argument(g, o);
        if (o->kind != FROM_VARIABLE) continue;
        o->t->placed = o->t->placed || o->free;
        o->t->planned = false;
    }
    g->generation = g->s->generation;
    return 0;
}

/* ---- costs for rille_graph_explain() ---- */

int
planned_regret(struct rille_graph *g)
{
    const int64_t most = 2000000000; /* time limit for regrets, ns: short, because a user waits for them */
    struct planned_clock clock = planned_clock(g->s, MIN(g->planning.search_ns, most));
    if (!g->planning.assigned) return 0;
    planned_call(g->s);
    return assign_regret(g->planning.assigned, planned_is_late, &clock);
}

void
planned_measure(struct assigned *a, const struct plan *p)
{
    for (int d = 0; d < p->ndevice; d++) a->scratch = MAX(a->scratch, p->device[d].scratch_bytes);
    a->held = measure_held(p, NULL);
}

int
planned_told(struct rille_graph *g)
{
    if (!g->planning.assigned || !g->runner) return 0;
    TRY(predict(g->runner->plan->program, g->planning.assigned));
    planned_measure(g->planning.assigned, g->runner->plan);
    return 0;
}

struct assigned *
graph_assigned(struct rille_graph *g)
{
    return g->planning.assigned;
}

/* ---- writing and checking certificates of the planner ---- */

int
rille_graph_certify(struct rille_graph *g, const char *path)
{
    TRY(face_graph(g, __func__));
    TRY(face_given(path, "the path", __func__));
    if (!g->planning.assigned) return fail(E_STATE, "certify: the step was not planned: make it with auto_parallel");
    const struct box_cost *c = &g->s->devices.cost;
    const struct certify_with with[] = {
        {"alpha_ns", c->alpha_ns},
        {"beta_ns_per_byte", c->beta_ns_per_byte},
        {"gamma_ns_per_byte", c->gamma_ns_per_byte},
        {"copy_ns_per_byte", c->copy_ns_per_byte},
        {"hop_ns", c->hop_ns},
        {"flops_per_ns", g->s->devices.rates.flops_per_ns},
        {"bytes_per_ns", g->s->devices.rates.bytes_per_ns},
    };
    struct str text = {0};
    net_prove(&g->planning.assigned->arena, &g->planning.assigned->solved);
    certify(&g->planning.assigned->solved, countof(with), with, &text);
    int status = file_write("certify", path, str_text(&text), text.len);
    str_free(&text);
    return status;
}

enum { CERTIFICATE_BYTES = 1 << 30 };

int
rille_certificate_check(const char *path, char **said)
{
    TRY(face_given(path, "the path", __func__));
    TRY(face_given(said, "said", __func__));
    char *text;
    size_t n;
    struct str s = {0};
    TRY(file_read_text("certificate", path, CERTIFICATE_BYTES, &text, &n));
    int status = proof_check(text, n, &s);
    free(text);
    if (!status) return *said = s.text, 0;
    str_clear(&s);
    str_addf(&s, "certificate: %s: %s", path, err_text());
    fail((enum err_code)status, "%s", str_text(&s));
    str_free(&s);
    return status;
}
