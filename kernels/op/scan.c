/* scan.c - runs a body, a small program of operators, once per position of an axis, and carries states from one
 * position to the next.
 *
 * Operands: the first states; tensors whose slices along the axis the body reads; captured values, which all
 * positions share. Results: the last states, the sums, and the outputs of all positions, joined along the axis. The
 * body is an attribute (kernels/op/base/body.h), so a plan has one task per device, whatever the length.
 *
 * The gradient is another scan, in the opposite direction (reverse_body in runtime/graph/op.h). */
#include "kernels/cpu/eltwise/eltwise.h"
#include "kernels/op/base/body_bind.h"
#include "kernels/op/base/op_impl.h"
#include "runtime/data/arena.h"
#include "runtime/base/stop.h"

#include <string.h>

enum { BODY, AXIS, LENGTH, REVERSE };

/* ---- rule ---- */

/* State of writing the SBP rule of a scan. A factor is a group of dimensions that are split alike (body.h). Each
 * factor that may be split has a letter of its own. Dimensions of other factors share a letter if they have the same
 * size, but a tensor has no letter twice. read: by letter, an operand has it; here: by letter, the tensor that is
 * being written has it. */
struct letters {
    const struct bound_body *b;
    struct str *rule;
    int64_t size[RULE_FACTOR];
    int factor[RULE_FACTOR]; /* by letter: its factor; -1: dimensions of unsplit factors share the letter */
    bool read[RULE_FACTOR], here[RULE_FACTOR], full;
    int n;
};

/* Writes the letter of a dimension. factor -1: the dimension belongs to no factor. */
static void
write_letter(struct letters *l, int factor, int64_t size, bool operand)
{
    int own = factor >= 0 && l->b->factor[factor].split ? factor : -1, i = 0;
    while (i < l->n && (l->factor[i] != own || (own < 0 && (l->size[i] != size || l->here[i])))) i++;
    if (i == RULE_FACTOR) {
        l->full = true;
        return;
    }
    if (i == l->n) l->factor[l->n] = own, l->size[l->n++] = size;
    l->here[i] = true;
    l->read[i] |= operand;
    str_addf(l->rule, own < 0 ? "[%c]" : "%c", letter(i));
}

/* Writes the dimensions of a value, and at index `axis` the dimension over which the scan iterates; axis -1: the
 * tensor lacks that dimension. */
static void
write_dims(struct letters *l, const struct body_value *v, int64_t axis, int64_t length, bool operand)
{
    memset(l->here, 0, sizeof l->here);
    for (int d = 0; d <= v->type.ndim; d++) {
        if (d == axis) write_letter(l, -1, length, operand);
        if (d < v->type.ndim && v->factor[d] < 0) str_add(l->rule, "1");
        if (d < v->type.ndim && v->factor[d] >= 0) write_letter(l, v->factor[d], v->type.dim[d], operand);
    }
}

static int
write_rule(const struct call *c, const struct bound_body *b, struct letters *l)
{
    const struct body *body = b->body;
    int64_t axis = c->attr[AXIS].i, length = c->attr[LENGTH].i;
    int slices = body->nstate + body->nsum, outputs = slices;
    for (int i = 0; i < body->ninput; i++) {
        bool slice = i >= slices && i < slices + body->nslice;
        if (body_operand(body, i) < 0) continue;
        if (body_operand(body, i)) str_add(l->rule, ",");
        if (b->value[i].type.weak)
            str_add(l->rule, "=");
        else
            write_dims(l, &b->value[i], slice ? MIN(axis, b->value[i].type.ndim) : -1, length, true);
    }
    str_add(l->rule, "->");
    for (int k = 0; k < body_nresult(body); k++) {
        const struct body_value *v = &b->value[body->result[k]];
        if (k) str_add(l->rule, ",");
        write_dims(l, v, k >= outputs ? MIN(axis, v->type.ndim) : -1, length, false);
    }
    return l->full ? call_fail(E_SHAPE, c, "the body must have at most %d sizes", RULE_FACTOR) : 0;
}

