/* conv_f64.c - convolutions of doubles as matrix products (im2col).
 *
 * A group has c input channels and o kernels, windows have p x q pixels, and the result has u x v pixels. The
 * windows of one image and group are the columns of a matrix with c p q rows and u v columns. The kernels of a
 * group are a matrix with o rows and c p q columns. The product of kernels and window matrix is the result, with o
 * rows and u v columns. The gradient of one factor is the product of the other factor and the gradient of the
 * result. */
#include "kernels/cpu/conv/conv_f64.h"

#include "kernels/cpu/conv/conv.h"
#include "kernels/cpu/gemm/gemm_f64.h"
#include "kernels/cpu/base/team.h"
#include "runtime/base/stop.h"

#include <string.h>

enum { STRIDE, PADDING, DILATION }; /* attributes of conv2d and its gradients */

struct windows {
    const struct view *x, *w, *y;
    /* groups, images: numbers of groups and of images. channels, kernels: numbers of input channels and of
     * kernels per group. */
    int64_t groups, images, channels, kernels;
    int64_t size[2], kernel[2], result[2], stride[2], padding[2], dilation[2];
    int64_t deep, wide; /* deep, wide: number of rows (c p q) and of columns (u v) of the window matrix */
    char *scratch;
    size_t workspace; /* size of a thread's scratch, bytes */
};

static size_t
matrix_workspace(const struct windows *s)
{
    return align_64((size_t)(s->deep * s->wide) * sizeof(double));
}

static struct windows
windows_of(const struct kcall *k, const struct view *x, const struct view *w, const struct view *y)
{
    const struct attr *a = k->call->attr;
    struct windows s = {.x = x, .w = w, .y = y, .images = x->dim[0], .channels = w->dim[1], .scratch = k->scratch};
    s.groups = x->dim[1] / w->dim[1];
    s.kernels = w->dim[0] / s.groups;
    for (int i = 0; i < 2; i++) {
        s.size[i] = x->dim[2 + i];
        s.kernel[i] = w->dim[2 + i];
        s.result[i] = y->dim[2 + i];
        s.stride[i] = attr_pair(&a[STRIDE], i, 1);
        s.padding[i] = attr_pair(&a[PADDING], i, 0);
        s.dilation[i] = attr_pair(&a[DILATION], i, 1);
    }
    s.deep = s.channels * s.kernel[0] * s.kernel[1];
    s.wide = s.result[0] * s.result[1];
    size_t product = gemm_f64_scratch(s.kernels, s.wide, s.deep), back = gemm_f64_scratch(s.deep, s.wide, s.kernels);
    size_t weights = gemm_f64_scratch(s.kernels, s.deep, s.wide);
    s.workspace = matrix_workspace(&s) + MAX(product, MAX(back, weights));
    s.workspace = align_64(s.workspace);
    return s;
}

/* Computes row r of the window matrix from x: one entry of every window, so that the row is a shifted channel of
 * x. add: adds the row to x instead. */
static void
walk_window_row(const struct windows *s, int64_t r, double *x, double *row, bool add)
{
    int64_t area = s->kernel[0] * s->kernel[1], p = r % area / s->kernel[1], q = r % s->kernel[1];
    double *image = x + r / area * s->size[0] * s->size[1];
    for (int64_t u = 0; u < s->result[0]; u++) {
        int64_t h = u * s->stride[0] + p * s->dilation[0] - s->padding[0];
        bool inside = h >= 0 && h < s->size[0];
        for (int64_t v = 0; v < s->result[1]; v++, row++) {
            int64_t w = v * s->stride[1] + q * s->dilation[1] - s->padding[1];
            bool here = inside && w >= 0 && w < s->size[1];
            if (add) {
                if (here) image[h * s->size[1] + w] += *row;
            } else {
                *row = here ? image[h * s->size[1] + w] : 0;
            }
        }
    }
}

static double *
image_at(const struct windows *s, int64_t n, int64_t g)
{
    return (double *)s->x->data + (n * s->groups + g) * s->channels * s->size[0] * s->size[1];
}

static struct matrix_f64
result_at(const struct windows *s, int64_t n, int64_t g)
{
    return (struct matrix_f64){(double *)s->y->data + (n * s->groups + g) * s->kernels * s->wide, s->wide, 1};
}

static struct matrix_f64
kernel_at(const struct windows *s, int64_t g)
{
    return (struct matrix_f64){(double *)s->w->data + g * s->kernels * s->deep, s->deep, 1};
}

static struct matrix_f64
conv_transposed(struct matrix_f64 m)
{
    return (struct matrix_f64){m.data, m.col, m.row};
}

