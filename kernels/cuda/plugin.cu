/* plugin.cu - GPUs for Rille: the record of runtime/device/device_cuda.h, by the CUDA runtime.
 *
 * The runtime is linked in, the driver is opened by it: this file loads where there
 * is none, and count() says so. Memory is managed memory: one address for host and
 * GPU, so that host code can compute what has no kernel here. Such an access may come
 * while the GPU works, which a GPU must allow (concurrentManagedAccess). An error
 * that leaves a GPU unusable comes back from every later call by CUDA itself. Kernels are compiled by NVRTC, a library
 * that is opened when there is one.
 *
 * A thread that has chosen no GPU is on GPU 0, which may be another process's: every
 * call chooses one first. Nothing is put on the stream that CUDA has by default: it
 * waits for all others, also for a collective that waits for another GPU. */
#include "kernels/cuda/plugin.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <nvrtc.h>

static const char *
count(int *ngpu)
{
    int driver = 0;
    *ngpu = 0;
    if (cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0)
        return "the NVIDIA driver is missing (libcuda.so.1 cannot be opened)";
    return text_of(cudaGetDeviceCount(ngpu));
}

static std::atomic<int> home; /* a GPU that this process has opened: for calls that name none */

static cudaError_t
go_home()
{
    return cudaSetDevice(home);
}

static const char *
open(int gpu, struct cuda_gpu *out)
{
    size_t all;
    cudaDeviceProp of;
    cudaError_t e = cudaGetDeviceProperties(&of, gpu);
    if (e == cudaSuccess) e = cudaSetDevice(gpu);
    if (e == cudaSuccess) e = cudaFree(nullptr); /* begins work with it */
    if (e == cudaSuccess) e = cudaMemGetInfo(&out->free, &all);
    if (e != cudaSuccess) return text_of(e);
    home = gpu;
    snprintf(out->name, sizeof out->name, "%s", of.name);
    static_assert(sizeof out->uuid == sizeof of.uuid, "a GPU's id is CUDA's");
    memcpy(out->uuid, &of.uuid, sizeof out->uuid);
    out->bytes = of.totalGlobalMem;
    out->major = of.major;
    out->minor = of.minor;
    return of.concurrentManagedAccess ? nullptr : "host and GPU cannot use its memory at the same time";
}

/* Its pages are made on the GPU now, and stay there when nobody else touches them: a page that a kernel is the first to
 * touch is made by the host, while the kernel waits. Memory that this fails for is slow, no more. */
static void
make_pages(int gpu, void *p, size_t bytes)
{
#if CUDART_VERSION >= 13000
    cudaMemLocation there = {};
    there.type = cudaMemLocationTypeDevice;
    there.id = gpu;
    bool made = cudaMemAdvise(p, bytes, cudaMemAdviseSetPreferredLocation, there) == cudaSuccess &&
                cudaMemPrefetchAsync(p, bytes, there, 0, cudaStreamPerThread) == cudaSuccess;
#else
    bool made = cudaMemAdvise(p, bytes, cudaMemAdviseSetPreferredLocation, gpu) == cudaSuccess &&
                cudaMemPrefetchAsync(p, bytes, gpu, cudaStreamPerThread) == cudaSuccess;
#endif
    if (!made) cudaGetLastError();
}

/* Where there is no memory the pool asks again with less idle. CUDA gives managed memory that the GPU has not, and
 * brings it in and out as it is touched, while others take what was free: so what it has is asked first. */
static const char *
take(int gpu, size_t bytes, void **out)
{
    void *p = nullptr;
    size_t left = 0, all;
    cudaError_t e = cudaSetDevice(gpu);
    if (e == cudaSuccess) e = cudaMemGetInfo(&left, &all);
    *out = nullptr;
    if (e == cudaSuccess && left < bytes) return nullptr;
    if (e == cudaSuccess) e = cudaMallocManaged(&p, bytes, cudaMemAttachGlobal);
    *out = e == cudaSuccess ? p : nullptr;
    if (*out) make_pages(gpu, p, bytes);
    if (e != cudaErrorMemoryAllocation) return text_of(e);
    cudaGetLastError(); /* it is told, and forgotten */
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
    cudaError_t e = go_home();
    if (e == cudaSuccess) e = cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, cudaStreamPerThread);
    return text_of(e == cudaSuccess ? cudaStreamSynchronize(cudaStreamPerThread) : e);
}

static const char *
fill(void *p, int byte, size_t bytes)
{
    cudaError_t e = go_home();
    if (e == cudaSuccess) e = cudaMemsetAsync(p, byte, bytes, cudaStreamPerThread);
    return text_of(e == cudaSuccess ? cudaStreamSynchronize(cudaStreamPerThread) : e);
}

/* An error of these is told by `false`, and forgotten. */
static bool
pin(void *p, size_t bytes)
{
    bool pinned = go_home() == cudaSuccess && cudaHostRegister(p, bytes, cudaHostRegisterPortable) == cudaSuccess;
    if (!pinned) cudaGetLastError();
    return pinned;
}

