/* compiled.c - calls a compiled step: binds buffers, runs the plan, and sets the variables' new versions.
 *
 * A variable's new version overwrites the old version if nothing but the variable's handle needs the old bytes. In
 * this case the call allocates no buffer, and earlier bindings of buffers stay valid. */
#include "actors/plan/plan_print.h"
#include "actors/session/build/variable.h"
#include "actors/session/step/compiled.h"
#include "actors/plan/assign/assign.h"
#include "actors/session/build/build.h"
#include "actors/session/core/face.h"
#include "actors/session/core/tracer.h"
#include "actors/session/run/cluster_view.h"
#include "actors/session/run/collect.h"
#include "actors/session/run/remote.h"
#include "actors/session/run/run.h"
#include "actors/session/step/measure.h"
#include "actors/session/step/rows.h"
#include "actors/plan/model/program_bytes.h"

#include <stdlib.h>
#include <string.h>

int
face_graph(const struct rille_graph *g, const char *who)
{
    return g ? face_session(g->s, who) : fail(E_ARG, "%s: the graph is NULL", who);
}

static void
drop_sorted(struct rille_graph *g)
{
    for (int32_t i = 0; g->inputs.sorted && i < g->nleaf; i++) store_drop(&g->inputs.sorted[i]);
}

void
rille_graph_free(struct rille_graph **gp)
{
    if (face_given(gp, "the pointer to the graph", __func__) || (*gp ? face_graph(*gp, __func__) : 0)) return;
    struct rille_graph *g = *gp;
    *gp = NULL;
    if (!g) return;
    LIST_TAKE(g->s->handles.graphs, g);
    for (int32_t i = 0; i < g->nleaf; i++) {
        rille_tensor_free(&g->origin[i].t);
        val_drop(g->s->graph, &g->origin[i].val);
    }
    for (int32_t k = 0; k < g->noutcome; k++) rille_tensor_free(&g->outcome[k].t);
    for (int32_t i = 0; i < g->variables.ngradient; i++) rille_tensor_free(&g->variables.gradient[i].t);
    for (int32_t i = 0; i < g->variables.nvariable; i++) rille_tensor_free(&g->variables.variable[i].t);
    for (int32_t i = 0; i < g->numbers.nlive; i++) rille_live_free(&g->numbers.live[i]);
    rille_graph_free(&g->totals);
    runner_free(&g->runner);
    assigned_free(&g->planning.assigned);
    program_free(&g->planning.traced);
    segments_free(&g->inputs.segments);
    drop_sorted(g);
    arena_fini(&g->arena);
    free(g->times.act);
    free(g->times.act_thread);
    free(g->trace_path);
    free(g->planning.least.choice);
    free(g);
}

int
rille_graph_results(const struct rille_graph *g)
{
    if (face_graph(g, __func__)) return 0;
    return g->nout;
}

/* ---- calling a compiled step ---- */

static struct val *
origin_value(const struct origin *o, struct rille_tensor *const *in)
{
    switch (o->kind) {
    case FROM_INPUT: return in[o->input]->val;
    case FROM_VARIABLE: return o->t->val;
    case FROM_GRADIENT: return o->t->grad ? o->t->grad->val : NULL;
    default: return o->val;
    }
}

/* Returns true if argument i has the layout that the step reads, or if the call may convert it. */
static bool
lies_as_planned(const struct rille_graph *g, int i, const struct rille_tensor *t)
{
    return t->val->layout == g->inputs.layout[i] || (g->inputs.placed[i] && t->planned);
}

bool
rille_graph_is_stale(const struct rille_graph *g)
{
    return !face_graph(g, __func__) && g->generation != g->s->generation;
}

bool
rille_graph_reads(const struct rille_graph *g, int input)
{
    if (face_graph(g, __func__)) return false;
    for (int32_t i = 0; i < g->nleaf; i++)
        if (g->origin[i].kind == FROM_INPUT && g->origin[i].input == input) return true;
    return false;
}

