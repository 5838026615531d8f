/* toolkit.c - a CUDA toolkit on a host without GPUs: what kernels/cuda/plugin.cu calls of the runtime and of NVRTC, by
 * the headers of the real one. GPUs are memory of the host; kernels are played (t/host/played.h).
 *
 * FAKE_CUDA says what is wrong, in words: driver=0 (there is none), driver=old, gpus=N (2), memory=BYTES of a GPU,
 * held=N (another process has that GPU alone), shared (others have half of its memory), apart (host and GPU cannot use
 * memory at the same time), lost=N (from call N on that copies, fills or launches every call says that the GPU is
 * lost). CUDA_VISIBLE_DEVICES is read as drivers read it: numbers or beginnings of GPU-1000, GPU-1001, ...; what
 * follows the first that is none is not seen, and of a list that names a GPU twice nothing is. FAKE_CUDA_LOG is a file
 * to which calls are added as lines. */
#define _GNU_SOURCE
#include <cuda_runtime_api.h>
#include <nvrtc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "t/host/played.h"

enum { GPUS = 64, BLOCKS = 4096 };

static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER; /* of what follows */
static struct block {
    void *data;
    size_t bytes;
    int gpu;
} block[BLOCKS];
static size_t taken_bytes[GPUS];
static long ncall;
static _Thread_local int current;
static _Thread_local cudaError_t last;

/* The number that FAKE_CUDA has after the word; `otherwise` where it has not. */
static long
said(const char *word, long otherwise)
{
    const char *all = getenv("FAKE_CUDA"), *at = all ? strstr(all, word) : NULL;
    return at ? strtol(at + strlen(word), NULL, 10) : otherwise;
}

static bool
is_said(const char *word)
{
    return getenv("FAKE_CUDA") && strstr(getenv("FAKE_CUDA"), word);
}

void
fake_log(const char *format, ...)
{
    const char *path = getenv("FAKE_CUDA_LOG");
    FILE *f = path ? fopen(path, "a") : NULL;
    va_list args;
    va_start(args, format);
    if (f) vfprintf(f, format, args), fclose(f);
    va_end(args);
}

/* ---- what there is ---- */

/* The GPU that a word of CUDA_VISIBLE_DEVICES names; -1: none. */
static int
named(const char *word, int n)
{
    char *end;
    long i = strtol(word, &end, 10);
    if (end != word) return *end == '\0' && i >= 0 && i < n ? (int)i : -1;
    for (i = 0; i < n && *word; i++) {
        char name[16];
        snprintf(name, sizeof name, "GPU-%ld", 1000 + i);
        if (!strncmp(name, word, strlen(word)) && strlen(word) > 4) return (int)i;
    }
    return -1;
}

/* Fills gpu with those that are seen, in their order; their number. */
static int
seen(int *gpu)
{
    int n = (int)said("gpus=", 2), count = 0;
    char text[256], *rest = text, *word;
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    snprintf(text, sizeof text, "%s", visible ? visible : "");
    for (int i = 0; !visible && i < n; i++) gpu[count++] = i;
    while (visible && (word = strsep(&rest, ",")) && named(word, n) >= 0) {
        gpu[count] = named(word, n);
        for (int i = 0; i < count; i++)
            if (gpu[i] == gpu[count]) return 0;
        count++;
    }
    return count;
}

static cudaError_t
note(cudaError_t e)
{
    if (e != cudaSuccess) last = e;
    return e;
}

/* Is the GPU lost? Then every call says so. */
static cudaError_t
state(void)
{
    return ncall >= said("lost=", INT32_MAX) ? note(cudaErrorDeviceUninitialized) : cudaSuccess;
}

static cudaError_t
work(void)
{
    pthread_mutex_lock(&one);
    ncall++;
    cudaError_t e = state();
    pthread_mutex_unlock(&one);
    return e;
}

