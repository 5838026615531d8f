/* pool.h - what the pooling operators share: windows over the last two of four dimensions, which stay whole. */
#ifndef RILLE_KERNELS_OP_POOL_H
#define RILLE_KERNELS_OP_POOL_H

#include "kernels/op/op_impl.h"

/* Attributes of all of them, in this order. DILATION is that of max_pool2d, COUNT_PAD that of avg_pool2d. */
enum { POOL_KERNEL, POOL_STRIDE, POOL_PADDING, POOL_DILATION, POOL_CEIL, POOL_COUNT_PAD, POOL_SIZE };

#define POOL_ATTRS                                                                                                     \
    [POOL_KERNEL] = {"kernel_size", ATTR_INTS, ATTR_REQUIRED, .doc = "height and width of a window"},                  \
    [POOL_STRIDE] = {"stride", ATTR_INTS, .doc = "how far a window moves; its own size"},                              \
    [POOL_PADDING] = {"padding", ATTR_INTS, .doc = "entries around the image; 0"},                                     \
    [POOL_DILATION] = {"dilation", ATTR_INTS, .doc = "from one entry of a window to the next; 1"},                     \
    [POOL_CEIL] = {"ceil_mode", ATTR_BOOL, .doc = "a last window may reach beyond the padding"},                       \
    [POOL_COUNT_PAD] = {"count_include_pad", ATTR_BOOL, .i = 1, .doc = "a mean counts the padding"}

/* How windows lie along one direction: window u starts at u * stride - padding. */
struct window {
    int64_t kernel, stride, padding, dilation;
};
struct window pool_window(const struct attr *attr, int i);
int64_t pool_size(const struct attr *attr, int i, int64_t n); /* windows over n entries, < 0: none fits */
int pool_check(const struct call *c);
/* infer() of operators that make the pooled image. */
int pool_infer(const struct call *c, int64_t *size);

/* The planes of x (n, c) and y, walked window by window; x and y are dense. */
struct pool {
    const struct view *x, *y; /* the image; the pooled image */
    const struct attr *attr;
};
/* One window: the entries h0..h1, w0..w1 of the plane that lie in the image (every dilation-th). */
struct pane {
    int64_t at, plane;      /* index in y; index of the plane's start in x */
    int64_t h0, h1, w0, w1; /* in the image */
    int64_t step[2], row;   /* from entry to entry; entries in a row of x */
    int64_t count;          /* what a mean divides by */
};
void pool_each(const struct pool *p, void (*pane)(void *arg, const struct pane *w), void *arg);

/* An operator of this family with the attributes of another; size: of the image, where it has that attribute. */
struct val *b_pool(struct build *b, const struct op *op, int nin, struct val *const *in, const struct attr *attr);

#endif
