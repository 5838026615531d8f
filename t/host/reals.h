/* reals.h - reads and writes numbers of CUDA's types in simulated GPU memory, for the stand-ins of libraries. */
#ifndef RILLE_T_HOST_REALS_H
#define RILLE_T_HOST_REALS_H

#include <library_types.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

static inline double
real_get(uint64_t type, const void *data, int64_t i)
{
    float f;
    uint32_t bits = type == CUDA_R_16BF ? (uint32_t)((const uint16_t *)data)[i] << 16 : 0;
    memcpy(&f, &bits, sizeof f);
    return type == CUDA_R_32F   ? ((const float *)data)[i]
           : type == CUDA_R_64F ? ((const double *)data)[i]
           : type == CUDA_R_16F ? (double)((const _Float16 *)data)[i]
                                : f;
}

static inline void
real_put(uint64_t type, void *data, int64_t i, double v)
{
    float f = (float)v;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (type == CUDA_R_32F) ((float *)data)[i] = f;
    if (type == CUDA_R_64F) ((double *)data)[i] = v;
    if (type == CUDA_R_16F) ((_Float16 *)data)[i] = (_Float16)f;
    if (type == CUDA_R_16BF) ((uint16_t *)data)[i] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Rounds a factor as TF32 tensor cores do: 10 fraction bits, to nearest, ties to even. */
static inline double
real_tf32(double v)
{
    int e;
    if (!isfinite(v)) return v;
    double fraction = frexp(v, &e);
    return ldexp(rint(ldexp(fraction, 11)), e - 11);
}

#endif
