/* conv.c - convolutions and their gradients on oneDNN.
 *
 * Images are NCHW. oneDNN is faster with sixteen channels innermost. For windows of more than one pixel, the gain
 * exceeds the cost of reordering to that layout and back (dnnl.h). Processor time of the forward pass on one core,
 * us:
 *
 *     images, window                  NCHW  reordered
 *     32 x 16 x 32 x 32, 3 x 3       2,670    1,740
 *     8 x 64 x 56 x 56, 3 x 3       11,900    8,430
 *     8 x 512 x 7 x 7, 3 x 3         9,320    8,830
 *     8 x 3 x 224 x 224, 7 x 7      15,760   11,490
 *     64 x 1 x 28 x 28, 3 x 3          188      223
 *     8 x 64 x 56 x 56, 1 x 1        3,370    5,920
 *
 * The primitives of the forward pass and of both gradients have the same description: image, kernel and result.
 * With groups, the kernel has an additional dimension. For the gradients, oneDNN needs the descriptor of the
 * forward pass as a hint. */
#include "kernels/cpu/base/dnnl.h"
#include "kernels/cpu/conv/conv.h"

#include "kernels/cpu/base/convert.h"
#include "runtime/data/arena.h"
#include "runtime/base/error.h"
#include "runtime/base/stop.h"

#include <stdlib.h>

enum { STRIDE, PADDING, DILATION }; /* attributes of conv2d and its gradients */

struct shape {
    struct prim_layout x, w, y; /* layouts of the caller's image, kernel and result */
    struct prim_op op;          /* layouts for the primitive; oneDNN may choose some of them */
};

/* Returns oneDNN's layout of v, a block of the dense view `whole`. If groups > 0, v is a kernel {go, c, p, q} that
 * has all channels of its groups, and its layout is {g, o, c, p, q}. */
static struct prim_layout
block_layout(const struct view *v, const struct view *whole, int64_t groups)
{
    int n = v->ndim + (groups > 0);
    struct prim_layout l = {.dtype = prim_dtype(v->dtype), .ndim = n};
    int64_t step = 1, *size = l.size, *stride = l.stride;
    for (int d = n - 1, i = v->ndim - 1; i >= 0; d--, i--) {
        size[d] = i == 0 && groups > 0 ? v->dim[0] / groups : v->dim[i];
        stride[d] = step;
        step *= i == 0 && groups > 0 ? v->dim[0] / groups : whole->dim[i];
    }
    if (groups > 0) size[0] = groups, stride[0] = step;
    if (size[0] == 1) stride[0] = size[1] * stride[1];
    return l;
}

/* Returns the number of groups: the image's channels divided by the kernel's channels. Without groups this is 1,
 * even if channels are split over devices. */
static int64_t
conv_groups(const struct view *x, const struct view *w)
{
    return x->dim[1] / w->dim[1];
}

int64_t
attr_pair(const struct attr *a, int i, int64_t by_default)
{
    return a->n == 0 ? by_default : a->list[a->n == 1 ? 0 : i];
}

/* Returns the layout of a primitive's argument: if `turned`, any layout that oneDNN chooses; otherwise dense. */
static struct prim_layout
conv_layout(const struct view *v, int64_t groups, bool turned)
{
    struct prim_layout l = block_layout(v, v, groups);
    if (turned) l.tag = dnnl_format_tag_any;
    return l;
}

/* The views of image x, kernel w and result y of a call. The call computes one of the three. */
struct three {
    struct view x, w, y;
};

/* Returns true if reordering makes the convolution faster, so that oneDNN may choose the layouts of image, kernel
 * and result. */
static bool
is_transposed_conv(const struct three *t)
{
    return conv_groups(&t->x, &t->w) == 1 && t->w.dim[1] >= 3 && t->w.dim[2] * t->w.dim[3] > 1;
}

/* Returns true if the window is a single pixel with a stride above 1 and no padding. Such a convolution equals a
 * convolution with stride 1 on an image whose strides are larger. */
static bool
is_jump(const struct attr *a, const struct view *w)
{
    bool jump = w->dim[2] * w->dim[3] == 1;
    for (int i = 0; i < 2; i++) jump &= attr_pair(&a[PADDING], i, 0) == 0;
    return jump && (attr_pair(&a[STRIDE], 0, 1) > 1 || attr_pair(&a[STRIDE], 1, 1) > 1);
}

