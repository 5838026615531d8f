/* attention.h - what attention, its gradient and its softmax share: the rule, a query of the reference, words. Pure,
 * but for what they write to the caller's memory; any thread. */
#ifndef RILLE_KERNELS_OP_ATTENTION_H
#define RILLE_KERNELS_OP_ATTENTION_H

#include "kernels/cpu/attention.h"
#include "kernels/cpu/doubt.h"
#include "kernels/op/op_impl.h"

#define ATTENTION_ATTRS                                                                                                \
    [ATT_SCALE] = {"scale", ATTR_FLOAT, .f = 1, .doc = "times the scores"}, [ATT_CAUSAL] = {                           \
                                                                                "is_causal", ATTR_BOOL,                \
                                                                                .doc = "query i sees keys 0..i"}

/* The texts of a rule, which attention_text_free() frees; scores and the mask (or "=") have a letter a dimension, the
 * keys' in brackets. */
struct attention_text {
    struct str q, k, v, mask, out;
};
void attention_text(const struct call *c, struct attention_text *t);
void attention_text_free(struct attention_text *t);
void attention_mask_text(const struct type *scores, const struct type *mask, struct str *text);
int attention_infer(const struct call *c, int64_t *size);
/* Of the forward pass. */
double attention_flops(const struct call *c);

/* Row r of the scores as the reference sees it. */
struct query {
    struct keys keys;
    const double *q, *k; /* the query; the keys of its head */
    int64_t n, size;     /* keys that causality does not hide; of a key */
    double scale, max, sum;
};
struct query query_of(const struct kcall *k, const struct view *scores, int64_t r);
double query_weight(const struct query *q, int64_t key);

/* Of q, k, v and mask, which are `in`, with these attributes: the softmax of the scores; dq, dk, dv in the batch of the
 * scores. */
struct val *b_attention_weights(struct build *b, struct val *const *in, const struct attr *attr);
void b_attention_grad(struct build *b, struct val *const *in, struct val *dout, const struct attr *attr,
                      struct val **grad);

#endif
