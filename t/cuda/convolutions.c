/* convolutions.c - tests the library convolutions that kernels/cuda finds: each must equal the call that it
 * replaces.
 *
 * The test tries the samples of every operator, and further convolutions (strides, padding, dilation, groups, odd
 * sizes, sums of halves as f32) in every float dtype. Operands have every memory layout, are stored channels last,
 * or are cut out of larger images. Every dense convolution must be found. The test computes each found convolution
 * by the specification in runtime/device/device_cuda.h, and compares the result with the reference.
 *
 * `t/bin/cuda convolutions gpu` computes the convolutions by the library on GPU 0. It computes each twice, which
 * must give the same bits, and prints those that the library does not support. */
#include "kernels/cuda/convolution.h"
#include "kernels/cuda/source.h"
#include "t/lib/kernel/gpu.h"
#include "t/lib/kernel/trial.h"

static const enum dtype dtype_of[] = {
    [CUDA_F32] = DT_F32, [CUDA_F64] = DT_F64, [CUDA_BF16] = DT_BF16, [CUDA_F16] = DT_F16};

static const struct {
    const char *op, *text;
} more[] = {
    {"conv2d", "f32{4,16,12,12} f32{32,16,3,3} - padding=1"},
    {"conv2d", "f32{2,3,31,29} f32{8,3,7,7} - padding=3 stride=2"},
    {"conv2d", "f32{2,64,7,7} f32{24,64,1,1}"},
    {"conv2d", "f32{2,64,8,8} f32{24,64,1,1} - stride=2"},
    {"conv2d", "f32{2,12,9,9} f32{12,1,3,3} - padding=1 groups=12"},
    {"conv2d", "f32{3,12,9,7} f32{24,3,3,5} - padding=1,2 groups=4"},
    {"conv2d", "f32{2,8,13,13} f32{16,8,3,3} - padding=2 dilation=2"},
    {"conv2d", "f32{1,1,5,5} f32{1,1,5,5}"},
    {"conv2d", "f32{5,2,1,9} f32{3,2,1,3} - stride=1,2"},
    {"conv2d_grad_x", "f32{4,32,12,12} f32{32,16,3,3} padding=1 size=12,12"},
    {"conv2d_grad_x", "f32{2,8,16,15} f32{8,3,7,7} padding=3 stride=2 size=31,29"},
    {"conv2d_grad_x", "f32{2,24,4,4} f32{24,64,1,1} stride=2 size=8,8"},
    {"conv2d_grad_x", "f32{2,12,9,9} f32{12,1,3,3} padding=1 groups=12 size=9,9"},
    {"conv2d_grad_x", "f32{3,24,9,7} f32{24,3,3,5} padding=1,2 groups=4 size=9,7"},
    {"conv2d_grad_x", "f32{2,16,13,13} f32{16,8,3,3} padding=2 dilation=2 size=13,13"},
    {"conv2d_grad_w", "f32{4,16,12,12} f32{4,32,12,12} padding=1 size=3,3"},
    {"conv2d_grad_w", "f32{2,3,31,29} f32{2,8,16,15} padding=3 stride=2 size=7,7"},
    {"conv2d_grad_w", "f32{2,64,8,8} f32{2,24,4,4} stride=2 size=1,1"},
    {"conv2d_grad_w", "f32{2,12,9,9} f32{2,12,9,9} padding=1 groups=12 size=3,3"},
    {"conv2d_grad_w", "f32{3,12,9,7} f32{3,24,9,7} padding=1,2 groups=4 size=3,5"},
    {"conv2d_grad_w", "f32{2,8,13,13} f32{2,16,13,13} padding=2 dilation=2 size=3,3"},
};

/* ---- computing a convolution by its specification ---- */

static int64_t
place(const struct cuda_image *i, int64_t a, int64_t b, int64_t c, int64_t d)
{
    return a * i->stride[0] + b * i->stride[1] + c * i->stride[2] + d * i->stride[3];
}

static int64_t
numel(const struct cuda_image *i)
{
    return i->size[0] * i->size[1] * i->size[2] * i->size[3];
}

/* Adds one product of the convolution to `sum`, the image that the test computes: y, or a gradient. at: indices of
 * the element of y; in: indices, in the convolution's kernel, of the factor for channel at[1]. */
