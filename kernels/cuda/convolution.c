/* convolution.c - decides whether a call is a convolution that a library can compute, and determines the layouts of
 * its images. */
#include "kernels/cuda/convolution.h"

#include <string.h>

/* Orders of an image's dimensions, from the innermost to the outermost: row-major (NCHW), channels last (NHWC). */
static const int by_row[] = {3, 2, 1, 0}, by_channel[] = {1, 3, 2, 0};

/* Returns true if the image is dense in this order of dimensions. Strides of dimensions of size 1 may have any
 * value, so they are set to the values that the library expects. */
static bool
has_dense_order(struct cuda_image *i, const int *order)
{
    int64_t dense = 1;
    struct cuda_image own = *i;
    for (int k = 0; k < 4; k++) {
        int d = order[k];
        if (own.size[d] == 1) own.stride[d] = dense;
        if (own.stride[d] != dense) return false;
        dense *= own.size[d];
    }
    *i = own;
    return true;
}

static bool
read_image(const struct view *v, struct cuda_image *i)
{
    if (v->ndim != 4 || view_numel(v) == 0) return false;
    memcpy(i->size, v->dim, sizeof i->size);
    memcpy(i->stride, v->stride, sizeof i->stride);
    return has_dense_order(i, by_row) ||
           /* NHWC is the only other order accepted: some engines of cuDNN 9 return wrong results for the rest. */
           has_dense_order(i, by_channel);
}

/* Returns true if the sizes of the shards of image, kernel and result match. */
static bool
convolution_fits(const struct cuda_convolution *c)
{
    const int64_t *x = c->x.size, *w = c->w.size, *y = c->y.size;
    int64_t groups = x[1] / w[1];
    bool fit = groups * w[1] == x[1] && groups && w[0] % groups == 0 && w[0] == y[1] && x[0] == y[0];
    for (int i = 0; i < 2; i++) {
        int64_t room = x[2 + i] + 2 * c->padding[i] - (w[2 + i] - 1) * c->dilation[i] - 1;
        fit = fit && room >= 0 && room / c->stride[i] + 1 == y[2 + i];
    }
    return fit;
}

bool
cuda_convolution_of(const struct fuse_step *step, int nin, const struct view *in, const struct view *out,
                    struct cuda_convolution *c, struct cuda_places *at)
{
    const struct call *call = step->call;
    struct convolution w;
    memset(c, 0, sizeof *c);
    if (!call->op->gpu.convolution || call->nout != 1) return false;
    call->op->gpu.convolution(call, &w);
    const int operand[] = {w.image, w.kernel, w.result};
    struct cuda_image *const image[] = {&c->x, &c->w, &c->y};
    int factor[3], nfactor = 0;
    for (int i = 0; i < 3; i++) {
        int k = operand[i] < 0 ? -1 : step->arg[operand[i]].index;
        if (!read_image(k < 0 ? out : &in[k], image[i])) return false;
        if (k >= 0) factor[nfactor++] = k;
    }
    memcpy(c->stride, w.stride, sizeof c->stride);
    memcpy(c->padding, w.padding, sizeof c->padding);
    memcpy(c->dilation, w.dilation, sizeof c->dilation);
    c->makes = w.image < 0 ? CUDA_MAKES_X : w.kernel < 0 ? CUDA_MAKES_W : CUDA_MAKES_Y;
    *at = (struct cuda_places){.x = factor[0], .w = factor[1], .bias = -1, .aux = -1, .y = nin};
    /* Rejects 16-bit floats with an f32 result, because cuDNN has no engine for them or one with wrong results. */
    return convolution_fits(c) && cuda_reals_of(call, &in[at->x], &in[at->w], out, &c->from, &c->to, &c->tf32) &&
           c->from == c->to;
}