bool
rille_graph_fits(const struct rille_graph *g, int nin, struct rille_tensor *const *in)
{
    if (face_graph(g, __func__) || face_tensors(g->s, nin, in, __func__)) return false;
    const struct program *p = g->runner->plan->program;
    if (nin != g->inputs.n || rille_graph_is_stale(g)) return false;
    for (int i = 0; i < nin; i++)
        if (!type_equal(&in[i]->val->type, &g->inputs.type[i]) || !lies_as_planned(g, i, in[i])) return false;
    for (int32_t i = 0; i < g->variables.ngradient; i++)
        if ((g->variables.gradient[i].t->grad != NULL) != g->variables.gradient[i].before) return false;
    for (int32_t i = 0; i < g->variables.nvariable; i++)
        if (g->variables.variable[i].t->requires_grad != g->variables.variable[i].requires_grad) return false;
    for (int32_t i = 0; i < g->nleaf; i++) {
        const struct origin *o = &g->origin[i];
        const struct val *v = origin_value(o, in);
        if (o->kind == FROM_INPUT) continue;
        if (!v || v->layout != p->leaf[i].layout || !type_equal(&v->type, &p->leaf[i].type)) return false;
    }
    return true;
}

static int
compute_leaves(struct rille_graph *g, struct rille_tensor *const *in)
{
    struct rille_session *s = g->s;
    int32_t n = 0;
    struct val **v = must_alloc(sizeof *v * (size_t)(g->nleaf + 1));
    int status = 0;
    for (int32_t i = 0; i < g->nleaf && !status; i++) {
        struct val *leaf = origin_value(&g->origin[i], in);
        status = val_readable(leaf);
        if (!leaf->store) v[n++] = leaf;
    }
    if (!status && n) status = session_eval(s, n, v);
    free(v);
    return status;
}

/* Returns the value that an outcome of the step replaces: the old version of a variable, or its old gradient.
 * NULL: the outcome replaces no value. */
static struct val *
replaced(const struct outcome *o)
{
    if (o->kind == TO_VARIABLE) return o->t->val;
    return o->kind == TO_GRADIENT && o->t->grad ? o->t->grad->val : NULL;
}

/* Computes the uncomputed values that read the variables, before the step replaces the variables' values. */
static int
release_replaced(struct rille_graph *g)
{
    struct val **v = must_alloc(sizeof *v * (size_t)(g->noutcome + 1));
    for (int32_t i = 0; i < g->noutcome; i++) v[i] = replaced(&g->outcome[i]);
    int status = session_release(g->s, g->noutcome, v);
    free(v);
    return status;
}

/* Returns true if the outcome is the new version of the variable or gradient that the leaf reads. */
static bool
replaces(const struct outcome *o, const struct origin *leaf)
{
    if (leaf->t != o->t) return false;
    return (o->kind == TO_VARIABLE && leaf->kind == FROM_VARIABLE) ||
           (o->kind == TO_GRADIENT && leaf->kind == FROM_GRADIENT);
}

/* Returns true if the outcome may overwrite the buffer of the leaf: nothing but the variable's handle needs the
 * buffer, and no argument of the call is that variable's value. A gradient that something else holds is not
 * overwritten. */
static bool
donates(const struct rille_graph *g, const struct outcome *o, int32_t leaf, int nin, struct rille_tensor *const *in)
{
    if (!replaces(o, &g->origin[leaf])) return false;
    if (o->kind == TO_GRADIENT && o->t->grad->nref > 1) return false;
    const struct val *v = replaced(o);
    for (int i = 0; i < nin; i++)
        if (in[i]->val == v) return false;
    return v->keep == 1 && v->store->nref == 1;
}

/* Reverts the first n live numbers. Their user functions had been called for this call, which then failed. */
static void
undo_numbers(struct rille_graph *g, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (g->numbers.live[i]->undo) g->numbers.live[i]->undo(g->numbers.live[i]->arg);
}

