/* pool.h - windows over one plane of an image, row by row in lanes.
 *
 * A row of windows takes two passes: vertical, over a whole row of the image, then horizontal, within each window. A
 * gradient uses the reverse order. The padded row holds neutral entries beyond the image. Any thread: calls keep no
 * state, and the caller owns all memory. */
#ifndef RILLE_KERNELS_CPU_POOL_H
#define RILLE_KERNELS_CPU_POOL_H

#include "runtime/base/base.h"

/* The windows along one direction: window u starts at u * stride - padding. */
struct window {
    int64_t kernel, stride, padding, dilation;
};

/* The windows of a plane, height before width. */
struct plane {
    struct window window[2];
    int64_t n[2], m[2]; /* sizes of the image; numbers of windows */
    bool count_padding; /* a mean counts padding */
    int lanes;          /* 1, or PLANE_LANES for that many interleaved planes at once */
};
enum { PLANE_LANES = 16 };

/* The part of window u in direction i inside the image, and the number of entries that a mean counts. */
struct span {
    int64_t lo, hi, count;
};
struct span plane_span(const struct plane *p, int i, int64_t u);

/* Functions that compute a plane of `out` (the image or its pooling) from a plane of each operand, in one type;
 * workspace has plane_workspace() bytes. The bits of a lane do not depend on neighbouring lanes. */
struct plane_fn {
    void (*f32)(const struct plane *p, const void *const *in, void *out, void *workspace);
    void (*f64)(const struct plane *p, const void *const *in, void *out, void *workspace);
    bool alone; /* supports only one plane at a time */
};
size_t plane_workspace(const struct plane *p, size_t bytes); /* bytes: of an element */
bool plane_fits(const struct plane *p); /* true if the loops support the plane: 32-bit positions, little padding */

extern const struct plane_fn plane_max;       /* x -> y; NaN is greatest */
extern const struct plane_fn plane_max_back;  /* x, dy -> dx; dy is sent to the first maximum */
extern const struct plane_fn plane_max_pick;  /* x, h -> h at the maximum of x */
extern const struct plane_fn plane_mean;      /* x -> y */
extern const struct plane_fn plane_mean_back; /* dy -> dx */

/* Sums of more than PLANE_LONG floats are accumulated in f64: the entries of a window, or the windows over an entry. */
enum { PLANE_LONG = 1 << 12 };
bool plane_mean_is_long(const struct plane *p);
bool plane_mean_back_is_long(const struct plane *p);
extern const struct plane_fn plane_mean_long, plane_mean_back_long;

#endif
