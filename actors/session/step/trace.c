/* trace.c - records the calls of a function once, as a compiled step that can run many times.
 *
 * Between begin and end, calls add nodes but nothing runs. A journal keeps the state of variables and gradients
 * before the trace, so that trace_end() can restore this state, even after errors. Changes of variables and
 * gradients become results of the plan.
 *
 * With micro-batches, arguments stand for one micro-batch. A gradient is summed over the micro-batches when it
 * reaches its leaf. All later calls happen once per batch. */
#include "actors/session/step/trace.h"
#include "actors/plan/outline/stage.h"
#include "actors/session/build/build.h"
#include "actors/session/build/reuse.h"
#include "actors/session/core/face.h"
#include "actors/session/core/layouts.h"
#include "actors/session/core/tracer.h"
#include "actors/session/run/collect.h"
#include "actors/session/run/run.h"
#include "actors/session/batch/batch_calls.h"
#include "actors/session/batch/batch_numbers.h"
#include "actors/session/batch/batch_result.h"
#include "actors/session/batch/batch_share.h"
#include "actors/session/step/compiled.h"
#include "actors/session/batch/draws.h"
#include "actors/session/batch/microbatch.h"
#include "actors/session/step/schedules.h"
#include "actors/session/batch/segments.h"
#include "kernels/op/base/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct journal_entry {
    /* Each pointer holds a reference. t: a variable; val, grad: the variable's value and gradient before the trace
     * (grad NULL: none) */
    struct rille_tensor *t;
    struct val *val;
    struct rille_tensor *grad;
    bool had_grad;
};

/* A loss that depends on parameters alone, so it is the same for each micro-batch. */
struct unfed_loss {
    const struct place *place;
    struct line line;
};

/* A sum over the whole batch that is computed before the step (trace_total): `of` summed over the micro-batches. */
struct batch_total {
    /* of: a per-micro-batch value; sum: its sum over the batch. Both pointers hold references. */
    struct val *of, *sum;
    /* variable (by reference) through which the step reads the sum; a separate step writes it before each call */
    struct rille_tensor *t;
    /* order of computation: 0 if the sum depends on no other total; else 1 + the highest level of the totals on
     * which the sum depends */
    int32_t level;
};

struct trace {
    struct rille_graph_options options;
    int32_t pieces, lag, nin;
    bool split; /* weight gradients have credits of their own, so they may be delayed */
    /* segments into which shard boundaries cut the arguments' rows; micro-batch k is the k-th part of each segment */
    struct segments segments;
    struct val **input; /* values that stand for the arguments while the function is traced, by reference */
    /* by argument: the argument's tensor, by reference, if a planner may choose the layout; else NULL */
    struct rille_tensor **auto_input;
    struct journal_entry *journal;
    int32_t njournal, capacity;
    const struct place **fed; /* placements on which nodes run once per micro-batch, so data reaches them */
    int32_t nfed, fed_capacity;
    struct unfed_loss *unfed;
    int32_t nunfed, unfed_capacity;
    struct read_variable *variable; /* variables that the traced calls read */
    int32_t nvariable, variable_capacity;
    struct batch_total *total;
    int32_t ntotal, total_capacity;
    /* live numbers (values of user functions) that traced calls used, by reference; also those that no node reads */
    struct rille_live **ask;
    int32_t nask, ask_capacity;
};

/* ---- recording calls in a trace ---- */

bool
rille_planning(const struct rille_session *s)
{
    return rille_tracing(s) && s->trace.now->options.auto_parallel;
}

const struct rille_graph_options *
trace_options(const struct rille_session *s)
{
    return &s->trace.now->options;
}

static void
note_fed(struct trace *r, const struct place *place)
{
    for (int32_t k = 0; k < r->nfed; k++)
        if (r->fed[k] == place) return;
    GROW(r->fed, r->nfed + 1, r->fed_capacity);
    r->fed[r->nfed++] = place;
}

static void
note_loss(struct rille_session *s, const struct val *y)
{
    struct trace *r = s->trace.now;
    if (s->trace.pieces == 1 || trace_per_microbatch(y) || (y->node && (y->node->accumulate || y->node->after))) return;
    GROW(r->unfed, r->nunfed + 1, r->unfed_capacity);
    r->unfed[r->nunfed++] = (struct unfed_loss){y->layout->place, y->node ? y->node->line : s->context.at};
}

