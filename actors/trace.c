/* trace.c - compiled steps: a function's calls, recorded once and run many times.
 *
 * Between begin and end calls add nodes and nothing runs. What the function
 * changed - variables, gradients - is kept in a journal, so that afterwards (or
 * after a failure) everything is as before; the changes become results of the
 * plan. Each leaf of the program knows where its bytes come from at every call:
 * an argument, a variable's present version, a gradient, or a value that was
 * captured as it was.
 *
 * With micro-batches the arguments stand for one piece; a gradient is summed
 * over the pieces where it is deposited, and all after that happens once. */
#include "actors/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct journal_entry {
    struct rille_tensor *t; /* held */
    struct val *val;        /* held */
    struct rille_tensor *grad; /* held, or NULL */
    bool had_grad;
};

struct trace {
    struct rille_graph_options options;
    int32_t pieces, lag, nin;
    struct val **input; /* held */
    struct journal_entry *journal;
    int32_t njournal, room;
};

enum place_kind { FROM_INPUT, FROM_VARIABLE, FROM_GRADIENT, FROM_VALUE };
struct origin {
    enum place_kind kind;
    int32_t input;
    struct rille_tensor *t; /* held: the variable, or whose gradient */
    struct val *val;        /* held: FROM_VALUE */
};
struct outcome {
    enum place_kind kind; /* FROM_INPUT: a result, number `input` */
    int32_t input;
    struct rille_tensor *t; /* held */
};
struct presence {
    struct rille_tensor *t; /* held */
    bool had, has;          /* a gradient before and after */
};

struct rille_graph {
    struct rille_session *s;
    struct runner *runner;
    uint64_t epoch;
    int32_t nin, nout, nleaf, nroot, nnumber, npresence;
    struct type *in_type;
    const struct layout **in_layout;
    struct origin *origin;   /* by leaf */
    struct outcome *outcome; /* by root */
    struct number *number;
    struct presence *presence;
    struct rille_stats stats;
    struct act_time *act; /* of the last run */
    int32_t *act_thread;
    int64_t nact, act_room, begin_ns;
    char *trace_path;
    struct arena arena;
};

/* ---- while tracing ---- */

bool
tracing(const struct rille_session *s)
{
    return s->trace && !s->paused;
}

bool
rille_tracing(const struct rille_session *s)
{
    return tracing(s);
}

bool
rille_trace_pause(struct rille_session *s, bool pause)
{
    bool was = s->paused;
    s->paused = pause;
    return was;
}

int
trace_pieces(const struct rille_session *s)
{
    return tracing(s) ? s->trace->pieces : 1;
}

int
trace_refuses(struct rille_session *s, const char *what)
{
    if (!tracing(s)) return 0;
    return fail(E_STATE, "%s inside a graph: its values exist only when the compiled step runs; return the tensor instead",
                what);
}

bool
trace_per_piece(const struct val *v)
{
    return v->input >= 0 || (v->node && v->node->per_piece && !v->node->accumulate);
}

int
trace_classify(struct rille_session *s, struct node *n)
{
    n->traced = 1;
    if (s->trace->pieces == 1) return 0;
    n->per_piece = n->op->flags & OP_RANDOM ? 1 : 0;
    for (int i = 0; i < n->nin; i++) {
        const struct val *v = n->in[i];
        if (!v) continue;
        if (trace_per_piece(v)) n->per_piece = 1;
        else if (v->node && (v->node->accumulate || v->node->after)) n->after = 1;
    }
    if (n->per_piece && n->op->flags & OP_UPDATE)
        return fail(E_PLAN, "%s: a value that differs from micro-batch to micro-batch enters an update, which happens once "
                            "a batch", n->name);
    if (n->per_piece && n->after)
        return fail(E_PLAN, "%s: mixes a value of one micro-batch with one that is known only after all of them", n->name);
    return 0;
}

int
trace_accumulate(struct rille_session *s, struct val *v, struct val **out)
{
    *out = v;
    if (!tracing(s) || s->trace->pieces == 1 || !trace_per_piece(v)) return 0;
    TRY(build_to_global(s, v, v->layout, out));
    (*out)->node->accumulate = 1;
    return 0;
}

