/* gpus.h - describes a worker's GPUs as printable text: the kernel compiler, then each cuda device in order, with a
 * bar after each entry: "NVRTC 12.8, not kept|9.0 85899345920 8f1c...4e NVIDIA H100|". An entry has compute
 * capability, bytes, uuid and name. Values; any thread. */
#ifndef RILLE_CLUSTER_GPUS_H
#define RILLE_CLUSTER_GPUS_H

#include "runtime/device/device_cuda.h"
#include "runtime/base/str.h"

/* Appends the text of the n cuda devices that this process has selected; nothing if n is 0. first: current number of
 * the first device. */
void gpus_print(int first, int n, struct str *out);
/* Checks a text, possibly from a stranger, for n devices. E_BUS: malformed. */
int gpus_check(const char *text, int n);
/* Reads the i-th device of a checked text, all but `free`, and appends the first entry to `kernels`, which the
 * caller frees. */
void gpus_read(const char *text, int i, struct cuda_gpu *out, struct str *kernels);
/* Returns true if two checked texts have a GPU in common. */
bool gpus_share(const char *text, const char *other);

#endif
