/* pool_dnnl.c - average pooling and its gradient, on oneDNN in NCHW.
 *
 * oneDNN's max pooling is not used. It ignores NaN, and never returns a maximum below the least finite number. In
 * the gradient of a window whose values are all NaN or -infinity, oneDNN 2.6.3 selects a position in the padding. */
#include "kernels/cpu/conv/pool_dnnl.h"
#include "kernels/cpu/base/dnnl.h"
#include "kernels/cpu/conv/conv.h"
#include "kernels/cpu/conv/pool.h"

/* Maximum bytes of image and result together, in one run. A run of this size takes some tens of milliseconds. */
int64_t mean_part_bytes = 1 << 27;

static struct prim_layout
nchw(const struct view *v)
{
    return (struct prim_layout){
        prim_dtype(v->dtype), 4, {v->dim[0], v->dim[1], v->dim[2], v->dim[3]}, .tag = dnnl_nchw};
}

/* Describes average pooling of x. */
static struct prim_op
mean_op(const struct plane *p, const struct view *x, const struct view *y)
{
    struct prim_op s = {.kind = PRIM_MEAN, .src = nchw(x), .dst = nchw(y), .count_padding = p->count_padding};
    for (int i = 0; i < 2; i++) {
        const struct window *w = &p->window[i];
        s.kernel[i] = w->kernel;
        s.stride[i] = w->stride;
        s.padding[i] = w->padding;
        s.padding_end[i] = (p->m[i] - 1) * w->stride + w->kernel - p->n[i] - w->padding;
    }
    return s;
}

/* Returns true if oneDNN divides by the correct number of entries. With count_padding, oneDNN divides by the size
 * of the whole window, including entries that ceil_mode adds beyond the padding. */
static bool
same_count(const struct plane *p)
{
    bool all = true;
    for (int i = 0; i < 2; i++) all &= plane_span(p, i, p->m[i] - 1).count == p->window[i].kernel;
    return all || !p->count_padding;
}

static int
pool_forward(const struct prim_op *s, int threads, dnnl_primitive_desc_t *pd)
{
    return prim_describe(s, NULL, threads, pd);
}

static int
pool_backward(const struct prim_op *s, int threads, dnnl_primitive_desc_t *pd)
{
    struct prim_op gradient = *s;
    gradient.kind = PRIM_MEAN_DATA;
    return prim_describe(&gradient, s, threads, pd);
}

/* Returns true if oneDNN has a fast implementation for the shape, as measured for 16 channels or more. */
static bool
is_fast(const struct plane *p, const struct view *x, const struct view *y, int threads,
        int (*make)(const struct prim_op *s, int threads, dnnl_primitive_desc_t *pd))
{
    if (x->dtype != y->dtype || prim_dtype(x->dtype) == dnnl_data_type_undef) return false;
    if (!view_numel(x) || !view_numel(y) || !plane_fits(p) || !same_count(p)) return false;
    /* Without this limit, one image could run too long before the next check for a stop. */
    if (image_bytes(x) + image_bytes(y) > mean_part_bytes) return false;
    struct prim_op s = mean_op(p, x, y);
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

/* ---- running a number of images at a time, as for convolutions (cpu/conv/conv.c) ---- */

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
    struct prim_op s = mean_op(p, &x, &y);
    struct prim_arg arg[] = {{DNNL_ARG_SRC, 0, s.src}, {DNNL_ARG_DST, PRIM_OUT, s.dst}};
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
    struct prim_op s = mean_op(p, &x, &y);
    struct prim_arg arg[] = {{DNNL_ARG_DIFF_DST, 0, s.dst}, {DNNL_ARG_DIFF_SRC, PRIM_OUT, s.src}};
    dnnl_primitive_desc_t pd;
    TRY(pool_backward(&s, k->threads, &pd));
    TRY(prim_new(pd, 2, arg, k->threads, state, scratch_bytes));
    prim_repeat_images(*state, x.dim[0], 2, (const struct view *[]){&k->in[0], &k->out[0]});
    return 0;
}