void
trace_journal(struct rille_session *s, struct rille_tensor *t)
{
    struct trace *r = s->trace;
    if (!tracing(s) || t->journal >= 0) return;
    if (r->njournal == r->room) {
        r->room = r->room ? 2 * r->room : 32;
        r->journal = must_realloc(r->journal, sizeof(*r->journal) * (size_t)r->room);
    }
    t->journal = r->njournal;
    struct journal_entry *e = &r->journal[r->njournal++];
    *e = (struct journal_entry){ .t = rille_hold(t), .val = t->val, .had_grad = t->grad != NULL };
    val_hold(e->val);
    if (t->grad) e->grad = rille_hold(t->grad);
}

/* ---- begin, abort ---- */

static int
schedule_lag(const struct rille_graph_options *o, int32_t *lag)
{
    const char *name = o->schedule ? o->schedule : "1f1b";
    *lag = 1;
    if (!strcmp(name, "1f1b")) *lag = o->lag > 0 ? o->lag : 1;
    else if (!strcmp(name, "gpipe")) *lag = 0;
    else if (!strcmp(name, "zb-h1") || !strcmp(name, "zb-h2"))
        return fail(E_ARG, "graph: schedule \"%s\" splits the backward pass, which this version does not do; there are "
                           "\"1f1b\" and \"gpipe\"", name);
    else return fail(E_ARG, "graph: there is no schedule \"%s\"; there are \"1f1b\" and \"gpipe\"", name);
    return 0;
}

static int
check_options(const struct rille_graph_options *o)
{
    if (o->split_backward) return fail(E_ARG, "graph: split_backward is not in this version");
    if (o->auto_parallel) return fail(E_ARG, "graph: auto_parallel is not in this version");
    if (o->recompute) return fail(E_ARG, "graph: recompute is not in this version");
    if (o->zero) return fail(E_ARG, "graph: zero = %d is not in this version", o->zero);
    if (o->micro_batches < 0) return fail(E_ARG, "graph: micro_batches is %d", o->micro_batches);
    return 0;
}

/* The type of one piece: every shard must divide, so that it is cut where it lies. */
static int
piece_type(const struct trace *r, int i, const struct val *v, struct type *out)
{
    *out = v->type;
    if (r->pieces == 1) return 0;
    if (v->type.ndim == 0 || v->type.dim[0] % r->pieces)
        return fail(E_SHAPE, "graph: argument %d has %lld rows, which micro_batches = %d does not divide", i + 1,
                    (long long)(v->type.ndim ? v->type.dim[0] : 1), (int)r->pieces);
    out->dim[0] /= r->pieces;
    for (int pos = 0; pos < v->layout->place->nrank; pos++) {
        struct type all = layout_shard(v->layout, &v->type, pos), one = layout_shard(v->layout, out, pos);
        if (all.dim[0] != one.dim[0] * r->pieces)
            return fail(E_SHAPE, "graph: argument %d: the %lld rows on rank %d are not divided by micro_batches = %d", i + 1,
                        (long long)all.dim[0], (int)v->layout->place->rank[pos], (int)r->pieces);
    }
    return 0;
}

static void
trace_fini(struct rille_session *s)
{
    struct trace *r = s->trace;
    for (int32_t i = 0; i < r->njournal; i++) {
        struct journal_entry *e = &r->journal[i];
        e->t->journal = -1;
        tensor_rebind(e->t, e->val);
        rille_free(&e->t->grad);
        e->t->grad = e->grad;
        val_drop(s->graph, &e->val);
        rille_free(&e->t);
    }
    for (int32_t i = 0; i < r->nin; i++) val_drop(s->graph, &r->input[i]);
    free(r->input);
    free(r->journal);
    free(r);
    s->trace = NULL;
    s->paused = false;
}