static void
conv_f64_forward(const struct windows *s, int64_t n, int64_t g, struct matrix_f64 all, void *scratch)
{
    for (int64_t r = 0; r < s->deep; r++) walk_window_row(s, r, image_at(s, n, g), all.data + r * s->wide, false);
    gemm_f64(s->kernels, s->wide, s->deep, kernel_at(s, g), all, false, result_at(s, n, g), scratch);
}

static void
conv_f64_backward(const struct windows *s, int64_t n, int64_t g, struct matrix_f64 all, void *scratch)
{
    double *x = image_at(s, n, g);
    gemm_f64(s->deep, s->wide, s->kernels, conv_transposed(kernel_at(s, g)), result_at(s, n, g), false, all, scratch);
    memset(x, 0, (size_t)(s->channels * s->size[0] * s->size[1]) * sizeof *x);
    for (int64_t r = 0; r < s->deep; r++) walk_window_row(s, r, x, all.data + r * s->wide, true);
}

/* Computes the gradient of a group's kernels as a sum over all images. Images are added in order, so that results are
 * the same on every run. */
static void
conv_f64_weights(const struct windows *s, int64_t n, int64_t g, struct matrix_f64 all, void *scratch)
{
    UNUSED(n);
    for (int64_t i = 0; i < s->images; i++) {
        for (int64_t r = 0; r < s->deep; r++) walk_window_row(s, r, image_at(s, i, g), all.data + r * s->wide, false);
        gemm_f64(s->kernels, s->deep, s->wide, result_at(s, i, g), conv_transposed(all), i > 0, kernel_at(s, g),
                 scratch);
    }
}

struct work {
    const struct windows *s;
    void (*one)(const struct windows *s, int64_t n, int64_t g, struct matrix_f64 all, void *scratch);
};

static void
run_conv_share(void *arg, int64_t share, int64_t lo, int64_t hi)
{
    const struct work *w = arg;
    const struct windows *s = w->s;
    struct matrix_f64 all = {(double *)(s->scratch + (size_t)share * s->workspace), s->wide, 1};
    for (int64_t u = lo; u < hi && !stop_now(); u++)
        w->one(s, u / s->groups, u % s->groups, all, (char *)all.data + matrix_workspace(s));
}

static int
run_conv_units(const struct windows *s, int threads, int64_t units,
               void (*one)(const struct windows *s, int64_t n, int64_t g, struct matrix_f64 all, void *scratch))
{
    struct work w = {s, one};
    team_shares(threads, units, 1, run_conv_share, &w);
    return 0;
}

/* ---- variants ---- */

bool
conv_f64_accepts(const struct kcall *k)
{
    bool full = view_numel(&k->in[0]) && view_numel(&k->in[1]) && view_numel(&k->out[0]);
    return full && k->in[0].dtype == DT_F64 && k->in[1].dtype == DT_F64 && k->out[0].dtype == DT_F64;
}

int
conv_f64_prepare(const struct kcall *k, void **state, size_t *scratch_bytes)
{
    UNUSED(state);
    *scratch_bytes = windows_of(k, &k->in[0], &k->in[1], &k->out[0]).workspace * (size_t)k->threads;
    return 0;
}

int
conv_f64_run(const struct kcall *k, const void *state)
{
    UNUSED(state);
    struct windows s = windows_of(k, &k->in[0], &k->in[1], &k->out[0]);
    return run_conv_units(&s, k->threads, s.images * s.groups, conv_f64_forward);
}

int
conv_x_f64_prepare(const struct kcall *k, void **state, size_t *scratch_bytes)
{
    UNUSED(state);
    *scratch_bytes = windows_of(k, &k->out[0], &k->in[1], &k->in[0]).workspace * (size_t)k->threads;
    return 0;
}

int
conv_x_f64_run(const struct kcall *k, const void *state)
{
    UNUSED(state);
    struct windows s = windows_of(k, &k->out[0], &k->in[1], &k->in[0]);
    return run_conv_units(&s, k->threads, s.images * s.groups, conv_f64_backward);
}

int
conv_w_f64_prepare(const struct kcall *k, void **state, size_t *scratch_bytes)
{
    UNUSED(state);
    *scratch_bytes = windows_of(k, &k->in[0], &k->out[0], &k->in[1]).workspace * (size_t)k->threads;
    return 0;
}

int
conv_w_f64_run(const struct kcall *k, const void *state)
{
    UNUSED(state);
    struct windows s = windows_of(k, &k->in[0], &k->out[0], &k->in[1]);
    return run_conv_units(&s, k->threads, s.groups, conv_f64_weights);
}
