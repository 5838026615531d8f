/* batch_share.c - tracks how a value of one micro-batch relates to the value of the whole batch. */
#include "actors/session/batch/batch_share.h"
#include "actors/session/build/build.h"
#include "actors/session/core/face.h"
#include "actors/session/core/layouts.h"
#include "actors/session/core/session.h"
#include "actors/session/core/tracer.h"
#include "actors/session/batch/batch_calls.h"
#include "actors/session/batch/batch_numbers.h"
#include "actors/session/batch/microbatch.h"
#include "actors/session/batch/positions.h"
#include "actors/session/batch/repeats.h"

#include "kernels/op/base/table.h"
#include "sbp/infer.h"

#include <stdlib.h>
#include <string.h>

enum { OPERANDS = 256, MOST_BLOCKS = 1 << 14 };
/* Costs of an operand of a micro-batch. A signature treats the micro-batches as the ranks of a mesh axis, and
 * requires the layout S, B or P(sum) of the operand.
 *   FITS       the operand has the required layout
 *   REPEATED   S is required: the operand is the same for all micro-batches, and is read as a micro-batch's rows
 *   CONVERTED  P(sum) is required: the operand, the same for all micro-batches or their mean, is made an addend
 *   REPLACED   B is required: the operand is a sum or mean of a micro-batch, and the batch's value replaces it
 *   NEVER      the operand cannot be read in the required layout */
enum { FITS = 0, REPEATED = 1, CONVERTED = 2, REPLACED = 1 << 10, NEVER = 1 << 20 };

/* ---- signatures on the axis of micro-batches ---- */

/* The cheapest signature of a call on the axis of micro-batches, with its cost. share: how each result relates to
 * the batch's value. */
struct reading {
    struct call call;
    struct type in[OPERANDS], out[OP_OUT];
    bool sums;   /* an operand is a micro-batch's addend of a sum over the batch */
    bool single; /* a micro-batch has one row, which counts as the rows of the batch in the signatures */
    bool strict; /* means must be those of the whole batch, not those of the micro-batch */
    bool linear; /* treats means as addends of a sum, to test whether the call is linear in means */
    int blocks;  /* number of row blocks (val->blocks), equal for all operands with rows; 0: the numbers differ */
    /* cost: sum of the costs of all operands; NEVER: no signature fits. each: cost by operand */
    int cost, each[OPERANDS];
    enum batch_share share[OP_OUT];
    int rows[OP_OUT];
};

/* Returns the cost (FITS to NEVER) of operand v if the signature requires the layout `want` of v. */
static int
entry_cost(const struct reading *r, struct sbp want, const struct val *v)
{
    enum batch_share share = batch_share_of(v);
    bool alike = share == SHARE_WHOLE || share_is_mean(v);
    if (r->linear && share != SHARE_WHOLE) return share == SHARE_MEAN && want.kind == SBP_P ? FITS : NEVER;
    if (r->linear) return want.kind == SBP_S ? NEVER : FITS;
    if (want.kind == SBP_P && want.reduce == RED_SUM)
        return share == SHARE_SUM ? FITS : alike && share != SHARE_FROM_MEANS && r->sums ? CONVERTED : NEVER;
    if (want.kind == SBP_P) return share == (want.reduce == RED_MAX ? SHARE_MAX : SHARE_MIN) ? FITS : NEVER;
    if (share == SHARE_DRAWN) return FITS;
    if (want.kind == SBP_S && (share == SHARE_ROWS || r->single))
        return share == SHARE_ROWS && share_rows(v) == want.axis && r->blocks ? FITS : NEVER;
    if (want.kind == SBP_S)
        return (r->strict ? share == SHARE_WHOLE && value_repeats(v, want.axis) : alike) ? REPEATED : NEVER;
    if (share_is_mean(v) && r->strict) return REPLACED;
    return alike ? FITS : share == SHARE_SUM ? REPLACED : NEVER;
}

static enum batch_share
share_of_entry(struct sbp entry, int nin, struct val *const *in)
{
    if (entry.kind == SBP_S) return SHARE_ROWS;
    if (entry.kind == SBP_P)
        return entry.reduce == RED_SUM ? SHARE_SUM : entry.reduce == RED_MAX ? SHARE_MAX : SHARE_MIN;
    for (int i = 0; i < nin; i++)
        if (in[i] && (share_is_mean(in[i]) || batch_share_of(in[i]) == SHARE_SUM)) return SHARE_FROM_MEANS;
    return share_among(nin, in, SHARE_DRAWN) ? SHARE_DRAWN : SHARE_OTHER;
}