int
rille_trace_begin(struct rille_session *s, const struct rille_graph_options *o, int nin, struct rille_tensor *const *in,
                  struct rille_tensor **piece)
{
    int32_t lag;
    if (s->trace) return fail(E_STATE, "graph: a graph is called while another one is being traced");
    TRY(check_options(o));
    TRY(schedule_lag(o, &lag));
    struct trace *r = must_alloc(sizeof *r);
    r->options = *o;
    r->pieces = MAX(1, o->micro_batches);
    r->lag = lag;
    r->input = must_alloc(sizeof(*r->input) * (size_t)(nin + 1));
    struct type *type = must_alloc(sizeof(*type) * (size_t)(nin + 1));
    int status = 0;
    for (int i = 0; !status && i < nin; i++) status = piece_type(r, i, in[i]->val, &type[i]);
    if (status) {
        free(type);
        free(r->input);
        free(r);
        return status;
    }
    s->trace = r;
    for (int i = 0; i < nin; i++) {
        struct val *v = graph_leaf(s->graph, &type[i], in[i]->val->layout, NULL);
        v->input = (int16_t)i;
        val_hold(v);
        r->input[r->nin++] = v;
        piece[i] = tensor_new(s, v, false);
    }
    free(type);
    return 0;
}

void
rille_trace_abort(struct rille_session *s)
{
    if (!s->trace) return;
    trace_fini(s);
    build_settle(s, 0);
}

/* ---- end: the compiled step ---- */

static int
scaled(struct rille_session *s, struct val *v, double f, struct val **out)
{
    struct val *in[2] = { v, build_number(s, false, f, 0) }, *res[OP_OUT];
    TRY(build_call(s, op_find("mul"), 2, in, NULL, NULL, res));
    *out = res[0];
    return 0;
}

/* A result: a scalar is averaged over the pieces, another joined. */
static int
result_value(struct rille_session *s, struct val *v, struct val **out, bool *join)
{
    *out = v;
    *join = false;
    if (v->input >= 0) TRY(build_to_global(s, v, v->layout, out));
    if (!trace_per_piece(*out) || s->trace->pieces == 1) return 0;
    if (v->type.ndim > 0) {
        *join = true;
        return 0;
    }
    TRY(scaled(s, *out, 1.0 / s->trace->pieces, out));
    return trace_accumulate(s, *out, out);
}

/* What the trace gives: results first, then variables and gradients that it changed. */
struct yield {
    struct val **val;
    struct outcome *outcome;
    bool *join;
    int32_t n;
};

static int
yields(struct rille_session *s, int nout, struct rille_tensor *const *out, struct yield *y)
{
    const struct trace *r = s->trace;
    for (int i = 0; i < nout; i++) {
        TRY(result_value(s, out[i]->val, &y->val[y->n], &y->join[y->n]));
        y->outcome[y->n++] = (struct outcome){ .kind = FROM_INPUT, .input = i };
    }
    for (int32_t i = 0; i < r->njournal; i++) {
        const struct journal_entry *e = &r->journal[i];
        struct rille_tensor *g = e->t->grad;
        if (g && (!e->grad || g != e->grad)) {
            y->val[y->n] = g->val;
            y->outcome[y->n++] = (struct outcome){ .kind = FROM_GRADIENT, .t = e->t };
        }
    }
    for (int32_t i = 0; i < r->njournal; i++) {
        const struct journal_entry *e = &r->journal[i];
        if (e->t->val == e->val) continue;
        y->val[y->n] = e->t->val;
        y->outcome[y->n++] = (struct outcome){ .kind = FROM_VARIABLE, .t = e->t };
    }
    return 0;
}

/* Captured values that were not computed yet are computed now. */
static int
capture(struct rille_session *s, int n, struct val *const *root)
{
    struct collection *c = &s->collection;
    TRY(collect(s, n, root, COLLECT_TRACE));
    int32_t late = 0;
    struct val **v = must_alloc(sizeof(*v) * (size_t)(c->nleaf + 1));
    for (int32_t i = 0; i < c->nleaf; i++)
        if (!c->leaf[i]->store && c->leaf[i]->input < 0) v[late++] = c->leaf[i];
    int status = late ? session_eval(s, late, v) : 0;
    free(v);
    if (!status && late) status = collect(s, n, root, COLLECT_TRACE);
    return status;
}

