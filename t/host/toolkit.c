/* toolkit.c - a CUDA toolkit for hosts without GPUs: the functions of the runtime and of NVRTC that the plug-in
 * (kernels/cuda) calls, declared by the real headers. cublaslt.c adds cuBLASLt. GPUs are host memory; kernels run on
 * the host (t/host/played.h). Work is done as late as possible: when a thread waits for this work, or for later work.
 *
 * Words in FAKE_CUDA set faults: driver=0 (no driver), driver=old, gpus=N (2), memory=BYTES per GPU, held=N (another
 * process uses GPU N exclusively), shared (other processes use half of the memory), crowded (other processes take
 * half of the memory after the GPU was opened), apart (host and GPU cannot access memory at the same time), nopin
 * (host memory cannot be pinned), nograph (no stream capture), lost=N (from copy, fill or launch N on, every call
 * reports a lost GPU), each (every process has its own GPUs, as if it ran on a separate host).
 *
 * CUDA_VISIBLE_DEVICES is read as the driver reads it: numbers, or prefixes of GPU-1000, GPU-1001, .... The list
 * ends at the first invalid entry, and a list that names a GPU twice is empty. FAKE_CUDA_LOG names a file to which
 * calls are appended as lines. */
#define _GNU_SOURCE
#include <cuda_runtime_api.h>
#include <nvrtc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "t/host/toolkit.h"

#include "t/host/played.h"

enum { GPUS = 64, BLOCKS = 4096 };

static cudaError_t forbidden(const char *what);

static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER; /* protects the variables below */
static struct block {
    void *data;
    size_t bytes;
    int gpu;
} block[BLOCKS];
static size_t taken_bytes[GPUS];
static long ncall;
static _Thread_local int current;
static _Thread_local cudaError_t last;

/* Returns the number after the word in FAKE_CUDA; `otherwise` if FAKE_CUDA does not contain the word. */
static long
said(const char *word, long otherwise)
{
    const char *all = getenv("FAKE_CUDA"), *at = all ? strstr(all, word) : NULL;
    return at ? strtol(at + strlen(word), NULL, 10) : otherwise;
}

bool
fake_is_said(const char *word)
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

/* ---- GPUs and their states ---- */

/* Returns the number of the GPU that an entry of CUDA_VISIBLE_DEVICES names; -1: no GPU. */
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

/* Lists the visible GPUs in order; returns their number. */
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

/* Returns an error if the thread's GPU (by default the first) is lost, or held by another process. */
static cudaError_t
state(void)
{
    int gpu[GPUS], n = seen(gpu);
    if (current < n && gpu[current] == said("held=", -1)) return note(cudaErrorDevicesUnavailable);
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
    *version = fake_is_said("driver=0") ? 0 : fake_is_said("driver=old") ? 11000 : CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t
cudaGetDeviceCount(int *count)
{
    int gpu[GPUS];
    *count = 0;
    if (fake_is_said("driver=")) return note(cudaErrorInsufficientDriver);
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
    fake_uuid(gpu[device], &of->uuid);
    of->totalGlobalMem = (size_t)said("memory=", 100 * 1000 * 1000);
    of->major = 9;
    of->concurrentManagedAccess = !fake_is_said("apart");
    return cudaSuccess;
}

cudaError_t
cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr what, int device)
{
    struct cudaDeviceProp of = {0};
    cudaError_t e = cudaGetDeviceProperties(&of, device);
    *value = what == cudaDevAttrComputeCapabilityMajor ? of.major : 0;
    return e;
}

/* Selects a GPU, which creates the GPU's primary context; fails for a held GPU. */
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

/* ---- memory of GPUs ---- */

/* Reports free memory. Allocated bytes count at once; real managed memory counts when its pages are touched. */
cudaError_t
cudaMemGetInfo(size_t *left, size_t *all)
{
    static bool asked;
    cudaError_t e = state();
    pthread_mutex_lock(&one);
    *all = (size_t)said("memory=", 100 * 1000 * 1000);
    size_t there = fake_is_said("shared") || (fake_is_said("crowded") && asked) ? *all / 2 : *all;
    *left = there - (taken_bytes[current] < there ? taken_bytes[current] : there);
    asked = true;
    pthread_mutex_unlock(&one);
    return e;
}

