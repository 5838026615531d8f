/* turn.h - images with sixteen channels innermost, as oneDNN convolves them, from NCHW and back; matrices turned.
 *
 * Also of bands of rows, for which oneDNN has only a loop that takes twice as long. Any thread: calls keep nothing, and
 * all memory is the caller's. */
#ifndef RILLE_KERNELS_CPU_TURN_H
#define RILLE_KERNELS_CPU_TURN_H

#include "runtime/base.h"

#include <dnnl.h>

/* How both lie: an image has `blocks` of sixteen channels with `places` each. In floats: from an image to the next, and
 * of the plain one from a channel to the next. */
struct turning {
    int64_t images, blocks, places, apart, plain_image, inner_image;
};

/* False: plain is not NCHW of f32, or inner is none of the kind. */
bool turning_of(const dnnl_memory_desc_t *plain, const dnnl_memory_desc_t *inner, struct turning *t);
/* Brings plain into inner; back: inner into plain. */
void turning_run(const struct turning *t, float *plain, float *inner, bool back, int threads);

/* to[j * to_step + i] = from[i * from_step + j] for i < rows, j < cols; steps in floats. */
void turn_matrix(int64_t rows, int64_t cols, const float *from, int64_t from_step, float *to, int64_t to_step,
                 int threads);

#endif
