/* attention.h - code shared by attention, its gradient and its softmax: rule texts, the reference's computation of
 * one query, builders.
 *
 * Pure, except for writes to the caller's memory; any thread. */
#ifndef RILLE_KERNELS_OP_ATTENTION_H
#define RILLE_KERNELS_OP_ATTENTION_H

#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/base/nonfinite.h"
#include "kernels/op/base/op_impl.h"

/* Attributes: ATTENTION_SOFTMAX_ATTRS of attention_softmax; ATTENTION_ATTRS of attention and its gradient. */
#define ATTENTION_SOFTMAX_ATTRS                                                                                        \
    [ATT_SCALE] = {"scale", ATTR_FLOAT, .f = 1, .doc = "factor of the scores"},                                        \
    [ATT_CAUSAL] = {"is_causal", ATTR_BOOL, .doc = "query i attends to keys 0..i"},                                    \
    [ATT_WINDOW] = {"window", ATTR_INTS, .doc = "query i attends to keys i - window[1]..i + window[2]; -1: no limit"}
#define ATTENTION_ATTRS                                                                                                \
    ATTENTION_SOFTMAX_ATTRS, [ATT_SOFTCAP] = {"softcap", ATTR_FLOAT, .doc = "bound of the scores; 0: none"}
/* Optional operands, after the operands q, k and v. */
#define ATTENTION_OPTIONS                                                                                              \
    [ATT_MASK] = {"mask", IN_OPTIONAL}, [ATT_SINKS] = {"sinks", IN_OPTIONAL | IN_FLOAT},                               \
    [ATT_SPANS] = {"spans", IN_OPTIONAL}

/* Common prefix of the GPU bodies of attention and its gradient. The prefix defines the indices of an attention head
 * in q, k, v and the result. It also defines functions: sees(query, key); score(query, key), bounded by softcap and
 * masked; slope(query, key), the derivative of the bounded score; sink(). Keys that a query does not see are never
 * read. */
#define ATTENTION_BODY                                                                                                 \
    BODY(                                                                                                              \
        enum {LAST = NDIM - 1, ROW = NDIM - 2};                                                                        \
        const int64_t keys = dim1(ROW), queries = dim0(ROW), width = dim2(LAST);                                       \
        int64_t at[8], q[8], k[8], v[8], g[8], entry[9]; where(0, at);                                                 \
        for (int d = 0; d < ROW; d++) {                                                                                \
            q[d] = dim0(d) == 1 ? 0 : at[d];                                                                           \
            k[d] = dim1(d) == 1 ? 0 : at[d];                                                                           \
            v[d] = dim2(d) == 1 ? 0 : at[d];                                                                           \
            g[d] = at[d];                                                                                              \
        } const auto bound =                                                                                           \
            [&](int64_t query, int side) {                                                                             \
                for (int d = 0; d < NDIM5 - 1; d++) {                                                                  \
                    const int own = NDIM - NDIM5 + d;                                                                  \
                    entry[d] = dim5(d) == 1 ? 0 : own == ROW ? query : at[own];                                        \
                }                                                                                                      \
                entry[NDIM5 > 0 ? NDIM5 - 1 : 0] = side;                                                               \
                return (int64_t)x5(entry);                                                                             \
            };                                                                                                         \
        const auto sees =                                                                                              \
            [&](int64_t query, int64_t key) {                                                                          \
                const int64_t p = place0(ROW) + query;                                                                 \
                if (c->attr[IS_CAUSAL].i && key > p) return false;                                                     \
                if (c->attr[WINDOW].n && c->attr[WINDOW].list[0] >= 0 && key < p - c->attr[WINDOW].list[0])            \
                    return false;                                                                                      \
                if (c->attr[WINDOW].n && c->attr[WINDOW].list[1] >= 0 && key > p + c->attr[WINDOW].list[1])            \
                    return false;                                                                                      \
                return absent(&c->in[5]) || (key >= bound(query, 0) && key < bound(query, 1));                         \
            };                                                                                                         \
        const auto product =                                                                                           \
            [&](int64_t query, int64_t key) {                                                                          \
                real sum = 0;                                                                                          \
                q[ROW] = query;                                                                                        \
                k[ROW] = key;                                                                                          \
                for (int64_t e = 0; e < dim0(LAST); e++) {                                                             \
                    q[LAST] = k[LAST] = e;                                                                             \
                    sum = add_product(sum, (real)x0(q), (real)x1(k));                                                  \
                }                                                                                                      \
                return sum * (real)c->attr[SCALE].f;                                                                   \
            };                                                                                                         \
        const auto score =                                                                                             \
            [&](int64_t query, int64_t key) {                                                                          \
                const real cap = (real)c->attr[SOFTCAP].f, own = product(query, key);                                  \
                const real sum = cap > 0 ? cap * (real)tanh(own / cap) : own;                                          \
                if (absent(&c->in[3])) return sum;                                                                     \
                for (int d = 0; d < NDIM3; d++) {                                                                      \
                    const int to = NDIM - NDIM3 + d;                                                                   \
                    entry[d] = dim3(d) == 1 ? 0 : to == LAST ? key : to == ROW ? query : at[to];                       \
                }                                                                                                      \
                return sum + (real)mask_adds(x3(entry));                                                               \
            };                                                                                                         \
        const auto slope =                                                                                             \
            [&](int64_t query, int64_t key) {                                                                          \
                const real cap = (real)c->attr[SOFTCAP].f;                                                             \
                const real t = cap > 0 ? (real)tanh(product(query, key) / cap) : 0;                                    \
                return 1 - t * t;                                                                                      \
            };                                                                                                         \
        const auto sink = [&]() -> double {                                                                            \
            if (absent(&c->in[4])) return -INFINITY;                                                                   \
            for (int d = 0; d < NDIM4; d++) entry[d] = dim4(d) == 1 ? 0 : at[ROW - NDIM4 + d];                         \
            return x4(entry);                                                                                          \
        };)

