/* gpus.h - describes a worker's GPUs as printable text.
 *
 * The first entry is the kernel compiler; then follows an entry for each cuda device, in order. Each entry ends with
 * a bar: "NVRTC 12.8, not kept|9.0 85899345920 8f1c...4e NVIDIA H100|". A device's entry has its compute capability,
 * size of memory in bytes, uuid and name. Pure functions of their arguments; any thread. */
#ifndef RILLE_CLUSTER_GPUS_H
#define RILLE_CLUSTER_GPUS_H

#include "runtime/device/device_cuda.h"
#include "runtime/data/str.h"

/* Appends the description of n cuda devices that this process has selected; nothing if n is 0. first: number of the
 * first described device in this process. */
void gpus_print(int first, int n, struct str *out);
/* Checks a description of n devices. The text may come from a process that is not trusted. E_BUS: malformed. */
int gpus_check(const char *text, int n);
/* Reads the entry of device i into *out, all fields except out->free. text: must have passed gpus_check(). Appends
 * the entry of the kernel compiler to `kernels`, which the caller frees. */
void gpus_read(const char *text, int i, struct cuda_gpu *out, struct str *kernels);
/* Returns true if two checked texts name a GPU with the same uuid. */
bool gpus_share(const char *text, const char *other);

#endif