static struct origin
origin_of(const struct rille_session *s, struct val *v)
{
    const struct trace *r = s->trace;
    if (v->input >= 0) return (struct origin){ .kind = FROM_INPUT, .input = v->input };
    for (int32_t i = 0; i < r->njournal; i++) {
        const struct journal_entry *e = &r->journal[i];
        if (e->val == v) return (struct origin){ .kind = FROM_VARIABLE, .t = rille_hold(e->t) };
        if (e->grad && e->grad->val == v) return (struct origin){ .kind = FROM_GRADIENT, .t = rille_hold(e->t) };
    }
    if (v->owner && v->owner->nref > 0 && v->owner->val == v)
        return (struct origin){ .kind = FROM_VARIABLE, .t = rille_hold(v->owner) };
    val_hold(v);
    return (struct origin){ .kind = FROM_VALUE, .val = v };
}

static struct program *
traced_program(struct rille_session *s, const struct yield *y)
{
    struct collection *c = &s->collection;
    struct program *p = collection_program(s, c);
    p->pieces = s->trace->pieces;
    p->lag = s->trace->lag;
    for (int32_t i = 0; i < c->nleaf; i++) p->leaf[i].piece = c->leaf[i]->input >= 0 && p->pieces > 1;
    for (int32_t k = 0; k < c->nroot; k++) {
        for (int32_t i = 0; i < y->n; i++)
            if (y->val[i] == c->root[k]) p->root[k].join = y->join[i];
    }
    return p;
}

/* Root k of the program is the value of yield of[k]; several yields may name one value. */
static void
graph_outcomes(struct rille_graph *g, const struct yield *y, const struct collection *c)
{
    g->outcome = ARENA_ARRAY(&g->arena, struct outcome, y->n + 1);
    g->nroot = y->n;
    for (int32_t i = 0; i < y->n; i++) {
        g->outcome[i] = y->outcome[i];
        if (g->outcome[i].t) rille_hold(g->outcome[i].t);
        for (int32_t k = 0; k < c->nroot; k++)
            if (c->root[k] == y->val[i] && g->outcome[i].kind != FROM_INPUT) g->outcome[i].input = k;
    }
}

static void
graph_sources(struct rille_graph *g, struct rille_session *s)
{
    const struct collection *c = &s->collection;
    const struct trace *r = s->trace;
    g->nleaf = c->nleaf;
    g->origin = ARENA_ARRAY(&g->arena, struct origin, c->nleaf + 1);
    for (int32_t i = 0; i < c->nleaf; i++) g->origin[i] = origin_of(s, c->leaf[i]);
    g->nnumber = c->nnumber;
    g->number = ARENA_ARRAY(&g->arena, struct number, c->nnumber + 1);
    for (int32_t i = 0; i < c->nnumber; i++) {
        g->number[i] = c->number[i]->number;
        if (g->number[i].kind == NUM_LIVE) g->number[i].live->nref++;
    }
    g->npresence = r->njournal;
    g->presence = ARENA_ARRAY(&g->arena, struct presence, r->njournal + 1);
    for (int32_t i = 0; i < r->njournal; i++)
        g->presence[i] = (struct presence){ rille_hold(r->journal[i].t), r->journal[i].had_grad,
                                            r->journal[i].t->grad != NULL };
}

