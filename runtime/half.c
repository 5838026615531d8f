/* half.c - rows of halves and of f32, each as the other. */
#pragma GCC optimize("O3", "no-trapping-math")
#include "runtime/half.h"

#define CONVERT(name, to_type, from_type, expr)                                                                        \
    static VECTOR void name(void *to, const void *from, int64_t n)                                                     \
    {                                                                                                                  \
        to_type *y = to;                                                                                               \
        const from_type *p = from;                                                                                     \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            from_type x = p[i];                                                                                        \
            y[i] = expr;                                                                                               \
        }                                                                                                              \
    }

CONVERT(widen_bf16, float, uint16_t, from_bf16(x))
CONVERT(widen_f16, float, uint16_t, from_f16(x))
CONVERT(round_bf16, uint16_t, float, to_bf16(x))
CONVERT(round_f16, uint16_t, float, to_f16(x))

void
half_widen(enum dtype d, float *to, const void *from, int64_t n)
{
    (d == DT_BF16 ? widen_bf16 : widen_f16)(to, from, n);
}

void
half_round(enum dtype d, void *to, const float *from, int64_t n)
{
    (d == DT_BF16 ? round_bf16 : round_f16)(to, from, n);
}
