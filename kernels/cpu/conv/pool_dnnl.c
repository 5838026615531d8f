/* pool_dnnl.c - means of windows, and their gradient, on oneDNN in NCHW.
 *
 * oneDNN's maxima are not used. oneDNN ignores NaN, and never returns a maximum below the least finite number. In the
 * gradient of a window whose values are all NaN or -infinity, oneDNN 2.6.3 selects a position in the padding. */
#include "kernels/cpu/base/dnnl.h"
#include "kernels/cpu/conv/pool.h"

/* Limit of image and result in one run, bytes; such a run takes some tens of milliseconds. */
int64_t mean_part_bytes = 1 << 27;

struct shape {
    struct prim_arg x, y;
    dnnl_alg_kind_t kind;
    dnnl_dims_t kernel, stride, dilate, padding, padding_end;
};

static void
describe_pool_view(const struct view *v, dnnl_memory_desc_t *out)
{
    dnnl_dims_t size;
    for (int i = 0; i < 4; i++) size[i] = v->dim[i];
    dnnl_memory_desc_init_by_tag(out, 4, size, prim_dtype(v->dtype), dnnl_nchw);
}

static struct shape
pool_shape(const struct plane *p, const struct view *x, const struct view *y)
{
    struct shape s = {.kind = p->count_padding ? dnnl_pooling_avg_include_padding : dnnl_pooling_avg_exclude_padding};
    describe_pool_view(x, &s.x.desc);
    describe_pool_view(y, &s.y.desc);
    for (int i = 0; i < 2; i++) {
        const struct window *w = &p->window[i];
        s.kernel[i] = w->kernel;
        s.stride[i] = w->stride;
        s.padding[i] = w->padding;
        s.padding_end[i] = (p->m[i] - 1) * w->stride + w->kernel - p->n[i] - w->padding;
    }
    return s;
}

/* Returns true if oneDNN's divisors of means are correct. oneDNN counts the whole window, including what ceil_mode
 * adds beyond the padding. */
static bool
same_count(const struct plane *p)
{
    bool all = true;
    for (int i = 0; i < 2; i++) all &= plane_span(p, i, p->m[i] - 1).count == p->window[i].kernel;
    return all || !p->count_padding;
}

static int
pool_forward(const struct shape *s, int threads, dnnl_primitive_desc_t *pd)
{
    dnnl_pooling_v2_desc_t op;
    TRY(prim_check(dnnl_pooling_v2_forward_desc_init(&op, dnnl_forward_training, s->kind, &s->x.desc, &s->y.desc,
                                                     s->stride, s->kernel, s->dilate, s->padding, s->padding_end),
                   "pooling"));
    return prim_describe(&op, threads, NULL, NULL, false, pd);
}

static int
pool_backward(const struct shape *s, int threads, dnnl_primitive_desc_t *pd)
{
    dnnl_pooling_v2_desc_t op;
    dnnl_primitive_desc_t hint;
    TRY(prim_check(dnnl_pooling_v2_backward_desc_init(&op, s->kind, &s->x.desc, &s->y.desc, s->stride, s->kernel,
                                                      s->dilate, s->padding, s->padding_end),
                   "pooling"));
    TRY(pool_forward(s, threads, &hint));
    int status = prim_describe(&op, threads, hint, NULL, false, pd);
    dnnl_primitive_desc_destroy(hint);
    return status;
}

/* Returns true if oneDNN has a fast implementation for the shape: for at least 16 channels, as measured. */
static bool
is_fast(const struct plane *p, const struct view *x, const struct view *y, int threads,
        int (*make)(const struct shape *s, int threads, dnnl_primitive_desc_t *pd))
{
    if (x->dtype != y->dtype || prim_dtype(x->dtype) == dnnl_data_type_undef) return false;
    if (!view_numel(x) || !view_numel(y) || !plane_fits(p) || !same_count(p)) return false;
    /* One image would run too long before a check for a stop. */
    if (image_bytes(x) + image_bytes(y) > mean_part_bytes) return false;
    struct shape s = pool_shape(p, x, y);
    dnnl_primitive_desc_t pd;
    if (make(&s, threads, &pd)) return false;
    bool plain = prim_is_plain(pd);
    dnnl_primitive_desc_destroy(pd);
    return !plain;
}

bool
mean_accepts(const struct kcall *k, const struct plane *p)
{
    return !plane_mean_is_long(p) && is_fast(p, &k->in[0], &k->out[0], k->threads, pool_forward);
}

bool
mean_back_accepts(const struct kcall *k, const struct plane *p)
{
    return !plane_mean_back_is_long(p) && is_fast(p, &k->out[0], &k->in[0], k->threads, pool_backward);
}

/* ---- some images at a time, as for convolutions (cpu/conv/conv.c) ---- */

static int64_t
images_at_once(const struct view *x, const struct view *y, int threads)
{
    int64_t one = image_bytes(x) + image_bytes(y);
    return MIN(x->dim[0], MAX(mean_part_bytes / MAX(one, 1), threads));
}

int
mean_prepare(const struct kcall *k, const struct plane *p, void **state, size_t *scratch_bytes)
{
    struct view x = k->in[0], y = k->out[0];
    x.dim[0] = y.dim[0] = images_at_once(&x, &y, k->threads);
    struct shape s = pool_shape(p, &x, &y);
    struct prim_arg arg[] = {{DNNL_ARG_SRC, 0, s.x.desc}, {DNNL_ARG_DST, PRIM_OUT, s.y.desc}};
    dnnl_primitive_desc_t pd;
    TRY(pool_forward(&s, k->threads, &pd));
    TRY(prim_new(pd, 2, arg, k->threads, state, scratch_bytes));
    prim_repeat_images(*state, x.dim[0], 2, (const struct view *[]){&k->in[0], &k->out[0]});
    return 0;
}

int
mean_back_prepare(const struct kcall *k, const struct plane *p, void **state, size_t *scratch_bytes)
{
    struct view x = k->out[0], y = k->in[0];
    x.dim[0] = y.dim[0] = images_at_once(&x, &y, k->threads);
    struct shape s = pool_shape(p, &x, &y);
    struct prim_arg arg[] = {{DNNL_ARG_DIFF_DST, 0, s.y.desc}, {DNNL_ARG_DIFF_SRC, PRIM_OUT, s.x.desc}};
    dnnl_primitive_desc_t pd;
    TRY(pool_backward(&s, k->threads, &pd));
    TRY(prim_new(pd, 2, arg, k->threads, state, scratch_bytes));
    prim_repeat_images(*state, x.dim[0], 2, (const struct view *[]){&k->in[0], &k->out[0]});
    return 0;
}
