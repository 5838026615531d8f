/* pool.c - windows over images. */
#include "kernels/op/pool.h"

static int64_t
pair(const struct attr *a, int i, int64_t by_default)
{
    return a->n == 0 ? by_default : a->list[a->n == 1 ? 0 : i];
}

struct window
pool_window(const struct attr *attr, int i)
{
    int64_t kernel = pair(&attr[POOL_KERNEL], i, 1);
    return (struct window){kernel, pair(&attr[POOL_STRIDE], i, kernel), pair(&attr[POOL_PADDING], i, 0),
                           pair(&attr[POOL_DILATION], i, 1)};
}

int64_t
pool_size(const struct attr *attr, int i, int64_t n)
{
    struct window w = pool_window(attr, i);
    int64_t room = n + 2 * w.padding - (w.dilation * (w.kernel - 1) + 1);
    if (room < 0) return -1;
    int64_t size = (room + (attr[POOL_CEIL].i ? w.stride - 1 : 0)) / w.stride + 1;
    /* A window must start in the image or before it. */
    if (attr[POOL_CEIL].i && (size - 1) * w.stride >= n + w.padding) size--;
    return size;
}

int
pool_check(const struct call *c)
{
    if (c->in[0].ndim != 4) return call_fail(E_SHAPE, c, "x must have 4 dimensions, found %d", c->in[0].ndim);
    for (int a = POOL_KERNEL; a <= POOL_DILATION; a++) {
        const struct attr *attr = &c->attr[a];
        if (attr->n > 2) return call_fail(E_ATTR, c, "%s must be one or two numbers", c->op->attr[a].name);
        for (int i = 0; i < attr->n; i++)
            if (attr->list[i] < (a == POOL_PADDING ? 0 : 1) || attr->list[i] > INT32_MAX)
                return call_fail(E_ATTR, c, "%s must not be %lld", c->op->attr[a].name, (long long)attr->list[i]);
    }
    for (int i = 0; i < 2; i++) {
        struct window w = pool_window(c->attr, i);
        if (w.padding > w.kernel / 2) return call_fail(E_ATTR, c, "padding must be at most half of kernel_size");
    }
    return 0;
}

int
pool_infer(const struct call *c, int64_t *size)
{
    TRY(pool_check(c));
    for (int i = 0; i < 2; i++) {
        size[i] = pool_size(c->attr, i, c->in[0].dim[2 + i]);
        if (size[i] < 0) return call_fail(E_SHAPE, c, "the window is larger than the padded image");
    }
    return 0;
}

/* The part of a window that lies in 0..n, and how many entries a mean counts. */
static void
cut(struct window w, int64_t u, int64_t n, bool padding, int64_t *lo, int64_t *hi, int64_t *count)
{
    int64_t start = u * w.stride - w.padding, end = start + w.dilation * (w.kernel - 1) + 1;
    int64_t limit = MIN(end, n + w.padding);
    while (start < 0) start += w.dilation;
    *lo = start;
    *hi = MIN(end, n);
    *count = padding ? limit - (u * w.stride - w.padding) : *hi - *lo;
}

void
pool_each(const struct pool *p, void (*each)(void *arg, const struct pane *w), void *arg)
{
    struct window h = pool_window(p->attr, 0), v = pool_window(p->attr, 1);
    const int64_t *x = p->x->dim, *y = p->y->dim;
    bool padding = p->attr[POOL_COUNT_PAD].i;
    struct pane w = {.step = {h.dilation, v.dilation}, .row = x[3]};
    for (int64_t plane = 0; plane < x[0] * x[1]; plane++)
        for (int64_t i = 0; i < y[2]; i++)
            for (int64_t j = 0; j < y[3]; j++) {
                int64_t rows, cols;
                w.plane = plane * x[2] * x[3];
                w.at = (plane * y[2] + i) * y[3] + j;
                cut(h, i, x[2], padding, &w.h0, &w.h1, &rows);
                cut(v, j, x[3], padding, &w.w0, &w.w1, &cols);
                w.count = rows * cols;
                each(arg, &w);
            }
}

struct val *
b_pool(struct build *b, const struct op *op, int nin, struct val *const *in, const struct attr *attr)
{
    struct attr own[OP_ATTR];
    for (int i = 0; i < nin; i++)
        if (!in[i]) return NULL;
    op_attr_defaults(op, own);
    for (int i = POOL_KERNEL; i <= POOL_COUNT_PAD; i++) own[i] = attr[i];
    return b_call(b, op, nin, in, own);
}
