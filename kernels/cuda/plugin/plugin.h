/* plugin.h - declarations that the files of the plug-in librille-cuda.so share. Only these files include headers of
 * CUDA.
 *
 * Any thread. */
#ifndef RILLE_KERNELS_CUDA_PLUGIN_H
#define RILLE_KERNELS_CUDA_PLUGIN_H

#include "runtime/device/device_cuda.h"

#include <cstdio>
#include <cstring>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <mutex>
#include <vector>

/* Returns the text of a CUDA error; NULL: success. */
static inline const char *
text_of(cudaError_t e)
{
    return e == cudaSuccess ? nullptr : cudaGetErrorString(e);
}

/* Opens a library of the CUDA toolkit, such as "libnvrtc.so". Searches the loader's path, then the folder in which
 * the build found the toolkit. */
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

/* Keeps a library's algorithm until the process ends, as struct cuda_plugin promises. The algorithm is never
 * freed, because libraries are closed first when the process ends. */
static inline void *
keep_algo(void *algo)
{
    static std::mutex lock;
    static auto *const kept = new std::vector<void *>;
    std::lock_guard<std::mutex> guard(lock);
    kept->push_back(algo);
    return algo;
}

#endif