/* Calls the function of each live number once per step, even if several operators read the number. The functions are
 * called before buffers are bound, because a live number's function may change variables that the step does not
 * read. */
static int
ask_numbers(struct rille_graph *g, int nin, struct rille_tensor *const *in)
{
    int32_t n = 0;
    int status = 0;
    g->numbers.asking = true;
    for (; n < g->numbers.nlive && !status; n++)
        if (g->numbers.live[n]->fn(g->numbers.live[n]->arg, &g->numbers.live[n]->value))
            status = fail(E_VALUE, "a live number's function failed");
    g->numbers.asking = false;
    if (status)
        n--;
    else if (n && !rille_graph_fits(g, nin, in))
        status = fail(E_STATE, "a live number's function must not change values that its step reads");
    if (status) undo_numbers(g, n);
    return status;
}

/* Sorts the rows of arguments whose micro-batches are not contiguous. */
static int
sort_arguments(struct rille_graph *g, struct rille_tensor *const *in)
{
    const struct program *p = g->runner->plan->program;
    if (p->pieces == 1) return 0;
    if (!g->inputs.sorted) g->inputs.sorted = ARENA_ARRAY(&g->arena, struct store *, g->nleaf + 1);
    drop_sorted(g);
    for (int32_t i = 0; i < g->nleaf; i++) {
        if (g->origin[i].kind != FROM_INPUT || !p->leaf[i].piece) continue;
        const struct val *v = in[g->origin[i].input]->val;
        if (segments_in_order(&g->inputs.segments, v->layout, v->type.dim[0] / p->pieces)) continue;
        TRY(segments_sort(&g->inputs.segments, g->s, &v->type, v->layout, v->store, false, &g->inputs.sorted[i]));
        g->runner->leaf[i] = g->inputs.sorted[i];
    }
    return 0;
}

/* Restores the original row order of results that are joined from micro-batches. */
static int
sort_results(struct rille_graph *g)
{
    const struct program *p = g->runner->plan->program;
    for (int32_t k = 0; k < p->nroot; k++) {
        const struct layout *l = ref_layout(p, p->root[k].ref);
        struct type t = ref_type(p, p->root[k].ref);
        struct store *sorted;
        if (!p->root[k].join || segments_in_order(&g->inputs.segments, l, t.dim[0]) ||
            g->inputs.segments.bound[g->inputs.segments.n] != t.dim[0] * p->pieces)
            continue;
        t.dim[0] *= p->pieces;
        TRY(segments_sort(&g->inputs.segments, g->s, &t, l, g->runner->root[k], true, &sorted));
        store_drop(&g->runner->root[k]);
        g->runner->root[k] = sorted;
    }
    return 0;
}

/* Binds the leaves to the buffers of variables and arguments. */
static int
bind_leaves(struct rille_graph *g, struct rille_tensor *const *in)
{
    TRY(compute_leaves(g, in));
    for (int32_t i = 0; i < g->nleaf; i++) g->runner->leaf[i] = origin_value(&g->origin[i], in)->store;
    return sort_arguments(g, in);
}

static int
bind_graph(struct rille_graph *g, int nin, struct rille_tensor *const *in)
{
    struct runner *r = g->runner;
    const struct program *p = r->plan->program;
    if (g->numbers.asking) return fail(E_STATE, "a live number's function must not call a step that reads the number");
    if (g->s->cluster) TRY(remote_ready(g->s, r));
    TRY(ask_numbers(g, nin, in));
    int status = bind_leaves(g, in);
    if (status) {
        drop_sorted(g);
        undo_numbers(g, g->numbers.nlive);
        return status;
    }
    for (int32_t i = 0; i < g->numbers.nnumber; i++) number_bind(g->s, &g->numbers.number[i], &r->run.number[i]);
    g->s->random.ordinal += (uint64_t)g->numbers.nrandom;
    memset(r->donate, 0, sizeof(*r->donate) * (size_t)p->nroot);
    for (int32_t i = 0; i < g->noutcome; i++) {
        int32_t k = g->outcome[i].root;
        if (p->root[k].overwrites_leaf >= 0 && r->overwrites[k])
            r->donate[k] = donates(g, &g->outcome[i], p->root[k].overwrites_leaf, nin, in);
    }
    return 0;
}