/* Tries one signature. If the signature is the cheapest so far, stores its cost and the shares of the results. */
static void
try_signature(struct reading *r, const struct rule *rule, const struct sig *sig, int nin, struct val *const *in)
{
    int cost = 0, each[OPERANDS] = {0};
    for (int i = 0; i < nin; i++) {
        if (!in[i] || in[i]->is_number || rule->operand[i].ignored) continue;
        each[i] = entry_cost(r, sig->v[i], in[i]);
        cost += each[i];
    }
    if (cost >= r->cost) return;
    r->cost = cost;
    memcpy(r->each, each, sizeof each);
    for (int k = 0; k < r->call.nout; k++) {
        r->share[k] = share_of_entry(sig->v[rule->nin + k], nin, in);
        r->rows[k] = sig->v[rule->nin + k].axis;
    }
}

/* Fills in the operands' types, with `times` as many rows. A rule has no factor for a dimension of size 1. */
static void
operand_types(struct reading *r, int nin, struct val *const *in, int times)
{
    for (int i = 0; i < nin; i++) {
        r->in[i] = in[i] ? in[i]->type : (struct type){0};
        if (in[i] && batch_share_of(in[i]) == SHARE_ROWS) r->in[i].dim[share_rows(in[i])] *= times;
    }
}

static bool
has_one_row(int nin, struct val *const *in)
{
    for (int i = 0; i < nin; i++)
        if (in[i] && batch_share_of(in[i]) == SHARE_ROWS && in[i]->type.dim[share_rows(in[i])] == 1) return true;
    return false;
}

static bool
infer_signatures(struct rille_session *s, struct reading *r, struct rule *rule, struct sig_list *list)
{
    if (!call_infer(&s->calls.scratch, &r->call, rule) && !sig_axis(&s->calls.scratch, &r->call, rule, NULL, list))
        return true;
    err_clear();
    return false;
}

/* Returns true if each of n equal parts of the rows consists of complete segments (rows between shard boundaries,
 * segments.h). */
static bool
divides_segments(const struct rille_session *s, int64_t n)
{
    int32_t segments = s->trace.segments;
    return n > 1 && n < MOST_BLOCKS && segments && segments % n == 0;
}

/* Returns the number of rows of a micro-batch in v, if v has rows along dimension `axis` in these blocks. */
static int64_t
rows_in(const struct type *t, int axis, int blocks)
{
    return blocks < 0 ? t->dim[axis] * -blocks : t->dim[axis] / blocks;
}

/* Returns true if a reshape that makes `now` rows of `was` rows joins rows that are neighbours in the batch, too. Rows
 * of a micro-batch are neighbours within its part of a segment. */
static bool
joins_neighbours(const struct rille_session *s, int64_t was, int64_t now)
{
    int64_t segments = s->trace.segments, joined = now ? was / now : 0;
    return joined <= 1 || s->trace.alone || (segments && was % segments == 0 && was / segments % joined == 0);
}

/* Finds the dimension of rows in a reshape's result, and the number of blocks. If the reshape merges the dimension
 * of rows with dimensions before it, each index of those dimensions is a block. scales: bit d is set if the size
 * of dimension d of the result depends on the size of the batch. */
static void
read_reshape(const struct rille_session *s, struct reading *r, const struct val *x, const struct type *y,
             unsigned scales)
{
    int64_t before = 1, now = 1;
    int d = 0, was = share_blocks(x), own = MAX(1, was);
    bool rows = batch_share_of(x) == SHARE_ROWS;
    for (int i = 0; i < share_rows(x) && rows; i++) before *= x->type.dim[i];
    before *= own;
    /* with one row per block, sizes alone do not tell which dimension has the rows */
    bool known = rows && scales != ~0U, one = known && x->type.dim[share_rows(x)] == own;
    while (rows && d < y->ndim && now < before && now * y->dim[d] <= before && !(one && scales >> d & 1))
        now *= y->dim[d++];
    while (rows && d < y->ndim - 1 && y->dim[d] == 1 && (known ? !(scales >> d & 1) : x->type.dim[share_rows(x)] > own))
        d++;
    if (rows && (d == y->ndim || now == 0 || before % now || before / now > MOST_BLOCKS)) return;
    int blocks = (int)(before / now);
    if (rows && y->dim[d] % blocks) return;
    if (was < 0) blocks = blocks == 1 ? was : blocks == -was ? 1 : 0;
    if (rows && !(scales >> d & 1)) {
        if (blocks != 1 || d + 1 == y->ndim || !(scales >> (d + 1) & 1) || !divides_segments(s, y->dim[d])) return;
        blocks = -(int)y->dim[d++];
    }
    if (!blocks) return;
    if (rows && !joins_neighbours(s, rows_in(&x->type, share_rows(x), was), rows_in(y, d, blocks))) return;
    r->cost = FITS;
    r->share[0] = batch_share_of(x);
    r->rows[0] = d;
    r->blocks = blocks;
}