static void
meet(const struct cuda_convolution *c, const int64_t *at, const int64_t *in, const void *first, const void *second,
     double *sum)
{
    enum dtype d = dtype_of[c->from];
    int64_t per_group = c->w.size[0] / (c->x.size[1] / c->w.size[1]);
    int64_t h = at[2] * c->stride[0] + in[1] * c->dilation[0] - c->padding[0];
    int64_t v = at[3] * c->stride[1] + in[2] * c->dilation[1] - c->padding[1];
    if (h < 0 || h >= c->x.size[2] || v < 0 || v >= c->x.size[3]) return;
    int64_t x = place(&c->x, at[0], at[1] / per_group * c->w.size[1] + in[0], h, v);
    int64_t w = place(&c->w, at[1], in[0], in[1], in[2]), y = place(&c->y, at[0], at[1], at[2], at[3]);
    if (c->makes == CUDA_MAKES_Y) sum[y] += elem_get_f(d, first, x) * elem_get_f(d, second, w);
    if (c->makes == CUDA_MAKES_X) sum[x] += elem_get_f(d, first, w) * elem_get_f(d, second, y);
    if (c->makes == CUDA_MAKES_W) sum[w] += elem_get_f(d, first, x) * elem_get_f(d, second, y);
}

static void
walk(const struct cuda_convolution *c, const void *first, const void *second, double *sum)
{
    const int64_t *y = c->y.size, *w = c->w.size;
    for (int64_t e = 0; e < numel(&c->y); e++) {
        const int64_t at[] = {e / y[3] / y[2] / y[1], e / y[3] / y[2] % y[1], e / y[3] % y[2], e % y[3]};
        for (int64_t k = 0; k < w[1]; k++)
            for (int64_t p = 0; p < w[2]; p++)
                for (int64_t q = 0; q < w[3]; q++) meet(c, at, (int64_t[]){k, p, q}, first, second, sum);
    }
}

static void
compute(const struct cuda_convolution *c, const struct cuda_factors *at)
{
    const struct cuda_image *i = c->makes == CUDA_MAKES_Y ? &c->y : c->makes == CUDA_MAKES_X ? &c->x : &c->w;
    int64_t n = numel(i); /* the result is dense: element k is number k in memory */
    double *sum = must_alloc((size_t)n * sizeof *sum);
    walk(c, at->x, at->w, sum);
    for (int64_t k = 0; k < n; k++) elem_set_f(dtype_of[c->to], at->y, k, sum[k]);
    free(sum);
}

/* ---- computing a convolution by a library ---- */

static int64_t nway, ndeclined;

/* Computes the convolution twice, into f->y and into `again`. Returns false if the library does not support the
 * convolution or the alignment of its operands. */
static bool
compute_on_gpu(const struct cuda_convolution *c, const struct cuda_factors *f, void *again, const char *text)
{
    struct cuda_factors at = *f;
    size_t bytes = 0;
    if (((uintptr_t)f->x | (uintptr_t)f->w | (uintptr_t)f->y) % CUDA_PRODUCT_ALIGN) return false;
    void *way = gpu_plugin->convolution(0, c, &bytes);
    nway += way != NULL;
    ndeclined += !way;
    if (!way) diag("the library does not support %s", text);
    if (!way) return false;
    at.scratch = gpu_take(bytes + 1);
    gpu_try(gpu_plugin->convolve(0, way, &at), text);
    at.y = again;
    gpu_try(gpu_plugin->convolve(0, way, &at), text);
    gpu_try(gpu_plugin->settle(0), text);
    return true;
}

/* ---- convolutions that must be found ---- */

enum form { AS_IT_IS, CHANNELS_LAST, CUT_OUT, NFORM };
static const char *const form_text[] = {"", ", channels last", ", cut out of a larger image"};

/* Moves the tensor to new memory with this layout. */
static void
lay(struct tensor *t, enum form form)
{
    struct view old = t->view;
    int64_t *s = t->view.stride, *n = t->view.dim;
    if (form == AS_IT_IS || t->view.ndim != 4 || view_numel(&old) == 0) return;
    if (form == CHANNELS_LAST) s[1] = 1, s[3] = n[1], s[2] = n[3] * s[3], s[0] = n[2] * s[2];
    if (form == CUT_OUT) s[3] = 1, s[2] = n[3], s[1] = n[2] * s[2] + 8, s[0] = (n[1] + 2) * s[1];
    void *memory = trial_take((size_t)room_of(&t->view) * dtype_bytes(old.dtype));
    t->view.data = memory;
    view_copy(&t->view, &old);
    trial_give(t->memory);
    t->memory = memory;
}

/* Returns true if a library must compute the convolution: its operands are dense floats of one dtype, stored
 * row-major or channels last. */
static bool
must_be_found(const struct op *op, const struct type *in, enum memory m, enum form form, bool wide)
{
    bool dense = (m == DENSE || m == ASTRAY) && form != CUT_OUT;
    return op->gpu.convolution && dtype_is_float((enum dtype)in->dtype) && dense && !wide;
}