/* Texts of attention's SBP rule, one per operand; attention_text_free() frees them. The scores and the mask have one
 * letter per dimension, with the keys' letter in brackets; the text of an absent operand is "=". options: mask,
 * sinks and spans, separated by commas. */
struct attention_text {
    struct str q, k, v, options, out;
};
void attention_text(const struct call *c, struct attention_text *t);
void attention_text_free(struct attention_text *t);
/* Writes the rule texts of the operands mask, sinks and spans of a call, which follow each other. mask: index of the
 * operand mask. */
void attention_options_text(const struct call *c, const struct type *scores, int mask, struct str *text);
int attention_infer(const struct call *c, int64_t *size);
/* Checks that the shapes and dtypes of the optional operands mask, sinks and spans fit the scores. */
int attention_check_options(const struct call *c, struct type scores, int mask);
/* Returns true if the call has sinks, spans, a window or a softcap. */
bool attention_has_options(const struct call *c, int mask);
/* Returns the flops of the forward pass. */
double attention_flops(const struct call *c);

/* State of the reference for row r of the scores, that is, for one query. */
struct query {
    struct keys keys;
    const double *q, *k; /* q: row of q; k: keys of this query's head */
    int64_t size;        /* number of elements in a key */
    double scale, softcap, sink, max, sum;
};
struct query query_of(const struct kcall *k, const struct view *scores, int64_t r);
double query_weight(const struct query *q, int64_t key);
double query_sink_weight(const struct query *q);
/* Returns the derivative of the score after softcap with respect to the score before softcap. */
double query_slope(const struct query *q, int64_t key);

/* The functions below build parts of attention. in: the operands q, k, v, mask, sinks, spans. */
/* Builds the weights: the softmax of the scores, in f32 for 16-bit floats. Sets *bounded to tanh(scores / softcap),
 * or to NULL without a softcap; bounded NULL: not needed. */
struct val *b_attention_weights(struct build *b, struct val *const *in, const struct attr *attr, struct val **bounded);
/* Builds the weights times v by separate operators. For 16-bit floats, rounds the weights before the product. */
struct val *b_attention_parts(struct build *b, struct val *const *in, const struct attr *attr);
/* Sums the gradients of the sinks over the queries, to t, the type of the sinks. */
struct val *b_sink_grad(struct build *b, struct val *grad, const struct type *t);

#endif