static int
make_graph(struct rille_session *s, int nout, const struct yield *y, struct rille_graph **out)
{
    const struct trace *r = s->trace;
    struct plan *plan;
    TRY(capture(s, y->n, y->val));
    s->compiles++;
    struct collection *c = &s->collection;
    TRY(plan_compile(traced_program(s, y), s->atlas, &plan));
    struct rille_graph *g = must_alloc(sizeof *g);
    g->s = s;
    g->epoch = s->epoch;
    g->nin = r->nin;
    g->nout = nout;
    g->runner = runner_new(plan);
    g->in_type = ARENA_ARRAY(&g->arena, struct type, r->nin + 1);
    g->in_layout = ARENA_ARRAY(&g->arena, const struct layout *, r->nin + 1);
    for (int32_t i = 0; i < r->nin; i++) {
        g->in_type[i] = r->input[i]->type;
        if (r->pieces > 1) g->in_type[i].dim[0] *= r->pieces;
        g->in_layout[i] = r->input[i]->layout;
    }
    graph_sources(g, s);
    graph_outcomes(g, y, c);
    *out = g;
    return 0;
}

/* Results share a root when they are one value: which root result i is. */
static void
result_roots(struct rille_graph *g, const struct yield *y, const struct collection *c)
{
    for (int32_t i = 0; i < y->n; i++)
        for (int32_t k = 0; g->outcome[i].kind == FROM_INPUT && k < c->nroot; k++)
            if (c->root[k] == y->val[i]) {
                g->outcome[i].input = k;
                break;
            }
}

int
rille_trace_end(struct rille_session *s, int nout, struct rille_tensor *const *out, struct rille_graph **gp)
{
    int32_t most = nout + 2 * s->trace->njournal + 1;
    struct yield y = { .val = ARENA_ARRAY(&s->scratch, struct val *, most),
                       .outcome = ARENA_ARRAY(&s->scratch, struct outcome, most),
                       .join = ARENA_ARRAY(&s->scratch, bool, most) };
    *gp = NULL;
    int status = yields(s, nout, out, &y);
    bool paused = rille_trace_pause(s, true);
    if (!status) status = make_graph(s, nout, &y, gp);
    if (!status) result_roots(*gp, &y, &s->collection);
    rille_trace_pause(s, paused);
    trace_fini(s);
    return build_settle(s, status);
}

void
rille_graph_free(struct rille_graph **gp)
{
    struct rille_graph *g = *gp;
    *gp = NULL;
    if (!g) return;
    for (int32_t i = 0; i < g->nleaf; i++) {
        rille_free(&g->origin[i].t);
        val_drop(g->s->graph, &g->origin[i].val);
    }
    for (int32_t k = 0; k < g->nroot; k++) rille_free(&g->outcome[k].t);
    for (int32_t i = 0; i < g->npresence; i++) rille_free(&g->presence[i].t);
    for (int32_t i = 0; i < g->nnumber; i++)
        if (g->number[i].kind == NUM_LIVE) rille_live_free(&g->number[i].live);
    runner_free(&g->runner);
    arena_fini(&g->arena);
    free(g->act);
    free(g->act_thread);
    free(g->trace_path);
    free(g);
}

int
rille_graph_results(const struct rille_graph *g)
{
    return g->nout;
}

/* ---- calling it ---- */

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

bool
rille_graph_fits(const struct rille_graph *g, int nin, struct rille_tensor *const *in)
{
    const struct program *p = g->runner->plan->program;
    if (nin != g->nin || g->epoch != g->s->epoch) return false;
    for (int i = 0; i < nin; i++)
        if (!type_equal(&in[i]->val->type, &g->in_type[i]) || in[i]->val->layout != g->in_layout[i]) return false;
    for (int32_t i = 0; i < g->npresence; i++)
        if ((g->presence[i].t->grad != NULL) != g->presence[i].had) return false;
    for (int32_t i = 0; i < g->nleaf; i++) {
        const struct val *v = origin_value(&g->origin[i], in);
        if (!v || v->layout != p->leaf[i].layout) return false;
        if (g->origin[i].kind != FROM_INPUT && !type_equal(&v->type, &p->leaf[i].type)) return false;
    }
    return true;
}

