/* pool.h - windows over one plane of an image, row by row in lanes.
 *
 * A row of windows takes two steps: the first combines entries that stand above each other, over a whole row of the
 * image, the second those of a window beside each other; a gradient goes the same way back. What lies beyond the image
 * stands in the padded row as an entry that changes nothing. Any thread: calls keep nothing, and all memory is the
 * caller's. */
#ifndef RILLE_KERNELS_CPU_POOL_H
#define RILLE_KERNELS_CPU_POOL_H

#include "runtime/base.h"

/* How windows lie along one direction: window u starts at u * stride - padding. */
struct window {
    int64_t kernel, stride, padding, dilation;
};

/* The windows of a plane, height before width. */
struct plane {
    struct window window[2];
    int64_t n[2], m[2]; /* entries of the image; windows over them */
    bool count_padding; /* by a mean */
    int lanes;          /* 1; or PLANE_LANES planes at once, whose entries lie side by side */
};
enum { PLANE_LANES = 16 };

/* The part of window u of direction i that lies in the image, and how many entries a mean counts. */
struct span {
    int64_t lo, hi, count;
};
struct span plane_span(const struct plane *p, int i, int64_t u);

/* Ways to compute a plane of `out` (the image or its pooling) from one of each operand, all of one type; workspace has
 * plane_workspace() bytes. All lanes get the bits that they would get alone. */
struct plane_fn {
    void (*f32)(const struct plane *p, const void *const *in, void *out, void *workspace);
    void (*f64)(const struct plane *p, const void *const *in, void *out, void *workspace);
    bool alone; /* one plane at a time */
};
size_t plane_workspace(const struct plane *p, size_t bytes); /* of an element */
bool plane_fits(const struct plane *p); /* do they compute it? Its positions fit 32 bits, with little padding */

extern const struct plane_fn plane_max;       /* x -> y; NaN wins */
extern const struct plane_fn plane_max_back;  /* x, dy -> dx; to the first of equals */
extern const struct plane_fn plane_max_pick;  /* x, h -> h where x is greatest */
extern const struct plane_fn plane_mean;      /* x -> y */
extern const struct plane_fn plane_mean_back; /* dy -> dx */

/* A sum of more than PLANE_LONG floats is made in f64: the entries of a window, or the windows that an entry is in. */
enum { PLANE_LONG = 1 << 12 };
bool plane_mean_is_long(const struct plane *p);
bool plane_mean_back_is_long(const struct plane *p);
extern const struct plane_fn plane_mean_long, plane_mean_back_long;

#endif
