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
