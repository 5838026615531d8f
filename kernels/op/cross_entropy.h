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
/* The rule that a pattern gives: x is the dimensions of the logits (operand 0), l those of labels; unsplit: every rank
 * has all classes. */
int ce_rule(const struct call *c, bool unsplit, const char *pattern, struct str *rule);
/* Which labels are other than the one that does not count. */
struct val *ce_which_count(struct build *b, struct val *labels, int64_t ignored);
/* Numbers of a position are f32 of half-precision logits: their sum over a batch needs the digits. */
int ce_infer(const struct call *c, int64_t *size);
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

/* The body of a line of some of the classes, whose labels (operand 1) are read by position: label is one of `classes`,
 * if it counts, and element `here` of the line, if it is one of its n. */
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
