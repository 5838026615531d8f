/* gpus.c - a plug-in as librille-cuda.so is one, for t/cuda.sh: eight GPUs of 100 MB that are memory of the host. */
#include "runtime/device_cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef VERSION
#define VERSION CUDA_PLUGIN_VERSION
#endif

static const char *
count(int *ngpu)
{
    *ngpu = 8;
    return NULL;
}

static const char *
open_gpu(int gpu, struct cuda_gpu *out)
{
    if (gpu == 7) return "busy";
    *out = (struct cuda_gpu){.bytes = 100 * 1000 * 1000, .major = 9};
    snprintf(out->name, sizeof out->name, "gpu %d", gpu);
    return NULL;
}

static void *
take(int gpu, size_t bytes)
{
    void *p;
    (void)gpu;
    return posix_memalign(&p, 256, bytes) ? NULL : p;
}

static void
give(int gpu, void *p)
{
    (void)gpu;
    free(p);
}

static const char *
copy(void *dst, const void *src, size_t bytes)
{
#ifdef BREAKS
    return "struck by lightning";
#endif
    memcpy(dst, src, bytes);
    return NULL;
}

static const char *
fill(void *p, int byte, size_t bytes)
{
    memset(p, byte, bytes);
    return NULL;
}

const struct cuda_plugin *
rille_cuda_plugin(void)
{
    static const struct cuda_plugin plugin = {VERSION, count, open_gpu, take, give, copy, fill};
    return &plugin;
}