cudaError_t
cudaDriverGetVersion(int *version)
{
    *version = is_said("driver=0") ? 0 : is_said("driver=old") ? 11000 : CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t
cudaGetDeviceCount(int *count)
{
    int gpu[GPUS];
    *count = 0;
    if (is_said("driver=")) return note(cudaErrorInsufficientDriver);
    *count = seen(gpu);
    return *count ? cudaSuccess : note(cudaErrorNoDevice);
}

cudaError_t
cudaGetDeviceProperties(struct cudaDeviceProp *of, int device)
{
    int gpu[GPUS], n = seen(gpu);
    if (device >= n) return note(cudaErrorInvalidDevice);
    memset(of, 0, sizeof *of);
    snprintf(of->name, sizeof of->name, "fake %d", gpu[device]);
    of->totalGlobalMem = (size_t)said("memory=", 100 * 1000 * 1000);
    of->major = 9;
    of->concurrentManagedAccess = !is_said("apart");
    return cudaSuccess;
}

/* A primary context is made here, which a GPU that is held refuses. */
cudaError_t
cudaSetDevice(int device)
{
    int gpu[GPUS], n = seen(gpu);
    if (device >= n) return note(cudaErrorInvalidDevice);
    if (gpu[device] == said("held=", -1)) return note(cudaErrorDevicesUnavailable);
    current = device;
    return state();
}

const char *
cudaGetErrorString(cudaError_t e)
{
    return e == cudaErrorInsufficientDriver    ? "CUDA driver version is insufficient for CUDA runtime version"
           : e == cudaErrorNoDevice            ? "no CUDA-capable device is detected"
           : e == cudaErrorDevicesUnavailable  ? "CUDA-capable device(s) is/are busy or unavailable"
           : e == cudaErrorMemoryAllocation    ? "out of memory"
           : e == cudaErrorDeviceUninitialized ? "invalid device context"
                                               : "another error";
}

cudaError_t
cudaGetLastError(void)
{
    cudaError_t e = last;
    last = cudaSuccess;
    return e;
}

/* ---- memory ---- */

cudaError_t
cudaMallocManaged(void **out, size_t bytes, unsigned flags)
{
    cudaError_t e = state();
    (void)flags;
    if (e) return e;
    pthread_mutex_lock(&one);
    struct block *b = block;
    while (b->data) b++;
    bool fits =
        taken_bytes[current] + bytes <= (size_t)said("memory=", 100 * 1000 * 1000) / (is_said("shared") ? 2 : 1);
    *b = (struct block){fits ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : NULL,
                        bytes, current};
    if (fits) taken_bytes[current] += bytes;
    *out = b->data;
    pthread_mutex_unlock(&one);
    return fits ? cudaSuccess : note(cudaErrorMemoryAllocation);
}

cudaError_t
cudaFree(void *p)
{
    cudaError_t e = state();
    if (e || !p) return e;
    pthread_mutex_lock(&one);
    struct block *b = block;
    while (b->data != p) b++;
    munmap(p, b->bytes);
    taken_bytes[b->gpu] -= b->bytes;
    *b = (struct block){0};
    pthread_mutex_unlock(&one);
    return cudaSuccess;
}

cudaError_t
cudaMemcpy(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind)
{
    cudaError_t e = work();
    (void)kind;
    if (!e) memcpy(dst, src, bytes);
    return e;
}

cudaError_t
cudaMemset(void *p, int byte, size_t bytes)
{
    cudaError_t e = work();
    if (!e) memset(p, byte, bytes);
    return e;
}

/* ---- kernels ---- */

cudaError_t
cudaLibraryLoadData(cudaLibrary_t *library, const void *code, enum cudaJitOption *a, void **b, unsigned c,
                    enum cudaLibraryOption *d, void **e, unsigned f)
{
    (void)a, (void)b, (void)c, (void)d, (void)e, (void)f;
    size_t bytes;
    memcpy(&bytes, code, sizeof bytes);
    *library = played_load((const char *)code + sizeof bytes, bytes);
    return *library ? cudaSuccess : note(cudaErrorInvalidKernelImage);
}

cudaError_t
cudaLibraryGetKernel(cudaKernel_t *kernel, cudaLibrary_t library, const char *name)
{
    *kernel = played_kernel(library, name);
    return *kernel ? cudaSuccess : note(cudaErrorInvalidDeviceFunction);
}

cudaError_t
cudaLaunchKernel(const void *kernel, dim3 blocks, dim3 threads, void **arguments, size_t shared, cudaStream_t stream)
{
    static uint64_t seed;
    void (*run)(const void *words, long blocks, uint64_t seed);
    cudaError_t e = work();
    (void)shared;
    if (e) return e;
    fake_log("kernel gpu %d stream %p threads %u\n", current, (void *)stream, threads.x);
    *(const void **)&run = kernel;
    pthread_mutex_lock(&one); /* one block runs at a time */
    run(arguments[0], (long)blocks.x, ++seed);
    pthread_mutex_unlock(&one);
    return cudaSuccess;
}

cudaError_t
cudaStreamSynchronize(cudaStream_t stream)
{
    (void)stream;
    return state();
}

/* ---- NVRTC: a binary is its size, then a shared library ---- */

struct _nvrtcProgram {
    char *text, *name;
    void *binary;
    size_t bytes;
    const char *why;
};

nvrtcResult
nvrtcVersion(int *major, int *minor)
{
    *major = 99, *minor = 0;
    return NVRTC_SUCCESS;
}

const char *
nvrtcGetErrorString(nvrtcResult r)
{
    return r ? "compilation failed" : "all is well";
}

nvrtcResult
nvrtcCreateProgram(nvrtcProgram *p, const char *text, const char *name, int n, const char *const *header,
                   const char *const *names)
{
    (void)n, (void)header, (void)names;
    *p = calloc(1, sizeof **p);
    (*p)->text = strdup(text);
    (*p)->name = strdup(name);
    return NVRTC_SUCCESS;
}

nvrtcResult
nvrtcCompileProgram(nvrtcProgram p, int n, const char *const *option)
{
    (void)n, (void)option;
    p->why = played_compile(p->text, p->name, &p->binary, &p->bytes);
    return p->why ? NVRTC_ERROR_COMPILATION : NVRTC_SUCCESS;
}

nvrtcResult
nvrtcGetProgramLogSize(nvrtcProgram p, size_t *bytes)
{
    *bytes = strlen(p->why) + 1;
    return NVRTC_SUCCESS;
}

nvrtcResult
nvrtcGetProgramLog(nvrtcProgram p, char *log)
{
    memcpy(log, p->why, strlen(p->why) + 1);
    return NVRTC_SUCCESS;
}

nvrtcResult
nvrtcGetCUBINSize(nvrtcProgram p, size_t *bytes)
{
    *bytes = p->bytes + sizeof *bytes;
    return NVRTC_SUCCESS;
}

nvrtcResult
nvrtcGetCUBIN(nvrtcProgram p, char *to)
{
    memcpy(to, &p->bytes, sizeof p->bytes);
    memcpy(to + sizeof p->bytes, p->binary, p->bytes);
    return NVRTC_SUCCESS;
}

nvrtcResult
nvrtcDestroyProgram(nvrtcProgram *p)
{
    free((*p)->text);
    free((*p)->name);
    free((*p)->binary);
    free(*p);
    return NVRTC_SUCCESS;
}
