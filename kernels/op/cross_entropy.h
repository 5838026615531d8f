/* cross_entropy.h - code shared by the operators that make up cross_entropy.
 *
 * Pure, except for writes to the caller's memory; any thread. */
#ifndef RILLE_KERNELS_OP_CROSS_ENTROPY_H
#define RILLE_KERNELS_OP_CROSS_ENTROPY_H

#include "kernels/op/lib/lookup.h"

enum { CE_IGNORE, CE_SMOOTHING };

#define CE_ATTRS                                                                                                       \
    [CE_IGNORE] = {"ignore_index", ATTR_INT, .i = -100, .doc = "label to ignore"},                                     \
    [CE_SMOOTHING] = {"label_smoothing", ATTR_FLOAT, .doc = "share of the target that is spread over all classes"}

/* Returns the axis of the logits that has the classes. */
static inline int
ce_axis(int ndim)
{
    return ndim > 1 ? 1 : 0;
}
void ce_line_dims(const struct call *c, bool *gone);
/* Appends the call's SBP rule, made from a pattern in which x stands for the dimensions of the logits (operand 0)
 * and l for the dimensions of the labels. unsplit: the class axis may not be split. */
int ce_rule(const struct call *c, bool unsplit, const char *pattern, struct str *rule);
/* Builds a bool tensor that is true for the labels other than ignore_index. */
struct val *ce_which_count(struct build *b, struct val *labels, int64_t ignored);
/* Implements infer() for results with one number per label: f32 for 16-bit logits, because the sum over a batch
 * needs more digits. */
int ce_infer(const struct call *c, int64_t *size);
/* Builds the softmax of the logits x as exp((x - max) - rest). The result is 0 where `counts` is false. max: maximum
 * of each line; rest: logarithm of the sum of exp(x - max). max, rest and counts lack the class axis. For 16-bit
 * floats, max, rest and the result are f32. */
struct val *ce_softmax(struct build *b, struct val *x, struct val *max, struct val *rest, struct val *counts);
/* Handle labels that are no class: ce_allows states the allowed labels, ce_say reports an invalid label, and
 * ce_counts returns false for it. */
void ce_allows(const struct kcall *k, struct allowed *a);
int ce_say(const struct kcall *k, const struct finding *f);
static inline bool
ce_counts(const struct kcall *k, int64_t label, int64_t nclass)
{
    return label != k->call->attr[CE_IGNORE].i && label >= 0 && label < nclass;
}

/* Common prefix of GPU bodies that compute one line: the logits of one label's position, or one rank's shard of
 * them. The prefix reads the line's label (operand 1), and sets `counts` to false if the label is ignored or no
 * class. `here` is the label's index in the line, valid if 0 <= here < n. */
#define CE_LINE(...)                                                                                                   \
    BODY({                                                                                                             \
        const int axis = NDIM0 > 1;                                                                                    \
        int64_t at[8];                                                                                                 \
        where(0, at);                                                                                                  \
        for (int d = axis; d + 1 < NDIM0; d++) at[d] = at[d + 1];                                                      \
        const int64_t label = x1(at), here = label - place0(axis), classes = whole0(axis);                             \
        const bool counts = label != c->attr[IGNORE_INDEX].i && label >= 0 && label < classes;                         \
        __VA_ARGS__                                                                                                    \
    })

#endif
