/* cudnn_real.cpp - asks the real cuDNN for engines on a host without a GPU. The test compiles
 * kernels/cuda/plugin/convolutions.cu unchanged, and gives cuDNN a text with the properties of a GPU in place of a handle.
 * Prints TAP. */
#include "kernels/cuda/plugin/convolutions.cu"

#include <cstring>

extern "C" cudaError_t
cudaSetDevice(int)
{
    return cudaSuccess;
}
extern "C" const char *
cudaGetErrorString(cudaError_t)
{
    return "";
}

/* The properties of an H100, in the format of cuDNN 9. */
static const char h100[] =
    R"({"deviceName":"NVIDIA H100 80GB HBM3","deviceVer":900,"driverVer":13000,"cudaDeviceId":0,"pciDeviceId":0,)"
    R"("multiProcessorCount":132,"smClockRateKHz":1980000,"memClockRateKHz":2619000,"l2CacheSize":52428800,)"
    R"("totalGlobalMem":85000000000,"warpSize":32,"regsPerBlock":65536,"maxRegistersPerSM":65536,"maxCtasPerSM":32,)"
    R"("maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"maxGridSize":[2147483647,65535,65535],)"
    R"("maxBlockSize":[1024,1024,64],"maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":232448,)"
    R"("reservedSharedMemoryPerBlock":1024,"isTccDriver":0,"supportCoopLaunch":1})";
enum {
    DEVICE = 38,
    DEVICE_JSON = 2702,
    CHARS = 24,
    ENGINES_FOR = 204,
    PLAN_FOR = 407
}; /* numbers of cuDNN's ABI that only this file uses */
static void *device;
static cudnn real;

static int
create(void **handle)
{
    *handle = device;
    return DNN_STATUS_SUCCESS;
}
static int
set_stream(void *, CUstream_st *)
{
    return DNN_STATUS_SUCCESS;
}
/* Replaces cuDNN's function that sets an attribute: ignores the handle of a graph, which cuDNN does not need here,
 * and passes the GPU's properties to heuristics and plans. */
static int
set(void *d, int attribute, int type, int64_t n, const void *values)
{
    const auto say_device = [&](int where) {
        return real.cudnnBackendSetAttribute(d, where, DNN_TYPE_BACKEND_DESCRIPTOR, 1, &device);
    };
    if (attribute == DNN_ATTR_OPERATIONGRAPH_HANDLE) return DNN_STATUS_SUCCESS;
    if (attribute == DNN_ATTR_EXECUTION_PLAN_HANDLE) return say_device(PLAN_FOR);
    if (attribute == DNN_ATTR_ENGINEHEUR_MODE && say_device(ENGINES_FOR)) return DNN_STATUS_BAD_PARAM;
    return real.cudnnBackendSetAttribute(d, attribute, type, n, values);
}

/* Returns false if this version of cuDNN accepts no device text, or another format. */
static bool
take_place()
{
    real = the_cudnn();
    auto &c = const_cast<cudnn &>(the_cudnn());
    if (real.cudnnBackendCreateDescriptor(DEVICE, &device) ||
        real.cudnnBackendSetAttribute(device, DEVICE_JSON, CHARS, sizeof h100 - 1, h100) ||
        real.cudnnBackendFinalize(device))
        return false;
    c.cudnnCreate = create;
    c.cudnnSetStream = set_stream;
    c.cudnnBackendSetAttribute = set;
    return true;
}

struct sample {
    int64_t n, c, h, w, o, groups, p, q, stride, padding, dilation;
};
static const sample samples[] = {
    {64, 128, 28, 28, 128, 1, 3, 3, 1, 1, 1}, {32, 3, 224, 224, 64, 1, 7, 7, 2, 3, 1},
    {64, 256, 14, 14, 512, 1, 1, 1, 1, 0, 1}, {16, 96, 28, 28, 96, 96, 3, 3, 1, 1, 1},
    {3, 5, 13, 11, 7, 1, 3, 2, 2, 1, 2},      {3, 12, 9, 7, 24, 4, 3, 5, 1, 1, 1},
};

static void
lay_out(cuda_image *i, bool channels_last, int64_t a, int64_t b, int64_t c, int64_t d)
{
    *i = {{a, b, c, d}, {b * c * d, channels_last ? 1 : c * d, channels_last ? b * d : d, channels_last ? b : 1}};
}

static bool
has_way(const sample &s, int64_t makes, int64_t real_type, bool tf32, bool channels_last)
{
    cuda_convolution c = {};
    size_t scratch_bytes = 0;
    const auto result = [&](int64_t size, int64_t window) {
        return (size + 2 * s.padding - (window - 1) * s.dilation - 1) / s.stride + 1;
    };
    c.makes = makes;
    c.from = c.to = real_type;
    c.tf32 = tf32;
    for (int i = 0; i < 2; i++) c.stride[i] = s.stride, c.padding[i] = s.padding, c.dilation[i] = s.dilation;
    lay_out(&c.x, channels_last, s.n, s.c, s.h, s.w);
    lay_out(&c.w, channels_last, s.o, s.c / s.groups, s.p, s.q);
    lay_out(&c.y, channels_last, s.n, s.o, result(s.h, s.p), result(s.w, s.q));
    return convolutions_find(0, &c, &scratch_bytes);
}

int
main()
{
    static const char *const real_text[] = {"f32", "f64", "bf16", "f16"}, *const makes_text[] = {"y", "dx", "dw"};
    const char *why, *name = convolutions_library(&why);
    int n = 0, nwrong = 0;
    if (!name || !take_place()) {
        printf("ok 1 - the real cuDNN has algorithms # SKIP %s\n1..1\n", name ? "it knows no devices by text" : why);
        return 0;
    }
    for (const sample &s : samples)
        for (int64_t makes = CUDA_MAKES_Y; makes <= CUDA_MAKES_W; makes++)
            for (int64_t of = CUDA_F32; of <= CUDA_F16; of++)
                for (int how = 0; how < (of == CUDA_F32 ? 4 : 2); how++) {
                    bool good = has_way(s, makes, of, how / 2, how % 2);
                    printf("%sok %d - %s has a way: %s of %s%s%s, %ldx%ldx%ldx%ld and %ld of %ldx%ld\n",
                           good ? "" : "not ", ++n, name, makes_text[makes], how / 2 ? "tf32 " : "", real_text[of],
                           how % 2 ? ", channels side by side" : "", s.n, s.c, s.h, s.w, s.o, s.p, s.q);
                    nwrong += !good;
                }
    printf("1..%d\n", n);
    return nwrong > 0;
}