/* Handles a concat along the dimension of rows: the result has the row blocks of all operands. Returns false if
 * the concat is along another dimension, or if the operands have blocks of different sizes. */
static bool
read_concat(struct reading *r, int nin, struct val *const *in, const struct attr *attr)
{
    int axis = (int)attr[op_attr_find(r->call.op, "axis")].i, blocks = 0;
    for (int i = 0; i < nin; i++) {
        bool alike = batch_share_of(in[i]) == SHARE_ROWS && share_rows(in[i]) == axis;
        alike = alike && share_blocks(in[i]) > 0 && share_blocks(in[0]) > 0 &&
                in[i]->type.dim[axis] / share_blocks(in[i]) == in[0]->type.dim[axis] / share_blocks(in[0]);
        if (!alike) return false;
        blocks += share_blocks(in[i]);
    }
    if (blocks > MOST_BLOCKS) return false;
    r->cost = FITS;
    r->share[0] = SHARE_ROWS;
    r->rows[0] = axis;
    r->blocks = blocks;
    return true;
}

/* Handles a slice that consists of complete row blocks. Returns false for any other slice. */
static bool
read_slice(const struct rille_session *s, struct reading *r, const struct val *x, const struct attr *attr)
{
    const struct op *op = r->call.op;
    int axis = (int)attr[op_attr_find(op, "axis")].i, blocks = share_blocks(x);
    if (batch_share_of(x) != SHARE_ROWS || share_rows(x) != axis || blocks < 1 || !batch_calls_multiplied(s))
        return false;
    int64_t n = x->type.dim[axis], rows = n / blocks, first = attr[op_attr_find(op, "start")].i;
    int64_t last = MIN(attr[op_attr_find(op, "stop")].i, n);
    if (first < 0) first += n;
    if (last < 0) last += n;
    if (first < 0 || last <= first || first % rows || last % rows || attr[op_attr_find(op, "step")].i != 1)
        return false;
    r->cost = FITS;
    r->share[0] = SHARE_ROWS;
    r->rows[0] = axis;
    r->blocks = (int)((last - first) / rows);
    return true;
}

/* Returns the common number of blocks of operands with rows; 1: no operand has rows; 0: the numbers differ. */
static int
common_blocks(int nin, struct val *const *in)
{
    int blocks = 0;
    for (int i = 0; i < nin; i++) {
        if (!in[i] || batch_share_of(in[i]) != SHARE_ROWS) continue;
        if (blocks && blocks != share_blocks(in[i])) return 0;
        blocks = share_blocks(in[i]);
    }
    return blocks ? blocks : 1;
}

/* Returns true if an operand differs between micro-batches and is not a mean over the micro-batch. */
static bool
has_more_than_means(int nin, struct val *const *in)
{
    for (int i = 0; i < nin; i++)
        if (in[i] && batch_share_of(in[i]) != SHARE_WHOLE && !share_is_mean(in[i])) return true;
    return false;
}

/* Finds the cheapest signature of the call in r. The caller has set r's flags (sums, strict, linear). */
static void
read_signatures(struct rille_session *s, struct reading *r, int nin, struct val *const *in)
{
    struct rule rule;
    struct sig_list list;
    r->single = has_one_row(nin, in);
    operand_types(r, nin, in, r->single ? trace_microbatches(s) : 1);
    if (!infer_signatures(s, r, &rule, &list)) {
        r->single = false;
        operand_types(r, nin, in, 1);
        if (!infer_signatures(s, r, &rule, &list)) return;
    }
    for (int i = 0; i < list.nsig; i++) try_signature(r, &rule, &list.sig[i], nin, in);
}

static void
open_reading(struct reading *r, const struct op *op, int nin, const struct attr *attr)
{
    *r = (struct reading){.cost = NEVER};
    r->call =
        (struct call){.op = op, .nin = nin, .nout = op_nresult(op, attr), .in = r->in, .out = r->out, .attr = attr};
}

/* Finds how the results of a call relate to the batch. Sets the cost to NEVER if no signature fits. out: type of
 * result 0; NULL: not known. */
static void
read_call(struct rille_session *s, const struct op *op, int nin, struct val *const *in, const struct attr *attr,
          const struct type *out, bool forward, struct reading *r)
{
    open_reading(r, op, nin, attr);
    r->sums = share_among(nin, in, SHARE_SUM);
    r->strict = (forward || s->context.user_backward) && !s->trace.alone && has_more_than_means(nin, in);
    r->blocks = common_blocks(nin, in);
    if (op == op_find("reshape") && out)
        read_reshape(s, r, in[0], out, forward ? batch_calls_scales(s, op) : ~0U);
    else if ((op != op_find("concat") || !read_concat(r, nin, in, attr)) &&
             (op != op_find("slice") || !read_slice(s, r, in[0], attr)))
        read_signatures(s, r, nin, in);
}