int
rille_live_ask(struct rille_live *l)
{
    TRY(face_given(l, "the live number", __func__));
    TRY(face_session(l->s, __func__));
    struct trace *r = l->s->trace.now;
    if (!r) return fail(E_STATE, "live: live numbers are read by the calls of a step, and no step is being traced");
    GROW(r->ask, r->nask + 1, r->ask_capacity);
    r->ask[r->nask++] = l;
    l->nref++;
    return 0;
}

/* Checks the losses that read no batch data. Such a loss is allowed as a regulariser, if other nodes on its
 * placement read batch data; otherwise it is an error. */
static int
all_fed(const struct trace *r)
{
    for (int32_t i = 0; i < r->nunfed; i++) {
        const struct unfed_loss *u = &r->unfed[i];
        bool fed = false;
        for (int32_t k = 0; k < r->nfed; k++) fed = fed || stages_meet(r->fed[k], u->place);
        if (fed) continue;
        struct str place = {0};
        place_print(u->place, &place);
        fail(E_ARG,
             "graph: the stage on %s receives no input: no argument of the step, divided by micro_batches = %d, "
             "reaches its loss",
             str_text(&place), (int)r->pieces);
        str_free(&place);
        if (u->line.file) err_note("%s:%d", u->line.file, u->line.line);
        return E_ARG;
    }
    return 0;
}

/* Records that a call reads the variable. */
static void
note_variable(struct trace *r, struct rille_tensor *t)
{
    if (t->was_read) return;
    t->was_read = true;
    GROW(r->variable, r->nvariable + 1, r->variable_capacity);
    r->variable[r->nvariable++] = (struct read_variable){rille_tensor_hold(t), t->requires_grad};
}

static int
classify(struct rille_session *s, struct node *n)
{
    n->traced = 1;
    for (int i = 0; i < n->nin; i++) { /* notes no results of the trace: handles would keep their nodes in memory */
        const struct val *v = n->in[i];
        bool made_here = v && v->node && v->node->traced;
        if (v && !made_here && v->owner && v->owner->leaf && v->owner->nref > 0) note_variable(s->trace.now, v->owner);
    }
    int axis = batch_calls_rows(s, n);
    if (n->op->flags & OP_SOURCE && n->phase == PHASE_FORWARD) TRY(batch_numbers_source(s, n, &axis));
    if (s->trace.pieces == 1) return 0;
    n->per_piece = axis >= 0 || draws_apart(s, n) ? 1 : 0;
    for (int i = 0; i < n->nin; i++) {
        const struct val *v = n->in[i];
        if (!v) continue;
        if (trace_per_microbatch(v))
            n->per_piece = 1;
        else if (v->node && (v->node->accumulate || v->node->after))
            n->after = 1;
    }
    if (n->per_piece) note_fed(s->trace.now, n->out[0]->layout->place);
    if (n->per_piece) TRY(batch_share_note(s, n));
    if (axis >= 0) TRY(batch_share_source(s, n, axis));
    draws_set(s, n);
    if (n->per_piece && n->op->flags & OP_UPDATE)
        return fail(E_PLAN, "%s: a value of one micro-batch is used in an update, which runs once per batch", n->name);
    return n->per_piece && n->after ? microbatch_refuse_late(n) : 0;
}

/* Creates a variable of zeros, outside the trace, with v's type and layout. The variable will hold the sum of v
 * over the whole batch. */
static int
total_variable(const struct call_context *ctx, const struct val *v, struct rille_tensor **out)
{
    struct build_source source = {.type = &v->type, .layout = v->layout};
    struct val *zero = build_number(ctx->s, false, 0, 0), *res[OP_OUT];
    bool paused = rille_trace_pause(ctx->s, true);
    int status = build_call(ctx, op_find("full"), 1, &zero, NULL, &source, res);
    rille_trace_pause(ctx->s, paused);
    if (!status) *out = tensor_new(ctx->s, res[0], true);
    return status;
}

/* Returns the level of the sum of v over the batch: 0 if v depends on no other total; else 1 + the highest level
 * of the totals on which v depends. mark: graph mark of the visited values. */
