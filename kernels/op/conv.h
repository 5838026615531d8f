/* conv.h - code shared by conv2d and its gradients: sizes and steps of windows, and the loops of the reference.
 *
 * Pure, except for writes to the caller's memory; any thread. */
#ifndef RILLE_KERNELS_OP_CONV_H
#define RILLE_KERNELS_OP_CONV_H

#include "kernels/cpu/base/dnnl.h"
#include "kernels/cpu/base/nonfinite.h"
#include "kernels/op/base/op_impl.h"

/* Attributes of conv2d and its gradients, in the order of their records. Only the gradients have CONV_SIZE. */
enum { CONV_STRIDE, CONV_PADDING, CONV_DILATION, CONV_GROUPS, CONV_TF32, CONV_SIZE };

#define CONV_ATTRS                                                                                                     \
    [CONV_STRIDE] = {"stride", ATTR_INTS, .text = "1", .doc = "step between windows"},                                 \
    [CONV_PADDING] = {"padding", ATTR_INTS, .text = "0", .doc = "zeros around the image"},                             \
    [CONV_DILATION] = {"dilation", ATTR_INTS, .text = "1", .doc = "distance between entries of a window"},             \
    [CONV_GROUPS] = {"groups", ATTR_INT, .i = 1, .doc = "groups of channels that are convolved separately"},           \
    [CONV_TF32] = TF32_ATTR

/* Common prefix of the GPU bodies of conv2d and its gradients: the steps of windows, and two structs, for an entry
 * of the kernel and for a window. Each entry of the kernel multiplies one image entry in each window. The memory
 * offset of the image entry is the sum of both fields `image`; its coordinates are the sums of both fields h and
 * w. */
#define CONV_BODY                                                                                                      \
    BODY(                                                                                                              \
        const auto pair =                                                                                              \
            [&](int a, int i, int64_t other) {                                                                         \
                return c->attr[a].n ? c->attr[a].list[c->attr[a].n == 1 ? 0 : i] : other;                              \
            };                                                                                                         \
        const int64_t stride[] = {pair(STRIDE, 0, 1), pair(STRIDE, 1, 1)};                                             \
        const int64_t padding[] = {pair(PADDING, 0, 0), pair(PADDING, 1, 0)};                                          \
        const int64_t dilation[] = {pair(DILATION, 0, 1), pair(DILATION, 1, 1)}; struct entry {                        \
            int64_t other, image;                                                                                      \
            coordinate h, w;                                                                                           \
        };                                                                                                             \
        struct window {                                                                                                \
            int64_t image;                                                                                             \
            coordinate h, w;                                                                                           \
        };)

#endif
