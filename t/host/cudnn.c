/* cudnn.c - a cuDNN stand-in for hosts without GPUs, next to toolkit.c: the functions that the plug-in calls
 * (kernels/cuda/plugin/cudnn_abi.h). The stand-in checks attributes, their types and their order as strictly as
 * the real library. A convolution is queued like a kernel launch, and computed when a thread waits for the launch
 * (toolkit.c). With FAKE_CUDA=noengine no convolution has an engine. As in the real library, convolutions of halves
 * with an f32 result have no engine.
 *
 * The plug-in must choose an engine from a list. The list begins with engines that the plug-in must reject, one of
 * each kind; an acceptable engine follows. An engine that must be rejected computes twice the right result, so that
 * the test notices a wrong choice. */
#include "kernels/cuda/plugin/cudnn_abi.h"
#include "t/host/reals.h"
#include "t/host/toolkit.h"

#include <stdio.h>
#include <string.h>

#define DECLARE(name, result, arguments) name##_fn name;
CUDNN_CALLS(DECLARE)
#undef DECLARE

enum { ATTRIBUTES = 16, ELEMENTS = 4, SCRATCH = 4096, TOO_MUCH = INT32_MAX, NOTE = 7 };

/* Engines in the order of the library's list. note: the engine's numerical note, NOTE: none; scratch: size of its
 * workspace, bytes. */
static const struct engine {
    int note;
    int64_t scratch;
} engines[] = {
    {DNN_NUMERICAL_NOTE_NONDETERMINISTIC, SCRATCH},
    {DNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS, SCRATCH},
    {DNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION, SCRATCH},
    {DNN_NUMERICAL_NOTE_FFT, SCRATCH},
    {DNN_NUMERICAL_NOTE_WINOGRAD, SCRATCH},
    {NOTE, TOO_MUCH},
    {DNN_NUMERICAL_NOTE_TENSOR_CORE, SCRATCH}, /* must be rejected, because it computes f32 as TF32 */
    {NOTE, SCRATCH},
};
enum { ENGINES = sizeof engines / sizeof *engines };

struct attribute {
    int name, type;
    int64_t n;
    union {
        int64_t whole[ELEMENTS];
        double real[ELEMENTS];
        float narrow[ELEMENTS];
        int word[ELEMENTS];
        void *pointer[ELEMENTS];
    };
};
struct descriptor {
    int type, nset, engine;
    bool finished;
    struct attribute set[ATTRIBUTES];
};
struct handle {
    int gpu;
    struct CUstream_st *stream;
};

/* ---- error texts ---- */

static _Thread_local char last[128];

static int
wrong(int status, const char *what)
{
    snprintf(last, sizeof last, "%s", what);
    return status;
}

size_t
cudnnGetVersion(void)
{
    return 91900;
}

const char *
cudnnGetErrorString(int status)
{
    return status == DNN_STATUS_EXECUTION_FAILED ? "the GPU failed to execute" : "a mistake of the caller";
}

void
cudnnGetLastErrorString(char *text, size_t capacity)
{
    snprintf(text, capacity, "%s", last);
}

int
cudnnCreate(void **handle)
{
    struct handle *h = *handle = calloc(1, sizeof *h);
    h->gpu = fake_current();
    return DNN_STATUS_SUCCESS;
}

int
cudnnSetStream(void *handle, struct CUstream_st *stream)
{
    ((struct handle *)handle)->stream = stream;
    return DNN_STATUS_SUCCESS;
}

/* ---- descriptors ---- */

int
cudnnBackendCreateDescriptor(int type, void **descriptor)
{
    struct descriptor *d = *descriptor = calloc(1, sizeof *d);
    d->type = type;
    return DNN_STATUS_SUCCESS;
}

int
cudnnBackendDestroyDescriptor(void *descriptor)
{
    free(descriptor);
    return DNN_STATUS_SUCCESS;
}

static size_t
width_of(int type)
{
    bool word = type == DNN_TYPE_DATA_TYPE || type == DNN_TYPE_CONVOLUTION_MODE || type == DNN_TYPE_HEUR_MODE;
    return word || type == DNN_TYPE_FLOAT ? 4 : 8;
}

