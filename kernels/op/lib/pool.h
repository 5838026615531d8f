/* pool.h - code shared by the pooling operators. Windows cover the last two of four dimensions; these two are
 * unsplit.
 *
 * Pure, except for writes to the caller's memory; any thread. */
#ifndef RILLE_KERNELS_OP_POOL_H
#define RILLE_KERNELS_OP_POOL_H

#include "kernels/cpu/conv/pool.h"
#include "kernels/op/base/op_impl.h"

/* Attributes of all pooling operators, in the order of their records. DILATION belongs to max_pool2d and COUNT_PAD
 * to avg_pool2d; the flag ATTR_HIDDEN hides the attribute from the other operator. */
enum { POOL_KERNEL, POOL_STRIDE, POOL_PADDING, POOL_DILATION, POOL_CEIL, POOL_COUNT_PAD, POOL_SIZE };

#define POOL_ATTRS(dilation, count_pad)                                                                                \
    [POOL_KERNEL] = {"kernel_size", ATTR_INTS, ATTR_REQUIRED, .doc = "height and width of a window"},                  \
    [POOL_STRIDE] = {"stride", ATTR_INTS, .text = "kernel_size", .doc = "step between windows"},                       \
    [POOL_PADDING] = {"padding", ATTR_INTS, .text = "0", .doc = "entries around the image"},                           \
    [POOL_DILATION] = {"dilation", ATTR_INTS, dilation, .text = "1", .doc = "distance between entries of a window"},   \
    [POOL_CEIL] = {"ceil_mode", ATTR_BOOL, .doc = "allow the last window to extend beyond the padding"},               \
    [POOL_COUNT_PAD] = {"count_include_pad", ATTR_BOOL, count_pad, .i = 1, .doc = "include the padding in means"}

/* Common prefix of the GPU bodies of pooling. entries(): sets *lo and *hi to the range of the n image entries that
 * window u covers in direction i, in steps of step[i]; returns the divisor of a mean. windows(): sets *lo and *hi to
 * the range of the m windows that may contain entry h. */
#define POOL_BODY                                                                                                      \
    BODY(                                                                                                              \
        const auto pair =                                                                                              \
            [&](int a, int i, int64_t other) {                                                                         \
                return c->attr[a].n ? c->attr[a].list[c->attr[a].n == 1 ? 0 : i] : other;                              \
            };                                                                                                         \
        const int64_t step[] = {pair(DILATION, 0, 1), pair(DILATION, 1, 1)};                                           \
        const int64_t kernel[] = {pair(KERNEL_SIZE, 0, 1), pair(KERNEL_SIZE, 1, 1)};                                   \
        const int64_t stride[] = {pair(STRIDE, 0, kernel[0]), pair(STRIDE, 1, kernel[1])};                             \
        const int64_t padding[] = {pair(PADDING, 0, 0), pair(PADDING, 1, 0)};                                          \
        const auto entries =                                                                                           \
            [&](int i, int64_t u, int64_t n, int64_t *lo, int64_t *hi) {                                               \
                const int64_t start = u * stride[i] - padding[i], end = start + step[i] * (kernel[i] - 1) + 1;         \
                const int64_t padded = end < n + padding[i] ? end : n + padding[i];                                    \
                *lo = start < 0 ? start + (step[i] - 1 - start) / step[i] * step[i] : start;                           \
                *hi = end < n ? end : n;                                                                               \
                return c->attr[COUNT_INCLUDE_PAD].i ? padded - start : *hi - *lo;                                      \
            };                                                                                                         \
        const auto windows =                                                                                           \
            [&](int i, int64_t h, int64_t m, int64_t *lo, int64_t *hi) {                                               \
                const int64_t first = h + padding[i] - step[i] * (kernel[i] - 1), last = (h + padding[i]) / stride[i]; \
                *lo = first > 0 ? (first + stride[i] - 1) / stride[i] : 0;                                             \
                *hi = last < m ? last + 1 : m;                                                                         \
            };)

struct window pool_window(const struct attr *attr, int i);
/* Returns the number of windows in direction i (0: down, 1: right), for n entries; 0: no window fits. */
int64_t pool_size(const struct attr *attr, int i, int64_t n);
/* Implements infer() for operators whose result is the pooled image. */
int pool_infer(const struct call *c, int64_t *size);

/* Return the flops: one operation per window and entry. pool_flops counts the windows of the result; pool_back_flops
 * counts the windows of the last operand. */
double pool_flops(const struct call *c);
double pool_back_flops(const struct call *c);

/* Return the windows and sizes of a call's planes; a plane is one channel of one image. pool_plane: the result of
 * the call is the pooled image. pool_back_plane: the last operand is the pooled image or its gradient. */
struct plane pool_plane(const struct kcall *k);
struct plane pool_back_plane(const struct kcall *k);

/* One window of a plane, as the reference passes it to each(). x: the image; y: the pooled image. */
enum { POOL_IN = 2 };
struct pane {
    const double *in[POOL_IN]; /* in: the call's operands; out: its result */
    double *out;
    int64_t at, plane;      /* at: index of the window in y; plane: index in x of the plane's first element */
    int64_t h0, h1, w0, w1; /* rows and columns of the window, clipped to the image; every dilation-th entry counts */
    /* step: distance between entries that count, by direction; row: number of entries in a row of x */
    int64_t step[2], row;
    int64_t count; /* number by which a mean over the window is divided */
};
/* Implements ref(): sets the result to 0, then calls each() for every window, plane by plane. */
int pool_ref(const struct kcall *k, const struct plane *p, void (*each)(const struct pane *w));

/* Variants for floats, which compute plane by plane on all threads: in f64 for f64, otherwise in f32. */
bool pool_accepts(const struct kcall *k);      /* for calls with pool_plane() */
bool pool_back_accepts(const struct kcall *k); /* for calls with pool_back_plane() */
int pool_prepare(const struct kcall *k, const struct plane *p, const struct plane_fn *fn, void **state,
                 size_t *scratch_bytes);
int pool_run(const struct kcall *k, const void *state);
void pool_drop(void *state);

/* Calls the pooling operator op with attributes of another pooling operator. The size of the image (POOL_SIZE) is
 * not passed on. */
struct val *b_pool(struct build *b, const struct op *op, int nin, struct val *const *in, const struct attr *attr);

#endif
