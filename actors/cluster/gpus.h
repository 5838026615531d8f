/* gpus.h - what a worker tells of its GPUs, as text of printable characters: who compiles kernels for them, then each
 * of its devices of kind cuda, in their order, with a bar behind each entry: "NVRTC 12.8, not kept|9.0 85899345920
 * 8f1c...4e NVIDIA H100|", the third the GPU's uuid. Values; any thread. */
#ifndef RILLE_CLUSTER_GPUS_H
#define RILLE_CLUSTER_GPUS_H

#include "runtime/device_cuda.h"
#include "runtime/str.h"

/* Appends what there is to tell of the n devices that this process has chosen; nothing where n is 0. first: the number
 * of the first, as devices count now. */
void gpus_print(int first, int n, struct str *out);
/* Is it such a text of n devices? It may come from anybody. E_BUS. */
int gpus_check(const char *text, int n);
/* The i-th device of a text that was checked. `free` is not told. kernels: its first entry, in a str that the caller
 * frees. */
void gpus_read(const char *text, int i, struct cuda_gpu *out, struct str *kernels);
/* Is one of the GPUs of a text that was checked in another, too? */
bool gpus_share(const char *text, const char *other);

#endif