static int
rule(const struct call *c, struct str *rule)
{
    struct arena a = {0};
    struct bound_body b;
    int status = body_bind(&a, c, c->attr[AXIS].i, &b);
    struct letters l = {.b = &b, .rule = rule};
    if (!status) status = write_rule(c, &b, &l);
    arena_fini(&a);
    return status;
}

static int
check_length(const struct call *c, const struct body *body)
{
    int64_t length = c->attr[LENGTH].i;
    if (length < 1) return call_fail(E_ATTR, c, "length must be at least 1, found %lld", (long long)length);
    for (int k = body->nstate; k < body->nstate + body->nslice; k++) {
        int64_t n = c->in[k].dim[MIN(c->attr[AXIS].i, c->in[k].ndim - 1)];
        if (n != length) return call_fail(E_SHAPE, c, "slices must have %lld positions", (long long)length);
    }
    return 0;
}

static int
infer_bound(const struct call *c, const struct bound_body *b, int64_t *size)
{
    struct str text = {0};
    struct letters l = {.b = b, .rule = &text};
    TRY(check_length(c, b->body));
    int status = write_rule(c, b, &l);
    str_free(&text);
    for (int i = 0; i < l.n; i++)
        if (!l.read[i]) *size++ = l.size[i];
    for (int k = 0; k < body_nresult(b->body); k++) c->out[k].dtype = b->value[b->body->result[k]].type.dtype;
    return status;
}

static int
infer(const struct call *c, int64_t *size)
{
    struct arena a = {0};
    struct bound_body b;
    int status =
        c->attr[AXIS].i < 0 ? call_fail(E_ATTR, c, "axis must not be negative") : body_bind(&a, c, c->attr[AXIS].i, &b);
    if (!status) status = infer_bound(c, &b, size);
    arena_fini(&a);
    return status;
}

static double
flops(const struct call *c)
{
    struct arena a = {0};
    struct bound_body b;
    double sum = 0;
    if (!body_bind(&a, c, c->attr[AXIS].i, &b))
        for (int i = 0; i < b.body->nnode; i++)
            sum += b.call[i].op->flops ? b.call[i].op->flops(&b.call[i]) : 2 * rule_points(&b.rule[i]);
    arena_fini(&a);
    return sum * (double)c->attr[LENGTH].i;
}

/* ---- reference ---- */

/* Returns a dense view with the sizes of v and new memory, in the dtype of references (f64 or i64). */
static struct view
reference_view(struct arena *a, const struct view *v)
{
    struct type t = {.dtype = dtype_is_float((enum dtype)v->dtype) ? DT_F64 : DT_I64, .ndim = v->ndim};
    memcpy(t.dim, v->dim, sizeof t.dim);
    struct view dense = view_dense(&t, NULL);
    memcpy(dense.offset, v->offset, sizeof v->offset);
    memcpy(dense.global, v->global, sizeof v->global);
    dense.data = arena_alloc(a, (size_t)view_bytes(&dense) + 1);
    return dense;
}

static int
ref_node(const struct kcall *k, const struct bound_body *b, int i, const struct view *value)
{
    const struct body_node *n = &b->body->node[i];
    struct view in[RULE_OPERAND] = {{0}}, view = value[n->first];
    int64_t skip = 0;
    assert(n->nin <= RULE_OPERAND);
    for (int j = 0; j < n->nin; j++)
        if (n->in[j] >= 0) in[j] = value[n->in[j]];
    struct kcall own = {.call = &b->call[i], .in = in, .out = &value[n->first], .pieces = k->pieces, .threads = 1};
    if (!(n->op->flags & OP_VIEW)) return n->op->host.ref ? n->op->host.ref(&own) : elt_ref(&own);
    TRY(n->op->host.view(own.call, in, &view, &skip));
    view.data = (char *)in[0].data + skip * (int64_t)sizeof(double);
    view_copy(&value[n->first], &view);
    return 0;
}

/* Copies a value to position t of a tensor of slices or outputs (the stack). If `write` is false, copies position t
 * of the stack to the value. */
static void
copy_position(const struct view *stack, int64_t axis, int64_t t, const struct view *value, bool write)
{
    struct view part = body_slice(stack, axis);
    part.data = (char *)stack->data + t * stack->stride[body_axis(axis, stack->ndim)] * (int64_t)sizeof(double);
    view_copy(write ? &part : value, write ? value : &part);
}

