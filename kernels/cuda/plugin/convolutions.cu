/* convolutions.cu - runs convolutions with cuDNN 9, which is opened at run time.
 *
 * Each convolution is a graph of one operation in cuDNN's graph API. cuDNN lists engines for the graph, the best
 * first. The plug-in chooses once: the first engine that passes may_be(), accepts the layout of the images, and
 * needs no more scratch than plan_by() allows.
 *
 * may_be() rejects engines that add in a nondeterministic order, that do not accumulate 16-bit floats in f32, or
 * that round f32 factors although TF32 is not allowed. It also rejects engines that transform their inputs
 * (Winograd, FFT), because one infinity or NaN would then spoil results that do not depend on it.
 *
 * cuDNN requires that only one thread at a time uses a handle or a plan, so each GPU has a lock. A handle uses
 * CUDA's per-thread stream, so a thread's launches stay in order. */
#include "kernels/cuda/plugin/convolutions.h"
#include "kernels/cuda/plugin/plugin.h"

#include "kernels/cuda/plugin/cudnn_abi.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

enum { GPUS = 64, MAJOR = 9, NOTES = 64 };
/* A convolution may use scratch memory of twice the size of all its images, counted as f32 (f64 images as f64), and
 * this number of bytes more. */
static const int64_t LITTLE = 64 << 20;

struct cudnn {
#define FIELD(name, result, arguments) name##_fn *name;
    CUDNN_CALLS(FIELD)
#undef FIELD
    char version[32];
    const char *missing;
};

static cudnn
open_cudnn()
{
    cudnn c = {};
    void *file = open_library("libcudnn.so", MAJOR);
    bool all = file;
#define FIND(name, result, arguments) all = all && find(file, #name, &c.name);
    CUDNN_CALLS(FIND)
#undef FIND
    size_t v = all ? c.cudnnGetVersion() : 0;
    if (!all)
        c.missing = "libcudnn.so.9 is missing or too old";
    else if (v / 10000 != MAJOR)
        c.missing = "libcudnn.so must be version 9";
    snprintf(c.version, sizeof c.version, "cuDNN %d.%d", static_cast<int>(v / 10000), static_cast<int>(v / 100 % 100));
    return c;
}

static const cudnn &
the_cudnn()
{
    static const cudnn c = open_cudnn();
    return c;
}

const char *
convolutions_library(const char **why)
{
    *why = the_cudnn().missing;
    return *why ? nullptr : the_cudnn().version;
}

/* ---- handles ---- */

static std::mutex lock_of[GPUS];

/* Returns the cuDNN handle of a GPU; NULL: cuDNN cannot use the GPU. The caller holds the GPU's lock. Creates the
 * handle at the first call, and does not try again if that fails. */
static void *
handle_of(int gpu)
{
    static void *handle[GPUS];
    static bool tried[GPUS];
    if (cudaSetDevice(gpu) != cudaSuccess) return nullptr;
    if (tried[gpu]) return handle[gpu];
    void *made = nullptr;
    tried[gpu] = true;
    if (the_cudnn().cudnnCreate(&made) != DNN_STATUS_SUCCESS) return nullptr;
    if (the_cudnn().cudnnSetStream(made, cudaStreamPerThread) == DNN_STATUS_SUCCESS) handle[gpu] = made;
    return handle[gpu];
}

/* ---- descriptors: struct descriptors owns them; after the first error its functions do nothing ---- */

struct descriptors {
    int status = DNN_STATUS_SUCCESS;
    std::vector<void *> made;