/* Restricts the layout of the image to the pixels that windows see. Windows must be one pixel with a stride above
 * 1. */
static void
describe_seen(const struct attr *a, const struct three *t, struct prim_layout *x)
{
    for (int i = 0; i < 2; i++) {
        x->size[2 + i] = t->y.dim[2 + i];
        x->stride[2 + i] *= attr_pair(&a[STRIDE], i, 1);
    }
}

/* Returns true if a block is a band: it has only some rows of each channel. A band may be reordered, because
 * oneDNN's products on NCHW need dense images and a band is not dense. */
static bool
is_band(const struct three *t, const struct three *whole)
{
    return t->x.dim[2] != whole->x.dim[2] || t->y.dim[2] != whole->y.dim[2];
}

/* A window in one direction. stride: distance between windows; padding: size of the padding before the image;
 * reach: size of the window including dilation; all in pixels. */
struct window {
    int64_t stride, padding, reach;
};

static struct window
window_of(const struct attr *a, const struct view *w, int i)
{
    int64_t reach = (w->dim[2 + i] - 1) * attr_pair(&a[DILATION], i, 1) + 1;
    return (struct window){attr_pair(&a[STRIDE], i, 1), attr_pair(&a[PADDING], i, 0), reach};
}

/* Describes the convolution of a block t, which has some of the images, channels and rows of `whole`. top: number
 * of rows of padding before the block's rows. */
static struct shape
conv_shape(const struct attr *a, const struct three *t, const struct three *whole, int64_t top, bool turned)
{
    int64_t groups = conv_groups(&t->x, &t->w), apart = groups > 1 ? groups : 0;
    struct shape s = {.x = block_layout(&t->x, &whole->x, 0),
                      .w = block_layout(&t->w, &whole->w, apart),
                      .y = block_layout(&t->y, &whole->y, 0),
                      .op = {.kind = PRIM_CONV,
                             .src = conv_layout(&t->x, 0, turned),
                             .weights = conv_layout(&t->w, apart, turned),
                             .dst = conv_layout(&t->y, 0, turned)}};
    for (int i = 0; i < 2; i++) {
        struct window w = window_of(a, &t->w, i);
        s.op.stride[i] = w.stride;
        s.op.dilate[i] = attr_pair(&a[DILATION], i, 1) - 1;
        s.op.padding[i] = i == 0 ? top : w.padding;
        /* Padding after the image is counted only as far as windows reach, because a stride may leave some of the
         * padding unused. */
        s.op.padding_end[i] = (t->y.dim[2 + i] - 1) * w.stride + w.reach - t->x.dim[2 + i] - s.op.padding[i];
    }
    return s;
}

/* Describes the convolution of a block for primitives that read the image. If windows are one pixel with a stride
 * above 1, the description of a band contains only the pixels that windows see. */
static struct shape
read_conv_shape(const struct attr *a, const struct three *t, const struct three *whole, int64_t top)
{
    struct shape s = conv_shape(a, t, whole, top, is_transposed_conv(whole) || is_band(t, whole));
    if (!is_band(t, whole) || !is_jump(a, &t->w)) return s;
    describe_seen(a, t, &s.x);
    s.op.src = s.x;
    s.op.src.tag = dnnl_format_tag_any;
    for (int i = 0; i < 2; i++) s.op.stride[i] = 1, s.op.padding_end[i] = 0;
    return s;
}

bool
conv_accepts(const struct kcall *k)
{
    enum dtype d = k->in[0].dtype, to = k->out[0].dtype;
    bool same = k->in[1].dtype == d && prim_multiplies(d) && (to == d || to == DT_F32);
    return same && view_numel(&k->in[0]) && view_numel(&k->in[1]) && view_numel(&k->out[0]);
}

/* Returns true if the convolution is one matrix product of the kernel and all pixels of an image. */
static bool
is_product(const struct attr *a, const struct three *t)
{
    bool plain = conv_groups(&t->x, &t->w) == 1;
    for (int i = 0; i < 2; i++)
        plain &= t->w.dim[2 + i] == 1 && attr_pair(&a[STRIDE], i, 1) == 1 && attr_pair(&a[PADDING], i, 0) == 0;
    return plain;
}

/* ---- dividing a long convolution into parts: images, rows and channels ---- */