static int
ref_position(const struct kcall *k, const struct bound_body *b, struct view *value, int64_t t)
{
    const struct body *body = b->body;
    int nstate = body->nstate + body->nsum;
    for (int i = 0; i < body->nslice; i++)
        copy_position(&k->in[body->nstate + i], k->call->attr[AXIS].i, t, &value[nstate + i], false);
    for (int i = 0; i < body->nnode; i++) TRY(ref_node(k, b, i, value));
    for (int i = nstate; i < body_nresult(body); i++)
        copy_position(&k->out[i], k->call->attr[AXIS].i, t, &value[body->result[i]], true);
    for (int i = 0; i < nstate; i++) view_copy(&k->out[i], &value[body->result[i]]);
    for (int i = 0; i < nstate; i++) view_copy(&value[i], &k->out[i]);
    return 0;
}

static int
ref_bound(struct arena *a, const struct kcall *k, const struct bound_body *b)
{
    int64_t length = k->call->attr[LENGTH].i;
    if (!body_fits(a, b, k, k->call->attr[AXIS].i, length)) {
        for (int i = 0; i < k->call->nout; i++) view_clear(&k->out[i]);
        return 0;
    }
    struct view *value = body_views(a, b, k, k->call->attr[AXIS].i);
    for (int v = 0; v < b->body->nvalue; v++) {
        int from = v < b->body->ninput ? body_operand(b->body, v) : -1;
        if (v >= b->body->ninput || from < b->body->nstate + b->body->nslice) value[v] = reference_view(a, &value[v]);
        if (from >= b->body->nstate + b->body->nslice) value[v].data = k->in[from].data;
        if (from >= 0 && from < b->body->nstate) view_copy(&value[v], &k->in[from]);
    }
    for (int64_t t = 0; t < length && !stop_now(); t++)
        TRY(ref_position(k, b, value, k->call->attr[REVERSE].i ? length - 1 - t : t));
    return 0;
}

static int
ref(const struct kcall *k)
{
    struct arena a = {0};
    struct bound_body b;
    int status = body_bind(&a, k->call, k->call->attr[AXIS].i, &b);
    if (!status) status = ref_bound(&a, k, &b);
    arena_fini(&a);
    return status;
}

static int
results(const struct attr *attr)
{
    const struct body *b = attr ? body_at(attr[BODY].i) : NULL;
    return b ? body_nresult(b) : 1;
}

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    b->reverse_body(b, n, dout, din);
}

const struct op op_scan = {
    .name = "scan",
    .doc = "runs a body once per position of an axis, and carries states from position to position",
    .in = {{"x", IN_LIST | IN_NUMBER}},
    .results = results,
    .attr = {[BODY] = {"body", ATTR_BODY, ATTR_HIDDEN, .i = -1, .doc = "operators of one position"},
             [AXIS] = {"axis", ATTR_INT, .doc = "axis of the positions"},
             [LENGTH] = {"length", ATTR_INT, .i = 1, .doc = "number of positions"},
             [REVERSE] = {"reverse", ATTR_BOOL, .doc = "true: from the last position to the first"}},
    .shape.make_rule = rule,
    .shape.infer = infer,
    .partial.reduce = RED_SUM,
    .grad.build = grad,
    .grad.saves = "*",
    .host.ref = ref,
    .flops = flops,
    .flags = OP_HIDDEN,
    .sample = {"f32{4,3} f32{5,4,3} f32{3,3} length=5 body=1,1,1:matmul(0,2);add(3,1);tanh(4)>5,5",
               "f64{2,3} f64{2,4,3} f64{2} axis=1 length=4 reverse=true "
               "body=1,1,1,=3:mul(0,2);unsqueeze[axis=1](3);mul(4,5);tanh(6);sum[axis=1](7);add(1,8)>7,9,0",
               "f64{4,3} f64{2,4,3} f64{3} length=2 "
               "body=1,1,1,=3:mul(0,3);add(4,2);tanh(5);mul(6,2);sum[axis=0](7);add(1,8)>6,9"},
};
