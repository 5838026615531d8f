/* scaled_dot_product_attention.c - softmax(scale q k^T + mask) v: products and one softmax between them.
 *
 * Splits of the batch and of the heads go through all three. */
#include "kernels/op/op_impl.h"

#include <math.h>

enum { Q, K, V, MASK };
enum { CAUSAL, SCALE };

static int
build(struct build *b, const struct call *c, struct val *const *in, struct val **out)
{
    int n = c->in[Q].ndim;
    for (int i = Q; i <= V; i++)
        if (c->in[i].ndim < 2 || c->in[i].ndim != n)
            return call_fail(E_SHAPE, c, "q, k and v must be [batch, heads, length, size], of as many dimensions");
    double scale = c->attr[SCALE].set ? c->attr[SCALE].f : 1 / sqrt((double)c->in[Q].dim[n - 1]);
    struct attr attr[OP_ATTR];
    op_attr_defaults(&op_attention_softmax, attr);
    attr_float(&op_attention_softmax, attr, "scale", scale);
    attr_int(&op_attention_softmax, attr, "is_causal", c->attr[CAUSAL].i);
    struct val *scores = b_call2(b, &op_matmul, in[Q], b_transpose(b, in[K], n - 2, n - 1));
    struct val *mask = c->nin > MASK ? in[MASK] : NULL;
    struct val *weights = scores ? b_call(b, &op_attention_softmax, 2, (struct val *[]){scores, mask}, attr) : NULL;
    out[0] = b_call2(b, &op_matmul, weights, in[V]);
    return b->failed ? (int)err_last() : 0;
}

const struct op op_scaled_dot_product_attention = {
    .name = "scaled_dot_product_attention",
    .doc = "softmax(q k^T scale + mask) v; bool mask: true is seen, else it is added",
    .source = "Vaswani et al. 2017",
    .in = {{"q", IN_FLOAT}, {"k", IN_FLOAT}, {"v", IN_FLOAT}, {"mask", IN_OPTIONAL}},
    .attr = {[CAUSAL] = {"is_causal", ATTR_BOOL, .doc = "query i sees keys 0..i"},
             [SCALE] = {"scale", ATTR_FLOAT, .doc = "default 1 / sqrt(size)"}},
    .build = build,
    .sample = {"f32{2,3,4,5} f32{2,3,4,5} f32{2,3,4,5} is_causal=true",
               "f32{1,2,3,4} f32{1,2,5,4} f32{1,2,5,6} bool{3,5}",
               "f32{2,4,3} f32{2,4,3} f32{2,4,3} f32{2,1,4} scale=0.5"},
};
