/* batch_calls.c - compares the calls for one micro-batch with the calls for the whole batch. */
#include "actors/session/batch/batch_calls.h"

#include "actors/session/batch/batch_numbers.h"
#include "actors/session/batch/share.h"
#include "actors/session/build/build.h"
#include "actors/session/core/face.h"
#include "actors/session/core/session.h"
#include "actors/session/core/tracer.h"
#include "kernels/op/base/table.h"
#include "runtime/data/arena.h"

#include <stdlib.h>
#include <string.h>

/* A call by the user's function, in the trace with the whole batch. */
struct batch_call {
    const struct op *op;
    /* first operand that is a parameter, only compared by address; NULL: none */
    const struct rille_tensor *parameter;
    int32_t nin, nout;
    struct type *in, *out;   /* types of operands (dtype DT_NONE: absent, or a number) and of results */
    const struct attr *attr; /* op_nattr(op) attributes; NULL: there are none */
};

struct batch_calls {
    struct arena arena; /* memory of the calls' types and attributes */
    struct batch_call *call;
    int32_t n, capacity;
    int32_t next;                  /* index of the stored call with which the trace's next call is compared */
    struct batch_call *now;        /* stored call that equals the trace's last call; NULL: none */
    bool complete;                 /* the call of the function with the whole batch has returned */
    bool differs;                  /* the trace differs from the trace with the whole batch, first at: */
    const struct op *here, *there; /* operators in this trace and for the whole batch; NULL: none */
    struct line line;
    bool multiplied; /* result of batch_calls_multiplied() */
    unsigned scales; /* result of batch_calls_scales(), for a reshape */
};

static void
forget_calls(struct rille_session *s)
{
    struct batch_calls *b = s->trace.calls;
    s->trace.calls = NULL;
    if (!b) return;
    arena_fini(&b->arena);
    free(b->call);
    free(b);
}

void
batch_calls_begin(struct rille_session *s)
{
    if (s->trace.whole || s->trace.pieces == 1) forget_calls(s);
    if (s->trace.whole) *(s->trace.calls = must_alloc(sizeof *s->trace.calls)) = (struct batch_calls){0};
    s->trace.differs = false;
    batch_numbers_begin(s);
}

void
batch_calls_end(struct rille_session *s)
{
    if (!s->trace.whole) forget_calls(s);
    batch_numbers_end(s);
}

/* Records that the trace's next call is not the stored call: the operators are here and there; NULL: no call. */
static void
note_difference(struct rille_session *s, const struct op *here, const struct op *there)
{
    struct batch_calls *b = s->trace.calls;
    if (b->differs) return;
    b->differs = true;
    b->here = here;
    b->there = there;
    b->line = s->context.at;
}

/* ---- the calls and their attributes ---- */

static const struct rille_tensor *
first_parameter(int nin, struct val *const *in)
{
    for (int i = 0; i < nin; i++)
        if (in[i] && in[i]->owner && in[i]->owner->requires_grad && !(in[i]->node && in[i]->node->traced))
            return in[i]->owner;
    return NULL;
}

static struct type *
copy_types(struct arena *a, int n, struct val *const *v)
{
    struct type *t = ARENA_ARRAY(a, struct type, n + 1);
    for (int i = 0; i < n; i++) t[i] = v[i] && !v[i]->is_number ? v[i]->type : (struct type){0};
    return t;
}

static void
store_call(struct batch_calls *b, const struct op *op, int nin, struct val *const *in, const struct attr *attr)
{
    GROW(b->call, b->n + 1, b->capacity);
    b->now = &b->call[b->n++];
    *b->now = (struct batch_call){.op = op, .parameter = first_parameter(nin, in), .nin = nin};
    b->now->in = copy_types(&b->arena, nin, in);
    if (attr) b->now->attr = arena_dup(&b->arena, attr, sizeof *attr * (size_t)op_nattr(op));
}

/* Returns true if the sizes of operand 0 along `axis` (-1: along any dimension) depend on the size of the batch. */
static bool
depends_on_batch(const struct batch_call *whole, int nin, struct val *const *in, int64_t axis)
{
    const struct type *t = nin && in[0] ? &in[0]->type : NULL;
    if (!t || t->ndim != whole->in[0].ndim) return true;
    for (int d = 0; d < t->ndim; d++)
        if ((axis < 0 || d == axis) && t->dim[d] != whole->in[0].dim[d]) return true;
    return false;
}