/* Returns true for a cast between float dtypes, which is linear except for rounding. */
static bool
is_number_cast(const struct op *op, const struct val *x, const struct attr *attr)
{
    if (op != op_find("cast")) return false;
    enum dtype to = (enum dtype)attr[op_attr_find(op, "dtype")].i, from = (enum dtype)x->type.dtype;
    return to != DT_BOOL && from != DT_BOOL && (dtype_is_float(to) || !dtype_is_float(from));
}

/* Looks for an add, sub or where that combines a number with operands that all have this share. Returns the index
 * of the number operand; -1: the call is different. */
static int
number_beside(const struct op *op, int nin, struct val *const *in, enum batch_share share)
{
    int first = op == op_find("where") ? 1 : op == op_find("add") || op == op_find("sub") ? 0 : nin, number = -1;
    if (first && first < nin && batch_share_of(in[0]) != SHARE_WHOLE) return -1;
    for (int i = first; i < nin; i++)
        if (in[i]->is_number && in[i]->number.kind == NUM_FIXED)
            number = i;
        else if (batch_share_of(in[i]) != share)
            return -1;
    return number;
}

/* ---- setting the shares of results ---- */

static void
set_share(struct node *n, int k, enum batch_share share, int rows, int blocks)
{
    n->out[k]->share = (uint8_t)share;
    n->out[k]->rows = (uint8_t)rows;
    n->out[k]->blocks = (int16_t)blocks;
}

/* Returns true if n sums over the first dimension of an operand whose relation to the batch is unknown
 * (SHARE_OTHER). If the operand has rows, they are its first dimension, so the sum may be over rows. */
static bool
sums_rows(const struct node *n)
{
    if (n->op != op_find("sum") || batch_share_of(n->in[0]) != SHARE_OTHER) return false;
    const struct attr *axis = &n->attr[op_attr_find(n->op, "axis")];
    for (int i = 0; i < axis->n; i++)
        if (axis->list[i] == 0) return true;
    return axis->n == 0;
}

/* Sets the shares of n's results if this requires no signature. Returns false if it does. */
static bool
note_plain(struct node *n)
{
    struct val *x = n->nin && n->in[0] && !n->in[0]->is_number ? n->in[0] : NULL;
    if (n->op->flags & OP_SOURCE) {
        set_share(n, 0, SHARE_DRAWN, 0, 1);
        return true;
    }
    bool counts = x && batch_share_of(x) == SHARE_POSITIONS;
    if (x && (counts || n->op->flags & OP_MOVE || is_number_cast(n->op, x, n->attr))) {
        set_share(n, 0, batch_share_of(x), share_rows(x), share_blocks(x));
        return true;
    }
    if (!sums_rows(n) && number_beside(n->op, n->nin, n->in, SHARE_SUM) < 0) return false;
    set_share(n, 0, SHARE_SUM, 0, 1);
    return true;
}

/* Returns true if a composite, such as mean, divides a sum over rows by a count of one micro-batch. A count of one
 * micro-batch is a number, or a value that is the same for all micro-batches and is not a total of the batch. */
static bool
divides_by_count(const struct node *n)
{
    if (n->op != op_find("div") || !strcmp(n->name, n->op->name)) return false;
    const struct val *x = n->in[0], *count = n->in[1];
    if (!count->is_number && (!count->node || !count->node->traced)) return false;
    while (x->node->op == op_find("cast")) x = x->node->in[0];
    enum batch_share share = x->node->op == op_find("sum") ? batch_share_of(x->node->in[0]) : SHARE_WHOLE;
    return share == SHARE_ROWS || share == SHARE_OTHER;
}

/* Returns the type of the operand over whose rows v is a sum; NULL: unknown. *rows: the dimension of the rows. */
static const struct type *
type_summed(const struct val *v, int *rows)
{
    while (v && batch_share_of(v) == SHARE_SUM) {
        const struct node *n = v->node;
        v = NULL;
        for (int i = 0; i < n->nin && !v; i++)
            if (n->in[i] && !n->in[i]->is_number && batch_share_of(n->in[i]) != SHARE_WHOLE) v = n->in[i];
    }
    if (!v || batch_share_of(v) != SHARE_ROWS) return NULL;
    *rows = share_rows(v);
    return &v->type;
}

/* Returns true if `count` is a product of dimensions of t that includes the row dimension. */
static bool
counts_elements(const struct type *t, int rows, double count)
{
    for (unsigned set = 0; set < 1U << t->ndim; set++) {
        double product = 1;
        for (int d = 0; d < t->ndim; d++)
            if (set >> d & 1) product *= (double)t->dim[d];
        if (set >> rows & 1 && product == count) return true;
    }
    return false;
}

