/* conv.c - convolutions and their gradients on oneDNN.
 *
 * Images lie as NCHW. oneDNN would rather have sixteen channels innermost, and
 * where a window is more than a single place it pays to turn them there and back
 * (dnnl.h). One core, us of processor time, forward, as they lie and turned:
 *
 *     images, window           as they lie   turned
 *     32 x 16 x 32 x 32, 3 x 3       2,670    1,740
 *     8 x 64 x 56 x 56, 3 x 3       11,900    8,430
 *     8 x 512 x 7 x 7, 3 x 3         9,320    8,830
 *     8 x 3 x 224 x 224, 7 x 7      15,760   11,490
 *     64 x 1 x 28 x 28, 3 x 3          188      223
 *     8 x 64 x 56 x 56, 1 x 1        3,370    5,920
 *
 * The three primitives share one description: image, kernel and result. A kernel
 * of groups has a dimension more. Gradients are made with the forward
 * descriptor as their hint. */
#include "kernels/cpu/dnnl.h"

#include "kernels/cpu/convert.h"
#include "runtime/arena.h"
#include "runtime/error.h"
#include "runtime/stop.h"

#include <stdlib.h>

enum { STRIDE, PADDING, DILATION }; /* attributes of all three operators */

struct shape {
    dnnl_memory_desc_t x, w, y;             /* as they lie */
    dnnl_memory_desc_t any_x, any_w, any_y; /* as oneDNN may have them */
    dnnl_dims_t stride, dilate, padding, padding_end;
};

/* A dense view; a kernel of groups {go, c, p, q} is {g, o, c, p, q}. */
static void
describe(const struct view *v, int64_t groups, dnnl_memory_desc_t *out)
{
    dnnl_dims_t size, stride;
    int n = 0;
    if (groups > 0) size[n++] = groups;
    for (int d = 0; d < v->ndim; d++) size[n++] = d == 0 && groups > 0 ? v->dim[0] / groups : v->dim[d];
    for (int64_t step = 1, d = n - 1; d >= 0; d--) {
        stride[d] = step;
        step *= size[d];
    }
    dnnl_memory_desc_init_by_strides(out, n, size, prim_dtype(v->dtype), stride);
}

/* Channels of the image, divided by those that a kernel sees: 1 without groups, also where channels are split. */
static int64_t
groups_of(const struct view *x, const struct view *w)
{
    return x->dim[1] / w->dim[1];
}

static int64_t
pair(const struct attr *a, int i, int64_t by_default)
{
    return a->n == 0 ? by_default : a->list[a->n == 1 ? 0 : i];
}

/* In any order, if they may be turned. */
static dnnl_memory_desc_t
loose(dnnl_memory_desc_t lies, bool turned)
{
    dnnl_memory_desc_t any = lies;
    if (turned) dnnl_memory_desc_init_by_tag(&any, lies.ndims, lies.dims, lies.data_type, dnnl_format_tag_any);
    return any;
}

static struct shape
shape_of(const struct kcall *k, const struct view *x, const struct view *w, const struct view *y)
{
    const struct attr *a = k->call->attr;
    struct shape s = {0};
    int64_t groups = groups_of(x, w);
    describe(x, 0, &s.x);
    describe(w, groups > 1 ? groups : 0, &s.w);
    describe(y, 0, &s.y);
    bool turned = groups == 1 && w->dim[1] >= 3 && w->dim[2] * w->dim[3] > 1;
    s.any_x = loose(s.x, turned), s.any_w = loose(s.w, turned), s.any_y = loose(s.y, turned);
    for (int i = 0; i < 2; i++) {
        s.stride[i] = pair(&a[STRIDE], i, 1);
        s.dilate[i] = pair(&a[DILATION], i, 1) - 1;
        s.padding[i] = pair(&a[PADDING], i, 0);
        /* What the windows cover beyond the image: a stride may leave some of the padding unseen. */
        int64_t reach = (y->dim[2 + i] - 1) * s.stride[i] + (w->dim[2 + i] - 1) * (s.dilate[i] + 1) + 1;
        s.padding_end[i] = reach - x->dim[2 + i] - s.padding[i];
    }
    return s;
}