/* Returns true if attribute k keeps its value for the micro-batch. */
static bool
keeps_attr(const struct batch_call *whole, int k, int nin, struct val *const *in, const struct attr *attr)
{
    const struct op *op = whole->op;
    if (op->attr[k].kind == ATTR_BODY) return true;
    if (k == 0 && op_lists_sizes(op)) return op == op_find("expand") || depends_on_batch(whole, nin, in, -1);
    return op == op_find("slice") && depends_on_batch(whole, nin, in, attr[op_attr_find(op, "axis")].i);
}

static void
take_attrs(const struct batch_call *whole, int nin, struct val *const *in, struct attr *attr)
{
    for (int k = 0; k < op_nattr(whole->op); k++)
        if (!keeps_attr(whole, k, nin, in, attr)) attr[k] = whole->attr[k];
}

/* Returns true if the position for the whole batch is n times the position for a micro-batch. A position that is
 * absent in one call must be absent in both. */
static bool
is_multiple(int64_t whole, int64_t position, int64_t n)
{
    int64_t times;
    if (whole == INT64_MAX && position == INT64_MAX) return true;
    return !__builtin_mul_overflow(position, n, &times) && times == whole;
}

/* Compares start and stop of a slice, and the sizes of a reshape, with those for the whole batch. */
static void
compare_sizes(struct batch_calls *b, const struct attr *attr, int64_t n)
{
    const struct batch_call *whole = b->now;
    if (whole->op == op_find("slice")) {
        int start = op_attr_find(whole->op, "start"), stop = op_attr_find(whole->op, "stop");
        b->multiplied =
            is_multiple(whole->attr[start].i, attr[start].i, n) && is_multiple(whole->attr[stop].i, attr[stop].i, n);
    } else if (whole->op == op_find("reshape") && whole->attr[0].n == attr[0].n) {
        b->scales = (1U << attr[0].n) - 1;
        for (int d = 0; d < attr[0].n; d++)
            if (attr[0].list[d] >= 0 && attr[0].list[d] == whole->attr[0].list[d]) b->scales &= ~(1U << d);
    }
}

void
batch_calls_next(struct rille_session *s, const struct op *op, int nin, struct val *const *in, struct attr *attr)
{
    struct batch_calls *b = s->trace.calls;
    if (!b) return;
    b->now = NULL;
    b->multiplied = false;
    b->scales = ~0U;
    if (s->trace.alone || b->differs) return;
    if (s->trace.whole) {
        store_call(b, op, nin, in, attr);
        return;
    }
    struct batch_call *whole = b->next < b->n ? &b->call[b->next++] : NULL;
    if (!whole || whole->op != op || whole->parameter != first_parameter(nin, in) || whole->nin != nin) {
        note_difference(s, op, whole ? whole->op : NULL);
        return;
    }
    b->now = whole;
    if (!attr || !op_nattr(op)) return;
    compare_sizes(b, attr, s->trace.pieces);
    take_attrs(whole, nin, in, attr);
}

/* ---- results ---- */

int
batch_calls_rows(const struct rille_session *s, const struct node *n)
{
    const struct batch_calls *b = s->trace.calls;
    const struct batch_call *whole = b && !s->trace.whole && !s->trace.alone ? b->now : NULL;
    struct type scaled = n->out[0]->type;
    if (!whole || !whole->nout || n->op != op_find("expand") || whole->op != n->op) return -1;
    if (trace_per_microbatch(n->in[0]) || scaled.ndim != whole->out[0].ndim) return -1;
    for (int d = 0; d < scaled.ndim; d++) {
        scaled.dim[d] *= s->trace.pieces;
        if (shape_equal(&scaled, &whole->out[0])) return d;
        scaled.dim[d] = n->out[0]->type.dim[d];
    }
    return -1;
}

/* How the shape of a value of one micro-batch relates to the shape for the whole batch. FITS: the shapes are equal; or
 * the value has rows of the batch, and 1/n of the rows of the whole batch. UNKNOWN: the values are not related to
 * those of the whole batch. */
enum relation { FITS, OTHER, UNKNOWN };

static enum relation
relation_of(const struct rille_session *s, const struct val *v, const struct type *whole)
{
    enum batch_share share = batch_share_of(v);
    struct type scaled = v->type;
    int rows = share_rows(v);
    if (share == SHARE_DRAWN || share == SHARE_OTHER || share == SHARE_POSITIONS) return UNKNOWN;
    if (share == SHARE_ROWS && rows < scaled.ndim) scaled.dim[rows] *= s->trace.pieces;
    return shape_equal(&scaled, whole) ? FITS : OTHER;
}