/* Limits of a part. flops: about a thirtieth of a second of one core. rows: minimum rows of y in a band; smaller
 * bands would read many rows of the image twice. channels: the number of channels is a multiple of this; oneDNN is
 * fastest with 64.
 *
 * Time of a convolution in parts, in per cent of the time of the undivided convolution, on one core (bench/stop):
 *
 *   image                  windows                  y            gradient of x   gradient of w
 *   {1, 64, 1000, 1000}    64 of 3 x 3              99 to 101    102 to 104      100 to 109
 *   {1, 128, ...}          8 groups                 98 to 102 for all three
 *   {1, 3, 2000, 2000}     7 x 7, stride 2          102 to 103 for all three
 *   {1, 512, 400, 400}     1 x 1                    102 to 106 for all three
 *   {1, 512, 400, 400}     1 x 1, stride 2          71 to 82     114 to 119      88 to 90
 *
 * pass, weights: size of a part whose images are reordered, for y and the gradient of x, and for the gradient of the
 * weights. A run reads or writes the kernel once per part, so a part is larger if the kernel is large. */
struct conv_part conv_part = {7e9, 16, 64, {128 << 10, 1}, {512 << 10, 4}};

enum { LANES = 16 }; /* number of channels that oneDNN computes together */

/* The division of a long convolution into parts, between which the thread checks for a stop (runtime/base/stop.h).
 * A part is a number of images. If one image takes too long, a part is some of its groups. If one group takes too
 * long, a part is a band of rows of y. If even a band takes too long, a part is a band of only some of the
 * computed channels. */
struct cut {
    int64_t images, rows, groups, channels;
    /* bands: number of bands of rows. parts: number of parts into which groups or channels are divided. */
    int64_t bands, parts;
    bool product; /* true: bands are computed as matrix products on NCHW */
};

/* Returns true if oneDNN gathers windows for matrix products (im2col). Such a convolution reaches a third of the
 * usual flops per second. */
static bool
is_gathered(const struct attr *a, const struct three *t)
{
    bool outside = false;
    for (int i = 0; i < 2; i++) outside |= attr_pair(&a[PADDING], i, 0) >= window_of(a, &t->w, i).reach;
    return !is_product(a, t) && !is_jump(a, &t->w) && (outside || !is_transposed_conv(t));
}

/* Returns an estimate of the convolution's time, in flops at the full rate. The estimate exceeds the actual flops
 * if the convolution has groups, gathers windows, or has few channels, because oneDNN is then slower. */
static double
conv_work(const struct attr *a, const struct three *t, int64_t channels)
{
    double flops = 2 * (double)view_numel(&t->y) * (double)(view_numel(&t->w) / t->w.dim[0]);
    if (conv_groups(&t->x, &t->w) > 1) return flops * (1 + 48 / (double)t->w.dim[1]);
    if (is_gathered(a, t)) return 3 * flops;
    return is_transposed_conv(t) ? flops * (double)((channels + LANES - 1) / LANES * LANES) / (double)channels : flops;
}

static int64_t
conv_parts(double work)
{
    return (int64_t)(work / conv_part.flops) + 1;
}

/* Returns the minimum number of rows of y in a band. With fewer rows, all windows of a band at the edge could
 * start in the padding. */
static int64_t
rows_to_see(const struct window *w)
{
    return (w->padding + w->stride - 1) / w->stride + 1;
}

/* Divides the rows of y into equal bands. If too few rows remain for another band, the last band includes them. */
static void
cut_rows(struct cut *c, const struct three *t, const struct window *w, int64_t parts)
{
    int64_t n = t->y.dim[2], least = rows_to_see(w);
    c->rows = MIN(n, MAX(n / parts + 1, MAX(conv_part.rows, least)));
    c->bands = MAX((n + c->rows - least) / c->rows, 1);
    if (c->bands == 1) c->rows = n;
}

static void
cut_groups(struct cut *c, int64_t groups, int64_t parts)
{
    c->groups = MAX(groups / parts, 1);
    while (groups % c->groups) c->groups--;
    c->parts = groups / c->groups;
    c->channels = c->channels / groups * c->groups;
}

static void
cut_channels(struct cut *c, int64_t parts)
{
    int64_t n = c->channels, step = MIN(conv_part.channels, n);
    c->channels = parts > 1 ? MAX(n / parts / step, 1) * step : n;
    while (c->channels > step && n % c->channels) c->channels -= step;
    c->parts = (n + c->channels - 1) / c->channels;
}

/* Returns the number of images per part with which reordered data stays in the caches of `threads` cores. The parts
 * have about equal sizes, because a shorter last part would compute some images twice. */
