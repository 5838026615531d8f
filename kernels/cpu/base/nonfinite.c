/* nonfinite.c - detects infinities and NaN that may make a kernel's results differ from the reference's. */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/cpu/base/nonfinite.h"

#include "kernels/cpu/base/convert.h"
#include "runtime/base/simd.h"

#include <math.h>

enum { BLOCK = 1024 };

VECTOR static bool
any_unbounded(int64_t n, const float *x)
{
    uint32_t found = 0;
    for (int64_t i = 0; i < n; i++) found |= -(uint32_t)((bits_of(x[i]) & 0x7f800000) == 0x7f800000);
    return found;
}

VECTOR static bool
all_nan(int64_t n, const float *x)
{
    uint32_t found = 0;
    for (int64_t i = 0; i < n; i++) found |= -(uint32_t)((bits_of(x[i]) & 0x7fffffff) <= 0x7f800000);
    return !found;
}

/* Returns true if at least one of n 16-bit floats is infinite or NaN. exponent: mask of the exponent bits. */
VECTOR static bool
any_unbounded_half(int64_t n, const uint16_t *x, uint16_t exponent)
{
    uint16_t found = 0;
    for (int64_t i = 0; i < n; i++) found |= (uint16_t) - ((x[i] & exponent) == exponent);
    return found;
}

/* Tests a dense view block by block. Returns true if `test` is true for at least one block; if `all` is set, only if
 * it is true for every block. Doubles beyond the range of floats count as infinite. */
static bool
of_blocks(const struct view *v, bool (*test)(int64_t n, const float *x), bool all)
{
    float workspace[BLOCK];
    int64_t n = view_numel(v), bytes = (int64_t)dtype_bytes(v->dtype);
    for (int64_t i = 0; i < n; i += BLOCK) {
        const char *at = (const char *)v->data + i * bytes;
        int64_t m = MIN(n - i, BLOCK);
        if (v->dtype != DT_F32) block_load(COMP_F32, v->dtype, at, 1, m, workspace);
        if (test(m, v->dtype == DT_F32 ? (const float *)at : workspace) != all) return !all;
    }
    return all;
}

/* Returns true if all elements of some operand are NaN, so that the call's results are NaN anyway. Does not check
 * operands that are not dense. If such an operand is all NaN, the reference computes the call, correctly but
 * slowly. */
static bool
is_nan_lost(const struct kcall *k)
{
    for (int i = 0; i < k->call->nin; i++) {
        const struct view *v = &k->in[i];
        bool reals = dtype_is_float(v->dtype) && !k->call->in[i].weak && view_is_dense(v) && view_numel(v) > 0;
        if (reals && of_blocks(v, all_nan, true)) return true;
    }
    return false;
}

/* Returns true if a dense view has an infinity or NaN. */
static bool
has_unbounded(const struct view *v)
{
    if (dtype_is_half(v->dtype))
        return any_unbounded_half(view_numel(v), v->data, v->dtype == DT_BF16 ? 0x7f80 : 0x7c00);
    return of_blocks(v, any_unbounded, false);
}

bool
nonfinite_result(const struct kcall *k)
{
    return has_unbounded(&k->out[0]) && !is_nan_lost(k);
}

bool
nonfinite_weight(const struct kcall *k)
{
    return has_unbounded(&k->in[1]) && !is_nan_lost(k);
}