/* Returns true if the call is linear in means over the rows. The result is then a mean over the rows, too. */
static bool
is_linear_in_means(struct rille_session *s, const struct op *op, int nin, struct val *const *in,
                   const struct attr *attr, struct reading *r)
{
    if (share_among(nin, in, SHARE_FROM_MEANS)) return false;
    if (number_beside(op, nin, in, SHARE_MEAN) >= 0) return true;
    open_reading(r, op, nin, attr);
    r->linear = true;
    r->blocks = 1;
    read_signatures(s, r, nin, in);
    return r->cost < NEVER && r->share[0] == SHARE_SUM;
}

/* Returns true if a composite, such as an unbiased variance, divides a sum over rows by another number than theirs. */
static bool
divides_by_less(const struct node *n)
{
    int rows;
    if (!divides_by_count(n) || !n->in[1]->is_number) return false;
    const struct type *t = type_summed(n->in[0], &rows);
    double count = n->in[1]->number.is_int ? (double)n->in[1]->number.i : n->in[1]->number.f;
    return t && !counts_elements(t, rows, count);
}

/* Returns true if the values of the call depend on the positions of its rows, which differ between a micro-batch and
 * the batch. Examples: a triangle; a sum over rows that looks up some rows by indices. */
static bool
reads_positions(const struct node *n, const struct reading *r)
{
    const struct val *x = n->in[0];
    bool triangle = n->op == op_find("tril") || n->op == op_find("triu"), looks_up = false;
    for (int i = 0; i < n->nin && i < OP_OPERAND; i++)
        if (n->in[i] && n->op->in[i].flags & IN_INDEX && batch_share_of(n->in[i]) != SHARE_ROWS) looks_up = true;
    if (looks_up && r->share[0] == SHARE_SUM && share_among(n->nin, n->in, SHARE_ROWS)) return true;
    return triangle && batch_share_of(x) == SHARE_ROWS && share_rows(x) >= x->type.ndim - 2;
}

/* Returns true if the call combines rows of one micro-batch in a way for which the batch's value is unknown. */
static bool
combines_rows(const struct node *n)
{
    bool rows = share_among(n->nin, n->in, SHARE_ROWS) || share_among(n->nin, n->in, SHARE_MAX) ||
                share_among(n->nin, n->in, SHARE_MIN) || share_among(n->nin, n->in, SHARE_SUM);
    return rows && !share_among(n->nin, n->in, SHARE_DRAWN) && !share_among(n->nin, n->in, SHARE_OTHER);
}

/* Returns true if the call needs the batch's value of an operand that is a sum or mean of the micro-batch. In the
 * forward pass, batch_share_operands() has replaced such operands. */
static bool
reads_late_total(const struct reading *r, int nin)
{
    for (int i = 0; i < nin; i++)
        if (r->each[i] == REPLACED) return true;
    return false;
}

int
batch_share_note(struct rille_session *s, struct node *n)
{
    struct reading *r;
    bool forward = n->phase == PHASE_FORWARD, users = !forward && s->context.user_backward && !s->trace.alone;
    for (int k = 0; k < n->nout; k++) set_share(n, k, SHARE_OTHER, 0, 1);
    if (note_plain(n)) return 0;
    r = must_alloc(sizeof *r);
    read_call(s, n->op, n->nin, n->in, n->attr, &n->out[0]->type, forward, r);
    bool fits = r->cost < NEVER && !reads_positions(n, r) && !(users && reads_late_total(r, n->nin));
    fits = fits && (r->share[0] != SHARE_SUM || !divides_by_less(n));
    for (int k = 0; k < n->nout && fits; k++) set_share(n, k, r->share[k], r->rows[k], r->blocks);
    bool mean = divides_by_count(n) || (s->trace.alone && reads_late_total(r, n->nin));
    if (n->out[0]->share == SHARE_SUM && mean) set_share(n, 0, SHARE_MEAN, 0, 1);
    if (n->out[0]->share == SHARE_FROM_MEANS &&
        (s->trace.alone || is_linear_in_means(s, n->op, n->nin, n->in, n->attr, r)))
        for (int k = 0; k < n->nout; k++) set_share(n, k, SHARE_MEAN, 0, 1);
    free(r);
    if (fits || (!forward && !users) || s->trace.alone || !combines_rows(n)) return 0;
    return build_refuse(E_PLAN, n->op, n->nin, n->in,
                        "%s: the call combines rows of the batch, but with micro_batches = %d it has only the rows of "
                        "one micro-batch. Use micro_batches = 1; or, if only the rows of one micro-batch shall be "
                        "combined, make the call in rille.per_micro_batch(fn)",
                        n->name, trace_microbatches(s));
}