static int32_t
total_level(const struct trace *r, struct val *v, uint64_t mark)
{
    int n = 1, capacity = 1, level = 0;
    struct val **stack = must_copy(&v, sizeof v);
    while (n > 0) {
        struct val *x = stack[--n];
        for (int32_t i = 0; i < r->ntotal; i++)
            if (r->total[i].t->val == x) level = MAX(level, r->total[i].level + 1);
        if (x->mark == mark || !x->node || !x->node->traced) continue;
        x->mark = mark;
        GROW(stack, n + x->node->nin, capacity);
        for (int i = 0; i < x->node->nin; i++)
            if (x->node->in[i]) stack[n++] = x->node->in[i];
    }
    free(stack);
    return level;
}

static int
total_of(const struct call_context *ctx, struct val *v, struct val **out)
{
    struct trace *r = ctx->s->trace.now;
    const struct layout *l;
    struct batch_total w = {.of = v};
    struct call_context plain = *ctx;
    for (int32_t i = 0; i < r->ntotal; i++)
        if (r->total[i].of == v) return *out = r->total[i].t->val, 0;
    plain.grad = false;
    w.level = total_level(r, v, graph_mark(ctx->s->graph));
    TRY(microbatch_sum(&plain, v, &w.sum));
    TRY(layout_summed(ctx->s->atlas, v->layout, &l));
    if (l != w.sum->layout) TRY(build_to_global(&plain, w.sum, l, &w.sum));
    TRY(total_variable(&plain, w.sum, &w.t));
    val_hold(w.of);
    val_hold(w.sum);
    GROW(r->total, r->ntotal + 1, r->total_capacity);
    r->total[r->ntotal++] = w;
    *out = w.t->val;
    return 0;
}

static void
note_change(struct rille_session *s, struct rille_tensor *t)
{
    struct trace *r = s->trace.now;
    GROW(r->journal, r->njournal + 1, r->capacity);
    t->journal = r->njournal;
    struct journal_entry *e = &r->journal[r->njournal++];
    *e = (struct journal_entry){.t = rille_tensor_hold(t), .val = t->val, .had_grad = t->grad != NULL};
    val_hold(e->val);
    if (t->grad) e->grad = rille_tensor_hold(t->grad);
}

static bool
is_made_here(const struct rille_tensor *t)
{
    const struct val *first = t->journal < 0 ? t->val : t->s->trace.now->journal[t->journal].val;
    return first->input >= 0 || (first->node && first->node->traced);
}

/* ---- beginning and ending a trace ---- */

/* Returns true if n micro-batches divide the rows of every shard, and the layout fits a micro-batch. Rows are divided
 * in place. Sets the type of one micro-batch. */
static bool
rows_divide(const struct val *v, int64_t n, struct type *out)
{
    *out = v->type;
    if (v->type.dim[0] % n) return false;
    out->dim[0] /= n;
    if (layout_fits(v->layout, out)) return err_clear(), false;
    for (int pos = 0; pos < v->layout->place->nrank; pos++)
        if (layout_shard(v->layout, &v->type, pos).dim[0] != layout_shard(v->layout, out, pos).dim[0] * n) return false;
    return true;
}

/* Fails. The error lists the possible numbers of micro-batches. */
static int
trace_no_pieces(const struct trace *r, int i, const struct val *v)
{
    struct type one;
    struct str which = {0};
    for (int64_t n = 1, told = 0; n <= v->type.dim[0] && told < 12 && n <= 1 << 20; n++)
        if (rows_divide(v, n, &one)) str_addf(&which, "%s%lld", told++ ? ", " : "", (long long)n);
    int status = fail(E_SHAPE,
                      "graph: argument %d has %lld rows, which micro_batches = %d does not divide on every rank; "
                      "possible numbers: %s",
                      i + 1, (long long)v->type.dim[0], (int)r->pieces, str_text(&which));
    str_free(&which);
    return status;
}

/* Returns the type of one micro-batch. */
static int
piece_type(const struct trace *r, int i, const struct val *v, struct type *out)
{
    if (r->pieces > 1 && v->type.ndim == 0)
        return fail(E_SHAPE, "graph: argument %d has no rows for micro_batches = %d to divide", i + 1, (int)r->pieces);
    return rows_divide(v, r->pieces, out) ? 0 : trace_no_pieces(r, i, v);
}

