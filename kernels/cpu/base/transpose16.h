/* transpose16.h - converts images between NCHW and oneDNN's layout with sixteen channels innermost; also transposes
 * matrices.
 *
 * An image may be a band of rows; oneDNN would convert such a band by a plain loop, which takes twice as long. Any
 * thread: calls keep no state, and the caller owns all memory. */
#ifndef RILLE_KERNELS_CPU_TRANSPOSE16_H
#define RILLE_KERNELS_CPU_TRANSPOSE16_H

#include "runtime/base/base.h"

#include <dnnl.h>

/* The sizes of an image in both layouts. An image has `blocks` blocks of sixteen channels, with `places` pixels
 * each. Strides are in floats. plain_image: stride between images in the NCHW (plain) layout. inner_image: stride
 * between images in the layout with channels innermost. apart: stride between channels in the plain layout. */
struct transpose16 {
    int64_t images, blocks, places, apart, plain_image, inner_image;
};

struct prim_layout;
/* Sets *t from the layout `plain`. Returns false if `plain` is not NCHW of f32 with a number of channels that is a
 * multiple of sixteen. */
bool transpose16_of(const struct prim_layout *plain, struct transpose16 *t);
/* Copies `plain` to `inner`, which has sixteen channels innermost. back: copies `inner` to `plain` instead. */
void transpose16_run(const struct transpose16 *t, float *plain, float *inner, bool back, int threads);

/* Sets to[j * to_step + i] = from[i * from_step + j] for i < rows, j < cols; strides in floats. */
void transpose16_matrix(int64_t rows, int64_t cols, const float *from, int64_t from_step, float *to, int64_t to_step,
                        int threads);

#endif
