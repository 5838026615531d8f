/* cross_entropy.h - what the operators that make up cross_entropy agree on. Pure, but for what they write to the
 * caller's memory; any thread. */
#ifndef RILLE_KERNELS_OP_CROSS_ENTROPY_H
#define RILLE_KERNELS_OP_CROSS_ENTROPY_H

#include "kernels/op/lookup.h"

enum { CE_IGNORE, CE_SMOOTHING };

#define CE_ATTRS                                                                                                       \
    [CE_IGNORE] = {"ignore_index", ATTR_INT, .i = -100, .doc = "a label that does not count"},                         \
    [CE_SMOOTHING] = {"label_smoothing", ATTR_FLOAT, .doc = "share of the target that is spread over all classes"}

/* The axis of the classes. */
static inline int
ce_axis(int ndim)
{
    return ndim > 1 ? 1 : 0;
}
void ce_line_dims(const struct call *c, bool *gone);
/* Writes "aVb" for the logits and "ab" for the labels. unsplit: the classes stay whole. */
void ce_rule(const struct type *logits, bool unsplit, struct str *x, struct str *labels);
/* Which labels are other than the one that does not count. */
struct val *ce_which_count(struct build *b, struct val *labels, int64_t ignored);
/* exp((x - max) - rest), 0 where counts is false; these without the axis of the classes, max and rest f32 of halves,
 * and so is the result. */
struct val *ce_softmax(struct build *b, struct val *x, struct val *max, struct val *rest, struct val *counts);
/* Of labels that are no class: the first tells which are, the second says so, the third passes them over. */
void ce_allows(const struct kcall *k, struct allowed *a);
int ce_say(const struct kcall *k, const struct finding *f);
static inline bool
ce_counts(const struct kcall *k, int64_t label, int64_t nclass)
{
    return label != k->call->attr[CE_IGNORE].i && label >= 0 && label < nclass;
}

#endif
