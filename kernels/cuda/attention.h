/* attention.h - writes the source text of kernels for attention and its gradient. The caller owns the text; any thread.
 */
#ifndef RILLE_KERNELS_CUDA_ATTENTION_H
#define RILLE_KERNELS_CUDA_ATTENTION_H

#include <stdbool.h>

struct arena;
struct cuda_source;
struct kcall;

/* Attention of 16-bit floats, and its gradient, on tensor cores. making_attends() returns true if
 * attention.c supports the call; making_attention() writes its kernels. */
bool making_attends(const struct kcall *k);
int making_attention(struct arena *a, const struct kcall *k, struct cuda_source *s);

#endif