bool
conv_accepts(const struct kcall *k)
{
    enum dtype d = k->in[0].dtype, to = k->out[0].dtype;
    bool same = k->in[1].dtype == d && prim_dtype(d) != dnnl_data_type_undef && (to == d || to == DT_F32);
    return same && view_numel(&k->in[0]) && view_numel(&k->in[1]) && view_numel(&k->out[0]);
}

/* ---- some images at a time ---- */

double conv_part_flops = 1e10; /* about a tenth of a second; on one core, smaller parts take no longer in all */

/* A long convolution is computed in parts of so many images, that between them it can be stopped (runtime/stop.h). */
static int64_t
images_at_once(const struct view *x, const struct view *w, const struct view *y, int threads)
{
    double flops = 2 * (double)view_numel(y) * (double)(view_numel(w) / w->dim[0]);
    int64_t n = x->dim[0], parts = (int64_t)(flops / conv_part_flops) + 1;
    return MIN(n, MAX((n + parts - 1) / parts, threads));
}

/* ---- the primitives ---- */

static int
forward(const struct shape *s, int threads, dnnl_primitive_desc_t *pd)
{
    dnnl_convolution_desc_t op;
    TRY(prim_check(dnnl_dilated_convolution_forward_desc_init(&op, dnnl_forward_training, dnnl_convolution_direct,
                                                              &s->any_x, &s->any_w, NULL, &s->any_y, s->stride,
                                                              s->dilate, s->padding, s->padding_end),
                   "convolution"));
    return prim_describe(&op, threads, NULL, NULL, false, pd);
}

int
conv_prepare(const struct kcall *k, void **state, size_t *scratch_bytes)
{
    struct view x = k->in[0], y = k->out[0];
    x.dim[0] = y.dim[0] = images_at_once(&k->in[0], &k->in[1], &k->out[0], k->threads);
    struct shape s = shape_of(k, &x, &k->in[1], &y);
    struct prim_arg arg[] = {{DNNL_ARG_SRC, 0, s.x}, {DNNL_ARG_WEIGHTS, 1, s.w}, {DNNL_ARG_DST, PRIM_OUT, s.y}};
    dnnl_primitive_desc_t pd;
    TRY(forward(&s, k->threads, &pd));
    TRY(prim_new(pd, 3, arg, k->threads, state, scratch_bytes));
    prim_repeat_images(*state, x.dim[0], 3, (const struct view *[]){&k->in[0], NULL, &k->out[0]});
    return 0;
}

int
conv_x_prepare(const struct kcall *k, void **state, size_t *scratch_bytes)
{
    struct view x = k->out[0], y = k->in[0];
    x.dim[0] = y.dim[0] = images_at_once(&k->out[0], &k->in[1], &k->in[0], k->threads);
    struct shape s = shape_of(k, &x, &k->in[1], &y);
    struct prim_arg arg[] = {
        {DNNL_ARG_DIFF_DST, 0, s.y}, {DNNL_ARG_WEIGHTS, 1, s.w}, {DNNL_ARG_DIFF_SRC, PRIM_OUT, s.x}};
    dnnl_primitive_desc_t hint, pd;
    dnnl_convolution_desc_t op;
    TRY(prim_check(dnnl_dilated_convolution_backward_data_desc_init(&op, dnnl_convolution_direct, &s.any_x, &s.any_w,
                                                                    &s.any_y, s.stride, s.dilate, s.padding,
                                                                    s.padding_end),
                   "convolution"));
    TRY(forward(&s, k->threads, &hint));
    int status = prim_describe(&op, k->threads, hint, NULL, false, &pd);
    dnnl_primitive_desc_destroy(hint);
    TRY(status);
    TRY(prim_new(pd, 3, arg, k->threads, state, scratch_bytes));
    prim_repeat_images(*state, x.dim[0], 3, (const struct view *[]){&k->in[0], NULL, &k->out[0]});
    return 0;
}

/* ---- the gradient by the weights: a sum over images ---- */

enum { X, DY, FULL = 0, REST = 1 };

struct conv_w {
    struct prim *part[2]; /* of `at_once` images, and of those that are left; NULL: there are none such */
    int64_t at_once;
    size_t sum, scratch; /* bytes: of a sum in f32, aligned; of the primitives */
};