static struct val *
outcome_value(struct rille_graph *g, const struct outcome *o)
{
    const struct program *p = g->runner->plan->program;
    int32_t k = o->root;
    struct type t = ref_type(p, p->root[k].ref);
    if (p->root[k].join) t.dim[0] *= p->pieces;
    store_hold(g->runner->root[k]);
    struct val *v = graph_leaf(g->s->graph, &t, ref_layout(p, p->root[k].ref), g->runner->root[k]);
    v->unplaced = o->unplaced;
    return v;
}

/* Sets the variable's new version. If the run overwrote the old bytes and nothing else holds the old version, the
 * version object is reused. */
static void
take_variable(struct rille_graph *g, const struct outcome *o)
{
    struct val *v = o->t->val;
    int32_t k = o->root;
    if (g->runner->donate[k] && v->hold == 1 && v->remembered == 0 && v->store == g->runner->root[k]) return;
    tensor_rebind(o->t, outcome_value(g, o));
}

static void
drop_step_roots(struct runner *r)
{
    for (int32_t k = 0; k < r->plan->program->nroot; k++) store_drop(&r->root[k]);
}

/* Makes the handle of a result. */
static int
take_result(struct rille_graph *g, const struct outcome *o, struct val *v, struct rille_tensor **out)
{
    struct attr attr[OP_ATTR];
    struct val *res[OP_OUT] = {build_fresh(g->s, v)};
    struct call_context ctx = g->s->context;
    int status = 0;
    ctx.grad = false;
    if (o->reduce) {
        op_attr_defaults(o->reduce, attr);
        attr[op_attr_find(o->reduce, "axis")] = (struct attr){.n = 1, .set = true};
        status = build_call(&ctx, o->reduce, 1, &v, attr, NULL, res);
    }
    if (!status) *out = tensor_new(g->s, res[0], false);
    return build_settle(g->s, status);
}

static int
take_outcomes(struct rille_graph *g, struct rille_tensor **out)
{
    int status = 0;
    struct runner *r = g->runner;
    int n = 0;
    for (int32_t i = 0; i < g->noutcome; i++) {
        const struct outcome *o = &g->outcome[i];
        if (o->kind == TO_RESULT) {
            if (!status) status = take_result(g, o, outcome_value(g, o), &out[n++]);
        } else if (o->kind == TO_VARIABLE) {
            take_variable(g, o);
        } else {
            rille_tensor_free(&o->t->grad);
            o->t->grad = tensor_new(g->s, outcome_value(g, o), true);
        }
    }
    for (int32_t i = 0; i < g->variables.ngradient; i++)
        if (!g->variables.gradient[i].after) rille_tensor_free(&g->variables.gradient[i].t->grad);
    drop_step_roots(r);
    return status;
}

/* Returns the results of a step on meta devices: types and layouts without values. */
static int
meta_outcomes(struct rille_graph *g, struct rille_tensor **out)
{
    const struct program *p = g->runner->plan->program;
    for (int32_t i = 0, n = 0; i < g->noutcome; i++) {
        if (g->outcome[i].kind != TO_RESULT) continue;
        struct ref r = p->root[g->outcome[i].root].ref;
        struct type t = ref_type(p, r);
        if (p->root[g->outcome[i].root].join) t.dim[0] *= p->pieces;
        struct val *v = graph_leaf(g->s->graph, &t, ref_layout(p, r), NULL);
        v->unplaced = g->outcome[i].unplaced;
        TRY(take_result(g, &g->outcome[i], v, &out[n++]));
    }
    return 0;
}

