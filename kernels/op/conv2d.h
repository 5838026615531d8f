/* conv2d.h - functions that convolution shares with its gradients. Pure; any thread. */
#ifndef RILLE_KERNELS_OP_CONV2D_H
#define RILLE_KERNELS_OP_CONV2D_H

#include <stdint.h>

struct attr;
struct build;
struct convolution;
struct op;
struct type;
struct val;
struct view;

/* Visits all combinations of elements x[n, gc, h, w], w[go, c, p, q] and y[n, go, u, v] that a convolution
 * multiplies and adds. conv2d and both gradients share this loop; their `meet` functions write y, x or w. All views
 * are dense f64. Fails with E_KERNEL if the shards do not match. */
struct conv {
    const struct view *x, *w, *y;
    void (*meet)(double *x, double *w, double *y);
};
int conv_walk(const struct conv *c, const struct attr *attr);

/* Sets stride, padding and dilation of *w from the attributes; the caller sets the operands. */
void conv_windows(const struct attr *attr, struct convolution *w);

/* Returns the flops of a convolution: each entry of y is a sum over a window in all channels of its group. */
double conv_flops(const struct type *w, const struct type *y);

/* Calls op, which is conv2d, conv2d_grad_x or conv2d_grad_w. */
struct val *b_conv(struct build *b, const struct op *op, struct val *x, struct val *y, const struct attr *attr,
                   const int64_t *size);

#endif
