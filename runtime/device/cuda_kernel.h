/* cuda_kernel.h - compiles each CUDA kernel once, and caches the result. Any thread. */
#ifndef RILLE_RUNTIME_DEVICE_CUDA_KERNEL_H
#define RILLE_RUNTIME_DEVICE_CUDA_KERNEL_H

#include <stddef.h>
#include <stdint.h>

struct cuda_kernel;
struct str;

/* Prints the kernel compiler and its cache, or why there is no compiler, and the libraries in use. Call after
 * devices were chosen. Session's thread. */
void cuda_kernel_about(struct str *text);
/* Returns the kernel `name` of the program prologue + text. Equal names must have equal text. Called on the
 * session's thread or a device's thread. E_KERNEL. */
int cuda_kernel_get(const char *name, const char *prologue, const char *text, struct cuda_kernel **out);
/* Launches a kernel. E_KERNEL: the device is broken. */
int cuda_kernel_run(const struct cuda_kernel *k, int device, int64_t blocks, int threads, const void *argument,
                    size_t bytes);

#endif