/* Marks variables and gradients that a failed run had begun to overwrite. */
static void
mark_half_traced(struct rille_graph *g)
{
    int32_t nroot = g->runner->plan->program->nroot;
    bool *began = must_alloc(sizeof *began * (size_t)(nroot + 1));
    runner_overwrote(g->runner, began);
    for (int32_t i = 0; i < g->noutcome; i++) {
        struct val *v = replaced(&g->outcome[i]);
        if (v && began[g->outcome[i].root]) v->half_written = 1;
    }
    free(began);
}

/* Converts "auto" arguments to the layouts that the planner chose. */
static int
place_arguments(const struct rille_graph *g, struct rille_tensor *const *in)
{
    for (int i = 0; i < g->inputs.n; i++) {
        if (!g->inputs.placed[i]) continue;
        if (!lies_as_planned(g, i, in[i]))
            return fail(E_STATE, "graph: argument %d is also another argument, which has another layout; pass a clone",
                        i + 1);
        if (in[i]->val->layout != g->inputs.layout[i]) TRY(tensor_place(in[i], g->inputs.layout[i]));
    }
    return 0;
}

int
rille_graph_run(struct rille_graph *g, int nin, struct rille_tensor *const *in, struct rille_tensor **out)
{
    TRY(face_graph(g, __func__));
    TRY(face_tensors(g->s, nin, in, __func__));
    TRY(face_given(out, "out", __func__));
    struct rille_session *s = g->s;
    TRY(trace_refuses(s, "calling a graph"));
    if (nin != g->inputs.n) return fail(E_ARG, "graph: expected %d arguments, found %d", (int)g->inputs.n, nin);
    if (g->meta) return meta_outcomes(g, out);
    TRY(place_arguments(g, in));
    if (g->totals) TRY(rille_graph_run(g->totals, nin, in, out));
    TRY(release_replaced(g));
    uint64_t ordinal = s->random.ordinal;
    TRY(bind_graph(g, nin, in));
    g->runner->run.rows = g->times.rows.nlane && !s->cluster ? &g->times.rows : NULL;
    int status = runner_run(s, g->runner, g->times.watched || g->times.ncall <= WARM_CALLS);
    g->times.ncall++;
    drop_sorted(g);
    if (!status && (status = sort_results(g))) drop_step_roots(g->runner);
    if (status) {
        s->random.ordinal = ordinal;
        undo_numbers(g, g->numbers.nlive);
        mark_half_traced(g);
        return status;
    }
    TRY(take_outcomes(g, out));
    measure_keep(g);
    if (g->times.ncall == WARM_CALLS) rows_make(g);
    if (!g->trace_path) return 0;
    char *path = g->trace_path;
    g->trace_path = NULL;
    status = g->write_trace(g, path);
    free(path);
    return status;
}

const struct program *
graph_program(const struct rille_graph *g)
{
    return g->runner->plan->program;
}

int
rille_graph_program(struct rille_graph *g, char **out, size_t *n)
{
    TRY(face_graph(g, __func__));
    TRY(face_given(out, "out", __func__));
    TRY(face_given(n, "n", __func__));
    struct str s = {0};
    program_write(g->runner->plan->program, &s);
    *out = s.text;
    *n = s.len;
    return 0;
}

int
rille_graph_plan(struct rille_graph *g, bool physical, char **out)
{
    TRY(face_graph(g, __func__));
    TRY(face_given(out, "out", __func__));
    struct str s = {0};
    struct cluster_view x;
    int n = cluster_view_count(g->runner), left = cluster_view_hosts(g->runner) - n, status = 0;
    for (int i = 0; i < n && !status; i++) {
        status = cluster_view_part(g->s, g->runner, i, &x);
        if (!status) plan_print(x.plan, physical, &s);
    }
    if (left > 0) str_addf(&s, "... and the partitions of %d more hosts\n", left);
    if (status) str_free(&s);
    *out = s.text;
    return status;
}
