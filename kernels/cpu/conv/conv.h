/* conv.h - kernel variants of convolutions and mean pooling, by oneDNN. An exec owns the state of a variant; one
 * thread at a time runs it. */
#ifndef RILLE_KERNELS_CPU_CONV_CONV_H
#define RILLE_KERNELS_CPU_CONV_CONV_H

#include "runtime/graph/op.h"

/* Limits on the work of a convolution between two checks whether the run was stopped. A convolution of more than
 * `flops` operations is computed in parts of about `flops`. A part has some of the images, a band of at least
 * `rows` rows, and a multiple of `channels` channels. Tests lower the limits.
 *
 * If images are reordered, a part is small enough that the reordered data stays in the caches: the images and results
 * of one thread have at most `bytes` bytes, or the bytes of `kernels` kernels if those are more. */
extern struct conv_part {
    double flops;
    int64_t rows, channels;
    struct conv_near {
        int64_t bytes, kernels;
    } pass, weights;
} conv_part;

/* Maximum bytes of one image and its result together, for average pooling on oneDNN. Larger images use pool.c. Tests
 * lower the limit. */
extern int64_t mean_part_bytes;

/* Returns entry i (0: height, 1: width) of an attribute that has one or two numbers; one number counts for both.
 * Returns by_default if the attribute is empty. */
int64_t attr_pair(const struct attr *a, int i, int64_t by_default);
bool conv_accepts(const struct kcall *k); /* variants of conv2d and its gradients */
int conv_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
int conv_x_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
int conv_run(const struct kcall *k, const void *state); /* runs what conv_prepare() or conv_x_prepare() prepared */
void conv_drop(void *state);
int conv_w_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
int conv_w_run(const struct kcall *k, const void *state);
void conv_w_drop(void *state);

#endif
