/* conv.c - convolutions and their gradients on oneDNN, NCHW as it lies.
 *
 * The three primitives share one description: image, kernel and result. A kernel
 * of groups has a dimension more. Gradients are made with the forward
 * descriptor as their hint. */
#include "kernels/cpu/dnnl.h"

#include "runtime/arena.h"
#include "runtime/error.h"

enum { STRIDE, PADDING, DILATION }; /* attributes of all three operators */

struct shape {
    struct prim_arg x, w, y;
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

static struct shape
shape_of(const struct kcall *k, const struct view *x, const struct view *w, const struct view *y)
{
    const struct attr *a = k->call->attr;
    struct shape s = {0};
    int64_t groups = groups_of(x, w);
    describe(x, 0, &s.x.desc);
    describe(w, groups > 1 ? groups : 0, &s.w.desc);
    describe(y, 0, &s.y.desc);
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

double conv_part_flops = 4e10; /* half a second on a slow core */

/* A long convolution is computed in parts of so many images, that between them it can be stopped (runtime/stop.h). */
static int64_t
images_at_once(const struct view *x, const struct view *w, const struct view *y, int threads)
{
    double flops = 2 * (double)view_numel(y) * (double)(view_numel(w) / w->dim[0]);
    int64_t n = x->dim[0], parts = (int64_t)(flops / conv_part_flops) + 1;
    return MIN(n, MAX((n + parts - 1) / parts, threads));
}

static int64_t
image_bytes(const struct view *v)
{
    return view_numel(v) / v->dim[0] * (int64_t)dtype_bytes(v->dtype);
}

/* Of the arguments from, weights and to. The last part ends where the images do, and computes some of them again. */
static void
repeat_by_images(struct prim *p, int64_t at_once, const struct view *from, const struct view *to)
{
    int64_t n = from->dim[0], parts = (n + at_once - 1) / at_once;
    if (parts < 2) return;
    int64_t *skip = must_alloc((size_t)(3 * parts) * sizeof *skip);
    for (int64_t r = 0; r < parts; r++) {
        int64_t first = MIN(r * at_once, n - at_once);
        skip[3 * r] = first * image_bytes(from);
        skip[3 * r + 1] = 0;
        skip[3 * r + 2] = first * image_bytes(to);
    }
    prim_repeat(p, parts, skip, 3);
}

/* ---- the primitives ---- */

static int
forward(const struct shape *s, int threads, dnnl_primitive_desc_t *pd)
{
    dnnl_convolution_desc_t op;
    TRY(prim_check(dnnl_dilated_convolution_forward_desc_init(&op, dnnl_forward_training, dnnl_convolution_direct,
                                                              &s->x.desc, &s->w.desc, NULL, &s->y.desc, s->stride,
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
    struct prim_arg arg[] = {
        {DNNL_ARG_SRC, 0, s.x.desc}, {DNNL_ARG_WEIGHTS, 1, s.w.desc}, {DNNL_ARG_DST, PRIM_OUT, s.y.desc}};
    dnnl_primitive_desc_t pd;
    TRY(forward(&s, k->threads, &pd));
    TRY(prim_new(pd, 3, arg, k->threads, state, scratch_bytes));
    repeat_by_images(*state, x.dim[0], &k->in[0], &k->out[0]);
    return 0;
}

int
conv_x_prepare(const struct kcall *k, void **state, size_t *scratch_bytes)
{
    struct view x = k->out[0], y = k->in[0];
    x.dim[0] = y.dim[0] = images_at_once(&k->out[0], &k->in[1], &k->in[0], k->threads);
    struct shape s = shape_of(k, &x, &k->in[1], &y);
    struct prim_arg arg[] = {
        {DNNL_ARG_DIFF_DST, 0, s.y.desc}, {DNNL_ARG_WEIGHTS, 1, s.w.desc}, {DNNL_ARG_DIFF_SRC, PRIM_OUT, s.x.desc}};
    dnnl_primitive_desc_t hint, pd;
    dnnl_convolution_desc_t op;
    TRY(prim_check(dnnl_dilated_convolution_backward_data_desc_init(&op, dnnl_convolution_direct, &s.x.desc, &s.w.desc,
                                                                    &s.y.desc, s.stride, s.dilate, s.padding,
                                                                    s.padding_end),
                   "convolution"));
    TRY(forward(&s, k->threads, &hint));
    int status = prim_describe(&op, k->threads, hint, NULL, false, &pd);
    dnnl_primitive_desc_destroy(hint);
    TRY(status);
    TRY(prim_new(pd, 3, arg, k->threads, state, scratch_bytes));
    repeat_by_images(*state, x.dim[0], &k->in[0], &k->out[0]);
    return 0;
}

int
conv_w_prepare(const struct kcall *k, void **state, size_t *scratch_bytes)
{
    struct shape s = shape_of(k, &k->in[0], &k->out[0], &k->in[1]);
    struct prim_arg arg[] = {
        {DNNL_ARG_SRC, 0, s.x.desc}, {DNNL_ARG_DIFF_DST, 1, s.y.desc}, {DNNL_ARG_DIFF_WEIGHTS, PRIM_OUT, s.w.desc}};
    dnnl_primitive_desc_t hint, pd;
    dnnl_convolution_desc_t op;
    TRY(prim_check(dnnl_dilated_convolution_backward_weights_desc_init(&op, dnnl_convolution_direct, &s.x.desc,
                                                                       &s.w.desc, NULL, &s.y.desc, s.stride, s.dilate,
                                                                       s.padding, s.padding_end),
                   "convolution"));
    TRY(forward(&s, k->threads, &hint));
    int status = prim_describe(&op, k->threads, hint, NULL, false, &pd);
    dnnl_primitive_desc_destroy(hint);
    return status ? status : prim_new(pd, 3, arg, k->threads, state, scratch_bytes);
}