int
cudnnBackendSetAttribute(void *descriptor, int attribute, int type, int64_t n, const void *elements)
{
    struct descriptor *d = descriptor;
    struct attribute *a = &d->set[d->nset++];
    if (d->finished || d->nset > ATTRIBUTES || n < 1 || n > ELEMENTS) return wrong(DNN_STATUS_BAD_PARAM, "a setting");
    a->name = attribute;
    a->type = type;
    a->n = n;
    memcpy(a->whole, elements, (size_t)n * width_of(type));
    if (type == DNN_TYPE_BACKEND_DESCRIPTOR && !((struct descriptor *)a->pointer[0])->finished)
        return wrong(DNN_STATUS_BAD_PARAM, "a descriptor is not finished");
    return DNN_STATUS_SUCCESS;
}

/* Returns the attribute with this name, type and count; NULL if the descriptor has none. */
static const struct attribute *
find(const struct descriptor *d, int name, int type, int64_t n)
{
    for (int i = 0; i < d->nset; i++)
        if (d->set[i].name == name) return d->set[i].type == type && d->set[i].n == n ? &d->set[i] : NULL;
    return NULL;
}

static const struct descriptor *
of(const struct descriptor *d, int name)
{
    const struct attribute *a = find(d, name, DNN_TYPE_BACKEND_DESCRIPTOR, 1);
    return a ? a->pointer[0] : NULL;
}

/* Attributes that a descriptor must have. Columns: type of descriptor, attribute, type, count. */
static const struct {
    int of, name, type, n;
} needed[] = {
    {DNN_BACKEND_TENSOR_DESCRIPTOR, DNN_ATTR_TENSOR_DATA_TYPE, DNN_TYPE_DATA_TYPE, 1},
    {DNN_BACKEND_TENSOR_DESCRIPTOR, DNN_ATTR_TENSOR_DIMENSIONS, DNN_TYPE_INT64, 4},
    {DNN_BACKEND_TENSOR_DESCRIPTOR, DNN_ATTR_TENSOR_STRIDES, DNN_TYPE_INT64, 4},
    {DNN_BACKEND_TENSOR_DESCRIPTOR, DNN_ATTR_TENSOR_UNIQUE_ID, DNN_TYPE_INT64, 1},
    {DNN_BACKEND_TENSOR_DESCRIPTOR, DNN_ATTR_TENSOR_BYTE_ALIGNMENT, DNN_TYPE_INT64, 1},
    {DNN_BACKEND_CONVOLUTION_DESCRIPTOR, DNN_ATTR_CONVOLUTION_COMP_TYPE, DNN_TYPE_DATA_TYPE, 1},
    {DNN_BACKEND_CONVOLUTION_DESCRIPTOR, DNN_ATTR_CONVOLUTION_CONV_MODE, DNN_TYPE_CONVOLUTION_MODE, 1},
    {DNN_BACKEND_CONVOLUTION_DESCRIPTOR, DNN_ATTR_CONVOLUTION_SPATIAL_DIMS, DNN_TYPE_INT64, 1},
    {DNN_BACKEND_CONVOLUTION_DESCRIPTOR, DNN_ATTR_CONVOLUTION_DILATIONS, DNN_TYPE_INT64, 2},
    {DNN_BACKEND_CONVOLUTION_DESCRIPTOR, DNN_ATTR_CONVOLUTION_FILTER_STRIDES, DNN_TYPE_INT64, 2},
    {DNN_BACKEND_CONVOLUTION_DESCRIPTOR, DNN_ATTR_CONVOLUTION_PRE_PADDINGS, DNN_TYPE_INT64, 2},
    {DNN_BACKEND_CONVOLUTION_DESCRIPTOR, DNN_ATTR_CONVOLUTION_POST_PADDINGS, DNN_TYPE_INT64, 2},
    {DNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, DNN_ATTR_OPERATIONGRAPH_HANDLE, DNN_TYPE_HANDLE, 1},
    {DNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, DNN_ATTR_OPERATIONGRAPH_OPS, DNN_TYPE_BACKEND_DESCRIPTOR, 1},
    {DNN_BACKEND_ENGINEHEUR_DESCRIPTOR, DNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, DNN_TYPE_BACKEND_DESCRIPTOR, 1},
    {DNN_BACKEND_ENGINEHEUR_DESCRIPTOR, DNN_ATTR_ENGINEHEUR_MODE, DNN_TYPE_HEUR_MODE, 1},
    {DNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, DNN_ATTR_EXECUTION_PLAN_HANDLE, DNN_TYPE_HANDLE, 1},
    {DNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, DNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, DNN_TYPE_BACKEND_DESCRIPTOR, 1},
    {DNN_BACKEND_VARIANT_PACK_DESCRIPTOR, DNN_ATTR_VARIANT_PACK_UNIQUE_IDS, DNN_TYPE_INT64, 3},
    {DNN_BACKEND_VARIANT_PACK_DESCRIPTOR, DNN_ATTR_VARIANT_PACK_DATA_POINTERS, DNN_TYPE_VOID_PTR, 3},
    {DNN_BACKEND_VARIANT_PACK_DESCRIPTOR, DNN_ATTR_VARIANT_PACK_WORKSPACE, DNN_TYPE_VOID_PTR, 1},
};