    descriptors() = default;
    descriptors(const descriptors &) = delete;
    descriptors &operator=(const descriptors &) = delete;
    ~descriptors()
    {
        for (auto i = made.rbegin(); i != made.rend(); ++i) the_cudnn().cudnnBackendDestroyDescriptor(*i);
    }
    bool good() const { return status == DNN_STATUS_SUCCESS; }
    void *make(int type)
    {
        void *d = nullptr;
        if (good()) status = the_cudnn().cudnnBackendCreateDescriptor(type, &d);
        if (d) made.push_back(d);
        return d;
    }
    template <class T> void set(void *d, int attribute, int type, const T *values, int64_t n)
    {
        if (good()) status = the_cudnn().cudnnBackendSetAttribute(d, attribute, type, n, values);
    }
    template <class T> void set(void *d, int attribute, int type, T value) { set(d, attribute, type, &value, 1); }
    /* Gets up to n values of an attribute. Returns the number of values that the attribute has. */
    template <class T> int64_t get(void *d, int attribute, int type, T *values, int64_t n)
    {
        int64_t count = 0;
        if (good()) status = the_cudnn().cudnnBackendGetAttribute(d, attribute, type, n, &count, values);
        return good() ? count : 0;
    }
    void finish(void *d)
    {
        if (good()) status = the_cudnn().cudnnBackendFinalize(d);
    }
};

/* ---- the graph ---- */

