/* plugin.cu - GPUs for Rille: the record of runtime/device_cuda.h, by the CUDA runtime.
 *
 * The runtime is linked in, the driver is opened by it: this file loads where there
 * is none, and count() says so. Memory is managed memory: one address for host and
 * GPU, so that host code can compute what has no kernel here. Such an access may come
 * while the GPU works, which a GPU must allow (concurrentManagedAccess). An error
 * that leaves a GPU unusable comes back from every later call by CUDA itself. */
#include "runtime/device_cuda.h"

#include <cstdio>
#include <cuda_runtime.h>

static const char *
text_of(cudaError_t e)
{
    return e == cudaSuccess ? nullptr : cudaGetErrorString(e);
}

static const char *
count(int *ngpu)
{
    int driver = 0;
    *ngpu = 0;
    if (cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0)
        return "the NVIDIA driver is missing (libcuda.so.1 cannot be opened)";
    return text_of(cudaGetDeviceCount(ngpu));
}

static const char *
open(int gpu, struct cuda_gpu *out)
{
    cudaDeviceProp of;
    cudaError_t e = cudaGetDeviceProperties(&of, gpu);
    if (e == cudaSuccess) e = cudaSetDevice(gpu);
    if (e == cudaSuccess) e = cudaFree(nullptr); /* begins work with it */
    if (e != cudaSuccess) return text_of(e);
    snprintf(out->name, sizeof out->name, "%s", of.name);
    out->bytes = of.totalGlobalMem;
    out->major = of.major;
    out->minor = of.minor;
    return of.concurrentManagedAccess ? nullptr : "host and GPU cannot use its memory at the same time";
}

static void *
take(int gpu, size_t bytes)
{
    void *p = nullptr;
    if (cudaSetDevice(gpu) == cudaSuccess && cudaMallocManaged(&p, bytes, cudaMemAttachGlobal) == cudaSuccess) return p;
    cudaGetLastError(); /* the pool asks again with less */
    return nullptr;
}

static void
give(int gpu, void *p)
{
    if (cudaSetDevice(gpu) == cudaSuccess) cudaFree(p);
}

static const char *
copy(void *dst, const void *src, size_t bytes)
{
    return text_of(cudaMemcpy(dst, src, bytes, cudaMemcpyDefault));
}

/* A fill may come back before it is done. */
static const char *
fill(void *p, int byte, size_t bytes)
{
    cudaError_t e = cudaMemset(p, byte, bytes);
    return text_of(e == cudaSuccess ? cudaStreamSynchronize(nullptr) : e);
}

extern "C" __attribute__((visibility("default"))) const struct cuda_plugin *
rille_cuda_plugin(void)
{
    static const struct cuda_plugin plugin = {CUDA_PLUGIN_VERSION, count, open, take, give, copy, fill};
    return &plugin;
}
