/* conv.h - what conv2d and its gradients share: sizes by height and width, and how a window moves. Pure, but for what
 * they write to the caller's memory; any thread. */
#ifndef RILLE_KERNELS_OP_CONV_H
#define RILLE_KERNELS_OP_CONV_H

#include "kernels/cpu/dnnl.h"
#include "kernels/cpu/doubt.h"
#include "kernels/op/op_impl.h"

/* Attributes of all three, in this order; the gradients have a size more. */
enum { CONV_STRIDE, CONV_PADDING, CONV_DILATION, CONV_GROUPS, CONV_TF32, CONV_SIZE };

#define CONV_ATTRS                                                                                                     \
    [CONV_STRIDE] = {"stride", ATTR_INTS, .doc = "how far a window moves; 1"},                                         \
    [CONV_PADDING] = {"padding", ATTR_INTS, .doc = "zeros around the image; 0"},                                       \
    [CONV_DILATION] = {"dilation", ATTR_INTS, .doc = "from one entry of a window to the next; 1"},                     \
    [CONV_GROUPS] = {"groups", ATTR_INT, .i = 1, .doc = "parts of the channels that do not meet"},                     \
    [CONV_TF32] = TF32_ATTR

/* What the bodies of all three begin with: how a window moves, and what an entry of the kernel and a window say of
 * where they meet the image: places in memory, and rows and columns, that are added up. */
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

/* A product of x[n, gc, h, w], w[go, c, p, q] and y[n, go, u, v] over all positions that meet: conv2d and both
 * gradients are the same walk, and differ in which of the three `meet` writes. Dense f64. E_KERNEL: shards do not
 * fit. */
struct conv {
    const struct view *x, *w, *y;
    void (*meet)(double *x, double *w, double *y);
};
int conv_walk(const struct conv *c, const struct attr *attr);

/* How windows move by these attributes; which operand is what is the caller's to say. */
void conv_windows(const struct attr *attr, struct convolution *w);

/* Each entry of y is a sum over a window of all channels of its group. */
double conv_flops(const struct type *w, const struct type *y);

/* conv2d, conv2d_grad_x, conv2d_grad_w as calls. */
struct val *b_conv(struct build *b, const struct op *op, struct val *x, struct val *y, const struct attr *attr,
                   const int64_t *size);

#endif