/* cuDNN's constants for the operation and for its attributes. Indexed by the operation's result (enum cuda_makes). */
static const struct {
    int type, alpha, beta, windows, x, w, y;
} operation_of[] = {
    {DNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, DNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
     DNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, DNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
     DNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, DNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
     DNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
    {DNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, DNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
     DNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, DNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
     DNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, DNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
     DNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
    {DNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, DNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
     DNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, DNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
     DNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, DNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
     DNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY},
};

static int
data_type_of(int64_t real)
{
    static const int of[] = {DNN_DATA_FLOAT, DNN_DATA_DOUBLE, DNN_DATA_BFLOAT16, DNN_DATA_HALF};
    return of[real];
}

static void *
add_image(descriptors *d, int64_t name, int64_t real, const cuda_image *i)
{
    void *t = d->make(DNN_BACKEND_TENSOR_DESCRIPTOR);
    d->set(t, DNN_ATTR_TENSOR_DATA_TYPE, DNN_TYPE_DATA_TYPE, data_type_of(real));
    d->set(t, DNN_ATTR_TENSOR_DIMENSIONS, DNN_TYPE_INT64, i->size, 4);
    d->set(t, DNN_ATTR_TENSOR_STRIDES, DNN_TYPE_INT64, i->stride, 4);
    d->set(t, DNN_ATTR_TENSOR_UNIQUE_ID, DNN_TYPE_INT64, name);
    d->set(t, DNN_ATTR_TENSOR_BYTE_ALIGNMENT, DNN_TYPE_INT64, static_cast<int64_t>(CUDA_PRODUCT_ALIGN));
    d->finish(t);
    return t;
}

static void *
add_windows(descriptors *d, const cuda_convolution *c)
{
    void *w = d->make(DNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    int type = c->from == CUDA_F64 ? DNN_DATA_DOUBLE : DNN_DATA_FLOAT;
    d->set(w, DNN_ATTR_CONVOLUTION_COMP_TYPE, DNN_TYPE_DATA_TYPE, type);
    d->set(w, DNN_ATTR_CONVOLUTION_CONV_MODE, DNN_TYPE_CONVOLUTION_MODE, static_cast<int>(DNN_CROSS_CORRELATION));
    d->set(w, DNN_ATTR_CONVOLUTION_SPATIAL_DIMS, DNN_TYPE_INT64, static_cast<int64_t>(2));
    d->set(w, DNN_ATTR_CONVOLUTION_DILATIONS, DNN_TYPE_INT64, c->dilation, 2);
    d->set(w, DNN_ATTR_CONVOLUTION_FILTER_STRIDES, DNN_TYPE_INT64, c->stride, 2);
    d->set(w, DNN_ATTR_CONVOLUTION_PRE_PADDINGS, DNN_TYPE_INT64, c->padding, 2);
    d->set(w, DNN_ATTR_CONVOLUTION_POST_PADDINGS, DNN_TYPE_INT64, c->padding, 2);
    d->finish(w);
    return w;
}

static int64_t
real_of(const cuda_convolution *c, int makes)
{
    return c->makes == makes ? c->to : c->from;
}

static void *
add_operation(descriptors *d, const cuda_convolution *c)
{
    const auto &is = operation_of[c->makes];
    void *x = add_image(d, 'x', real_of(c, CUDA_MAKES_X), &c->x);
    void *w = add_image(d, 'w', real_of(c, CUDA_MAKES_W), &c->w);
    void *y = add_image(d, 'y', real_of(c, CUDA_MAKES_Y), &c->y);
    void *windows = add_windows(d, c), *o = d->make(is.type);
    if (c->to == CUDA_F64) {
        d->set(o, is.alpha, DNN_TYPE_DOUBLE, 1.0);
        d->set(o, is.beta, DNN_TYPE_DOUBLE, 0.0);
    } else {
        d->set(o, is.alpha, DNN_TYPE_FLOAT, 1.0f);
        d->set(o, is.beta, DNN_TYPE_FLOAT, 0.0f);
    }
    d->set(o, is.windows, DNN_TYPE_BACKEND_DESCRIPTOR, windows);
    d->set(o, is.x, DNN_TYPE_BACKEND_DESCRIPTOR, x);
    d->set(o, is.w, DNN_TYPE_BACKEND_DESCRIPTOR, w);
    d->set(o, is.y, DNN_TYPE_BACKEND_DESCRIPTOR, y);
    d->finish(o);
    return o;
}

static void *
add_graph(descriptors *d, void *handle, const cuda_convolution *c)
{
    void *o = add_operation(d, c), *g = d->make(DNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    d->set(g, DNN_ATTR_OPERATIONGRAPH_HANDLE, DNN_TYPE_HANDLE, handle);
    d->set(g, DNN_ATTR_OPERATIONGRAPH_OPS, DNN_TYPE_BACKEND_DESCRIPTOR, o);
    d->finish(g);
    return g;
}

/* ---- engines ---- */

/* Returns the configurations of engines that cuDNN proposes, the best first. */
static std::vector<void *>
list_engines(descriptors *d, void *graph, int mode)
{
    void *h = d->make(DNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    d->set(h, DNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, DNN_TYPE_BACKEND_DESCRIPTOR, graph);
    d->set(h, DNN_ATTR_ENGINEHEUR_MODE, DNN_TYPE_HEUR_MODE, mode);
    d->finish(h);
    std::vector<void *> all(
        static_cast<size_t>(d->get<void *>(h, DNN_ATTR_ENGINEHEUR_RESULTS, DNN_TYPE_BACKEND_DESCRIPTOR, nullptr, 0)));
    for (auto &e : all) e = d->make(DNN_BACKEND_ENGINECFG_DESCRIPTOR);
    int64_t n = d->get(h, DNN_ATTR_ENGINEHEUR_RESULTS, DNN_TYPE_BACKEND_DESCRIPTOR, all.data(),
                       static_cast<int64_t>(all.size()));
    all.resize(static_cast<size_t>(n));
    return all;
}

static bool
may_be(const cuda_convolution *c, void *config)
{
    descriptors d;
    void *engine = d.make(DNN_BACKEND_ENGINE_DESCRIPTOR);
    int note[NOTES];
    d.get(config, DNN_ATTR_ENGINECFG_ENGINE, DNN_TYPE_BACKEND_DESCRIPTOR, &engine, 1);
    int64_t n = d.get(engine, DNN_ATTR_ENGINE_NUMERICAL_NOTE, DNN_TYPE_NUMERICAL_NOTE, note, NOTES);
    const auto has = [&](int what) { return std::find(note, note + n, what) != note + n; };
    if (c->from == CUDA_F32 && !c->tf32 && has(DNN_NUMERICAL_NOTE_TENSOR_CORE)) return false;
    return d.good() && !has(DNN_NUMERICAL_NOTE_NONDETERMINISTIC) && !has(DNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS) &&
           !has(DNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION) && !has(DNN_NUMERICAL_NOTE_FFT) &&
           !has(DNN_NUMERICAL_NOTE_WINOGRAD);
}

static int64_t
bytes_of(const cuda_convolution *c)
{
    int64_t n = 0;
    for (const cuda_image *i : {&c->x, &c->w, &c->y}) n += i->size[0] * i->size[1] * i->size[2] * i->size[3];
    return n * (c->from == CUDA_F64 ? 8 : 4);
}

/* An execution plan of cuDNN and the descriptors that the plan uses. */
struct algorithm {
    void *handle, *plan;
    int64_t name[3]; /* tensor ids in the graph: the two factors, then the result */
    size_t scratch_bytes;
    descriptors graph, planned;
};

static bool
plan_by(algorithm *w, const cuda_convolution *c, void *config)
{
    descriptors d;
    int64_t bytes = 0;
    w->plan = d.make(DNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    d.set(w->plan, DNN_ATTR_EXECUTION_PLAN_HANDLE, DNN_TYPE_HANDLE, w->handle);
    d.set(w->plan, DNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, DNN_TYPE_BACKEND_DESCRIPTOR, config);
    d.finish(w->plan);
    d.get(w->plan, DNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, DNN_TYPE_INT64, &bytes, 1);
    if (!d.good() || bytes > LITTLE + 2 * bytes_of(c)) return false;
    w->scratch_bytes = static_cast<size_t>(bytes);
    w->planned.made.swap(d.made);
    return true;
}

static bool
plan(algorithm *w, const cuda_convolution *c)
{
    void *graph = add_graph(&w->graph, w->handle, c);
    for (int mode : {DNN_HEUR_MODE_A, DNN_HEUR_MODE_FALLBACK}) {
        if (!w->graph.good()) return false;
        for (void *config : list_engines(&w->graph, graph, mode))
            if (may_be(c, config) && plan_by(w, c, config)) return true;
        /* clears the error, because cuDNN's heuristic mode A may find no engine */
        w->graph.status = DNN_STATUS_SUCCESS;
    }
    return false;
}

void *
convolutions_find(int gpu, const cuda_convolution *c, size_t *scratch_bytes)
{
    static const int64_t name[][3] = {{'x', 'w', 'y'}, {'w', 'y', 'x'}, {'x', 'y', 'w'}};
    if (gpu >= GPUS) return nullptr;
    std::lock_guard<std::mutex> guard(lock_of[gpu]);
    std::unique_ptr<algorithm> w(new algorithm());
    w->handle = handle_of(gpu);
    std::copy(name[c->makes], name[c->makes] + 3, w->name);
    if (!w->handle || !plan(w.get(), c)) return nullptr;
    *scratch_bytes = w->scratch_bytes;
    return keep_algo(w.release());
}

/* ---- running ---- */

/* Returns the text of the first error. Later calls return the same text, because nothing is launched after an error. */
static const char *
reason(int status)
{
    static std::mutex lock;
    static char text[512];
    std::lock_guard<std::mutex> guard(lock);
    if (*text) return text;
    size_t n = static_cast<size_t>(snprintf(text, sizeof text, "%s: ", the_cudnn().cudnnGetErrorString(status)));
    if (n < sizeof text) the_cudnn().cudnnGetLastErrorString(text + n, sizeof text - n);
    return text;
}

const char *
convolutions_convolve(int gpu, const void *how, const cuda_factors *at)
{
    const algorithm *w = static_cast<const algorithm *>(how);
    const void *const data[] = {at->x, at->w, at->y};
    std::lock_guard<std::mutex> guard(lock_of[gpu]);
    cudaError_t e = cudaSetDevice(gpu);
    if (e != cudaSuccess) return text_of(e);
    descriptors d;
    void *pack = d.make(DNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    d.set(pack, DNN_ATTR_VARIANT_PACK_UNIQUE_IDS, DNN_TYPE_INT64, w->name, 3);
    d.set(pack, DNN_ATTR_VARIANT_PACK_DATA_POINTERS, DNN_TYPE_VOID_PTR, data, 3);
    d.set(pack, DNN_ATTR_VARIANT_PACK_WORKSPACE, DNN_TYPE_VOID_PTR, at->scratch);
    d.finish(pack);
    if (d.good()) d.status = the_cudnn().cudnnBackendExecute(w->handle, w->plan, pack);
    return d.good() ? nullptr : reason(d.status);
}