static int64_t
cached_images(const struct three *t, const struct conv_near *near, int threads)
{
    int64_t n = t->x.dim[0], bytes = (int64_t)dtype_bytes(t->x.dtype);
    int64_t image = (view_numel(&t->x) + view_numel(&t->y)) / n * bytes, kernel = view_numel(&t->w) * bytes;
    int64_t most = MAX(MIN(MAX(near->bytes, near->kernels * kernel) / image, n), 1) * threads;
    int64_t parts = (n + most - 1) / most;
    return is_transposed_conv(t) && t->x.dtype == DT_F32 ? (n + parts - 1) / parts : n;
}

static struct cut
conv_cut(const struct attr *a, const struct three *t, int64_t channels, const struct conv_near *near, int threads)
{
    int64_t n = t->x.dim[0], groups = conv_groups(&t->x, &t->w), rows = t->y.dim[2];
    double work = conv_work(a, t, channels), image = work / (double)n;
    struct window w = window_of(a, &t->w, 0);
    struct cut c = {
        MIN(n, MAX((n + conv_parts(work) - 1) / conv_parts(work), threads)), rows, groups, channels, 1, 1, false};
    c.images = MIN(c.images, cached_images(t, near, threads));
    if (image * (double)c.images <= conv_part.flops) return c;
    if (groups > 1 || is_product(a, t)) c.images = 1;
    if (groups > 1) cut_groups(&c, groups, conv_parts(image));
    if (c.groups > 1) return c;
    work = image * (double)c.images / (double)c.parts;
    cut_rows(&c, t, &w, conv_parts(work));
    c.product = c.bands > 1 && is_product(a, t);
    if (groups == 1) cut_channels(&c, conv_parts(work * (double)c.rows / (double)rows));
    return c;
}

/* The start of a part that has some of the channels: first channel of x, first channel of y, first element of the
 * kernel. */
struct start {
    int64_t x, y, w;
};

/* Returns the start of part i. back: true if parts divide x's channels, false if they divide y's. */
static struct start
start_of(const struct three *t, const struct cut *c, bool back, int64_t i)
{
    int64_t groups = conv_groups(&t->x, &t->w), n = (back ? t->x : t->y).dim[1];
    int64_t window = t->w.dim[2] * t->w.dim[3], first = MIN(i * c->channels, n - c->channels);
    int64_t y = i * c->groups * (t->y.dim[1] / groups);
    if (groups > 1) return (struct start){i * c->groups * t->w.dim[1], y, y * t->w.dim[1] * window};
    return back ? (struct start){first, 0, first * window} : (struct start){0, first, first * t->w.dim[1] * window};
}

/* A band of rows. x, y: first row of x and of y; nx, ny: number of rows of x and of y; top: number of rows of
 * padding above the rows of x. */
struct band {
    int64_t x, nx, y, ny, top;
};

/* Returns band i of y, with all rows of x that its windows see. */
static struct band
band_of_y(const struct attr *a, const struct three *t, const struct cut *c, int64_t i)
{
    struct window w = window_of(a, &t->w, 0);
    int64_t y = i * c->rows, ny = (i + 1 < c->bands ? y + c->rows : t->y.dim[2]) - y, x = y * w.stride - w.padding;
    int64_t first = MAX(x, 0), end = MIN((y + ny - 1) * w.stride + w.reach - w.padding, t->x.dim[2]);
    if (ny == t->y.dim[2]) end = t->x.dim[2]; /* a band with all rows of y uses the whole image */
    return (struct band){first, end - first, y, ny, first - x};
}

/* Returns band i of x. Its rows of x begin with the first window of y's band i, and end before the first window of
 * band i + 1. Its rows of y are all rows whose windows overlap these rows of x. */
static struct band
band_of_x(const struct attr *a, const struct three *t, const struct cut *c, int64_t i)
{
    struct window w = window_of(a, &t->w, 0);
    int64_t first = i * c->rows, end = i + 1 < c->bands ? first + c->rows : t->y.dim[2];
    int64_t x = MAX(first * w.stride - w.padding, 0), y = MAX(first - (w.reach - 1) / w.stride, 0);
    int64_t nx = (end < t->y.dim[2] ? end * w.stride - w.padding : t->x.dim[2]) - x;
    return (struct band){x, nx, y, end - y, w.padding + x - y * w.stride};
}