static void
unpin(void *p)
{
    go_home(); /* which may be lost; the memory is let go all the same */
    if (cudaHostUnregister(p) != cudaSuccess) cudaGetLastError();
}

/* May a GPU touch these bytes while host code goes on? */
static bool
is_reached(const void *p, size_t bytes)
{
    cudaPointerAttributes first = {}, last = {};
    bool known = cudaPointerGetAttributes(&first, p) == cudaSuccess &&
                 cudaPointerGetAttributes(&last, static_cast<const char *>(p) + bytes - 1) == cudaSuccess;
    if (!known) cudaGetLastError();
    return known && first.type != cudaMemoryTypeUnregistered && last.type != cudaMemoryTypeUnregistered;
}

static const char *
carry(int gpu, void *dst, size_t to, const void *src, size_t from, size_t row, size_t nrow, bool *begun)
{
    const size_t most = INT32_MAX; /* of a pitch */
    cudaError_t e = cudaSetDevice(gpu);
    if (e != cudaSuccess) return text_of(e);
    *begun = to <= most && from <= most && is_reached(dst, to * (nrow - 1) + row) &&
             is_reached(src, from * (nrow - 1) + row);
    if (!*begun) return nullptr;
    return text_of(nrow == 1
                       ? cudaMemcpyAsync(dst, src, row, cudaMemcpyDefault, cudaStreamPerThread)
                       : cudaMemcpy2DAsync(dst, to, src, from, row, nrow, cudaMemcpyDefault, cudaStreamPerThread));
}

/* ---- kernels ---- */

/* NVRTC, opened when it is first asked for: a GPU is of use without it. */
struct nvrtc {
    decltype(&nvrtcCreateProgram) create;
    decltype(&nvrtcCompileProgram) compile;
    decltype(&nvrtcGetProgramLogSize) log_bytes;
    decltype(&nvrtcGetProgramLog) log;
    decltype(&nvrtcGetCUBINSize) binary_bytes;
    decltype(&nvrtcGetCUBIN) binary;
    decltype(&nvrtcDestroyProgram) destroy;
    decltype(&nvrtcGetErrorString) text;
    char version[32];
    const char *missing;
};

static nvrtc
open_nvrtc()
{
    nvrtc n = {};
    void *file = open_library("libnvrtc.so");
    int major = 0, minor = 0;
    decltype(&nvrtcVersion) version = nullptr;
    bool all = file && find(file, "nvrtcCreateProgram", &n.create) && find(file, "nvrtcCompileProgram", &n.compile) &&
               find(file, "nvrtcGetProgramLogSize", &n.log_bytes) && find(file, "nvrtcGetProgramLog", &n.log) &&
               find(file, "nvrtcGetCUBINSize", &n.binary_bytes) && find(file, "nvrtcGetCUBIN", &n.binary) &&
               find(file, "nvrtcDestroyProgram", &n.destroy) && find(file, "nvrtcGetErrorString", &n.text) &&
               find(file, "nvrtcVersion", &version);
    if (!all) n.missing = "libnvrtc.so is missing or too old";
    if (all) version(&major, &minor);
    snprintf(n.version, sizeof n.version, "NVRTC %d.%d", major, minor);
    return n;
}

static const nvrtc &
the_nvrtc()
{
    static const nvrtc n = open_nvrtc();
    return n;
}

static const char *
compiler(const char **why)
{
    *why = the_nvrtc().missing;
    return *why ? nullptr : the_nvrtc().version;
}

/* What was wrong, in memory of the thread's. */
static const char *
reason(const nvrtc &n, nvrtcProgram program, nvrtcResult status)
{
    static thread_local char text[4096];
    size_t bytes = 0;
    snprintf(text, sizeof text, "%s", n.text(status));
    if (n.log_bytes(program, &bytes) != NVRTC_SUCCESS || bytes >= sizeof text) return text;
    n.log(program, text);
    return text;
}

/* Sums are not contracted, and what is too small is zero, as on the cpu: a chain gives the bits of its steps. */
static const char *
compile(const char *text, const char *name, int major, int minor, void **binary, size_t *bytes)
{
    const nvrtc &n = the_nvrtc();
    char arch[64];
    snprintf(arch, sizeof arch, "--gpu-architecture=sm_%d%d%s", major, minor, major == 9 ? "a" : "");
    const char *option[] = {arch, "--std=c++17", "--fmad=false", "--ftz=true"};
    nvrtcProgram program;
    nvrtcResult status = n.create(&program, text, name, 0, nullptr, nullptr);
    if (status != NVRTC_SUCCESS) return n.text(status);
    status = n.compile(program, 4, option);
    if (status == NVRTC_SUCCESS) status = n.binary_bytes(program, bytes);
    *binary = status == NVRTC_SUCCESS ? malloc(*bytes) : nullptr;
    if (*binary) status = n.binary(program, static_cast<char *>(*binary));
    const char *why = *binary && status == NVRTC_SUCCESS ? nullptr : reason(n, program, status);
    n.destroy(&program);
    return why;
}