/* The primitive for n of the images, which gives weights of dtype d. */
static int
part_new(const struct kcall *k, int64_t n, enum dtype d, struct prim **part, size_t *scratch_bytes)
{
    struct view x = k->in[X], y = k->in[DY], w = k->out[0];
    x.dim[0] = y.dim[0] = n;
    w.dtype = (uint8_t)d;
    struct shape s = shape_of(k, &x, &w, &y);
    struct prim_arg arg[] = {
        {DNNL_ARG_SRC, 0, s.x}, {DNNL_ARG_DIFF_DST, 1, s.y}, {DNNL_ARG_DIFF_WEIGHTS, PRIM_OUT, s.w}};
    dnnl_primitive_desc_t hint, pd;
    dnnl_convolution_desc_t op;
    size_t scratch;
    TRY(prim_check(dnnl_dilated_convolution_backward_weights_desc_init(&op, dnnl_convolution_direct, &s.any_x, &s.any_w,
                                                                       NULL, &s.any_y, s.stride, s.dilate, s.padding,
                                                                       s.padding_end),
                   "convolution"));
    w.dtype = x.dtype; /* forward knows no other weights */
    struct shape ahead = shape_of(k, &x, &w, &y);
    TRY(forward(&ahead, k->threads, &hint));
    int status = prim_describe(&op, k->threads, hint, NULL, false, &pd);
    dnnl_primitive_desc_destroy(hint);
    TRY(status);
    void *made;
    TRY(prim_new(pd, 3, arg, k->threads, &made, &scratch));
    *part = made;
    *scratch_bytes = MAX(*scratch_bytes, scratch);
    return 0;
}

static int
parts_new(const struct kcall *k, struct conv_w *c)
{
    int64_t n = k->in[X].dim[0], rest = n % c->at_once;
    enum dtype d = c->at_once < n ? DT_F32 : k->out[0].dtype;
    TRY(part_new(k, c->at_once, d, &c->part[FULL], &c->scratch));
    return rest ? part_new(k, rest, d, &c->part[REST], &c->scratch) : 0;
}

int
conv_w_prepare(const struct kcall *k, void **state, size_t *scratch_bytes)
{
    struct conv_w *c = must_alloc(sizeof *c);
    *c = (struct conv_w){.at_once = images_at_once(&k->in[X], &k->out[0], &k->in[DY], k->threads)};
    int status = parts_new(k, c);
    if (status) {
        conv_w_drop(c);
        return status;
    }
    c->sum = ((size_t)view_numel(&k->out[0]) * sizeof(float) + 63) / 64 * 64;
    c->scratch = (c->scratch + 63) / 64 * 64;
    *scratch_bytes = c->scratch + (c->at_once < k->in[X].dim[0] ? 2 * c->sum : 0);
    *state = c;
    return 0;
}

static int
run_part(const struct kcall *k, const struct conv_w *c, int64_t first, void *to)
{
    const struct view *x = &k->in[X], *y = &k->in[DY];
    const struct prim *p = c->part[x->dim[0] - first < c->at_once ? REST : FULL];
    void *at[] = {(char *)x->data + first * image_bytes(x), (char *)y->data + first * image_bytes(y), to};
    return prim_at(p, at, k->scratch, k->call->op->name);
}

int
conv_w_run(const struct kcall *k, const void *state)
{
    const struct conv_w *c = state;
    const struct view *w = &k->out[0];
    int64_t n = k->in[X].dim[0], weights = view_numel(w);
    if (c->at_once >= n) return run_part(k, c, 0, w->data);
    float *sum = (float *)((char *)k->scratch + c->scratch), *part = (float *)((char *)sum + c->sum);
    TRY(run_part(k, c, 0, sum));
    for (int64_t first = c->at_once; first < n; first += c->at_once) {
        TRY(stop_check());
        TRY(run_part(k, c, first, part));
        for (int64_t i = 0; i < weights; i++) sum[i] += part[i];
    }
    block_store(COMP_F32, w->dtype, sum, weights, w->data, 1);
    return 0;
}

void
conv_w_drop(void *state)
{
    struct conv_w *c = state;
    if (!c) return;
    prim_drop(c->part[FULL]);
    prim_drop(c->part[REST]);
    free(c);
}
