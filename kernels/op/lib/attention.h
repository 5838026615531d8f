/* attention.h - code shared by attention, its gradient and its softmax: rule texts, the reference's computation of
 * one query, builders.
 *
 * Pure, except for writes to the caller's memory; any thread. */
#ifndef RILLE_KERNELS_OP_ATTENTION_H
#define RILLE_KERNELS_OP_ATTENTION_H

#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/base/nonfinite.h"
#include "kernels/op/lib/op_impl.h"

#define ATTENTION_ATTRS                                                                                                \
    [ATT_SCALE] = {"scale", ATTR_FLOAT, .f = 1, .doc = "factor of the scores"},                                        \
    [ATT_CAUSAL] = {"is_causal", ATTR_BOOL, .doc = "query i attends to keys 0..i"}

/* Common prefix of the GPU bodies of attention and its gradient. The prefix defines the indices of a line's head in q,
 * k, v and the result, and the functions sees(query, key) and score(query, key). Masked keys are never read. */
#define ATTENTION_BODY                                                                                                 \
    BODY(                                                                                                              \
        enum {LAST = NDIM - 1, ROW = NDIM - 2};                                                                        \
        const int64_t keys = dim1(ROW), queries = dim0(ROW), width = dim2(LAST);                                       \
        int64_t at[8], q[8], k[8], v[8], g[8], entry[9]; where(0, at); for (int d = 0; d < ROW; d++) {                 \
            q[d] = dim0(d) == 1 ? 0 : at[d];                                                                           \
            k[d] = dim1(d) == 1 ? 0 : at[d];                                                                           \
            v[d] = dim2(d) == 1 ? 0 : at[d];                                                                           \
            g[d] = at[d];                                                                                              \
        } const auto sees = [&](int64_t query,                                                                         \
                                int64_t key) { return !c->attr[IS_CAUSAL].i || key <= place0(ROW) + query; };          \
        const auto score =                                                                                             \
            [&](int64_t query, int64_t key) {                                                                          \
                real sum = 0;                                                                                          \
                q[ROW] = query;                                                                                        \
                k[ROW] = key;                                                                                          \
                for (int64_t e = 0; e < dim0(LAST); e++) {                                                             \
                    q[LAST] = k[LAST] = e;                                                                             \
                    sum = add_product(sum, (real)x0(q), (real)x1(k));                                                  \
                }                                                                                                      \
                sum *= (real)c->attr[SCALE].f;                                                                         \
                if (absent(&c->in[3])) return sum;                                                                     \
                for (int d = 0; d < NDIM3; d++) {                                                                      \
                    const int own = NDIM - NDIM3 + d;                                                                  \
                    entry[d] = dim3(d) == 1 ? 0 : own == LAST ? key : own == ROW ? query : at[own];                    \
                }                                                                                                      \
                return sum + (real)mask_adds(x3(entry));                                                               \
            };)

/* Rule texts of attention, one per operand; attention_text_free() frees them. The scores and the mask have one
 * letter per dimension, with the keys' letter in brackets; the text of an absent mask is "=". */
struct attention_text {
    struct str q, k, v, mask, out;
};
void attention_text(const struct call *c, struct attention_text *t);
void attention_text_free(struct attention_text *t);
void attention_mask_text(const struct type *scores, const struct type *mask, struct str *text);
int attention_infer(const struct call *c, int64_t *size);
/* Fails unless the mask is absent or broadcasts to the scores. */
int attention_check_mask(const struct call *c, const struct type *mask, struct type scores);
/* Returns the flops of the forward pass. */
double attention_flops(const struct call *c);

/* State of the reference for row r of the scores, that is, for one query. */
struct query {
    struct keys keys;
    const double *q, *k; /* row of q; keys of this query's head */
    int64_t n, size;     /* number of keys that is_causal leaves visible; number of elements in a key */
    double scale, max, sum;
};
struct query query_of(const struct kcall *k, const struct view *scores, int64_t r);
double query_weight(const struct query *q, int64_t key);

/* Build parts of attention from in = {q, k, v, mask}. b_attention_weights: softmax of the scores, in f32 for 16-bit
 * floats. b_attention_parts: the weights times v, by separate operators; for 16-bit floats the weights are rounded
 * before the product. b_attention_grad: dq, dk, dv in the batch shape of the scores; it also reads `out`, the result
 * of attention. */
struct val *b_attention_weights(struct build *b, struct val *const *in, const struct attr *attr);
struct val *b_attention_parts(struct build *b, struct val *const *in, const struct attr *attr);
void b_attention_grad(struct build *b, struct val *const *in, struct val *dout, struct val *out,
                      const struct attr *attr, struct val **grad);

#endif
