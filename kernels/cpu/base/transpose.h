/* transpose.h - transposes a matrix of floats. Pure; any thread. */
#ifndef RILLE_KERNELS_CPU_TRANSPOSE_H
#define RILLE_KERNELS_CPU_TRANSPOSE_H

#include <stdint.h>

/* Sets y[c][i] = x[i][c] for i < n and c < width. x_pitch, y_pitch: elements per row. */
void transpose_cols(int64_t n, int64_t width, const float *x, int64_t x_pitch, float *y, int64_t y_pitch);

#endif
