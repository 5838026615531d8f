/* pool_dnnl.h - kernel variants of mean pooling by oneDNN. An exec owns the state; one thread at a time runs the exec.
 */
#ifndef RILLE_KERNELS_CPU_CONV_POOL_DNNL_H
#define RILLE_KERNELS_CPU_CONV_POOL_DNNL_H

#include <stdbool.h>
#include <stddef.h>

struct kcall;
struct plane;

bool mean_accepts(const struct kcall *k, const struct plane *p); /* variants of avg_pool2d and its gradient */
bool mean_back_accepts(const struct kcall *k, const struct plane *p);
int mean_prepare(const struct kcall *k, const struct plane *p, void **state, size_t *scratch_bytes);
int mean_back_prepare(const struct kcall *k, const struct plane *p, void **state, size_t *scratch_bytes);

#endif