void
trace_end(struct rille_session *s)
{
    struct trace *r = s->trace.now;
    for (int32_t i = 0; i < r->njournal; i++) {
        struct journal_entry *e = &r->journal[i];
        e->t->journal = -1;
        tensor_rebind(e->t, e->val);
        rille_tensor_free(&e->t->grad);
        e->t->grad = e->grad;
        val_drop(s->graph, &e->val);
        rille_tensor_free(&e->t);
    }
    for (int32_t i = 0; i < r->nin; i++) {
        /* marks the argument as ended: a handle that the user has kept must be no input of a later trace */
        r->input[i]->input = ENDED_INPUT;
        val_drop(s->graph, &r->input[i]);
        rille_tensor_free(&r->auto_input[i]);
    }
    for (int32_t i = 0; i < r->ntotal; i++) {
        val_drop(s->graph, &r->total[i].of);
        val_drop(s->graph, &r->total[i].sum);
        rille_tensor_free(&r->total[i].t);
    }
    free(r->total);
    free(r->input);
    free(r->auto_input);
    if (r->options.recompute) s->calls.region = s->calls.step_region = 0;
    segments_free(&r->segments);
    free(r->journal);
    free(r->fed);
    free(r->unfed);
    for (int32_t i = 0; i < r->nvariable; i++) {
        r->variable[i].t->was_read = false;
        rille_tensor_free(&r->variable[i].t);
    }
    free(r->variable);
    for (int32_t i = 0; i < r->nask; i++) rille_live_free(&r->ask[i]);
    free(r->ask);
    free(r);
    s->trace.now = NULL;
    s->trace.paused = s->trace.alone = false;
    batch_calls_end(s);
}

/* Checks that an "auto" argument is not divided into micro-batches, because a planner may only choose layouts of
 * complete arguments. */
static int
lies_nowhere(const struct trace *r, int i)
{
    if (!r->options.auto_parallel || r->pieces == 1) return 0;
    return fail(E_ARG,
                "graph: argument %d has sbp = \"auto\", but its rows are divided into %d micro-batches by its present "
                "layout; give it a layout",
                i + 1, (int)r->pieces);
}

static int
change_operands(const struct call_context *ctx, const struct op *op, int nin, struct val **in, const struct attr *attr)
{
    draws_adopt(ctx->s, op, nin, in);
    return batch_share_operands(ctx, op, nin, in, attr);
}

static const struct tracer tracer = {.operands = change_operands,
                                     .classify = classify,
                                     .journal = note_change,
                                     .made = is_made_here,
                                     .total = total_of,
                                     .sum = microbatch_sum,
                                     .adds = batch_share_adds,
                                     .batch = batch_share_batch,
                                     .rows = batch_share_rows,
                                     .ungraded = microbatch_ungraded,
                                     .number = batch_numbers_next,
                                     .call = batch_calls_next,
                                     .results = batch_calls_results,
                                     .data = batch_numbers_data,
                                     .loss = note_loss};

/* Creates the values that stand for the arguments while the function is traced. */
static void
make_inputs(struct rille_session *s, const struct type *type, int nin, struct rille_tensor *const *in,
            struct rille_tensor **piece)
{
    struct trace *r = s->trace.now;
    for (int i = 0; i < nin; i++) {
        struct val *v = graph_leaf(s->graph, &type[i], in[i]->val->layout, NULL);
        v->input = (int16_t)i;
        v->unplaced = in[i]->val->unplaced;
        val_hold(v);
        if (in[i]->planned && r->options.auto_parallel) r->auto_input[i] = rille_tensor_hold(in[i]);
        r->input[r->nin++] = v;
        piece[i] = tensor_new(s, v, false);
    }
}

