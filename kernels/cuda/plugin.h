/* plugin.h - what the files of the plug-in librille-cuda.so share; they alone include headers of CUDA. Any thread. */
#ifndef RILLE_KERNELS_CUDA_PLUGIN_H
#define RILLE_KERNELS_CUDA_PLUGIN_H

#include "runtime/device_cuda.h"

#include <cstdio>
#include <cstring>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <mutex>
#include <vector>

/* NULL: all is well. */
static inline const char *
text_of(cudaError_t e)
{
    return e == cudaSuccess ? nullptr : cudaGetErrorString(e);
}

/* A library of this toolkit, "libnvrtc.so": as the loader knows it, or where the toolkit was when this was built. */
static inline void *
open_library(const char *name, int version = CUDART_MAJOR)
{
    char path[512];
    snprintf(path, sizeof path, "%s.%d", name, version);
    void *file = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!file) file = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    snprintf(path, sizeof path, "%s/%s", CUDA_LIBRARIES, name);
    return file ? file : dlopen(path, RTLD_NOW | RTLD_LOCAL);
}
template <class F>
static bool
find(void *file, const char *name, F *f)
{
    *f = reinterpret_cast<F>(dlsym(file, name));
    return *f != nullptr;
}

/* A way, which the record promises to keep for the process; nothing ends it, since libraries are closed before. */
static inline void *
keep_way(void *way)
{
    static std::mutex lock;
    static auto *const kept = new std::vector<void *>;
    std::lock_guard<std::mutex> guard(lock);
    kept->push_back(way);
    return way;
}

/* products.cu: of the record, library, product and multiply. */
const char *products_library(const char **why);
void *products_find(int gpu, const struct cuda_product *p, size_t *scratch_bytes);
const char *products_multiply(int gpu, const void *way, const struct cuda_factors *at);

/* convolutions.cu: of the record, convolver, convolution and convolve. */
const char *convolutions_library(const char **why);
void *convolutions_find(int gpu, const struct cuda_convolution *c, size_t *scratch_bytes);
const char *convolutions_convolve(int gpu, const void *way, const struct cuda_factors *at);

/* collectives.cu: of the record, all about collectives. */
const char *collectives_library(const char **why);
void *collectives_communicator(int n, const int *gpu);
const char *collectives_identify(void *id);
const char *collectives_meet(void *communicator, const void *id, bool (*left)(void *of), void *of);
const char *collectives_collect(void *communicator, int seat, const struct cuda_collective *what, const void *in,
                                void *out);
void collectives_cut(void *communicator);
void collectives_drop(void *communicator);

#endif
