/* plugin.cu - implements struct cuda_plugin (runtime/device/device_cuda.h) with the CUDA runtime.
 *
 * The CUDA runtime is linked statically and opens the driver itself, so the plug-in also loads on a machine
 * without a driver; count() then reports the missing driver. NVRTC compiles the kernels; the plug-in opens it when
 * a kernel is first compiled.
 *
 * Device memory is managed memory, with the same address on host and GPU, so host code can compute an operator
 * that has no kernel. The host may access such memory while the GPU works, so a GPU must support
 * concurrentManagedAccess. After an error that leaves a GPU unusable, CUDA itself returns an error from every
 * later call.
 *
 * Every function selects its GPU first, because a new thread starts on GPU 0, which may belong to another process.
 * No work uses CUDA's default stream. The default stream waits for all other streams, and one of these may wait
 * for another GPU. */
#include "kernels/cuda/plugin/plugin.h"
#include "kernels/cuda/plugin/products.h"
#include "kernels/cuda/plugin/convolutions.h"
#include "kernels/cuda/plugin/collectives.h"

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

static std::atomic<int> home; /* an open GPU, which functions without a GPU argument select */

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
    if (e == cudaSuccess) e = cudaFree(nullptr); /* creates the GPU's context */
    if (e == cudaSuccess) e = cudaMemGetInfo(&out->free, &all);
    if (e != cudaSuccess) return text_of(e);
    home = gpu;
    snprintf(out->name, sizeof out->name, "%s", of.name);
    static_assert(sizeof out->uuid == sizeof of.uuid, "the size of a GPU id differs from CUDA's");
    memcpy(out->uuid, &of.uuid, sizeof out->uuid);
    out->bytes = of.totalGlobalMem;
    out->major = of.major;
    out->minor = of.minor;
    return of.concurrentManagedAccess ? nullptr : "host and GPU cannot use its memory at the same time";
}

/* Moves the pages of p to the GPU now. Otherwise the first kernel that accesses a page would wait until the host
 * has created the page. Ignores errors, because programs are then only slower. */
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

/* Allocates memory. If the GPU has too little free memory, sets *out to NULL without an error; the pool then
 * releases idle buffers and retries. Free memory is checked first, because CUDA also grants managed memory beyond
 * the size of the GPU, and then moves pages in and out at each access. */
static const char *
take_memory(int gpu, size_t bytes, void **out)
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
    cudaGetLastError(); /* clears the error, because *out NULL reports it */
    return nullptr;
}

static void
give_memory(int gpu, void *p)
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
fill_memory(void *p, int byte, size_t bytes)
{
    cudaError_t e = go_home();
    if (e == cudaSuccess) e = cudaMemsetAsync(p, byte, bytes, cudaStreamPerThread);
    return text_of(e == cudaSuccess ? cudaStreamSynchronize(cudaStreamPerThread) : e);
}

/* Pins memory. If the memory cannot be pinned, clears CUDA's error and returns false. */
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
    go_home(); /* ignores an error (a lost GPU): the memory must be unpinned in any case */
    if (cudaHostUnregister(p) != cudaSuccess) cudaGetLastError();
}

/* Returns true if CUDA knows the memory of both source and destination. A GPU can then copy asynchronously. */
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
    const size_t most = INT32_MAX; /* largest row stride, bytes */
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

/* Functions of NVRTC, opened at the first use, so that a machine without NVRTC still runs library calls and copies. */
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

/* Returns the text of an error, with the compiler's log. The text is valid until the same thread's next call. */
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

/* Compiles a kernel text. As on the CPU, there are no fused multiply-adds and subnormal numbers are flushed to
 * zero, so that a chain has the same bits as its separate steps. */
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

/* Loads a compiled kernel (cubin). The loaded kernel belongs to no GPU; CUDA loads it onto a GPU at its first
 * launch there. */
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

/* Launches a kernel. From compute capability 9.0 on, the kernel may start before its predecessor ends; its text
 * then waits for the predecessor (in_turn()). */
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
settle_gpu(int gpu)
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
    cudaSetDevice(gpu); /* ignores an error (a lost GPU): the event must be destroyed in any case */
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

/* Makes this thread's stream wait for an event, which may belong to another GPU. */
static const char *
follow(int gpu, void *event)
{
    cudaError_t e = cudaSetDevice(gpu);
    return text_of(e == cudaSuccess ? cudaStreamWaitEvent(cudaStreamPerThread, static_cast<cudaEvent_t>(event), 0) : e);
}

/* ---- graphs ---- */

/* Starts a stream capture in this thread. CUDA calls of other threads do not invalidate the capture. */
static const char *
capture(int gpu)
{
    cudaError_t e = cudaSetDevice(gpu);
    if (e == cudaSuccess) e = cudaStreamBeginCapture(cudaStreamPerThread, cudaStreamCaptureModeThreadLocal);
    if (e != cudaSuccess) cudaGetLastError(); /* clears the error, because the caller reports it */
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
    cudaSetDevice(gpu); /* ignores an error (a lost GPU): the graph must be destroyed in any case */
    cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph));
}

extern "C" __attribute__((visibility("default"))) const struct cuda_plugin *
rille_cuda_plugin(void)
{
    static const struct cuda_plugin plugin = {CUDA_PLUGIN_VERSION,
                                              count,
                                              open,
                                              take_memory,
                                              give_memory,
                                              copy,
                                              fill_memory,
                                              compiler,
                                              compile,
                                              load,
                                              launch,
                                              products_library,
                                              products_find,
                                              products_multiply,
                                              settle_gpu,
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
                                              collectives_connect,
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