int
trace_begin(struct rille_session *s, const struct rille_graph_options *o, int nin, struct rille_tensor *const *in,
            struct rille_tensor **piece)
{
    struct lag_schedule schedule;
    TRY(schedules_find(o, &schedule));
    struct trace *r = must_alloc(sizeof *r);
    r->options = *o;
    r->pieces = MAX(1, o->micro_batches);
    r->lag = schedule.lag;
    r->split = schedule.split;
    r->input = must_alloc(sizeof(*r->input) * (size_t)(nin + 1));
    r->auto_input = must_alloc(sizeof(*r->auto_input) * (size_t)(nin + 1));
    struct type *type = must_alloc(sizeof *type * (size_t)(nin + 1));
    int status = 0;
    for (int i = 0; !status && i < nin; i++) {
        status = piece_type(r, i, in[i]->val, &type[i]);
        if (!status && in[i]->planned) status = lies_nowhere(r, i);
    }
    if (!status) status = segments_find(&r->segments, r->pieces, nin, in);
    if (!status) {
        s->trace.now = r;
        s->trace.tracer = &tracer;
        s->trace.pieces = r->pieces;
        s->trace.planned = o->auto_parallel;
        s->trace.find_nan = o->check_nan;
        s->trace.nrandom = 0;
        s->trace.whole = o->whole;
        batch_calls_begin(s);
        if (r->options.recompute) s->calls.region = s->calls.step_region = ++s->calls.nregion;
        make_inputs(s, type, nin, in, piece);
        s->trace.segments = segments_alike(&r->segments);
        s->trace.rows = nin && type[0].ndim ? type[0].dim[0] : 0;
    } else {
        batch_calls_end(s);
        segments_free(&r->segments);
        free(r->input);
        free(r->auto_input);
        free(r);
    }
    free(type);
    return status;
}

/* ---- making the compiled step ---- */

/* The effects of a trace in order: results, changed gradients, changed variables. */
struct trace_made {
    struct val **val;
    struct outcome *outcome; /* the index of the root is set later */
    bool *join;
    int32_t n;
};

static int
made_by(struct rille_session *s, int nout, struct rille_tensor *const *out, struct trace_made *y)
{
    const struct trace *r = s->trace.now;
    for (int i = 0; i < nout; i++) {
        struct call_context ctx = s->context;
        if (out[i]->val->node) ctx.at = out[i]->val->node->line;
        struct outcome *o = &y->outcome[y->n];
        *o = (struct outcome){.kind = TO_RESULT, .unplaced = out[i]->val->unplaced};
        TRY(batch_result(&ctx, &r->segments, out[i]->val, &y->val[y->n], &y->join[y->n], &o->reduce));
        y->n++;
    }
    for (int32_t i = 0; i < r->njournal; i++) {
        const struct journal_entry *e = &r->journal[i];
        struct rille_tensor *g = e->t->grad;
        if (s->trace.pieces > 1 && trace_per_microbatch(e->t->val))
            continue; /* the trace made the variable, so the gradient of the variable belongs to the trace, too */
        if (g && (!e->grad || g != e->grad)) {
            y->val[y->n] = g->val;
            y->outcome[y->n++] = (struct outcome){
                .kind = TO_GRADIENT, .t = e->t, .made = is_made_here(e->t), .unplaced = g->val->unplaced};
        }
    }
    for (int32_t i = 0; i < r->njournal; i++) {
        const struct journal_entry *e = &r->journal[i];
        if (e->t->val == e->val || (s->trace.pieces > 1 && trace_per_microbatch(e->t->val))) continue;
        y->val[y->n] = e->t->val;
        y->outcome[y->n++] = (struct outcome){
            .kind = TO_VARIABLE, .t = e->t, .made = is_made_here(e->t), .unplaced = e->t->val->unplaced};
    }
    return 0;
}

/* Computes values from outside the trace that traced calls read, if they are not computed yet. */
static int
capture_trace(struct rille_session *s, int n, struct val *const *root)
{
    struct collection *c = &s->collection;
    TRY(collect(s, n, root, COLLECT_TRACE));
    int32_t late = 0;
    struct val **v = must_alloc(sizeof *v * (size_t)(c->nleaf + 1));
    for (int32_t i = 0; i < c->nleaf; i++)
        if (!c->leaf[i]->store && c->leaf[i]->input < 0 && c->leaf[i]->layout->place->kind != DEV_META)
            v[late++] = c->leaf[i];
    int status = late ? session_eval(s, late, v) : 0;
    free(v);
    if (!status && late) status = collect(s, n, root, COLLECT_TRACE);
    return status;
}