/* A library is of no GPU: its kernel is loaded where it is first launched. */
static const char *
load(int gpu, const void *binary, size_t, const char *name, void **kernel)
{
    cudaLibrary_t library;
    cudaKernel_t found;
    cudaError_t e = cudaSetDevice(gpu);
    if (e == cudaSuccess) e = cudaLibraryLoadData(&library, binary, nullptr, nullptr, 0, nullptr, nullptr, 0);
    if (e == cudaSuccess) e = cudaLibraryGetKernel(&found, library, name);
    if (e == cudaSuccess) *kernel = found;
    return text_of(e);
}

/* From sm_90 on a kernel is there before the one before it is done, and waits where its text says (in_turn()). */
static const char *
launch(int gpu, void *kernel, int64_t blocks, int threads, const void *argument, size_t)
{
    void *arguments[] = {const_cast<void *>(argument)};
    int major = 0;
    cudaLaunchAttribute early{};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t how{};
    how.gridDim = dim3(static_cast<unsigned>(blocks));
    how.blockDim = dim3(static_cast<unsigned>(threads));
    how.stream = cudaStreamPerThread;
    how.attrs = &early;
    cudaError_t e = cudaSetDevice(gpu);
    if (e == cudaSuccess) e = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, gpu);
    how.numAttrs = major >= 9;
    if (e == cudaSuccess) e = cudaLaunchKernelExC(&how, kernel, arguments);
    return text_of(e);
}

static const char *
settle(int gpu)
{
    cudaError_t e = cudaSetDevice(gpu);
    return text_of(e == cudaSuccess ? cudaStreamSynchronize(cudaStreamPerThread) : e);
}

/* ---- events ---- */

static const char *
event(int gpu, void **out)
{
    cudaEvent_t made = nullptr;
    cudaError_t e = cudaSetDevice(gpu);
    if (e == cudaSuccess) e = cudaEventCreateWithFlags(&made, cudaEventDisableTiming);
    *out = made;
    return text_of(e);
}

static void
forget(int gpu, void *event)
{
    cudaSetDevice(gpu); /* which may be lost; the event goes all the same */
    cudaEventDestroy(static_cast<cudaEvent_t>(event));
}

static const char *
note(int gpu, void *event)
{
    cudaError_t e = cudaSetDevice(gpu);
    return text_of(e == cudaSuccess ? cudaEventRecord(static_cast<cudaEvent_t>(event), cudaStreamPerThread) : e);
}

static const char *
await(void *event)
{
    cudaError_t e = go_home();
    return text_of(e == cudaSuccess ? cudaEventSynchronize(static_cast<cudaEvent_t>(event)) : e);
}

/* The event may be another GPU's. */
static const char *
follow(int gpu, void *event)
{
    cudaError_t e = cudaSetDevice(gpu);
    return text_of(e == cudaSuccess ? cudaStreamWaitEvent(cudaStreamPerThread, static_cast<cudaEvent_t>(event), 0) : e);
}

/* ---- graphs ---- */

/* What other threads do meanwhile does not end it. */
static const char *
capture(int gpu)
{
    cudaError_t e = cudaSetDevice(gpu);
    if (e == cudaSuccess) e = cudaStreamBeginCapture(cudaStreamPerThread, cudaStreamCaptureModeThreadLocal);
    if (e != cudaSuccess) cudaGetLastError(); /* it is told, and forgotten */
    return text_of(e);
}

static void *
captured(int gpu)
{
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t made = nullptr;
    cudaError_t e = cudaSetDevice(gpu);
    if (e == cudaSuccess) e = cudaStreamEndCapture(cudaStreamPerThread, &graph);
    if (e == cudaSuccess) e = cudaGraphInstantiate(&made, graph, 0);
    if (graph) cudaGraphDestroy(graph);
    if (e != cudaSuccess) cudaGetLastError();
    return e == cudaSuccess ? made : nullptr;
}

static const char *
replay(int gpu, void *graph)
{
    cudaError_t e = cudaSetDevice(gpu);
    return text_of(e == cudaSuccess ? cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), cudaStreamPerThread) : e);
}

static void
discard(int gpu, void *graph)
{
    cudaSetDevice(gpu); /* which may be lost; the graph goes all the same */
    cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph));
}

extern "C" __attribute__((visibility("default"))) const struct cuda_plugin *
rille_cuda_plugin(void)
{
    static const struct cuda_plugin plugin = {CUDA_PLUGIN_VERSION,
                                              count,
                                              open,
                                              take,
                                              give,
                                              copy,
                                              fill,
                                              compiler,
                                              compile,
                                              load,
                                              launch,
                                              products_library,
                                              products_find,
                                              products_multiply,
                                              settle,
                                              event,
                                              forget,
                                              note,
                                              await,
                                              follow,
                                              pin,
                                              unpin,
                                              carry,
                                              collectives_library,
                                              collectives_communicator,
                                              collectives_identify,
                                              collectives_meet,
                                              collectives_collect,
                                              collectives_cut,
                                              collectives_drop,
                                              capture,
                                              captured,
                                              replay,
                                              discard,
                                              convolutions_library,
                                              convolutions_find,
                                              convolutions_convolve};
    return &plugin;
}
