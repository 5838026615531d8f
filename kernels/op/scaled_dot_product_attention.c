/* scaled_dot_product_attention.c - softmax(scale q k^T + mask) v: one operator, or two products and a softmax between.
 *
 * Splits of the batch, of the heads and of the queries go through either. */
#include "kernels/op/attention.h"

#include "runtime/device.h"
#include "runtime/layout.h"

#include <math.h>

enum { CAUSAL, SCALE };

/* Are there so few queries that putting keys and values in order for their blocks does not pay? One core, f32, size 64,
 * us forward, and forward and backward, as one operator and by parts:
 *
 *   12 heads, 1 query, 1024 keys      610   1,980       90   2,340
 *   256 heads, 16 x 16                540   1,260      480     880
 *   24 heads, 128 x 128               710   1,770      620   2,150
 *   12 heads, 256 x 256, causal     1,010   2,350    1,120   3,760
 *
 * One core of a Zen 4, forward, as one operator and by parts, whose scores of halves are f32:
 *
 *                        f32           bf16          f16
 *   48 heads, 32 x 32    174   185     245   139     225   218
 *   48 heads, 33 x 33    279   242     384   170     331   275
 *   24 heads, 64 x 64    293   292     289   196     341   414
 *   12 heads, 127 x 127  539   615     450   423     587   765 */
static bool
is_short(const struct call *c)
{
    return c->in[ATT_Q].dim[c->in[ATT_Q].ndim - 2] < 128;
}

static bool
compiles(const struct call *c)
{
    const struct layout *l = c->layout ? c->layout[ATT_Q] : NULL;
    return l && device_kind(l->place->kind)->flags & COMPILES;
}

/* A GPU multiplies halves of short rows as one operator; others one element after the other, so that whoever has no
 * room for the square of scores waits long. */
static bool
is_slow_whole(const struct call *c, enum dtype d)
{
    enum { ROW = 128 };
    const int64_t room = 1 << 28; /* numbers of the square */
    const struct type *q = &c->in[ATT_Q], *k = &c->in[ATT_K], *v = &c->in[ATT_V];
    int last = q->ndim - 1;
    int64_t scores = q->dim[last - 1] * k->dim[last - 1];
    for (int i = 0; i < last - 1; i++) scores *= MAX(MAX(q->dim[i], k->dim[i]), v->dim[i]);
    if (dtype_is_half(d) && q->dim[last] <= ROW && v->dim[last] <= ROW) return false;
    return scores <= room;
}

static int
build(struct build *b, const struct call *c, struct val *const *in, struct val **out)
{
    TRY(attention_infer(c, NULL));
    int n = c->in[ATT_Q].ndim;
    double scale = c->attr[SCALE].set ? c->attr[SCALE].f : 1 / sqrt((double)c->in[ATT_Q].dim[n - 1]);
    struct attr attr[OP_ATTR];
    op_attr_defaults(&op_attention, attr);
    attr_float(&op_attention, attr, "scale", scale);
    attr_int(&op_attention, attr, "is_causal", c->attr[CAUSAL].i);
    enum dtype d = c->in[ATT_Q].dtype;
    for (int i = ATT_K; i <= ATT_V; i++) d = dtype_promote(d, false, c->in[i].dtype, false);
    struct val *cast[] = {in[ATT_Q], in[ATT_K], in[ATT_V], c->nin > ATT_MASK ? in[ATT_MASK] : NULL};
    for (int i = ATT_Q; i <= ATT_V; i++) cast[i] = b_cast(b, cast[i], d);
    bool parts = compiles(c) ? is_slow_whole(c, d) : is_short(c) || d == DT_F64; /* blocks are of floats */
    out[0] = b->failed ? NULL : parts ? b_attention_parts(b, cast, attr) : b_call(b, &op_attention, 4, cast, attr);
    return b->failed ? (int)err_last() : 0;
}

const struct op op_scaled_dot_product_attention = {
    .name = "scaled_dot_product_attention",
    .doc = "softmax(q k^T scale + mask) v; bool mask: true is seen, else it is added",
    .source = "Vaswani et al. 2017",
    .in = {{"q", IN_FLOAT}, {"k", IN_FLOAT}, {"v", IN_FLOAT}, {"mask", IN_OPTIONAL}},
    .attr = {[CAUSAL] = {"is_causal", ATTR_BOOL, .doc = "query i sees keys 0..i"},
             [SCALE] = {"scale", ATTR_FLOAT, ATTR_ABSENT, .doc = "of the products; none: 1 / sqrt(size)"}},
    .build = build,
    .flags = OP_NARROW,
    .sample = {"f32{2,3,4,5} f32{2,3,4,5} f32{2,3,4,5} is_causal=true",
               "f32{1,2,3,4} f32{1,2,5,4} f32{1,2,5,6} bool{3,5}",
               "f32{2,4,3} f32{2,4,3} f32{2,4,3} f32{2,1,4} scale=0.5"},
};
