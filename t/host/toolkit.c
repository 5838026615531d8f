/* toolkit.c - a CUDA toolkit on a host without GPUs: what the plug-in (kernels/cuda) calls of the runtime, of NVRTC and
 * of cuBLASLt, by the headers of the real one. GPUs are memory of the host; kernels are played (t/host/played.h). What
 * is launched is done as late as it may be: when a thread waits for it, or for what has to come behind it.
 *
 * FAKE_CUDA says what is wrong, in words: driver=0 (there is none), driver=old, gpus=N (2), memory=BYTES of a GPU,
 * held=N (another process has that GPU alone), shared (others have half of its memory), apart (host and GPU cannot use
 * memory at the same time), lost=N (from call N on that copies, fills or launches every call says that the GPU is
 * lost). CUDA_VISIBLE_DEVICES is read as drivers read it: numbers or beginnings of GPU-1000, GPU-1001, ...; what
 * follows the first that is none is not seen, and of a list that names a GPU twice nothing is. noway: cuBLASLt has no
 * way for any product. nopin: no memory of the host can be pinned. FAKE_CUDA_LOG is a file to which calls are added as
 * lines. */
#define _GNU_SOURCE
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <math.h>
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
    of->totalGlobalMem = (size_t)said("memory=", 100 * 1000 * 1000);
    of->major = 9;
    of->concurrentManagedAccess = !fake_is_said("apart");
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
        taken_bytes[current] + bytes <= (size_t)said("memory=", 100 * 1000 * 1000) / (fake_is_said("shared") ? 2 : 1);
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

/* What a thread has launched on its stream is done when somebody waits for that, not before, and in this order. */
enum { ARGUMENT = 4096, PENDING = 256, STREAMS = 256 };
struct stream;
struct CUevent_st {
    struct stream *of; /* NULL: it was never recorded */
    long upto;
};
struct launch {
    struct CUevent_st after;                                    /* `of` set: it only waits for that */
    void (*run)(const void *words, long blocks, uint64_t seed); /* NULL: a product, or host code */
    cudaError_t (*host)(void *of);
    void *of;
    long blocks;
    char argument[ARGUMENT];
    struct product {
        cublasLtMatmulDescOpaque_t d;
        cublasLtMatrixLayoutOpaque_t al, bl, yl;
        const void *a, *b;
        void *y, *scratch;
    } product;
};
static struct stream {
    struct launch *pending[PENDING];
    long put, done; /* launch n is pending[n % PENDING] */
    bool busy;      /* some thread does the oldest */
} stream_of[STREAMS];
static int nstream; /* as many threads have launched */
static _Thread_local struct stream *own;
static pthread_mutex_t streams = PTHREAD_MUTEX_INITIALIZER; /* of all of them, and of events */
static pthread_cond_t news = PTHREAD_COND_INITIALIZER;

static void compute_product(const struct product *p);

static cudaError_t
put_off(struct launch **l)
{
    cudaError_t e = state();
    if (e) return note(e);
    pthread_mutex_lock(&streams);
    if (!own && nstream < STREAMS) own = &stream_of[nstream++];
    bool fits = own && own->put - own->done < PENDING;
    if (fits) *l = own->pending[own->put % PENDING] = calloc(1, sizeof **l);
    if (fits) own->put++;
    pthread_mutex_unlock(&streams);
    return fits ? cudaSuccess : note(cudaErrorLaunchFailure);
}

cudaError_t
fake_put_off(cudaError_t (*run)(void *of), void *of)
{
    struct launch *l;
    cudaError_t e = put_off(&l);
    if (e) return e;
    l->host = run;
    l->of = of;
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
    pthread_mutex_lock(&one); /* one block runs at a time */
    if (!e && l->run) l->run(l->argument, l->blocks, ++seed);
    pthread_mutex_unlock(&one);
    if (!e && !l->run && !l->host) compute_product(&l->product);
    return !e && l->host ? l->host(l->of) : e;
}

/* Does what is launched on a stream, up to there; a launch that only waits has another stream done up to its event. */
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
cudaLaunchKernel(const void *kernel, dim3 blocks, dim3 threads, void **arguments, size_t shared, cudaStream_t stream)
{
    struct launch *l;
    Dl_info is = {0};
    cudaError_t e = put_off(&l);
    (void)shared;
    if (e) return e;
    dladdr(kernel, &is);
    fake_log("kernel gpu %d stream %p threads %u %s\n", current, (void *)stream, threads.x, is.dli_sname);
    *(const void **)&l->run = kernel;
    l->blocks = (long)blocks.x;
    memcpy(l->argument, arguments[0], ARGUMENT);
    return cudaSuccess;
}