static struct origin
variable_origin(struct rille_tensor *t)
{
    struct origin o = {.kind = FROM_VARIABLE, .t = t, .free = t->planned};
    rille_tensor_hold(t);
    return o;
}

/* Returns a table from values of variables and gradients to journal entries; the caller frees the table. */
static struct hash_table
journal_values(const struct trace *r)
{
    struct hash_table t = {0};
    for (int32_t i = 0; i < r->njournal; i++) {
        const struct journal_entry *e = &r->journal[i];
        hash_add(&t, hash_address(e->val), hash_index(i));
        if (e->grad) hash_add(&t, hash_address(e->grad->val), hash_index(i));
    }
    return t;
}

static bool
names(const struct journal_entry *e, const struct val *v)
{
    return e->val == v || (e->grad && e->grad->val == v);
}

static struct origin
origin_of(const struct trace *r, const struct hash_table *values, struct val *v)
{
    const struct journal_entry *first = NULL;
    uint32_t at = 0;
    struct rille_tensor *own = v->input >= 0 ? r->auto_input[v->input] : NULL;
    if (own) return (struct origin){.kind = FROM_INPUT, .input = v->input, .t = rille_tensor_hold(own), .free = true};
    if (v->input >= 0) return (struct origin){.kind = FROM_INPUT, .input = v->input};
    for (const void *found; (found = hash_next(values, hash_address(v), &at));) {
        const struct journal_entry *e = &r->journal[hash_index_of(found)];
        if (names(e, v) && (!first || e < first)) first = e;
    }
    if (first && first->val == v) return variable_origin(first->t);
    if (first) return (struct origin){.kind = FROM_GRADIENT, .t = rille_tensor_hold(first->t)};
    if (v->owner && v->owner->nref > 0 && v->owner->val == v) return variable_origin(v->owner);
    val_hold(v);
    return (struct origin){.kind = FROM_VALUE, .val = v};
}

/* Returns a table that maps a value to its index among the roots of the collection; the caller frees the table. */
static struct hash_table
collection_roots(const struct collection *c)
{
    struct hash_table t = {0};
    for (int32_t k = 0; k < c->nroot; k++) hash_add(&t, hash_address(c->root[k]), hash_index(k));
    return t;
}

static int32_t
root_of(const struct collection *c, const struct hash_table *roots, const struct val *v)
{
    uint32_t at = 0;
    for (const void *found; (found = hash_next(roots, hash_address(v), &at));)
        if (c->root[hash_index_of(found)] == v) return hash_index_of(found);
    assert(!"an outcome was not collected");
    return -1;
}

static void
bind_outcomes(struct rille_graph *g, const struct trace_made *y, const struct collection *c)
{
    struct hash_table roots = collection_roots(c);
    g->outcome = arena_dup(&g->arena, y->outcome, sizeof *y->outcome * (size_t)y->n);
    g->noutcome = y->n;
    for (int32_t i = 0; i < y->n; i++) {
        g->outcome[i].root = root_of(c, &roots, y->val[i]);
        if (g->outcome[i].t) rille_tensor_hold(g->outcome[i].t);
    }
    hash_free(&roots);
}

/* Returns true if the step uses meta devices. A step on meta devices is planned but never run. */
static bool
graph_is_meta(struct rille_graph *g, const struct program *p)
{
    for (int32_t i = 0; i < p->nleaf; i++) g->meta = g->meta || p->leaf[i].layout->place->kind == DEV_META;
    for (int32_t i = 0; i < p->nnode; i++) g->meta = g->meta || p->node[i].layout[0]->place->kind == DEV_META;
    return g->meta;
}

struct program *
trace_program(struct rille_graph *g, const struct trace_made *y)
{
    struct rille_session *s = g->s;
    struct collection *c = &s->collection;
    struct program *p = collection_program(s, c);
    p->pieces = s->trace.pieces;
    p->lag = s->trace.now->lag;
    p->split = s->trace.now->split;
    for (int32_t i = 0; i < c->nleaf; i++) p->leaf[i].piece = c->leaf[i]->input >= 0 && p->pieces > 1;
    for (int32_t i = 0; i < y->n; i++) p->root[g->outcome[i].root].join = y->join[i];
    reuse_equal(p, c);
    p->dry_run = graph_is_meta(g, p);
    p->cut = segments_alike(&g->inputs.segments);
    return p;
}