/* Allocates managed memory, at most ten times the GPU's memory: real managed memory may also exceed the GPU's
 * memory. */
cudaError_t
cudaMallocManaged(void **out, size_t bytes, unsigned flags)
{
    cudaError_t e = state();
    (void)flags;
    if (!e) e = forbidden("take");
    if (e) return e;
    pthread_mutex_lock(&one);
    struct block *b = block;
    while (b->data) b++;
    bool fits = taken_bytes[current] + bytes <= 10 * (size_t)said("memory=", 100 * 1000 * 1000);
    *b = (struct block){fits ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : NULL,
                        bytes, current};
    if (fits) taken_bytes[current] += bytes;
    *out = b->data;
    pthread_mutex_unlock(&one);
    return fits ? cudaSuccess : note(cudaErrorMemoryAllocation);
}

/* Memory advice and prefetches have no effect here. */
#if CUDART_VERSION >= 13000
#define LOCATION struct cudaMemLocation
#define FLAGS    , __attribute__((unused)) unsigned flags
#else
#define LOCATION int
#define FLAGS
#endif
cudaError_t
cudaMemAdvise(const void *p, size_t bytes, enum cudaMemoryAdvise advice, LOCATION where)
{
    (void)p, (void)bytes, (void)advice, (void)where;
    return state();
}
cudaError_t
cudaMemPrefetchAsync(const void *p, size_t bytes, LOCATION where FLAGS, cudaStream_t stream)
{
    (void)p, (void)bytes, (void)where, (void)stream;
    return state();
}