/* Returns the first band with the same shape as band i. */
static int64_t
like(const struct attr *a, const struct three *t, const struct cut *c,
     struct band (*band)(const struct attr *, const struct three *, const struct cut *, int64_t), int64_t i)
{
    struct band b = band(a, t, c, i), other;
    for (int64_t j = 0; j < i; j++) {
        other = band(a, t, c, j);
        if (other.nx == b.nx && other.ny == b.ny && other.top == b.top) return j;
    }
    return i;
}

/* Returns the views of a band of n images and some of the channels. back: true if parts divide x's channels, false
 * if they divide y's. */
static struct three
conv_part_of(const struct three *whole, const struct cut *c, bool back, int64_t n, const struct band *b)
{
    struct three t = *whole;
    int64_t groups = conv_groups(&t.x, &t.w);
    t.x.dim[0] = t.y.dim[0] = n;
    t.x.dim[2] = b->nx;
    t.y.dim[2] = b->ny;
    if (groups > 1)
        t.x.dim[1] = c->groups * t.w.dim[1], t.w.dim[0] = t.y.dim[1] = t.y.dim[1] / groups * c->groups;
    else if (back)
        t.w.dim[1] = t.x.dim[1] = c->channels;
    else
        t.w.dim[0] = t.y.dim[1] = c->channels;
    return t;
}

/* Returns the distance, in bytes, between elements of a dense view that are neighbours along dimension d. */
static int64_t
dim_bytes(const struct view *v, int d)
{
    int64_t n = (int64_t)dtype_bytes(v->dtype);
    while (++d < v->ndim) n *= v->dim[d];
    return n;
}

/* Returns the offset, in bytes, of row `row` of a channel of an image in x or y. */
static int64_t
offset(const struct view *v, int64_t image, int64_t channel, int64_t row)
{
    return image * dim_bytes(v, 0) + channel * dim_bytes(v, 1) + row * dim_bytes(v, 2);
}

/* ---- the primitives ---- */

/* A function that makes the primitive for the views t, a part of the views `whole`. top: number of rows of padding
 * above the image's rows. */
typedef int made_fn(const struct kcall *k, const struct three *t, const struct three *whole, int64_t top, void **prim,
                    size_t *scratch_bytes);

static int
y_new(const struct kcall *k, const struct three *t, const struct three *whole, int64_t top, void **prim,
      size_t *scratch_bytes)
{
    struct shape s = read_conv_shape(k->call->attr, t, whole, top);
    struct prim_arg arg[] = {{DNNL_ARG_SRC, 0, s.x}, {DNNL_ARG_WEIGHTS, 1, s.w}, {DNNL_ARG_DST, PRIM_OUT, s.y}};
    dnnl_primitive_desc_t pd;
    TRY(prim_describe(&s.op, NULL, k->threads, &pd));
    return prim_new(pd, 3, arg, k->threads, prim, scratch_bytes);
}

static int
x_new(const struct kcall *k, const struct three *t, const struct three *whole, int64_t top, void **prim,
      size_t *scratch_bytes)
{
    /* With fewer than three input channels, oneDNN would still compute a block of sixteen, and take 7 times as
     * long. */
    bool few = t->w.dim[1] < 3;
    bool turned = is_transposed_conv(whole) || (is_band(t, whole) && !few);
    struct three ahead = *t;
    /* The hint is the descriptor of the forward pass, for which oneDNN requires equal dtypes of image and weights. */
    ahead.x.dtype = t->y.dtype;
    struct shape of_ahead = conv_shape(k->call->attr, &ahead, whole, top, turned);
    struct shape s = conv_shape(k->call->attr, t, whole, top, turned);
    struct prim_arg arg[] = {
        {DNNL_ARG_DIFF_DST, 0, s.y}, {DNNL_ARG_WEIGHTS, 1, s.w}, {DNNL_ARG_DIFF_SRC, PRIM_OUT, s.x}};
    dnnl_primitive_desc_t pd;
    s.op.kind = PRIM_CONV_DATA;
    TRY(prim_describe(&s.op, &of_ahead.op, k->threads, &pd));
    return prim_new(pd, 3, arg, k->threads, prim, scratch_bytes);
}

/* ---- computing convolutions as matrix products: channels by pixels, or channels by channels ---- */

static struct prim_layout
matrix(const struct view *v, int64_t rows, int64_t cols, int64_t row, int64_t col)
{
    return (struct prim_layout){prim_dtype(v->dtype), 2, {rows, cols}, .stride = {row, col}};
}