static int
compute_leaves(struct rille_graph *g, struct rille_tensor *const *in)
{
    struct rille_session *s = g->s;
    int32_t n = 0;
    struct val **v = must_alloc(sizeof(*v) * (size_t)(g->nleaf + 1));
    int status = 0;
    for (int32_t i = 0; i < g->nleaf && !status; i++) {
        struct val *leaf = origin_value(&g->origin[i], in);
        if (leaf->torn) status = fail(E_STATE, "graph: variable %s was half written when a run failed; set it again first",
                                      g->origin[i].t && g->origin[i].t->name ? g->origin[i].t->name : "(without a name)");
        if (!leaf->store) v[n++] = leaf;
    }
    if (!status && n) status = session_eval(s, n, v);
    free(v);
    return status;
}

/* A variable's bytes may be written over when its handle alone needs them and no argument is the same. */
static bool
donates(const struct rille_graph *g, const struct outcome *o, int32_t leaf, int nin, struct rille_tensor *const *in)
{
    const struct origin *from = &g->origin[leaf];
    if (o->kind != FROM_VARIABLE || from->kind != FROM_VARIABLE || from->t != o->t) return false;
    const struct val *v = o->t->val;
    for (int i = 0; i < nin; i++)
        if (in[i]->val == v) return false;
    return v->keep == 1 && v->store->nref == 1;
}

/* A live number is asked once a call, however many operators read it. */
static int
bind_numbers(struct rille_graph *g)
{
    uint64_t *out = g->runner->run.number;
    for (int32_t i = 0; i < g->nnumber; i++) {
        int32_t same = i;
        for (int32_t k = 0; k < i && same == i && g->number[i].kind == NUM_LIVE; k++)
            if (g->number[k].live == g->number[i].live) same = k;
        if (same < i) out[i] = out[same];
        else TRY(number_bind(g->s, &g->number[i], &out[i]));
    }
    return 0;
}

static int
bind_graph(struct rille_graph *g, int nin, struct rille_tensor *const *in)
{
    struct runner *r = g->runner;
    const struct program *p = r->plan->program;
    TRY(compute_leaves(g, in));
    for (int32_t i = 0; i < g->nleaf; i++) r->leaf[i] = origin_value(&g->origin[i], in)->store;
    TRY(bind_numbers(g));
    memset(r->donate, 0, sizeof(*r->donate) * (size_t)p->nroot);
    for (int32_t i = 0; i < g->nroot; i++) {
        int32_t k = g->outcome[i].input;
        if (p->root[k].over >= 0 && r->plan->over[k])
            r->donate[k] = donates(g, &g->outcome[i], p->root[k].over, nin, in);
    }
    return 0;
}

static struct val *
root_value(struct rille_graph *g, int32_t k)
{
    const struct program *p = g->runner->plan->program;
    struct type t = ref_type(p, p->root[k].ref);
    if (p->root[k].join) t.dim[0] *= p->pieces;
    store_hold(g->runner->root[k]);
    return graph_leaf(g->s->graph, &t, ref_layout(p, p->root[k].ref), g->runner->root[k]);
}

/* The variable's new version; when it was written in place and nobody else looks at it, the version stays the same. */
static void
take_variable(struct rille_graph *g, struct rille_tensor *t, int32_t k)
{
    struct val *v = t->val;
    if (g->runner->donate[k] && v->hold == 1 && v->past == 0 && v->store == g->runner->root[k]) return;
    tensor_rebind(t, root_value(g, k));
}

static void
take_outcomes(struct rille_graph *g, struct rille_tensor **out)
{
    struct runner *r = g->runner;
    int n = 0;
    for (int32_t i = 0; i < g->nroot; i++) {
        const struct outcome *o = &g->outcome[i];
        if (o->kind == FROM_INPUT) {
            out[n++] = tensor_new(g->s, root_value(g, o->input), false);
        } else if (o->kind == FROM_VARIABLE) {
            take_variable(g, o->t, o->input);
        } else {
            rille_free(&o->t->grad);
            o->t->grad = tensor_new(g->s, root_value(g, o->input), true);
        }
    }
    for (int32_t i = 0; i < g->npresence; i++)
        if (!g->presence[i].has) rille_free(&g->presence[i].t->grad);
    for (int32_t k = 0; k < r->plan->program->nroot; k++) store_drop(&r->root[k]);
}