cudaError_t
cudaFree(void *p)
{
    cudaError_t e = state();
    if (!e) e = forbidden("give");
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

/* ---- launching kernels ---- */

cudaError_t
cudaLibraryLoadData(cudaLibrary_t *library, const void *code, enum cudaJitOption *a, void **b, unsigned c,
                    enum cudaLibraryOption *d, void **e, unsigned f)
{
    (void)a, (void)b, (void)c, (void)d, (void)e, (void)f;
    size_t bytes;
    if (forbidden("load")) return cudaErrorStreamCaptureUnsupported;
    if (state()) return state();
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

/* Work that a thread has launched on its stream. The work runs in order, when a thread waits for it. */
enum { ARGUMENT = 4096, PENDING = 4096, STREAMS = 256, KERNELS = 4096 };
struct stream;
struct CUevent_st {
    struct stream *of; /* stream on which the event was recorded; NULL: not recorded yet */
    long upto;
};
struct launch {
    /* event for which the launch waits; if after.of is set, the launch does nothing else */
    struct CUevent_st after;
    /* function of the kernel; NULL: the launch runs `host`, a function of the host */
    long (*run)(const void *words, long blocks, int threads, uint64_t seed);
    cudaError_t (*host)(void *of);
    void *of; /* argument of the host code; on the heap */
    size_t of_bytes;
    long blocks, threads;
    char argument[ARGUMENT];
    struct launch *next; /* next node of a graph */
};
static struct stream {
    struct launch *pending[PENDING];
    /* Launch n is pending[n % PENDING]. put: number of launches enqueued; done: number of launches done. */
    long put, done;
    bool busy; /* true: a thread is running the oldest launch */
} stream_of[STREAMS];
static int nstream; /* number of threads that have launched */
static _Thread_local struct stream *own;
static pthread_mutex_t streams = PTHREAD_MUTEX_INITIALIZER; /* protects all streams and events */
static pthread_cond_t news = PTHREAD_COND_INITIALIZER;

/* ---- stream capture: a graph contains only launches of kernels that were launched before the capture ---- */

struct CUgraph_st {
    int n, nref;
    bool spoilt; /* true: a forbidden call occurred during the capture */
    struct launch *first, **last;
};
static _Thread_local struct CUgraph_st *capturing;

/* Handles a call that is forbidden during a capture. If the thread captures, logs the call, invalidates the capture
 * and returns an error. */
static cudaError_t
forbidden(const char *what)
{
    if (!capturing) return cudaSuccess;
    fake_log("forbidden %s\n", what);
    capturing->spoilt = true;
    return note(cudaErrorStreamCaptureUnsupported);
}

static struct launch *
add_node(struct CUgraph_st *g)
{
    struct launch *l = *g->last = calloc(1, sizeof *l);
    g->last = &l->next;
    g->n++;
    return l;
}

/* Handles a launch of a kernel. Its first launch loads code and allocates memory, which a capture forbids. */
static cudaError_t
see_kernel(const void *kernel)
{
    static const void *seen[KERNELS];
    static int n;
    pthread_mutex_lock(&one);
    int i = 0;
    while (i < n && seen[i] != kernel) i++;
    bool first = i == n;
    if (first && n < KERNELS) seen[n++] = kernel;
    pthread_mutex_unlock(&one);
    return first ? forbidden("first launch") : cudaSuccess;
}

static cudaError_t
put_off(struct launch **l)
{
    cudaError_t e = state();
    if (e) return note(e);
    if (capturing) {
        *l = add_node(capturing);
        return cudaSuccess;
    }
    pthread_mutex_lock(&streams);
    if (!own && nstream < STREAMS) own = &stream_of[nstream++];
    bool fits = own && own->put - own->done < PENDING;
    if (fits) *l = own->pending[own->put % PENDING] = calloc(1, sizeof **l);
    if (fits) own->put++;
    pthread_mutex_unlock(&streams);
    return fits ? cudaSuccess : note(cudaErrorLaunchFailure);
}

cudaError_t
fake_put_off(cudaError_t (*run)(void *of), const void *of, size_t bytes)
{
    struct launch *l;
    cudaError_t e = put_off(&l);
    if (e) return e;
    l->host = run;
    l->of = memcpy(malloc(bytes), of, bytes);
    l->of_bytes = bytes;
    return e;
}

int
fake_current(void)
{
    return current;
}

static cudaError_t
carry_out(const struct launch *l)
{
    static uint64_t seed;
    cudaError_t e = work();
    pthread_mutex_lock(&one); /* locked, because the shim's state is static: one block runs at a time */
    if (!e && l->run) l->run(l->argument, l->blocks, (int)l->threads, ++seed);
    pthread_mutex_unlock(&one);
    return !e && l->host ? l->host(l->of) : e;
}

/* Runs the work of a stream up to number `upto`. If a launch waits for an event, runs the event's work first. */
static cudaError_t
do_all(struct stream *s, long upto)
{
    cudaError_t e = cudaSuccess;
    pthread_mutex_lock(&streams);
    while (s && s->done < upto) {
        if (s->busy) {
            pthread_cond_wait(&news, &streams);
            continue;
        }
        struct launch *l = s->pending[s->done % PENDING];
        s->busy = true;
        pthread_mutex_unlock(&streams);
        if (!e) e = l->after.of ? do_all(l->after.of, l->after.upto) : carry_out(l);
        free(l->of);
        free(l);
        pthread_mutex_lock(&streams);
        s->busy = false;
        s->done++;
        pthread_cond_broadcast(&news);
    }
    pthread_mutex_unlock(&streams);
    return e;
}

cudaError_t
cudaLaunchKernelExC(const cudaLaunchConfig_t *how, const void *kernel, void **arguments)
{
    struct launch *l;
    Dl_info is = {0};
    cudaError_t e = see_kernel(kernel);
    if (!e) e = put_off(&l);
    if (e) return e;
    dladdr(kernel, &is);
    fake_log("kernel gpu %d stream %p threads %u %s\n", current, (void *)how->stream, how->blockDim.x, is.dli_sname);
    *(const void **)&l->run = kernel;
    l->blocks = (long)how->gridDim.x;
    l->threads = (long)how->blockDim.x;
    memcpy(l->argument, arguments[0], (size_t)l->run(NULL, 0, 0, 0));
    return cudaSuccess;
}

cudaError_t
cudaStreamSynchronize(cudaStream_t stream)
{
    cudaError_t e = state();
    if (!e) e = forbidden("wait");
    if (stream != cudaStreamPerThread) return e;
    long waiting = own ? own->put - own->done : 0;
    if (waiting) fake_log("wait gpu %d for %ld\n", current, waiting);
    return e || !own ? e : do_all(own, own->put);
}

cudaError_t
cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    cudaError_t e = state();
    if (fake_is_said("nograph")) return note(cudaErrorNotSupported);
    if (stream != cudaStreamPerThread || mode != cudaStreamCaptureModeThreadLocal || capturing)
        return note(cudaErrorInvalidValue);
    if (e) return e;
    capturing = calloc(1, sizeof *capturing);
    capturing->last = &capturing->first;
    capturing->nref = 1;
    return e;
}

cudaError_t
cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    struct CUgraph_st *g = capturing;
    *graph = NULL;
    if (stream != cudaStreamPerThread || !g) return note(cudaErrorInvalidValue);
    capturing = NULL;
    if (!g->spoilt) *graph = g;
    if (g->spoilt) cudaGraphDestroy(g);
    return g->spoilt ? note(cudaErrorStreamCaptureInvalidated) : state();
}