static void
add_live_number(struct rille_graph *g, struct rille_live *live)
{
    for (int32_t i = 0; i < g->numbers.nlive; i++)
        if (g->numbers.live[i] == live) return;
    g->numbers.live[g->numbers.nlive++] = live;
    live->nref++;
}

/* Gives the step references to the tensors that the traced calls read. Leaves out gradients, because a step may
 * overwrite a gradient that nothing else holds. */
static void
graph_variables(struct rille_graph *g, const struct trace *r)
{
    struct hash_table gradients = {0};
    for (int32_t i = 0; i < r->njournal; i++)
        if (r->journal[i].grad) hash_add(&gradients, hash_address(r->journal[i].grad), r->journal[i].grad);
    g->variables.variable = ARENA_ARRAY(&g->arena, struct read_variable, r->nvariable + 1);
    for (int32_t i = 0; i < r->nvariable; i++) {
        uint32_t at = 0;
        const void *found;
        struct rille_tensor *t = r->variable[i].t;
        do found = hash_next(&gradients, hash_address(t), &at);
        while (found && found != t);
        if (found) continue;
        rille_tensor_hold(t);
        g->variables.variable[g->variables.nvariable++] = r->variable[i];
    }
    hash_free(&gradients);
}

/* Fills in where the step's leaves and numbers come from. Counters (r->ask) are listed before other live numbers,
 * because the functions of live numbers may read counters. */
static void
graph_sources(struct rille_graph *g, struct rille_session *s, bool totals)
{
    const struct collection *c = &s->collection;
    const struct trace *r = s->trace.now;
    struct hash_table values = journal_values(r);
    g->nleaf = c->nleaf;
    g->origin = ARENA_ARRAY(&g->arena, struct origin, c->nleaf + 1);
    for (int32_t i = 0; i < c->nleaf; i++) g->origin[i] = origin_of(r, &values, c->leaf[i]);
    hash_free(&values);
    g->numbers.nnumber = c->nnumber;
    g->numbers.number = ARENA_ARRAY(&g->arena, struct number, c->nnumber + 1);
    g->numbers.live = ARENA_ARRAY(&g->arena, struct rille_live *, c->nnumber + r->nask + 1);
    for (int32_t i = 0; !totals && i < r->nask; i++) add_live_number(g, r->ask[i]);
    for (int32_t i = 0; i < c->nnumber; i++) {
        g->numbers.number[i] = c->number[i]->number;
        if (g->numbers.number[i].kind == NUM_LIVE) add_live_number(g, g->numbers.number[i].live);
    }
}

/* Fills in the step's number of random numbers, the variables that it reads, and the gradients that it changes. */
static void
graph_counts(struct rille_graph *g, struct rille_session *s)
{
    const struct trace *r = s->trace.now;
    g->numbers.nrandom = s->trace.nrandom;
    graph_variables(g, r);
    g->variables.ngradient = r->njournal;
    g->variables.gradient = ARENA_ARRAY(&g->arena, struct gradient_state, r->njournal + 1);
    for (int32_t i = 0; i < r->njournal; i++)
        g->variables.gradient[i] =
            (struct gradient_state){rille_tensor_hold(r->journal[i].t), r->journal[i].had_grad,
                                    r->journal[i].t->grad != NULL, is_made_here(r->journal[i].t)};
}

static void
graph_inputs(struct rille_graph *g, const struct trace *r)
{
    g->inputs.n = r->nin;
    g->inputs.type = ARENA_ARRAY(&g->arena, struct type, r->nin + 1);
    g->inputs.layout = ARENA_ARRAY(&g->arena, const struct layout *, r->nin + 1);
    g->inputs.placed = ARENA_ARRAY(&g->arena, bool, r->nin + 1);
    for (int32_t i = 0; i < r->nin; i++) {
        g->inputs.type[i] = r->input[i]->type;
        if (r->pieces > 1) g->inputs.type[i].dim[0] *= r->pieces;
        g->inputs.layout[i] = r->input[i]->layout;
    }
}