static int
refuse_result(const struct call_context *ctx, const struct op *op, int nin, struct val *const *in, const struct val *v,
              const struct type *whole)
{
    struct str here = {0}, there = {0};
    type_print(&v->type, &here);
    type_print(whole, &there);
    int status = build_refuse(
        E_PLAN, op, nin, in,
        "%s: with micro_batches = %d, the result is %s for one micro-batch and %s for the whole batch, and the results "
        "of all micro-batches do not make that of the batch. Compute sizes and positions from x.shape[1], and let them "
        "include all rows; or make the call in rille.per_micro_batch(fn), or use micro_batches = 1",
        op->name, trace_microbatches(ctx->s), str_text(&here), str_text(&there));
    str_free(&here);
    str_free(&there);
    return status;
}

/* Returns the index of a result that does not relate to the result for the whole batch; -1: none. An operand that
 * does not relate to the whole batch is a result of rille.per_micro_batch(), and then nothing is known about the
 * results. */
static int
unrelated_result(const struct rille_session *s, const struct batch_call *whole, struct val *const *in, int nout,
                 struct val *const *out)
{
    for (int i = 0; i < whole->nin; i++)
        if (in[i] && !in[i]->is_number && relation_of(s, in[i], &whole->in[i]) != FITS) return -1;
    for (int k = 0; k < nout; k++)
        if (relation_of(s, out[k], &whole->out[k]) == OTHER) return k;
    return -1;
}

int
batch_calls_results(const struct call_context *ctx, const struct op *op, int nin, struct val *const *in, int nout,
                    struct val *const *out)
{
    struct rille_session *s = ctx->s;
    struct batch_calls *b = s->trace.calls;
    struct batch_call *whole = b && !s->trace.alone ? b->now : NULL;
    if (!whole) return 0;
    if (s->trace.whole) {
        whole->nout = nout;
        whole->out = copy_types(&b->arena, nout, out);
        return 0;
    }
    if (whole->nout != nout) return 0; /* the call failed for the whole batch */
    int k = unrelated_result(s, whole, in, nout, out);
    return k >= 0 ? refuse_result(ctx, op, nin, in, out[k], &whole->out[k]) : 0;
}

/* ---- the end of a trace ---- */

int
batch_calls_same(struct rille_session *s)
{
    const struct batch_calls *b = s->trace.calls;
    if (!b || s->trace.whole || !b->complete) return 0;
    if (b->next < b->n) note_difference(s, NULL, b->call[b->next].op);
    if (!batch_numbers_same(s)) note_difference(s, NULL, NULL);
    if (!b->differs) return 0;
    const struct op *here = b->here, *there = b->there;
    s->trace.differs = true;
    struct str text = {0};
    if (!here && !there)
        str_addf(&text, "reads other numbers or tensors for the whole batch");
    else if (!here || !there)
        str_addf(&text, "makes %s calls for the whole batch", here ? "fewer" : "more");
    else if (here == there)
        str_addf(&text, "calls '%s' with another parameter for the whole batch", here->name);
    else
        str_addf(&text, "calls '%s' where it calls '%s' for the whole batch", here->name, there->name);
    fail(E_PLAN,
         "graph: with micro_batches = %d, the function sees the rows of one micro-batch, and %s; a branch must not "
         "depend on the number of rows: decide it outside of the step, or in rille.per_micro_batch(fn)",
         (int)s->trace.pieces, str_text(&text));
    str_free(&text);
    if (here && b->line.file) err_note("%s:%d", b->line.file, b->line.line);
    return E_PLAN;
}

void
rille_trace_returned(struct rille_session *s)
{
    if (face_session(s, __func__)) return;
    if (s->trace.calls && s->trace.whole) s->trace.calls->complete = true;
}

bool
rille_trace_differs(const struct rille_session *s)
{
    return !face_session(s, __func__) && s->trace.differs;
}

bool
batch_calls_multiplied(const struct rille_session *s)
{
    return s->trace.calls && s->trace.calls->multiplied;
}

unsigned
batch_calls_scales(const struct rille_session *s, const struct op *op)
{
    return s->trace.calls && op == op_find("reshape") ? s->trace.calls->scales : ~0U;
}