cudaError_t
cudaGraphDestroy(cudaGraph_t g)
{
    if (--g->nref) return cudaSuccess;
    for (struct launch *l = g->first, *next; l; l = next) {
        next = l->next;
        free(l->of);
        free(l);
    }
    free(g);
    return cudaSuccess;
}

cudaError_t
cudaGraphInstantiate(cudaGraphExec_t *made, cudaGraph_t g, unsigned long long flags)
{
    if (flags) return note(cudaErrorInvalidValue);
    g->nref++;
    *made = (cudaGraphExec_t)g;
    fake_log("graph made of %d\n", g->n);
    return state();
}

cudaError_t
cudaGraphExecDestroy(cudaGraphExec_t graph)
{
    return cudaGraphDestroy((cudaGraph_t)graph);
}

cudaError_t
cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream)
{
    struct CUgraph_st *g = (struct CUgraph_st *)graph;
    cudaError_t e = stream == cudaStreamPerThread ? forbidden("graph") : note(cudaErrorInvalidValue);
    fake_log("graph of %d\n", g->n);
    for (const struct launch *from = g->first; from && !e; from = from->next) {
        struct launch *l;
        e = put_off(&l);
        if (e) return e;
        *l = *from;
        l->next = NULL;
        if (l->of) l->of = memcpy(malloc(l->of_bytes), from->of, l->of_bytes);
    }
    return e;
}

/* ---- asynchronous copies, between pinned or managed memory ---- */

static struct block pinned[BLOCKS];

cudaError_t
cudaHostRegister(void *p, size_t bytes, unsigned flags)
{
    bool may = flags == cudaHostRegisterPortable && !fake_is_said("nopin") && !forbidden("pin");
    pthread_mutex_lock(&one);
    struct block *b = pinned;
    while (b->data) b++;
    if (may) *b = (struct block){p, bytes, -1};
    pthread_mutex_unlock(&one);
    return may ? state() : note(cudaErrorMemoryAllocation);
}

static struct block *
find_block(struct block *list, const void *p)
{
    for (struct block *b = list; b < list + BLOCKS; b++)
        if (b->data && (const char *)p >= (char *)b->data && (const char *)p < (char *)b->data + b->bytes) return b;
    return NULL;
}

cudaError_t
cudaHostUnregister(void *p)
{
    pthread_mutex_lock(&one);
    struct block *b = find_block(pinned, p);
    bool is = b && b->data == p;
    if (is) *b = (struct block){0};
    pthread_mutex_unlock(&one);
    return is ? cudaSuccess : note(cudaErrorHostMemoryNotRegistered);
}

cudaError_t
cudaPointerGetAttributes(struct cudaPointerAttributes *of, const void *p)
{
    memset(of, 0, sizeof *of);
    pthread_mutex_lock(&one);
    of->type = find_block(block, p)    ? cudaMemoryTypeManaged
               : find_block(pinned, p) ? cudaMemoryTypeHost
                                       : cudaMemoryTypeUnregistered;
    pthread_mutex_unlock(&one);
    return state();
}

struct rows {
    char *dst;
    const char *src;
    size_t to, from, row, nrow;
};

static cudaError_t
copy_rows(void *of)
{
    struct rows *r = of;
    for (size_t i = 0; i < r->nrow; i++) memcpy(r->dst + i * r->to, r->src + i * r->from, r->row);
    return cudaSuccess;
}

