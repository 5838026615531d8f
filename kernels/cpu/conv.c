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

/* A block of a dense view; a kernel of groups {go, c, p, q} is {g, o, c, p, q}. */
static void
describe(const struct view *v, const struct view *whole, int64_t groups, dnnl_memory_desc_t *out)
{
    dnnl_dims_t size, stride;
    int n = v->ndim + (groups > 0);
    int64_t step = 1;
    for (int d = n - 1, i = v->ndim - 1; i >= 0; d--, i--) {
        size[d] = i == 0 && groups > 0 ? v->dim[0] / groups : v->dim[i];
        stride[d] = step;
        step *= i == 0 && groups > 0 ? whole->dim[0] / groups : whole->dim[i];
    }
    if (groups > 0) size[0] = groups, stride[0] = step;
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

/* What a call is of: image, kernel and result, whichever of the three it computes. */
struct three {
    struct view x, w, y;
};

/* Is it oneDNN's to choose how they lie? */
static bool
is_turned(const struct three *t)
{
    return groups_of(&t->x, &t->w) == 1 && t->w.dim[1] >= 3 && t->w.dim[2] * t->w.dim[3] > 1;
}

/* A block of all: some of the images, and of the channels. */
static struct shape
shape_of(const struct attr *a, const struct three *t, const struct three *whole)
{
    struct shape s = {0};
    int64_t groups = groups_of(&t->x, &t->w);
    bool turned = is_turned(whole);
    describe(&t->x, &whole->x, 0, &s.x);
    describe(&t->w, &whole->w, groups > 1 ? groups : 0, &s.w);
    describe(&t->y, &whole->y, 0, &s.y);
    s.any_x = loose(s.x, turned), s.any_w = loose(s.w, turned), s.any_y = loose(s.y, turned);
    for (int i = 0; i < 2; i++) {
        s.stride[i] = pair(&a[STRIDE], i, 1);
        s.dilate[i] = pair(&a[DILATION], i, 1) - 1;
        s.padding[i] = pair(&a[PADDING], i, 0);
        /* What the windows cover beyond the image: a stride may leave some of the padding unseen. */
        int64_t reach = (t->y.dim[2 + i] - 1) * s.stride[i] + (t->w.dim[2 + i] - 1) * (s.dilate[i] + 1) + 1;
        s.padding_end[i] = reach - t->x.dim[2 + i] - s.padding[i];
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

/* ---- some images at a time, and some channels ---- */

double conv_part_flops = 1e10; /* about a tenth of a second; on one core, smaller parts take no longer in all */

enum { LANES = 16 }; /* channels that oneDNN computes together */

/* A long convolution is computed in parts of so many images, that between them it can be stopped (runtime/stop.h);
 * where a few images alone take seconds, in parts of so many channels of what is computed. These are twenty times as
 * long: fewer channels at a time read an image more often. */
struct cut {
    int64_t images, channels;
};

static struct cut
cut_of(const struct three *t, int64_t channels, int threads)
{
    double flops = 2 * (double)view_numel(&t->y) * (double)(view_numel(&t->w) / t->w.dim[0]);
    int64_t n = t->x.dim[0], parts = (int64_t)(flops / conv_part_flops) + 1;
    struct cut c = {MIN(n, MAX((n + parts - 1) / parts, threads)), channels};
    parts = (int64_t)(flops * (double)c.images / (double)n / (20 * conv_part_flops)) + 1;
    if (is_turned(t) && parts > 1)
        c.channels = MIN(channels, ((channels + parts - 1) / parts + LANES - 1) / LANES * LANES);
    return c;
}

/* Executes p, which was made for a cut, for all images and channels; the last of each are computed with some again.
 * Argument i has the bytes of an image and of a channel from one to the next, 0: it is the same for all. */
static void
repeat(struct prim *p, const struct cut *c, int64_t images, int64_t channels, const int64_t image[3],
       const int64_t channel[3])
{
    int64_t n = (images + c->images - 1) / c->images, m = (channels + c->channels - 1) / c->channels;
    if (n * m < 2) return;
    int64_t *skip = must_alloc((size_t)(3 * n * m) * sizeof *skip);
    for (int64_t r = 0; r < n * m; r++)
        for (int i = 0; i < 3; i++)
            skip[3 * r + i] = MIN(r / m * c->images, images - c->images) * image[i] +
                              MIN(r % m * c->channels, channels - c->channels) * channel[i];
    prim_repeat(p, n * m, skip, 3);
}

/* Bytes of one index of dimension d of a dense view. */
static int64_t
bytes_of(const struct view *v, int d)
{
    int64_t n = (int64_t)dtype_bytes(v->dtype);
    while (++d < v->ndim) n *= v->dim[d];
    return n;
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
    struct three whole = {k->in[0], k->in[1], k->out[0]}, t = whole;
    struct cut c = cut_of(&whole, whole.y.dim[1], k->threads);
    t.x.dim[0] = t.y.dim[0] = c.images;
    t.w.dim[0] = t.y.dim[1] = c.channels;
    struct shape s = shape_of(k->call->attr, &t, &whole);
    struct prim_arg arg[] = {{DNNL_ARG_SRC, 0, s.x}, {DNNL_ARG_WEIGHTS, 1, s.w}, {DNNL_ARG_DST, PRIM_OUT, s.y}};
    dnnl_primitive_desc_t pd;
    TRY(forward(&s, k->threads, &pd));
    TRY(prim_new(pd, 3, arg, k->threads, state, scratch_bytes));
    repeat(*state, &c, whole.x.dim[0], whole.y.dim[1], (int64_t[]){bytes_of(&whole.x, 0), 0, bytes_of(&whole.y, 0)},
           (int64_t[]){0, bytes_of(&whole.w, 0), bytes_of(&whole.y, 1)});
    return 0;
}

int
conv_x_prepare(const struct kcall *k, void **state, size_t *scratch_bytes)
{
    struct three whole = {k->out[0], k->in[1], k->in[0]}, t = whole;
    struct cut c = cut_of(&whole, whole.x.dim[1], k->threads);
    t.x.dim[0] = t.y.dim[0] = c.images;
    if (c.channels < whole.x.dim[1]) t.w.dim[1] = t.x.dim[1] = c.channels; /* not of groups */
    struct shape s = shape_of(k->call->attr, &t, &whole);
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
    repeat(*state, &c, whole.x.dim[0], whole.x.dim[1], (int64_t[]){bytes_of(&whole.y, 0), 0, bytes_of(&whole.x, 0)},
           (int64_t[]){0, bytes_of(&whole.w, 1), bytes_of(&whole.x, 1)});
    return 0;
}

/* ---- the gradient by the weights: a sum over images ---- */

enum { X, DY, FULL = 0, REST = 1 };

struct conv_w {
    struct prim *part[2]; /* of the cut's images, and of those that are left; NULL: there are none such */
    struct cut cut;
    size_t sum, scratch; /* bytes: of a sum in f32, aligned; of the primitives */
};

/* The primitive for n of the images, which gives weights of dtype d. */
static int
part_new(const struct kcall *k, int64_t n, int64_t channels, enum dtype d, struct prim **part, size_t *scratch_bytes)
{
    struct three whole = {k->in[X], k->out[0], k->in[DY]}, t = whole;
    t.x.dim[0] = t.y.dim[0] = n;
    t.w.dim[0] = t.y.dim[1] = channels;
    t.w.dtype = (uint8_t)d;
    struct shape s = shape_of(k->call->attr, &t, &whole);
    struct prim_arg arg[] = {
        {DNNL_ARG_SRC, 0, s.x}, {DNNL_ARG_DIFF_DST, 1, s.y}, {DNNL_ARG_DIFF_WEIGHTS, PRIM_OUT, s.w}};
    dnnl_primitive_desc_t hint, pd;
    dnnl_convolution_desc_t op;
    size_t scratch;
    TRY(prim_check(dnnl_dilated_convolution_backward_weights_desc_init(&op, dnnl_convolution_direct, &s.any_x, &s.any_w,
                                                                       NULL, &s.any_y, s.stride, s.dilate, s.padding,
                                                                       s.padding_end),
                   "convolution"));
    t.w.dtype = t.x.dtype; /* forward knows no other weights */
    struct shape ahead = shape_of(k->call->attr, &t, &whole);
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
    int64_t n = k->in[X].dim[0], rest = n % c->cut.images, channels = c->cut.channels;
    enum dtype d = c->cut.images < n ? DT_F32 : k->out[0].dtype;
    TRY(part_new(k, c->cut.images, channels, d, &c->part[FULL], &c->scratch));
    return rest ? part_new(k, rest, channels, d, &c->part[REST], &c->scratch) : 0;
}

int
conv_w_prepare(const struct kcall *k, void **state, size_t *scratch_bytes)
{
    struct conv_w *c = must_alloc(sizeof *c);
    struct three whole = {k->in[X], k->out[0], k->in[DY]};
    *c = (struct conv_w){.cut = cut_of(&whole, whole.w.dim[0], k->threads)};
    int status = parts_new(k, c);
    if (status) {
        conv_w_drop(c);
        return status;
    }
    c->sum = ((size_t)view_numel(&k->out[0]) * sizeof(float) + 63) / 64 * 64;
    c->scratch = (c->scratch + 63) / 64 * 64;
    *scratch_bytes = c->scratch + (c->cut.images < k->in[X].dim[0] ? 2 * c->sum : 0);
    *state = c;
    return 0;
}

/* From an image and a channel on. */
static int
run_part(const struct kcall *k, const struct conv_w *c, int64_t image, int64_t channel, void *to)
{
    const struct view *x = &k->in[X], *y = &k->in[DY];
    const struct prim *p = c->part[x->dim[0] - image < c->cut.images ? REST : FULL];
    void *at[] = {(char *)x->data + image * bytes_of(x, 0),
                  (char *)y->data + image * bytes_of(y, 0) + channel * bytes_of(y, 1), to};
    return prim_at(p, at, k->scratch, k->call->op->name);
}

/* The gradient by the weights of some channels. */
static int
run_channels(const struct kcall *k, const struct conv_w *c, int64_t channel)
{
    const struct view *w = &k->out[0];
    int64_t n = k->in[X].dim[0], weights = view_numel(w) / w->dim[0] * c->cut.channels;
    char *to = (char *)w->data + channel * bytes_of(w, 0);
    if (c->cut.images >= n) return run_part(k, c, 0, channel, to);
    float *sum = (float *)((char *)k->scratch + c->scratch), *part = (float *)((char *)sum + c->sum);
    TRY(run_part(k, c, 0, channel, sum));
    for (int64_t first = c->cut.images; first < n; first += c->cut.images) {
        TRY(stop_check());
        TRY(run_part(k, c, first, channel, part));
        for (int64_t i = 0; i < weights; i++) sum[i] += part[i];
    }
    block_store(COMP_F32, w->dtype, sum, weights, to, 1);
    return 0;
}

int
conv_w_run(const struct kcall *k, const void *state)
{
    const struct conv_w *c = state;
    int64_t channels = k->out[0].dim[0];
    for (int64_t first = 0; first < channels; first += c->cut.channels) {
        if (first) TRY(stop_check());
        TRY(run_channels(k, c, MIN(first, channels - c->cut.channels)));
    }
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