static void
mark_torn(struct rille_graph *g)
{
    const struct plan *p = g->runner->plan;
    for (int32_t i = 0; i < p->ntask; i++) {
        const struct task *t = &p->task[i];
        if (!t->updates || !actors_acted(g->runner->actors, i)) continue;
        for (int k = 0; k < t->nout; k++) {
            int32_t root = t->out[k].root >= 0 ? p->root_part[t->out[k].root].index : -1;
            if (root < 0 || !g->runner->donate[root]) continue;
            for (int32_t j = 0; j < g->nroot; j++)
                if (g->outcome[j].kind == FROM_VARIABLE && g->outcome[j].input == root) g->outcome[j].t->val->torn = 1;
        }
    }
}

static void keep_acts(struct rille_graph *g);

int
rille_graph_run(struct rille_graph *g, int nin, struct rille_tensor *const *in, struct rille_tensor **out)
{
    struct rille_session *s = g->s;
    TRY(trace_refuses(s, "calling a graph"));
    assert(nin == g->nin);
    TRY(bind_graph(g, nin, in));
    int status = runner_run(s, g->runner, true);
    if (status) {
        mark_torn(g);
        return status;
    }
    take_outcomes(g, out);
    keep_acts(g);
    if (!g->trace_path) return 0;
    char *path = g->trace_path;
    g->trace_path = NULL;
    status = rille_graph_trace(g, path);
    free(path);
    return status;
}

/* ---- what was measured ---- */

static void
device_stats(struct rille_graph *g)
{
    const struct plan *p = g->runner->plan;
    struct rille_stats *st = &g->stats;
    for (int d = 0; d < st->ndevice; d++) {
        struct pool *pool;
        struct rille_device_stats *dev = &st->device[d];
        dev->kind = device_kind_text(p->device[d].kind);
        dev->device = p->device[d].rank;
        dev->busy = 0;
        dev->bytes_in = dev->bytes_out = 0;
        if (!session_pool(g->s, p->device[d].kind, p->device[d].rank, &pool))
            dev->peak_memory = (int64_t)(pool_count(pool).peak_bytes);
    }
    for (int32_t i = 0; i < p->ntask; i++)
        if (p->task[i].device < st->ndevice)
            st->device[p->task[i].device].bytes_in += p->task[i].received * p->task[i].nact;
    for (int64_t i = 0; i < g->nact; i++) {
        int d = p->task[g->act[i].task].device;
        if (d < st->ndevice) st->device[d].busy += (double)(g->act[i].end - g->act[i].begin) * 1e-9;
    }
}

/* Bytes that others read of each device. */
static void
bytes_out(struct rille_graph *g)
{
    const struct plan *p = g->runner->plan;
    for (int32_t i = 0; i < p->ntask; i++) {
        const struct task *t = &p->task[i];
        for (int m = 0; m < t->nmove; m++)
            for (int f = 0; f < t->move[m].nfrom; f++) {
                const struct arg *a = &t->arg[t->move[m].from[f].arg];
                int d = -1;
                if (a->kind == ARG_REG) d = p->task[t->in[a->index].task].device;
                if (d < 0 || d == t->device || d >= g->stats.ndevice) continue;
                g->stats.device[d].bytes_out += view_numel(&t->move[m].from[f].view) *
                                                (int64_t)dtype_bytes(t->move[m].from[f].view.dtype) * t->nact;
            }
    }
}

static void
keep_acts(struct rille_graph *g)
{
    const struct plan *p = g->runner->plan;
    const struct act_time *acts;
    g->nact = 0;
    for (int t = 0; t < p->nthread; t++) {
        int64_t n = engine_acts(g->s->engine, t, &acts);
        if (g->nact + n > g->act_room) {
            g->act_room = 2 * (g->nact + n);
            g->act = must_realloc(g->act, sizeof(*g->act) * (size_t)g->act_room);
            g->act_thread = must_realloc(g->act_thread, sizeof(*g->act_thread) * (size_t)g->act_room);
        }
        memcpy(g->act + g->nact, acts, sizeof(*acts) * (size_t)n);
        for (int64_t i = 0; i < n; i++) g->act_thread[g->nact + i] = t;
        g->nact += n;
    }
    g->begin_ns = engine_begin_ns(g->s->engine);
    g->stats.step_time = (double)engine_elapsed_ns(g->s->engine) * 1e-9;
}