/* ---- reading a convolution ---- */

enum { X, W, Y, IMAGES };
static const struct {
    int type, alpha, beta, windows, image[IMAGES], makes;
} operations[] = {
    {DNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
     DNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
     DNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
     DNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
     {DNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, DNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
      DNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
     Y},
    {DNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
     DNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
     DNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
     DNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
     {DNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, DNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
      DNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
     X},
    {DNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     DNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
     DNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
     DNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
     {DNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, DNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
      DNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY},
     W},
};

struct image {
    int64_t size[4], stride[4], name;
    uint64_t type;
    void *data;
};
struct work {
    struct image image[IMAGES];
    int64_t stride[2], padding[2], dilation[2];
    int makes, engine;
    bool doubles, factors_are_single;
    void *scratch;
};

static void
pair(const struct descriptor *d, int name, int64_t *to)
{
    memcpy(to, find(d, name, DNN_TYPE_INT64, 2)->whole, 2 * sizeof *to);
}

static void
read_image(const struct descriptor *d, struct image *i)
{
    static const uint64_t type_of[] = {[DNN_DATA_FLOAT] = CUDA_R_32F,
                                       [DNN_DATA_DOUBLE] = CUDA_R_64F,
                                       [DNN_DATA_HALF] = CUDA_R_16F,
                                       [DNN_DATA_BFLOAT16] = CUDA_R_16BF};
    memcpy(i->size, find(d, DNN_ATTR_TENSOR_DIMENSIONS, DNN_TYPE_INT64, 4)->whole, sizeof i->size);
    memcpy(i->stride, find(d, DNN_ATTR_TENSOR_STRIDES, DNN_TYPE_INT64, 4)->whole, sizeof i->stride);
    i->name = find(d, DNN_ATTR_TENSOR_UNIQUE_ID, DNN_TYPE_INT64, 1)->whole[0];
    i->type = type_of[find(d, DNN_ATTR_TENSOR_DATA_TYPE, DNN_TYPE_DATA_TYPE, 1)->word[0]];
}

static bool
scales(const struct descriptor *o, int name, bool doubles, double want)
{
    const struct attribute *a = find(o, name, doubles ? DNN_TYPE_DOUBLE : DNN_TYPE_FLOAT, 1);
    return a && (doubles ? a->real[0] : (double)a->narrow[0]) == want;
}

/* Reads a convolution from an operation descriptor. Returns false if the real library would reject the operation. */
static bool
read_operation(const struct descriptor *o, struct work *w)
{
    size_t k = 0;
    while (k < 3 && operations[k].type != o->type) k++;
    const struct descriptor *windows = k < 3 ? of(o, operations[k].windows) : NULL;
    if (!windows) return false;
    for (int i = 0; i < IMAGES; i++) {
        const struct descriptor *image = of(o, operations[k].image[i]);
        if (!image) return false;
        read_image(image, &w->image[i]);
    }
    pair(windows, DNN_ATTR_CONVOLUTION_FILTER_STRIDES, w->stride);
    pair(windows, DNN_ATTR_CONVOLUTION_PRE_PADDINGS, w->padding);
    pair(windows, DNN_ATTR_CONVOLUTION_DILATIONS, w->dilation);
    w->makes = operations[k].makes;
    w->doubles = w->image[w->makes].type == CUDA_R_64F;
    w->factors_are_single = w->image[(w->makes + 1) % IMAGES].type == CUDA_R_32F;
    const int64_t *x = w->image[X].size, *f = w->image[W].size, *y = w->image[Y].size;
    bool good = x[0] == y[0] && f[0] == y[1] && x[1] % f[1] == 0 && f[0] % (x[1] / f[1]) == 0;
    for (int i = 0; i < 2; i++) {
        int64_t room = x[2 + i] + 2 * w->padding[i] - (f[2 + i] - 1) * w->dilation[i] - 1;
        good = good && room >= 0 && y[2 + i] == room / w->stride[i] + 1;
    }
    int computes = find(windows, DNN_ATTR_CONVOLUTION_COMP_TYPE, DNN_TYPE_DATA_TYPE, 1)->word[0];
    return good && scales(o, operations[k].alpha, w->doubles, 1) && scales(o, operations[k].beta, w->doubles, 0) &&
           computes == (w->doubles ? DNN_DATA_DOUBLE : DNN_DATA_FLOAT);
}

int
cudnnBackendFinalize(void *descriptor)
{
    struct descriptor *d = descriptor;
    struct work w;
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (needed[i].of == d->type && !find(d, needed[i].name, needed[i].type, needed[i].n))
            return wrong(DNN_STATUS_BAD_PARAM, "something is not set");
    d->finished = true;
    if (d->type == DNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR && !read_operation(of(d, DNN_ATTR_OPERATIONGRAPH_OPS), &w))
        return wrong(DNN_STATUS_BAD_PARAM, "an operation");
    if (d->type == DNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
        d->engine = of(d, DNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)->engine;
    return DNN_STATUS_SUCCESS;
}

/* ---- listing engines ---- */

static int
list_engines(const struct descriptor *heuristics, int64_t room, int64_t *n, struct descriptor **configs)
{
    int mode = find(heuristics, DNN_ATTR_ENGINEHEUR_MODE, DNN_TYPE_HEUR_MODE, 1)->word[0];
    struct work w;
    read_operation(of(of(heuristics, DNN_ATTR_ENGINEHEUR_OPERATION_GRAPH), DNN_ATTR_OPERATIONGRAPH_OPS), &w);
    bool one_type = w.image[X].type == w.image[W].type && w.image[X].type == w.image[Y].type;
    *n = mode == DNN_HEUR_MODE_A && one_type && !fake_is_said("noengine") ? ENGINES : 0;
    for (int i = 0; i < *n && i < room; i++) {
        configs[i]->engine = i;
        configs[i]->finished = true;
        memcpy(configs[i]->set, heuristics->set, sizeof configs[i]->set);
        configs[i]->nset = heuristics->nset;
    }
    return DNN_STATUS_SUCCESS;
}

int
cudnnBackendGetAttribute(void *descriptor, int attribute, int type, int64_t room, int64_t *n, void *elements)
{
    const struct descriptor *d = descriptor;
    *n = 1;
    if (!d->finished) return wrong(DNN_STATUS_BAD_PARAM, "it is not finished");
    if (attribute == DNN_ATTR_ENGINEHEUR_RESULTS && type == DNN_TYPE_BACKEND_DESCRIPTOR)
        return list_engines(d, room, n, elements);
    if (attribute == DNN_ATTR_ENGINECFG_ENGINE && type == DNN_TYPE_BACKEND_DESCRIPTOR && room == 1) {
        struct descriptor *engine = ((struct descriptor **)elements)[0];
        engine->engine = d->engine;
        engine->finished = true;
    } else if (attribute == DNN_ATTR_ENGINE_NUMERICAL_NOTE && type == DNN_TYPE_NUMERICAL_NOTE && room > 0) {
        *n = engines[d->engine].note != NOTE;
        if (*n) ((int *)elements)[0] = engines[d->engine].note;
    } else if (attribute == DNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE && type == DNN_TYPE_INT64 && room == 1) {
        ((int64_t *)elements)[0] = engines[d->engine].scratch;
    } else {
        return wrong(DNN_STATUS_BAD_PARAM, "nothing that it can be asked for");
    }
    return DNN_STATUS_SUCCESS;
}

/* ---- computing a convolution ---- */

static double *
at(double *all, const struct image *i, int64_t a, int64_t b, int64_t c, int64_t d)
{
    return all + ((a * i->size[1] + b) * i->size[2] + c) * i->size[3] + d;
}

static int64_t
count(const struct image *i)
{
    return i->size[0] * i->size[1] * i->size[2] * i->size[3];
}

static int64_t
place(const struct image *i, int64_t e)
{
    int64_t at = 0;
    for (int d = 3; d >= 0; e /= i->size[d--]) at += e % i->size[d] * i->stride[d];
    return at;
}

/* Adds every product of the convolution to the image that the call computes: the result of a forward call, or a
 * gradient. */
static void
walk(const struct work *w, double *const *all)
{
    const struct image *x = &w->image[X], *f = &w->image[W], *y = &w->image[Y];
    int64_t kernels = f->size[0] / (x->size[1] / f->size[1]);
    double twice = engines[w->engine].note == NOTE || engines[w->engine].note == DNN_NUMERICAL_NOTE_TENSOR_CORE ? 1 : 2;
    for (int64_t e = 0; e < count(y); e++)
        for (int64_t k = 0; k < f->size[1] * f->size[2] * f->size[3]; k++) {
            int64_t v = e % y->size[3], u = e / y->size[3] % y->size[2], o = e / y->size[3] / y->size[2] % y->size[1];
            int64_t n = e / y->size[3] / y->size[2] / y->size[1], q = k % f->size[3], p = k / f->size[3] % f->size[2];
            int64_t c = k / f->size[3] / f->size[2];
            int64_t h = u * w->stride[0] + p * w->dilation[0] - w->padding[0];
            int64_t i = v * w->stride[1] + q * w->dilation[1] - w->padding[1];
            if (h < 0 || h >= x->size[2] || i < 0 || i >= x->size[3]) continue;
            double *one[] = {at(all[X], x, n, o / kernels * f->size[1] + c, h, i), at(all[W], f, o, c, p, q),
                             all[Y] + e};
            *one[w->makes] += twice * *one[(w->makes + 1) % IMAGES] * *one[(w->makes + 2) % IMAGES];
        }
}

static cudaError_t
compute(void *what)
{
    struct work *w = what;
    double *all[IMAGES];
    bool rounds = w->factors_are_single && engines[w->engine].note == DNN_NUMERICAL_NOTE_TENSOR_CORE;
    memset(w->scratch, 0x55, SCRATCH);
    for (int i = 0; i < IMAGES; i++) {
        const struct image *is = &w->image[i];
        all[i] = calloc((size_t)count(is), sizeof **all);
        for (int64_t e = 0; e < count(is) && i != w->makes; e++) {
            double v = real_get(is->type, is->data, place(is, e));
            all[i][e] = rounds ? real_tf32(v) : v;
        }
    }
    walk(w, all);
    const struct image *to = &w->image[w->makes];
    for (int64_t e = 0; e < count(to); e++) real_put(to->type, to->data, place(to, e), all[w->makes][e]);
    for (int i = 0; i < IMAGES; i++) free(all[i]);
    return cudaSuccess;
}

/* Reads the addresses of the images from a variant pack, which lists them by the images' ids. Returns false if an
 * address is missing or misaligned. */
static bool
read_pack(const struct descriptor *pack, struct work *w)
{
    const struct attribute *names = find(pack, DNN_ATTR_VARIANT_PACK_UNIQUE_IDS, DNN_TYPE_INT64, 3);
    const struct attribute *data = find(pack, DNN_ATTR_VARIANT_PACK_DATA_POINTERS, DNN_TYPE_VOID_PTR, 3);
    w->scratch = find(pack, DNN_ATTR_VARIANT_PACK_WORKSPACE, DNN_TYPE_VOID_PTR, 1)->pointer[0];
    uintptr_t bits = 0;
    for (int i = 0; i < IMAGES; i++)
        for (int k = 0; k < 3; k++)
            if (names->whole[k] == w->image[i].name) w->image[i].data = data->pointer[k];
    for (int i = 0; i < IMAGES; i++) bits |= (uintptr_t)w->image[i].data;
    return w->image[X].data && w->image[W].data && w->image[Y].data && bits % 16 == 0 && w->scratch &&
           (uintptr_t)w->scratch % 256 == 0;
}

int
cudnnBackendExecute(void *handle, void *plan, void *pack)
{
    static const char *const text[] = {"x", "w", "y"};
    const struct handle *h = handle;
    const struct descriptor *p = plan, *heuristics = of(p, DNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    struct work w = {.engine = p->engine};
    const struct descriptor *graph = of(heuristics, DNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    if (!p->finished || !((struct descriptor *)pack)->finished || h->gpu != fake_current() ||
        h->stream != cudaStreamPerThread || !read_operation(of(graph, DNN_ATTR_OPERATIONGRAPH_OPS), &w) ||
        !read_pack(pack, &w))
        return wrong(DNN_STATUS_BAD_PARAM, "a pack");
    fake_log("convolve gpu %d %s engine %d\n", fake_current(), text[w.makes], w.engine);
    return fake_put_off(compute, &w, sizeof w) ? wrong(DNN_STATUS_EXECUTION_FAILED, "a launch") : DNN_STATUS_SUCCESS;
}