int
batch_share_source(struct rille_session *s, struct node *n, int axis)
{
    bool random = n->op->flags & OP_RANDOM;
    bool constant = n->op == op_find("full") || n->op == op_find("zeros") || n->op == op_find("ones");
    if (n->op == op_find("expand")) constant = true;
    if (constant || (random && !s->trace.alone && s->trace.segments)) set_share(n, 0, SHARE_ROWS, axis, 1);
    if (constant || random || n->op == op_find("empty") || s->trace.alone) return 0;
    if (positions_axis(n->out[0]) >= 0) return set_share(n, 0, SHARE_POSITIONS, 0, 1), 0;
    return fail(E_PLAN,
                "%s: dimension %d of the result is the number of rows of one of %d micro-batches, so its values differ "
                "from those for the whole batch; pass the tensor to the step as an argument, or make it in "
                "rille.per_micro_batch(fn)",
                n->name, axis, trace_microbatches(s));
}

/* ---- replacing operands by values of the batch ---- */

/* Returns true if v can be computed before the step begins: v needs no gradient, and depends neither on random
 * numbers nor on live numbers (values of user functions). */
static bool
is_known_before(struct rille_session *s, struct val *v)
{
    uint64_t mark = graph_mark(s->graph);
    int n = 1, capacity = 0;
    struct val **stack = NULL;
    bool known = !v->needs_grad;
    GROW(stack, n, capacity);
    stack[0] = v;
    while (n > 0 && known) {
        struct val *x = stack[--n];
        known = !(x->is_number && x->number.kind == NUM_LIVE);
        if (x->is_number || !trace_per_microbatch(x) || x->input >= 0 || x->mark == mark) continue;
        x->mark = mark;
        known = known && !(x->node->op->flags & OP_RANDOM);
        GROW(stack, n + x->node->nin, capacity);
        for (int i = 0; i < x->node->nin; i++)
            if (x->node->in[i]) stack[n++] = x->node->in[i];
    }
    free(stack);
    return known;
}

/* Rejects a division of a sum over rows by the row count of one micro-batch, because the whole batch has more
 * rows. Allows the division if the number was replaced by that of the whole batch (batch_numbers.h). */
static int
check_count(const struct call_context *ctx, const struct op *op, int nin, struct val *const *in)
{
    int rows;
    if (batch_numbers_known(ctx->s) || ctx->composite || op != op_find("div") || !in[1]->is_number ||
        in[1]->number.kind != NUM_FIXED)
        return 0;
    double count = in[1]->number.is_int ? (double)in[1]->number.i : in[1]->number.f;
    const struct type *t = type_summed(in[0], &rows);
    if (!t || !counts_elements(t, rows, count)) return 0;
    return build_refuse(E_PLAN, op, nin, in,
                        "div: a sum over the rows is divided by %g, the row count of one of %d micro-batches, not of "
                        "the batch; write mean(), or multiply by the reciprocal if a constant is meant",
                        count, trace_microbatches(ctx->s));
}

/* Divides a value by the number of micro-batches, so that the quotients of all micro-batches add up to the value.
 * The value is equal in all micro-batches, or contributes to a mean over the micro-batches. */
static int
share_operand(const struct call_context *ctx, struct val *v, struct val **out)
{
    double share = 1.0 / trace_microbatches(ctx->s);
    if (!v->is_number) return microbatch_scaled(ctx, v, share, out);
    double f = v->number.is_int ? (double)v->number.i : v->number.f;
    *out = build_number(ctx->s, false, f * share, 0);
    return 0;
}

/* Replaces each operand by its value for the whole batch, which is known after the last micro-batch. E_PLAN: the
 * value for the whole batch is unknown. */
static int
sum_operands(const struct call_context *ctx, const struct op *op, int nin, struct val **in)
{
    for (int i = 0; i < nin; i++) {
        if (in[i]) TRY(batch_share_batch(ctx, in[i], &in[i]));
        if (in[i] && batch_share_of(in[i]) != SHARE_WHOLE)
            return build_refuse(
                E_PLAN, op, nin, in,
                "%s: an operand is a sum or mean over the rows of the whole batch; with micro_batches = %d it "
                "is known only after the last micro-batch, because it depends on parameters or random "
                "numbers. Use micro_batches = 1; detach() the operand if no gradient shall flow through it; reduce "
                "over "
                "axis 1 and later only; or make the call in rille.per_micro_batch(fn), for the rows of each "
                "micro-batch",
                op->name, trace_microbatches(ctx->s));
    }
    return 0;
}

/* A value of one micro-batch (`of`), and the value of the whole batch that replaces it (`is`). */
struct joined_pair {
    const struct val *of;
    struct val *is;
};
struct joined {
    struct joined_pair *pair;
    int n, capacity;
    bool known;  /* true: all operands found so far are means and sums over micro-batches */
    bool before; /* true: the batch's values are computed before the step; false: after the last micro-batch */
};

