/* compare.c - compares the results of a kernel with those of the reference, within a tolerance per dtype. */
#include "kernels/exec/compare.h"

#include "runtime/data/arena.h"
#include "runtime/base/error.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

/* Returns the tolerance of a dtype: the largest permitted error, relative to the largest absolute value of the
 * tensor. */
static double
tolerance(enum dtype d)
{
    static const double by_dtype[NDTYPE] = {[DT_BF16] = 4e-2, [DT_F16] = 1e-2, [DT_F32] = 2e-4, [DT_F64] = 1e-9};
    return by_dtype[d];
}

/* Returns the largest finite value of a dtype. */
static double
greatest_finite(enum dtype d)
{
    static const double by_dtype[NDTYPE] = {
        [DT_BF16] = 0x1.fep127, [DT_F16] = 65504, [DT_F32] = FLT_MAX, [DT_F64] = DBL_MAX};
    return by_dtype[d];
}

/* Clamps x to the finite range of the dtype, because a value beyond it may be rounded to the largest number or to
 * infinity. */
static double
rounded_to_type(enum dtype d, double x)
{
    return x > greatest_finite(d) ? greatest_finite(d) : x < -greatest_finite(d) ? -greatest_finite(d) : x;
}

/* Returns true if element p of `got` agrees with element p of `want`, the reference, whose dtype is wider. A wide
 * integer wraps around to the dtype of `got`. If the reference is infinite or NaN, the kernel's element must be the
 * same. */
static bool
result_agrees(const struct view *got, const struct view *want, int64_t p, double largest)
{
    enum dtype d = got->dtype;
    if (!dtype_is_float(d)) {
        _Alignas(8) char one[8];
        elem_set_i(d, one, 0, elem_get_i(want->dtype, want->data, p));
        return elem_get_i(d, got->data, p) == elem_get_i(d, one, 0);
    }
    double g = elem_get_f(d, got->data, p), w = elem_get_f(want->dtype, want->data, p);
    if (!isfinite(w)) return g == w || (isnan(g) && isnan(w));
    return fabs(rounded_to_type(d, g) - rounded_to_type(d, w)) <= tolerance(d) * largest;
}

/* Returns the largest finite absolute value of `want`, at least 1. */
static double
largest_of(enum dtype d, const struct view *want)
{
    double largest = 1;
    for (int64_t p = 0, n = dtype_is_float(d) ? view_numel(want) : 0; p < n; p++) {
        double w = fabs(elem_get_f(want->dtype, want->data, p));
        if (isfinite(w)) largest = MAX(largest, rounded_to_type(d, w));
    }
    return largest;
}

int
compare(const char *op, const char *kernel, int i, const struct view *got, const struct view *want)
{
    struct type t = type_of(got->dtype, got->ndim, got->dim);
    int64_t n = view_numel(got), p = 0;
    void *data = must_alloc((size_t)n * dtype_bytes(got->dtype) + 1);
    struct view dense = view_dense(&t, data);
    view_copy(&dense, got);
    double largest = largest_of(got->dtype, want);
    while (p < n && result_agrees(&dense, want, p, largest)) p++;
    int status = 0;
    if (p < n)
        status = fail(E_KERNEL, "%s: kernel \"%s\" returned %.9g, the reference %.9g (result %d, element %lld)", op,
                      kernel, elem_get_f(got->dtype, data, p), elem_get_f(want->dtype, want->data, p), i, (long long)p);
    free(data);
    return status;
}
