/* gpus.c - a plug-in with the interface of librille-cuda.so, for t/cuda/cuda.sh: eight simulated GPUs with MEGABYTES
 * of host memory each.
 *
 * If SHIM names the source folder, the plug-in also runs kernels. c++ compiles a kernel's text with t/host/shim.h
 * into a shared library, and each launch runs the threads in a different order. If GUARD is defined, only launches,
 * copies and fills may access the memory of the GPUs; an access by host code ends the program. */
#define _GNU_SOURCE
#include "runtime/device/device_cuda.h"

#ifdef SHIM
#include "t/host/played.h"
#endif
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MEGABYTES
#define MEGABYTES 100
#endif
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
    *out = (struct cuda_gpu){.bytes = MEGABYTES * 1000 * 1000, .free = MEGABYTES * 1000 * 1000, .major = 9};
    snprintf(out->name, sizeof out->name, "gpu %d", gpu);
    return NULL;
}

/* ---- memory of the GPUs, which is locked and unlocked as one region ---- */

#ifdef GUARD
enum { CLOSED = PROT_NONE };
#else
enum { CLOSED = PROT_READ | PROT_WRITE };
#endif
enum { OPEN = PROT_READ | PROT_WRITE, BLOCKS = 4096 };

static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER; /* held during a launch, copy or fill */
static struct block {
    void *data;
    size_t bytes;
} block[BLOCKS];

static void
begin(void)
{
    pthread_mutex_lock(&one);
    for (int i = 0; i < BLOCKS && OPEN != CLOSED; i++)
        if (block[i].data) mprotect(block[i].data, block[i].bytes, OPEN);
}

static const char *
end(void)
{
    for (int i = 0; i < BLOCKS && OPEN != CLOSED; i++)
        if (block[i].data) mprotect(block[i].data, block[i].bytes, CLOSED);
    pthread_mutex_unlock(&one);
    return NULL;
}

static struct block *
find_block(const void *data)
{
    for (int i = 0; i < BLOCKS; i++)
        if (block[i].data == data) return &block[i];
    return NULL;
}

static const char *
take(int gpu, size_t bytes, void **out)
{
    void *p = mmap(NULL, bytes, CLOSED, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    (void)gpu;
    *out = NULL;
    if (p == MAP_FAILED) return NULL;
    pthread_mutex_lock(&one);
    struct block *b = find_block(NULL);
    if (b) *b = (struct block){*out = p, bytes};
    pthread_mutex_unlock(&one);
    return NULL;
}

static void
give(int gpu, void *p)
{
    (void)gpu;
    pthread_mutex_lock(&one);
    struct block *b = find_block(p);
    munmap(p, b->bytes);
    *b = (struct block){NULL, 0};
    pthread_mutex_unlock(&one);
}

static const char *
copy(void *dst, const void *src, size_t bytes)
{
#ifdef BREAKS
    return "struck by lightning";
#endif
    begin();
    memcpy(dst, src, bytes);
    return end();
}

static const char *
fill(void *p, int byte, size_t bytes)
{
    begin();
    memset(p, byte, bytes);
    return end();
}

#ifdef SHIM
static const char *
compiler(const char **why)
{
    *why = NULL;
    return "c++";
}

static const char *
compile(const char *text, const char *name, int major, int minor, void **binary, size_t *bytes)
{
    (void)major, (void)minor;
    return played_compile(text, name, binary, bytes);
}

static const char *
load(int gpu, const void *binary, size_t bytes, const char *name, void **kernel)
{
    void *library = played_load(binary, bytes);
    (void)gpu;
    *kernel = library ? played_kernel(library, name) : NULL;
    return *kernel ? NULL : dlerror();
}

static const char *
launch(int gpu, void *kernel, int64_t blocks, int threads, const void *argument, size_t bytes)
{
    static uint64_t seed;
    long (*run)(const void *words, long blocks, int threads, uint64_t seed);
    (void)gpu;
    *(void **)&run = kernel;
    if (run(NULL, 0, 0, 0) != (long)bytes) return "an argument has another size than the kernel's";
    begin();
    run(argument, (long)blocks, threads, ++seed);
    return end();
}
#else
static const char *
compiler(const char **why)
{
    *why = "nothing compiles";
    return NULL;
}
#define compile NULL
#define load    NULL
#define launch  NULL
#endif

static const char *
library(const char **why)
{
    *why = "these GPUs have no libraries";
    return NULL;
}

static const char *
settle(int gpu)
{
    (void)gpu; /* does nothing, because launches are synchronous */
    return NULL;
}

static const char *
event(int gpu, void **out)
{
    (void)gpu;
    *out = &one;
    return NULL;
}

static void
forget(int gpu, void *event)
{
    (void)gpu, (void)event;
}

static const char *
note(int gpu, void *event)
{
    (void)gpu, (void)event;
    return NULL;
}

static const char *
await(void *event)
{
    (void)event;
    return NULL;
}

static bool
pin(void *p, size_t bytes)
{
    (void)p, (void)bytes;
    return false;
}

static void
unpin(void *p)
{
    (void)p;
}

static const char *
carry(int gpu, void *dst, size_t to, const void *src, size_t from, size_t row, size_t nrow, bool *begun)
{
    (void)gpu, (void)dst, (void)to, (void)src, (void)from, (void)row, (void)nrow;
    *begun = false;
    return NULL;
}

/* Returns an error, because this plug-in does not support CUDA graphs. */
static const char *
capture(int gpu)
{
    (void)gpu;
    return "not here";
}

const struct cuda_plugin *
rille_cuda_plugin(void)
{
    static const struct cuda_plugin plugin = {VERSION,
                                              count,
                                              open_gpu,
                                              take,
                                              give,
                                              copy,
                                              fill,
                                              compiler,
                                              compile,
                                              load,
                                              launch,
                                              library,
                                              NULL,
                                              NULL,
                                              settle,
                                              event,
                                              forget,
                                              note,
                                              await,
                                              note,
                                              pin,
                                              unpin,
                                              carry,
                                              library,
                                              .capture = capture,
                                              .convolver = library};
    return &plugin;
}