cudaError_t
cudaStreamSynchronize(cudaStream_t stream)
{
    cudaError_t e = state();
    if (stream != cudaStreamPerThread) return e;
    long waiting = own ? own->put - own->done : 0;
    if (waiting) fake_log("wait gpu %d for %ld\n", current, waiting);
    return e || !own ? e : do_all(own, own->put);
}

/* ---- copies that are launched, between memory that is pinned or managed ---- */

static struct block pinned[BLOCKS];

cudaError_t
cudaHostRegister(void *p, size_t bytes, unsigned flags)
{
    bool may = flags == cudaHostRegisterPortable && !fake_is_said("nopin");
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
    free(r);
    return cudaSuccess;
}

/* In what these bytes lie, all of them in one block; what is pageable would be read some time later. */
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
    struct rows *r = malloc(sizeof *r);
    *r = (struct rows){dst, src, to, from, row, nrow};
    return fake_put_off(copy_rows, r);
}

cudaError_t
cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return cudaMemcpy2DAsync(dst, bytes, src, bytes, bytes, 1, kind, stream);
}

/* ---- events ---- */

cudaError_t
cudaEventCreateWithFlags(cudaEvent_t *made, unsigned flags)
{
    *made = calloc(1, sizeof **made);
    return flags == cudaEventDisableTiming ? state() : note(cudaErrorInvalidValue);
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
    cudaError_t e = do_all(at.of, at.upto);
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
    if (!at.of || fake_is_said("forget")) return state();
    cudaError_t e = put_off(&l);
    if (e) return e;
    l->after = at;
    fake_log("follow\n");
    return e;
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

/* ---- cuBLASLt: descriptors hold the value of attribute i as word i; COMPUTE and SCALE behind those ---- */

enum { COMPUTE = 30, SCALE = 31, ATTRIBUTES = 30, SCRATCH = 4096 };
struct cublasLtContext {
    int gpu;
};

size_t
cublasLtGetVersion(void)
{
    return CUBLAS_VERSION;
}

const char *
cublasLtGetStatusString(cublasStatus_t s)
{
    return s == CUBLAS_STATUS_EXECUTION_FAILED ? "the GPU failed to execute" : "a mistake of the caller";
}

cublasStatus_t
cublasLtCreate(cublasLtHandle_t *h)
{
    *h = calloc(1, sizeof **h);
    (*h)->gpu = current;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t
set(uint64_t *word, int n, int what, const void *value, size_t bytes)
{
    if (bytes > sizeof *word) return CUBLAS_STATUS_INVALID_VALUE;
    if (what >= n) return CUBLAS_STATUS_SUCCESS;
    word[what] = 0;
    memcpy(&word[what], value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t d, size_t size, cublasComputeType_t compute, cudaDataType_t scale)
{
    memset(d, 0, size);
    d->data[COMPUTE] = compute;
    d->data[SCALE] = scale;
    d->data[CUBLASLT_MATMUL_DESC_EPILOGUE] = CUBLASLT_EPILOGUE_DEFAULT;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t what, const void *v, size_t n)
{
    return set(d->data, ATTRIBUTES, what, v, n);
}

cublasStatus_t
cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t l, size_t size, cudaDataType type, uint64_t rows,
                                  uint64_t cols, int64_t ld)
{
    memset(l, 0, size);
    l->data[CUBLASLT_MATRIX_LAYOUT_TYPE] = type;
    l->data[CUBLASLT_MATRIX_LAYOUT_ROWS] = rows;
    l->data[CUBLASLT_MATRIX_LAYOUT_COLS] = cols;
    l->data[CUBLASLT_MATRIX_LAYOUT_LD] = (uint64_t)ld;
    l->data[CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT] = 1;
    return ld >= (int64_t)rows ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t
cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t l, cublasLtMatrixLayoutAttribute_t what, const void *v,
                                 size_t n)
{
    return set(l->data, 8, what, v, n);
}

cublasStatus_t
cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t p, size_t size)
{
    memset(p, 0, size);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p, cublasLtMatmulPreferenceAttributes_t what,
                                     const void *v, size_t n)
{
    return set(p->data, 8, what, v, n);
}

/* "bias+gelu+aux" */
static const char *
epilogue_text(uint64_t e, char *text)
{
    bool slope = e == CUBLASLT_EPILOGUE_DGELU;
    snprintf(text, 32, "%s%s%s", e & CUBLASLT_EPILOGUE_BIAS ? "+bias" : "", e & CUBLASLT_EPILOGUE_GELU ? "+gelu" : "",
             slope     ? "+slope"
             : e & 128 ? "+aux"
                       : "");
    return *text ? text + 1 : "plain";
}

/* Of f64 it has no gelu. What adds up in an order that nobody knows is not asked for. */
cublasStatus_t
cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t h, cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t a,
                               cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t y,
                               cublasLtMatmulPreference_t p, int n, cublasLtMatmulHeuristicResult_t *found, int *nfound)
{
    char text[32];
    uint64_t e = d->data[CUBLASLT_MATMUL_DESC_EPILOGUE];
    bool none = d->data[SCALE] == CUDA_R_64F && e >= CUBLASLT_EPILOGUE_GELU;
    (void)b, (void)c, (void)n;
    if (p->data[CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK] != CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE ||
        p->data[CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES] != 16 || h->gpu != current)
        return CUBLAS_STATUS_INVALID_VALUE;
    fake_log(
        "choose gpu %d %ldx%ldx%ld type %ld %s\n", current, (long)y->data[CUBLASLT_MATRIX_LAYOUT_COLS],
        (long)y->data[CUBLASLT_MATRIX_LAYOUT_ROWS],
        (long)a->data[d->data[CUBLASLT_MATMUL_DESC_TRANSA] ? CUBLASLT_MATRIX_LAYOUT_ROWS : CUBLASLT_MATRIX_LAYOUT_COLS],
        (long)y->data[CUBLASLT_MATRIX_LAYOUT_TYPE], epilogue_text(e, text));
    *nfound = none || fake_is_said("noway") ? 0 : 1;
    found->state = CUBLAS_STATUS_SUCCESS;
    found->workspaceSize = SCRATCH;
    return *nfound ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

static double
get(uint64_t type, const void *data, int64_t i)
{
    float f;
    uint32_t bits = type == CUDA_R_16BF ? (uint32_t)((const uint16_t *)data)[i] << 16 : 0;
    memcpy(&f, &bits, sizeof f);
    return type == CUDA_R_32F   ? ((const float *)data)[i]
           : type == CUDA_R_64F ? ((const double *)data)[i]
           : type == CUDA_R_16F ? (double)((const _Float16 *)data)[i]
                                : f;
}

static void
put(uint64_t type, void *data, int64_t i, double v)
{
    float f = (float)v;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (type == CUDA_R_32F) ((float *)data)[i] = f;
    if (type == CUDA_R_64F) ((double *)data)[i] = v;
    if (type == CUDA_R_16F) ((_Float16 *)data)[i] = (_Float16)f;
    if (type == CUDA_R_16BF) ((uint16_t *)data)[i] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Where element (i, j) of matrix `batch` lies. */
static int64_t
at(const cublasLtMatrixLayoutOpaque_t *l, int64_t batch, int64_t i, int64_t j)
{
    return batch * (int64_t)l->data[CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET] + i +
           j * (int64_t)l->data[CUBLASLT_MATRIX_LAYOUT_LD];
}

static double
gelu(double v, bool slope)
{
    double scale = sqrt(2 / M_PI), t = tanh(scale * (v + 0.044715 * v * v * v));
    return slope ? (1 + t) / 2 + v / 2 * (1 - t * t) * scale * (1 + 3 * 0.044715 * v * v) : v / 2 * (1 + t);
}

/* What comes behind the sum v at (i, j). */
static double
finish(const cublasLtMatmulDescOpaque_t *d, uint64_t type, int64_t i, int64_t j, double v)
{
    uint64_t e = d->data[CUBLASLT_MATMUL_DESC_EPILOGUE];
    void *aux = (void *)d->data[CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER];
    int64_t place = i + j * (int64_t)d->data[CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD];
    if (e == CUBLASLT_EPILOGUE_DGELU) return v * gelu(get(type, aux, place), true);
    if (e & CUBLASLT_EPILOGUE_BIAS) v += get(type, (void *)d->data[CUBLASLT_MATMUL_DESC_BIAS_POINTER], i);
    if (e & 128) put(type, aux, place, v);
    return e & CUBLASLT_EPILOGUE_GELU ? gelu(v, false) : v;
}

/* A factor's element as tensor cores see it under TF32: 10 bits of fraction, to the nearest, ties to even. */
static double
rounded(const cublasLtMatmulDescOpaque_t *d, double v)
{
    int e;
    if (d->data[COMPUTE] != CUBLAS_COMPUTE_32F_FAST_TF32 || !isfinite(v)) return v;
    double fraction = frexp(v, &e);
    return ldexp(rint(ldexp(fraction, 11)), e - 11);
}

static bool
computes(uint64_t compute, bool doubles, uint64_t type)
{
    if (compute == CUBLAS_COMPUTE_32F_FAST_TF32) return type == CUDA_R_32F;
    return compute == (doubles ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F);
}

static void
compute_product(const struct product *p)
{
    const cublasLtMatmulDescOpaque_t *d = &p->d;
    uint64_t type = p->yl.data[CUBLASLT_MATRIX_LAYOUT_TYPE], from = p->al.data[CUBLASLT_MATRIX_LAYOUT_TYPE];
    int64_t rows = (int64_t)p->yl.data[CUBLASLT_MATRIX_LAYOUT_ROWS];
    int64_t cols = (int64_t)p->yl.data[CUBLASLT_MATRIX_LAYOUT_COLS];
    bool ta = d->data[CUBLASLT_MATMUL_DESC_TRANSA], tb = d->data[CUBLASLT_MATMUL_DESC_TRANSB];
    int64_t k = (int64_t)p->al.data[ta ? CUBLASLT_MATRIX_LAYOUT_ROWS : CUBLASLT_MATRIX_LAYOUT_COLS];
    memset(p->scratch, 0x55, SCRATCH);
    for (int64_t e = 0; e < rows * cols * (int64_t)p->yl.data[CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT]; e++) {
        int64_t i = e % rows, j = e / rows % cols, of = e / rows / cols;
        double v = 0;
        for (int64_t l = 0; l < k; l++)
            v += rounded(d, get(from, p->a, at(&p->al, of, ta ? l : i, ta ? i : l))) *
                 rounded(d, get(from, p->b, at(&p->bl, of, tb ? j : l, tb ? l : j)));
        put(type, p->y, at(&p->yl, of, i, j), finish(d, type, i, j, v));
    }
}

cublasStatus_t
cublasLtMatmul(cublasLtHandle_t h, cublasLtMatmulDesc_t d, const void *alpha, const void *a, cublasLtMatrixLayout_t al,
               const void *b, cublasLtMatrixLayout_t bl, const void *beta, const void *c, cublasLtMatrixLayout_t cl,
               void *y, cublasLtMatrixLayout_t yl, const cublasLtMatmulAlgo_t *algo, void *scratch, size_t bytes,
               cudaStream_t stream)
{
    char text[32];
    bool doubles = d->data[SCALE] == CUDA_R_64F;
    bool one = doubles ? *(const double *)alpha == 1 && *(const double *)beta == 0
                       : *(const float *)alpha == 1 && *(const float *)beta == 0;
    uintptr_t bits = (uintptr_t)a | (uintptr_t)b | (uintptr_t)y | d->data[CUBLASLT_MATMUL_DESC_BIAS_POINTER] |
                     d->data[CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER];
    (void)c, (void)cl, (void)algo;
    if (!one || bits % 16 || (uintptr_t)scratch % 256 || bytes != SCRATCH || !scratch || h->gpu != current ||
        stream != cudaStreamPerThread || !computes(d->data[COMPUTE], doubles, al->data[CUBLASLT_MATRIX_LAYOUT_TYPE]))
        return CUBLAS_STATUS_INVALID_VALUE;
    struct launch *l;
    if (put_off(&l)) return CUBLAS_STATUS_EXECUTION_FAILED;
    fake_log("multiply gpu %d %s\n", current, epilogue_text(d->data[CUBLASLT_MATMUL_DESC_EPILOGUE], text));
    l->product = (struct product){*d, *al, *bl, *yl, a, b, y, scratch};
    return CUBLAS_STATUS_SUCCESS;
}