/* Makes a compiled step with outcomes y. plan: makes the plan of the step. totals: step that computes the totals
 * of the batch before each call; NULL: none. */
static int
make_graph(struct rille_session *s, int nout, const struct trace_made *y, trace_plan_fn *plan, bool totals,
           struct rille_graph **out)
{
    struct plan *made;
    TRY(capture_trace(s, y->n, y->val));
    struct rille_graph *g = must_alloc(sizeof *g);
    g->s = s;
    g->generation = s->generation;
    g->nout = nout;
    graph_inputs(g, s->trace.now);
    g->inputs.segments = segments_copy(&s->trace.now->segments);
    graph_sources(g, s, totals);
    if (!totals) graph_counts(g, s);
    bind_outcomes(g, y, &s->collection);
    LIST_PUSH(s->handles.graphs, g);
    int status = plan(g, y, &made);
    if (status) {
        rille_graph_free(&g);
        return status;
    }
    g->runner = runner_new(s, made);
    *out = g;
    return 0;
}

/* Makes the step that computes the batch totals (sums over the whole batch) of one level. The options of the
 * traced step do not apply. */
static int
make_totals_level(struct rille_session *s, int32_t level, trace_plan_fn *plan, struct rille_graph **out)
{
    struct trace *r = s->trace.now;
    struct rille_graph_options options = r->options;
    struct trace_made y = {.val = ARENA_ARRAY(&s->calls.scratch, struct val *, r->ntotal + 1),
                           .outcome = ARENA_ARRAY(&s->calls.scratch, struct outcome, r->ntotal + 1),
                           .join = ARENA_ARRAY(&s->calls.scratch, bool, r->ntotal + 1)};
    *out = NULL;
    for (int32_t i = 0; i < r->ntotal; i++) {
        if (r->total[i].level != level) continue;
        y.val[y.n] = r->total[i].sum;
        y.outcome[y.n++] = (struct outcome){.kind = TO_VARIABLE, .t = r->total[i].t};
    }
    if (y.n == 0) return 0;
    r->options = (struct rille_graph_options){.micro_batches = options.micro_batches};
    int status = make_graph(s, 0, &y, plan, true, out);
    r->options = options;
    return status;
}

/* Makes the step that computes all batch totals (sums over the whole batch). It runs the steps of lower levels
 * first, because a total may depend on other totals. */
static int
make_totals(struct rille_session *s, trace_plan_fn *plan, struct rille_graph **out)
{
    struct rille_graph *lower = NULL;
    *out = NULL;
    for (int32_t level = 0;; level++) {
        struct rille_graph *g;
        int status = make_totals_level(s, level, plan, &g);
        if (status) rille_graph_free(&lower);
        if (status || !g) return *out = lower, status;
        g->totals = lower;
        lower = g;
    }
}

/* Makes the compiled step, and the step that computes its batch totals (sums over the whole batch). */
static int
make_steps(struct rille_session *s, int nout, const struct trace_made *y, trace_plan_fn *plan, struct rille_graph **gp)
{
    struct rille_graph *totals;
    TRY(make_totals(s, plan, &totals));
    s->count.compiles++;
    int status = make_graph(s, nout, y, plan, false, gp);
    if (status) {
        rille_graph_free(&totals);
        return status;
    }
    (*gp)->totals = totals;
    return 0;
}

int
trace_compile(struct rille_session *s, int nout, struct rille_tensor *const *out, trace_plan_fn *plan,
              struct rille_graph **gp)
{
    int32_t most = nout + 2 * s->trace.now->njournal + 1;
    struct trace_made y = {.val = ARENA_ARRAY(&s->calls.scratch, struct val *, most),
                           .outcome = ARENA_ARRAY(&s->calls.scratch, struct outcome, most),
                           .join = ARENA_ARRAY(&s->calls.scratch, bool, most)};
    *gp = NULL;
    TRY(batch_calls_same(s));
    TRY(all_fed(s->trace.now));
    TRY(made_by(s, nout, out, &y));
    bool paused = rille_trace_pause(s, true);
    int status = make_steps(s, nout, &y, plan, gp);
    rille_trace_pause(s, paused);
    return status;
}