int
rille_graph_stats(const struct rille_graph *cg, struct rille_stats *out)
{
    struct rille_graph *g = (struct rille_graph *)cg;
    struct rille_stats *st = &g->stats;
    const struct plan *p = g->runner->plan;
    double busy = 0;
    st->ndevice = MIN(p->ndevice, (int)countof(st->device));
    device_stats(g);
    bytes_out(g);
    for (int d = 0; d < st->ndevice; d++) {
        busy += st->device[d].busy;
        st->device[d].idle = MAX(0.0, st->step_time - st->device[d].busy);
    }
    st->ideal = busy / p->nthread;
    st->bubble = st->step_time > 0 ? MAX(0.0, 1 - busy / (st->step_time * p->nthread)) : 0;
    *out = *st;
    return 0;
}

static void
json_text(FILE *f, const char *text)
{
    fputc('"', f);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') fputc('\\', f);
        if ((unsigned char)*text >= 32) fputc(*text, f);
    }
    fputc('"', f);
}

static void
write_act(const struct rille_graph *g, int64_t i, FILE *f)
{
    const struct act_time *a = &g->act[i];
    const struct task *t = &g->runner->plan->task[a->task];
    static const char *const phase[] = { "forward", "backward", "weight", "batch" };
    fprintf(f, ",\n{\"name\":");
    json_text(f, t->name);
    fprintf(f, ",\"cat\":\"%s\",\"ph\":\"X\",\"ts\":%.3f,\"dur\":%.3f,\"pid\":1,\"tid\":%d,\"args\":{\"piece\":%d,"
               "\"thread\":%d,\"line\":",
            phase[t->phase], (double)(a->begin - g->begin_ns) * 1e-3, (double)(a->end - a->begin) * 1e-3,
            (int)g->runner->plan->device[t->device].rank, (int)a->piece, (int)g->act_thread[i]);
    char line[512];
    snprintf(line, sizeof line, "%s:%d", t->line.file ? t->line.file : "", t->line.line);
    json_text(f, line);
    fprintf(f, "}}");
}

int
rille_graph_trace(struct rille_graph *g, const char *path)
{
    const struct plan *p = g->runner->plan;
    if (g->nact == 0) {
        free(g->trace_path);
        g->trace_path = strdup(path);
        return 0;
    }
    FILE *f = fopen(path, "w");
    if (!f) return fail(E_IO, "trace: %s cannot be written", path);
    fprintf(f, "{\"traceEvents\":[\n{\"name\":\"process_name\",\"ph\":\"M\",\"ts\":0,\"pid\":1,\"tid\":0,"
               "\"args\":{\"name\":\"rille\"}}");
    for (int d = 0; d < p->ndevice; d++)
        fprintf(f, ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"ts\":0,\"pid\":1,\"tid\":%d,\"args\":{\"name\":\"%s:%d\"}}",
                (int)p->device[d].rank, device_kind_text(p->device[d].kind), (int)p->device[d].rank);
    for (int64_t i = 0; i < g->nact; i++) write_act(g, i, f);
    fprintf(f, "\n],\"displayTimeUnit\":\"ms\"}\n");
    if (fclose(f)) return fail(E_IO, "trace: %s could not be written whole", path);
    return 0;
}

const struct program *
graph_program(const struct rille_graph *g)
{
    return g->runner->plan->program;
}

struct rille_session *
graph_session(const struct rille_graph *g)
{
    return g->s;
}

int
rille_graph_plan(struct rille_graph *g, bool physical, char **out)
{
    struct str s = { 0 };
    plan_print(g->runner->plan, physical, &s);
    *out = s.text;
    return 0;
}