static cudaError_t
copy_later(struct rows what)
{
    return fake_put_off(copy_rows, &what, sizeof what);
}

/* Returns the kind of the memory at these bytes: pinned, managed or pageable. An asynchronous copy from pageable
 * memory could read the bytes after the call returned. */
static const char *
memory_at(const void *p, size_t bytes)
{
    pthread_mutex_lock(&one);
    struct block *managed = find_block(block, p), *b = managed ? managed : find_block(pinned, p);
    pthread_mutex_unlock(&one);
    if (!b || (const char *)p + bytes > (char *)b->data + b->bytes) return "pageable";
    return managed ? "managed" : "pinned";
}

cudaError_t
cudaMemcpy2DAsync(void *dst, size_t to, const void *src, size_t from, size_t row, size_t nrow, enum cudaMemcpyKind kind,
                  cudaStream_t stream)
{
    const char *there = memory_at(dst, to * (nrow - 1) + row), *here = memory_at(src, from * (nrow - 1) + row);
    fake_log("carry from %s to %s\n", here, there);
    if (!strcmp(here, "pageable") || !strcmp(there, "pageable") || to < row || from < row ||
        kind != cudaMemcpyDefault || stream != cudaStreamPerThread)
        return note(cudaErrorInvalidValue);
    return copy_later((struct rows){dst, src, to, from, row, nrow});
}

/* Copies asynchronously. Pageable memory is accepted, because the caller then waits. */
cudaError_t
cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    const char *there = memory_at(dst, bytes), *here = memory_at(src, bytes);
    bool pageable = !strcmp(here, "pageable") || !strcmp(there, "pageable");
    if (!pageable) fake_log("carry from %s to %s\n", here, there);
    if (kind != cudaMemcpyDefault || stream != cudaStreamPerThread) return note(cudaErrorInvalidValue);
    return copy_later((struct rows){dst, src, bytes, bytes, bytes, 1});
}

struct bytes {
    void *p;
    int byte;
    size_t n;
};

static cudaError_t
fill_bytes(void *of)
{
    struct bytes *b = of;
    memset(b->p, b->byte, b->n);
    return cudaSuccess;
}

cudaError_t
cudaMemsetAsync(void *p, int byte, size_t n, cudaStream_t stream)
{
    struct bytes b = {p, byte, n};
    return stream == cudaStreamPerThread ? fake_put_off(fill_bytes, &b, sizeof b) : note(cudaErrorInvalidValue);
}

/* ---- events ---- */

cudaError_t
cudaEventCreateWithFlags(cudaEvent_t *made, unsigned flags)
{
    cudaError_t e = flags == cudaEventDisableTiming ? state() : note(cudaErrorInvalidValue);
    if (!e) *made = calloc(1, sizeof **made);
    return e;
}

cudaError_t
cudaEventDestroy(cudaEvent_t event)
{
    free(event);
    return cudaSuccess;
}

cudaError_t
cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    if (forbidden("event")) return cudaErrorStreamCaptureUnsupported;
    pthread_mutex_lock(&streams);
    if (stream == cudaStreamPerThread && own) *event = (struct CUevent_st){own, own->put};
    pthread_mutex_unlock(&streams);
    return state();
}

cudaError_t
cudaEventSynchronize(cudaEvent_t event)
{
    pthread_mutex_lock(&streams);
    struct CUevent_st at = *event;
    pthread_mutex_unlock(&streams);
    fake_log("await\n");
    cudaError_t e = forbidden("await");
    if (!e) e = do_all(at.of, at.upto);
    return e ? e : state();
}

cudaError_t
cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    struct launch *l;
    pthread_mutex_lock(&streams);
    struct CUevent_st at = *event;
    pthread_mutex_unlock(&streams);
    if (stream != cudaStreamPerThread || flags) return note(cudaErrorInvalidValue);
    if (!at.of) return state();
    cudaError_t e = forbidden("follow");
    if (!e) e = put_off(&l);
    if (e) return e;
    l->after = at;
    fake_log("follow\n");
    return e;
}

/* ---- NVRTC: a binary consists of its size and a shared library ---- */

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