static struct prim_layout
places(const struct view *v, const struct view *whole)
{
    return matrix(v, v->dim[1], v->dim[2] * v->dim[3], whole->dim[2] * whole->dim[3], 1);
}

/* Makes the oneDNN primitive that computes operand 1 times operand 0, a matrix product. */
static int
product_new(const struct prim_layout *in0, const struct prim_layout *in1, const struct prim_layout *out, int threads,
            void **prim, size_t *scratch_bytes)
{
    struct prim_arg arg[] = {{DNNL_ARG_WEIGHTS, 0, *in0}, {DNNL_ARG_SRC, 1, *in1}, {DNNL_ARG_DST, PRIM_OUT, *out}};
    dnnl_primitive_desc_t pd;
    TRY(prim_describe(&(struct prim_op){.kind = PRIM_MATMUL, .src = *in1, .weights = *in0, .dst = *out}, NULL, threads,
                      &pd));
    return prim_new(pd, 3, arg, threads, prim, scratch_bytes);
}

static int
y_product_new(const struct kcall *k, const struct three *t, const struct three *whole, int64_t top, void **prim,
              size_t *scratch_bytes)
{
    UNUSED(top);
    struct prim_layout x = places(&t->x, &whole->x), y = places(&t->y, &whole->y);
    struct prim_layout w = matrix(&t->w, t->w.dim[0], t->w.dim[1], t->w.dim[1], 1);
    return product_new(&x, &w, &y, k->threads, prim, scratch_bytes);
}

static int
x_product_new(const struct kcall *k, const struct three *t, const struct three *whole, int64_t top, void **prim,
              size_t *scratch_bytes)
{
    UNUSED(top);
    struct prim_layout x = places(&t->x, &whole->x), y = places(&t->y, &whole->y);
    struct prim_layout w = matrix(&t->w, t->w.dim[1], t->w.dim[0], 1, whole->w.dim[1]);
    return product_new(&y, &w, &x, k->threads, prim, scratch_bytes);
}

static int
w_product_new(const struct kcall *k, const struct three *t, const struct three *whole, int64_t top, void **prim,
              size_t *scratch_bytes)
{
    UNUSED(top);
    struct prim_layout y = places(&t->y, &whole->y);
    struct prim_layout x = matrix(&t->x, t->x.dim[2] * t->x.dim[3], t->x.dim[1], 1, whole->x.dim[2] * whole->x.dim[3]);
    struct prim_layout w = matrix(&t->w, t->w.dim[0], t->w.dim[1], t->w.dim[1], 1);
    return product_new(&x, &y, &w, k->threads, prim, scratch_bytes);
}

/* ---- computing y (forward) and the gradient of x ---- */

/* The functions that differ between the forward pass and the gradient of x. Each shape of a band has one
 * primitive, which is executed for all bands of that shape, in all images and channels. */
struct pass {
    made_fn *made, *product;
    struct band (*band)(const struct attr *a, const struct three *t, const struct cut *c, int64_t i);
    bool back; /* true: computes the gradient of x */
};

struct conv {
    int64_t nprim;
    struct prim *prim[];
};

/* Makes p run once for every band that has the shape of band i, for all images and channels. The last part of the
 * images, and of the channels, may overlap the part before it. */
static void
repeat_primitive(struct prim *p, const struct attr *a, const struct pass *pass, const struct three *t,
                 const struct cut *c, int64_t i)
{
    int64_t images = t->x.dim[0], n = (images + c->images - 1) / c->images, bands = c->bands, count = 0;
    int64_t *skip = must_alloc((size_t)(3 * n * c->parts * bands) * sizeof *skip), *at = skip;
    for (int64_t j = i; j < bands; j++) {
        if (like(a, t, c, pass->band, j) != i) continue;
        struct band b = pass->band(a, t, c, j);
        for (int64_t r = 0; r < n * c->parts; r++, at += 3, count++) {
            int64_t image = MIN(r / c->parts * c->images, images - c->images);
            struct start s = start_of(t, c, pass->back, r % c->parts);
            int64_t x = offset(&t->x, image, s.x, b.x), y = offset(&t->y, image, s.y, b.y);
            at[0] = pass->back ? y : x;
            at[1] = s.w * (int64_t)dtype_bytes(t->w.dtype);
            at[2] = pass->back ? x : y;
        }
    }
    prim_repeat(p, count, skip, 3);
}