/* Checks that the found convolution equals the reference. */
static void
check(struct trial *t, const struct cuda_convolution *c, const struct cuda_places *at, const char *name)
{
    const struct cuda_factors f = {.x = t->in[at->x].view.data, .w = t->in[at->w].view.data, .y = t->got[0].view.data};
    bool same = true;
    if (!gpu_plugin) {
        compute(c, &f);
    } else {
        if (!compute_on_gpu(c, &f, t->again[0].view.data, name)) return;
        same = trial_same(&t->got[0].view, &t->again[0].view);
    }
    bool good = t->sample.call.op->gpu.convolution && !trial_reference(t) && same;
    double far = distance(&t->got[0].view, &t->want[0].view);
    if (!ok(good && far <= 1, "%s: the library convolution equals the reference", name))
        diag("%g times the allowed error; the same bits twice: %d", far, same);
}

/* Changes the results of a trial to f32, the dtype of partial sums of halves. */
static void
widen(struct trial *t)
{
    struct tensor *const out[] = {&t->got[0], &t->again[0], &t->want[0]};
    struct type f32 = t->sample.call.out[0];
    f32.dtype = DT_F32;
    for (size_t i = 0; i < countof(out); i++) {
        trial_give(out[i]->memory);
        make_tensor(out[i], &f32, DENSE);
    }
}

static void
try_call(const struct op *op, const char *text, enum memory m, enum form form, bool wide, uint64_t seed)
{
    struct trial t;
    struct view view[SAMPLE_IN + OP_OUT];
    void *data[SAMPLE_IN + OP_OUT];
    struct kcall k;
    struct cuda_convolution c;
    struct cuda_places at;
    char name[256];
    if (!trial_open(&t, op, text, m, seed)) {
        trial_close(&t);
        return;
    }
    const struct call *call = &t.sample.call;
    struct fuse_step step = {.call = call};
    for (int i = 0; i < MIN(call->nin, OP_OPERAND); i++) step.arg[i].index = i;
    for (int i = 0; i < call->nin; i++) lay(&t.in[i], form);
    if (wide) widen(&t);
    snprintf(name, sizeof name, "%s %s, %s%s%s", op->name, text, memory_text[m], form_text[form],
             wide ? ", to f32" : "");
    kcall_of(&t, call, t.got, view, data, &k);
    bool found = cuda_convolution_of(&step, call->nin, view, view + call->nin, &c, &at);
    if (found)
        check(&t, &c, &at, name);
    else if (must_be_found(op, &call->in[0], m, form, wide))
        ok(false, "%s is found as a library convolution", name);
    trial_close(&t);
}

static void
try_sample(const struct op *op, const char *text, uint64_t seed)
{
    static const char *const dtype[] = {"f32", "f64", "bf16", "f16", "i64"};
    char as[128];
    for (size_t d = 0; d < countof(dtype); d++) {
        if (!strstr(text, "f32") || !trial_retype(op, text, dtype[d], as, sizeof as)) continue;
        for (int m = 0; m < (op->gpu.convolution ? NMEMORY : 1); m++)
            if (m != FAR) try_call(op, as, (enum memory)m, AS_IT_IS, false, seed++);
        for (int l = CHANNELS_LAST; l < NFORM && op->gpu.convolution; l++)
            try_call(op, as, DENSE, (enum form)l, false, seed++);
        if (op->gpu.convolution && dtype_is_half(dtype_parse(dtype[d])))
            try_call(op, as, DENSE, AS_IT_IS, true, seed++);
    }
}

int
main(int argc, char **argv)
{
    uint64_t seed = seed_of(1);
    const char *why = "no plug-in";
    bool on_gpu = argc > 1 && !strcmp(argv[1], "gpu");
    gpu_plugin_fn *get = on_gpu ? gpu_plugin_of(argv[0]) : NULL;
    if (on_gpu && (!get || !gpu_open(get(), &why))) {
        printf("1..0 # SKIP no device: %s\n", why);
        return 0;
    }
    if (on_gpu && !gpu_plugin->convolver(&why)) {
        printf("1..0 # SKIP no library: %s\n", why);
        return 0;
    }
    for (int i = 0; i < op_count; i++)
        for (int s = 0; s < OP_SAMPLE && op_table[i]->sample[s] && (!on_gpu || op_table[i]->gpu.convolution); s++)
            try_sample(op_table[i], op_table[i]->sample[s], seed += 100);
    for (size_t i = 0; i < countof(more); i++) try_sample(op_find(more[i].op), more[i].text, seed += 100);
    if (on_gpu) {
        diag("%s supports %lld of %lld", gpu_plugin->convolver(&why), (long long)nway, (long long)(nway + ndeclined));
        ok(nway > ndeclined, "the library supports most convolutions");
    }
    gpu_close();
    return done();
}