static int join_from_means(const struct call_context *ctx, struct val *v, struct joined *j, struct val **out);
static int joined_value(const struct call_context *ctx, struct val *v, struct val **out);

/* Makes the batch's value of a sum or a mean, in a separate step that runs before the present step. */
static int
total_before(const struct call_context *ctx, struct val *v, struct val **out)
{
    bool mean = batch_share_of(v) == SHARE_MEAN;
    TRY(trace_total(ctx, v, out));
    return mean ? share_operand(ctx, *out, out) : 0;
}

static int
join_operand(const struct call_context *ctx, struct val *v, struct joined *j, struct val **out)
{
    enum batch_share share = v ? batch_share_of(v) : SHARE_WHOLE;
    *out = v;
    if (share == SHARE_WHOLE) return 0;
    for (int i = 0; i < j->n; i++)
        if (j->pair[i].of == v) return *out = j->pair[i].is, 0;
    j->known = j->known && (share == SHARE_SUM || share == SHARE_MEAN || share == SHARE_FROM_MEANS);
    if (!j->known) return 0;
    if (share == SHARE_FROM_MEANS)
        TRY(join_from_means(ctx, v, j, out));
    else
        TRY(j->before ? total_before(ctx, v, out) : joined_value(ctx, v, out));
    GROW(j->pair, j->n + 1, j->capacity);
    j->pair[j->n++] = (struct joined_pair){v, *out};
    return 0;
}

/* Makes the batch's value of a function of means and sums, by applying the function's calls to the batch's means and
 * sums. */
static int
join_from_means(const struct call_context *ctx, struct val *v, struct joined *j, struct val **out)
{
    struct val *in[OPERANDS], *res[OP_OUT];
    const struct node *n = v->node;
    j->known = j->known && !(n->op->flags & OP_RANDOM);
    for (int i = 0; i < n->nin; i++) TRY(join_operand(ctx, n->in[i], j, &in[i]));
    if (!j->known) return 0;
    if (n->op->flags & OP_MOVE) return build_to_global(ctx, in[0], v->layout, out);
    TRY(build_call(ctx, n->op, n->nin, in, n->attr, NULL, res));
    *out = res[v->out];
    return 0;
}

/* Replaces operand k, a sum or mean of the micro-batch, by the batch's value. If that value is known only after
 * the last micro-batch, replaces all operands. Sets *again, because the signatures must be tried again. */
static int
replace_operand(const struct call_context *ctx, const struct op *op, int nin, struct val **in, int k, bool *again)
{
    *again = true;
    if (!is_known_before(ctx->s, in[k])) return sum_operands(ctx, op, nin, in);
    struct joined j = {.known = true, .before = true};
    struct val *total = NULL;
    int status = join_operand(ctx, in[k], &j, &total);
    free(j.pair);
    if (!status && !j.known) return sum_operands(ctx, op, nin, in);
    in[k] = total;
    return status;
}

/* Returns true if the gradient flows through some operand that is a mean over the rows, but not through another one. */
static bool
has_detached_mean(int nin, struct val *const *in)
{
    int found[2] = {0};
    for (int i = 0; i < nin; i++)
        if (in[i] && share_is_mean(in[i])) found[in[i]->needs_grad]++;
    return found[0] && found[1];
}

/* Makes a call linear in the means through which the gradient flows, if the other means are known before the step:
 * replaces the other means by those of the batch. */
static int
replace_detached_means(const struct call_context *ctx, const struct op *op, int nin, struct val **in,
                       const struct attr *attr, struct reading *r)
{
    bool again;
    if (!has_detached_mean(nin, in) || has_more_than_means(nin, in)) return 0;
    if (is_linear_in_means(ctx->s, op, nin, in, attr, r)) return 0;
    for (int i = 0; i < nin; i++)
        if (in[i] && share_is_mean(in[i]) && is_known_before(ctx->s, in[i]))
            TRY(replace_operand(ctx, op, nin, in, i, &again));
    return 0;
}

/* Returns true if some operand is computed after the last micro-batch, from values of all micro-batches. */
static bool
has_late(int nin, struct val *const *in)
{
    for (int i = 0; i < nin; i++)
        if (in[i] && in[i]->node && (in[i]->node->accumulate || in[i]->node->after)) return true;
    return false;
}

/* Returns true if some operand is a sum or a mean over the rows of the micro-batch. */
static bool
has_totals(int nin, struct val *const *in)
{
    for (int i = 0; i < nin; i++)
        if (in[i] && (batch_share_of(in[i]) == SHARE_SUM || share_is_mean(in[i]))) return true;
    return false;
}

