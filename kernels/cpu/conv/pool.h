/* pool.h - pooling: windows over one plane of an image, computed row by row with vector instructions.
 *
 * A row of windows takes two passes: the vertical pass combines whole rows of the image into one padded row, and the
 * horizontal pass combines the entries of each window in that row. A gradient takes the horizontal pass first. The
 * padded row holds neutral entries outside the image. Any thread: calls keep no state, and the caller owns all
 * memory. */
#ifndef RILLE_KERNELS_CPU_POOL_H
#define RILLE_KERNELS_CPU_POOL_H

#include "runtime/base/base.h"

/* The windows along one direction: window u starts at u * stride - padding. */
struct window {
    int64_t kernel, stride, padding, dilation;
};

/* The windows of a plane. Arrays have the values for height, then for width. */
struct plane {
    struct window window[2];
    int64_t n[2], m[2]; /* n: height and width of the image; m: number of windows in each direction */
    bool count_padding; /* true: the divisor of a mean counts padding */
    int lanes;          /* number of planes that are computed at once: 1, or PLANE_LANES interleaved planes */
};
enum { PLANE_LANES = 16 };

/* The entries of the image that window u covers in direction i: lo .. hi - 1. count: number of entries by which a
 * mean is divided. */
struct span {
    int64_t lo, hi, count;
};
struct span plane_span(const struct plane *p, int i, int64_t u);

/* Functions, one per type, that compute one plane of `out` from one plane of each operand. out: the pooled image
 * or, for a gradient, the gradient of the image; workspace: plane_workspace() bytes. If planes are interleaved,
 * each plane still has the same bits as if it were computed alone. */
struct plane_fn {
    void (*f32)(const struct plane *p, const void *const *in, void *out, void *workspace);
    void (*f64)(const struct plane *p, const void *const *in, void *out, void *workspace);
    bool alone; /* true: cannot compute interleaved planes */
};
/* Returns the size of the workspace, bytes. bytes: size of an element. */
size_t plane_workspace(const struct plane *p, size_t bytes);
/* Returns true if the loops support the plane: positions fit 32 bits, and padding is at most the size of the image. */
bool plane_fits(const struct plane *p);

extern const struct plane_fn plane_max; /* computes y, the maximum of each window of x; NaN is the greatest */
/* Computes dx, the gradient of the maximum, from x and dy: adds dy at the first maximum of each window. */
extern const struct plane_fn plane_max_back;
/* Computes y from x and h: for each window, the entry of h at the position of the maximum of x. */
extern const struct plane_fn plane_max_pick;
extern const struct plane_fn plane_mean;      /* computes y, the mean of each window of x */
extern const struct plane_fn plane_mean_back; /* computes dx, the gradient of the mean, from dy */

/* A sum of more than PLANE_LONG floats is accumulated in f64. The sum is over the entries of a window or, in a
 * gradient, over the windows that contain an entry. */
enum { PLANE_LONG = 1 << 12 };
bool plane_mean_is_long(const struct plane *p);
bool plane_mean_back_is_long(const struct plane *p);
extern const struct plane_fn plane_mean_long, plane_mean_back_long;

#endif
