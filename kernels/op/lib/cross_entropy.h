/* cross_entropy.h - the common part of the operators that make up cross_entropy. Pure, except for writes to the
 * caller's memory; any thread. */
#ifndef RILLE_KERNELS_OP_CROSS_ENTROPY_H
#define RILLE_KERNELS_OP_CROSS_ENTROPY_H

#include "kernels/op/lib/lookup.h"

enum { CE_IGNORE, CE_SMOOTHING };

#define CE_ATTRS                                                                                                       \
    [CE_IGNORE] = {"ignore_index", ATTR_INT, .i = -100, .doc = "label to ignore"},                                     \
    [CE_SMOOTHING] = {"label_smoothing", ATTR_FLOAT, .doc = "share of the target that is spread over all classes"}

/* Returns the class axis. */
static inline int
ce_axis(int ndim)
{
    return ndim > 1 ? 1 : 0;
}
void ce_line_dims(const struct call *c, bool *gone);
/* Expands a pattern to a rule: x stands for the dimensions of the logits (operand 0), l for those of the labels.
 * unsplit: the classes may not be split. */
int ce_rule(const struct call *c, bool unsplit, const char *pattern, struct str *rule);
/* True for labels other than ignore_index. */
struct val *ce_which_count(struct build *b, struct val *labels, int64_t ignored);
/* infer() of per-position numbers: f32 for half-precision logits, because the sum over a batch needs the digits. */
int ce_infer(const struct call *c, int64_t *size);
/* exp((x - max) - rest), and 0 where counts is false. max, rest and counts lack the class axis. For halves max, rest
 * and the result are f32. */
struct val *ce_softmax(struct build *b, struct val *x, struct val *max, struct val *rest, struct val *counts);
/* Labels outside the classes: ce_allows states the allowed labels, ce_say reports a label, and ce_counts skips them. */
void ce_allows(const struct kcall *k, struct allowed *a);
int ce_say(const struct kcall *k, const struct finding *f);
static inline bool
ce_counts(const struct kcall *k, int64_t label, int64_t nclass)
{
    return label != k->call->attr[CE_IGNORE].i && label >= 0 && label < nclass;
}

/* The body of a line of some of the classes. Its label (operand 1) is read by position. `label` is a class if it
 * counts; `here` is the label's element of the line if 0 <= here < n. */
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