static int
conv_fill(const struct kcall *k, const struct pass *pass, const struct three *whole, const struct cut *c,
          struct conv *conv, size_t *scratch_bytes)
{
    const struct attr *a = k->call->attr;
    for (int64_t i = 0; i < c->bands; i++) {
        if (like(a, whole, c, pass->band, i) != i) continue;
        struct band b = pass->band(a, whole, c, i);
        struct three t = conv_part_of(whole, c, pass->back, c->images, &b);
        void *prim;
        size_t scratch;
        TRY((c->product ? pass->product : pass->made)(k, &t, whole, b.top, &prim, &scratch));
        conv->prim[conv->nprim++] = prim;
        repeat_primitive(prim, a, pass, whole, c, i);
        *scratch_bytes = MAX(*scratch_bytes, scratch);
    }
    return 0;
}

static int
conv_new(const struct kcall *k, const struct pass *pass, const struct three *whole, void **state, size_t *scratch_bytes)
{
    struct cut c =
        conv_cut(k->call->attr, whole, (pass->back ? whole->x : whole->y).dim[1], &conv_part.pass, k->threads);
    struct conv *conv = must_alloc(sizeof *conv + (size_t)c.bands * sizeof conv->prim[0]);
    *scratch_bytes = 0;
    int status = conv_fill(k, pass, whole, &c, conv, scratch_bytes);
    if (status)
        conv_drop(conv);
    else
        *state = conv;
    return status;
}

int
conv_prepare(const struct kcall *k, void **state, size_t *scratch_bytes)
{
    static const struct pass pass = {y_new, y_product_new, band_of_y, false};
    return conv_new(k, &pass, &(struct three){k->in[0], k->in[1], k->out[0]}, state, scratch_bytes);
}

int
conv_x_prepare(const struct kcall *k, void **state, size_t *scratch_bytes)
{
    static const struct pass pass = {x_new, x_product_new, band_of_x, true};
    return conv_new(k, &pass, &(struct three){k->out[0], k->in[1], k->in[0]}, state, scratch_bytes);
}

int
conv_run(const struct kcall *k, const void *state)
{
    const struct conv *c = state;
    for (int64_t i = 0; i < c->nprim; i++) {
        if (i) TRY(stop_check());
        TRY(prim_run(k, c->prim[i]));
    }
    return 0;
}

void
conv_drop(void *state)
{
    struct conv *c = state;
    for (int64_t i = 0; c && i < c->nprim; i++) prim_drop(c->prim[i]);
    free(c);
}

/* ---- computing the gradient of the weights: a sum over images and bands ---- */

enum { X, DY };

struct conv_w {
    struct cut cut;
    struct three whole;
    bool sums; /* true: parts are accumulated in f32 */
    /* sum: size of an f32 sum, aligned; scratch: size of the primitives' scratch; both in bytes */
    size_t sum, scratch;
    int64_t nprim;
    /* Two primitives per band: the first for the number of images of a part, the second for the remaining images.
     * NULL: the primitive of an earlier band has the same shape. */
    struct prim *prim[];
};

static int
w_new(const struct kcall *k, const struct three *t, const struct three *whole, int64_t top, void **prim,
      size_t *scratch_bytes)
{
    struct three ahead = *t;
    /* The hint is the descriptor of the forward pass, for which oneDNN requires equal dtypes of image and weights. */
    ahead.w.dtype = t->x.dtype;
    struct shape of_ahead = read_conv_shape(k->call->attr, &ahead, whole, top),
                 s = read_conv_shape(k->call->attr, t, whole, top);
    struct prim_arg arg[] = {
        {DNNL_ARG_SRC, 0, s.x}, {DNNL_ARG_DIFF_DST, 1, s.y}, {DNNL_ARG_DIFF_WEIGHTS, PRIM_OUT, s.w}};
    dnnl_primitive_desc_t pd;
    s.op.kind = PRIM_CONV_WEIGHTS;
    TRY(prim_describe(&s.op, &of_ahead.op, k->threads, &pd));
    return prim_new(pd, 3, arg, k->threads, prim, scratch_bytes);
}