static int
adapt_operands(const struct call_context *ctx, const struct op *op, int nin, struct val **in, const struct attr *attr,
               struct reading *r)
{
    bool again = true;
    TRY(replace_detached_means(ctx, op, nin, in, attr, r));
    while (again && has_totals(nin, in)) {
        again = false;
        read_call(ctx->s, op, nin, in, attr, NULL, true, r);
        for (int i = 0; i < nin && r->cost < NEVER && !again; i++)
            if (r->each[i] == REPLACED) TRY(replace_operand(ctx, op, nin, in, i, &again));
    }
    for (int i = 0; i < nin && r->cost < NEVER; i++)
        if (r->each[i] == CONVERTED) TRY(share_operand(ctx, in[i], &in[i]));
    return 0;
}

int
batch_share_operands(const struct call_context *ctx, const struct op *op, int nin, struct val **in,
                     const struct attr *attr)
{
    if (share_among(nin, in, SHARE_POSITIONS) && !positions_pass(op)) return positions_refuse(ctx->s, op, nin, in);
    bool plain = op->flags & (OP_MOVE | OP_SOURCE) || op == op_find("reshape") || ctx->phase != PHASE_FORWARD;
    if (plain || trace_microbatches(ctx->s) == 1 || ctx->s->trace.alone || !has_totals(nin, in)) return 0;
    if (has_late(nin, in)) return sum_operands(ctx, op, nin, in);
    if (is_number_cast(op, in[0], attr)) return 0;
    TRY(check_count(ctx, op, nin, in));
    int number = number_beside(op, nin, in, SHARE_SUM);
    if (number >= 0) return share_operand(ctx, in[number], &in[number]);
    struct reading *r = must_alloc(sizeof *r);
    int status = adapt_operands(ctx, op, nin, in, attr, r);
    free(r);
    return status;
}

/* ---- making the values of the batch ---- */

/* Computes the value of v, a function of sums and means over rows, for the whole batch from its micro-batches. */
static int
joined_value(const struct call_context *ctx, struct val *v, struct val **out)
{
    if (batch_share_of(v) == SHARE_FROM_MEANS) {
        struct joined j = {.known = true};
        int status = join_from_means(ctx, v, &j, out);
        free(j.pair);
        if (status || j.known) return status;
    }
    return batch_share_adds(v) ? microbatch_sum(ctx, v, out) : microbatch_mean(ctx, v, out);
}

int
batch_share_batch(const struct call_context *ctx, struct val *v, struct val **out)
{
    *out = v;
    return batch_share_of(v) == SHARE_SUM || share_is_mean(v) ? joined_value(ctx, v, out) : 0;
}

int
batch_share_rows(const struct call_context *ctx, const struct val *v, struct val **g)
{
    bool rows = batch_share_of(v) == SHARE_ROWS, each = trace_per_microbatch(*g);
    if (rows &&
        batch_share_of(*g) == SHARE_ROWS) { /* a reshape to one row does not tell which dimension has the rows */
        (*g)->rows = v->rows;
        (*g)->blocks = v->blocks;
    }
    if (rows ? each : !each || trace_per_microbatch(v) || batch_share_of(*g) == SHARE_SUM) return 0;
    TRY(build_to_global(ctx, *g, (*g)->layout, g));
    (*g)->node->per_piece = 1;
    set_share((*g)->node, 0, rows ? SHARE_ROWS : SHARE_SUM, share_rows(v), share_blocks(v));
    return 0;
}

/* Adds a leading dimension of size 1 to v, so that v becomes a single row. */
static int
one_row_of(const struct call_context *ctx, struct val *v, struct val **out)
{
    const struct op *op = op_find("unsqueeze");
    const struct layout *l;
    struct attr attr[OP_ATTR];
    struct val *res[OP_OUT];
    TRY(layout_summed(ctx->s->atlas, v->layout, &l));
    if (l != v->layout) TRY(build_to_global(ctx, v, l, &v));
    op_attr_defaults(op, attr);
    attr[op_attr_find(op, "axis")] = (struct attr){.i = 0, .set = true};
    TRY(build_call(ctx, op, 1, &v, attr, NULL, res));
    *out = res[0];
    return 0;
}

int
batch_share_join(const struct call_context *ctx, struct val *v, struct val **out, const struct op **reduce)
{
    enum batch_share share = batch_share_of(v);
    bool is_bool = v->type.dtype == DT_BOOL;
    *reduce = NULL;
    if (share != SHARE_MAX && share != SHARE_MIN) return joined_value(ctx, v, out);
    *reduce = op_find(share == SHARE_MAX ? (is_bool ? "any" : "max") : is_bool ? "all" : "min");
    struct call_context alone = *ctx;
    /* the row is a maximum or minimum of this micro-batch, so no operand may be replaced by a value of the batch */
    bool was = rille_micro_batch_alone(ctx->s, true);
    int status = one_row_of(&alone, v, out);
    rille_micro_batch_alone(ctx->s, was);
    return status;
}