/* Makes the primitive for a band of n images. */
static int
part_new(const struct kcall *k, struct conv_w *c, int64_t n, const struct band *b, struct prim **prim)
{
    struct three t = conv_part_of(&c->whole, &c->cut, false, n, b);
    void *made;
    size_t scratch;
    TRY((c->cut.product ? w_product_new : w_new)(k, &t, &c->whole, b->top, &made, &scratch));
    *prim = made;
    c->scratch = MAX(c->scratch, scratch);
    return 0;
}

static int
w_fill(const struct kcall *k, struct conv_w *c)
{
    const struct attr *a = k->call->attr;
    int64_t rest = c->whole.x.dim[0] % c->cut.images;
    for (int64_t i = 0; i < c->cut.bands; i++) {
        struct band b = band_of_y(a, &c->whole, &c->cut, i);
        if (like(a, &c->whole, &c->cut, band_of_y, i) != i) continue;
        TRY(part_new(k, c, c->cut.images, &b, &c->prim[2 * i]));
        if (rest) TRY(part_new(k, c, rest, &b, &c->prim[2 * i + 1]));
    }
    return 0;
}

int
conv_w_prepare(const struct kcall *k, void **state, size_t *scratch_bytes)
{
    struct three whole = {k->in[X], k->out[0], k->in[DY]};
    struct cut cut = conv_cut(k->call->attr, &whole, whole.w.dim[0], &conv_part.weights, k->threads);
    int64_t n = 2 * cut.bands;
    struct conv_w *c = must_alloc(sizeof *c + (size_t)n * sizeof c->prim[0]);
    c->cut = cut;
    c->whole = whole;
    c->nprim = n;
    c->sums = n > 2 || cut.images < whole.x.dim[0];
    if (c->sums) c->whole.w.dtype = DT_F32;
    int status = w_fill(k, c);
    if (status) {
        conv_w_drop(c);
        return status;
    }
    c->sum = align_64((size_t)view_numel(&k->out[0]) * sizeof(float));
    c->scratch = align_64(c->scratch);
    *scratch_bytes = c->scratch + (c->sums ? 2 * c->sum : 0);
    *state = c;
    return 0;
}

/* Computes band i of one part of images and channels, which begins with image `image` and channel `start`. */
static int
run_part(const struct kcall *k, const struct conv_w *c, int64_t image, int64_t i, struct start start, void *to)
{
    const struct attr *a = k->call->attr;
    bool rest = c->whole.x.dim[0] - image < c->cut.images;
    const struct prim *p = c->prim[2 * like(a, &c->whole, &c->cut, band_of_y, i) + rest];
    struct band b = band_of_y(a, &c->whole, &c->cut, i);
    void *at[] = {(char *)k->in[X].data + offset(&c->whole.x, image, start.x, b.x),
                  (char *)k->in[DY].data + offset(&c->whole.y, image, start.y, b.y), to};
    return prim_at(p, at, k->scratch, k->call->op->name);
}

/* Computes the gradient of the weights for some channels: sums over images and, for each part of the images, over
 * bands, in this order. */
static int
run_channels(const struct kcall *k, const struct conv_w *c, struct start start)
{
    const struct view *w = &k->out[0];
    int64_t images = c->whole.x.dim[0], bands = c->nprim / 2, weights = view_numel(w) / w->dim[0] * c->cut.channels;
    char *to = (char *)w->data + start.w * (int64_t)dtype_bytes(w->dtype);
    if (!c->sums) return run_part(k, c, 0, 0, start, to);
    float *sum = (float *)((char *)k->scratch + c->scratch), *part = (float *)((char *)sum + c->sum);
    TRY(run_part(k, c, 0, 0, start, sum));
    for (int64_t r = 1; r < (images + c->cut.images - 1) / c->cut.images * bands; r++) {
        TRY(stop_check());
        TRY(run_part(k, c, r / bands * c->cut.images, r % bands, start, part));
        for (int64_t i = 0; i < weights; i++) sum[i] += part[i];
    }
    block_store(COMP_F32, w->dtype, sum, weights, to, 1);
    return 0;
}

int
conv_w_run(const struct kcall *k, const void *state)
{
    const struct conv_w *c = state;
    for (int64_t i = 0; i < c->cut.parts; i++) {
        if (i) TRY(stop_check());
        TRY(run_channels(k, c, start_of(&c->whole, &c->cut, false, i)));
    }
    return 0;
}

void
conv_w_drop(void *state)
{
    struct conv_w *c = state;
    if (!c) return;
    for (int64_t i = 0; i < c->nprim; i++) prim_drop(c->prim[i]);
    free(c);
}
