/* random.h - the random values of runtime/rng.h for consecutive positions, vectorised: the same bits, but that a normal
 * value may differ in its last place where libm's logarithm and cosine are not correctly rounded. */
#ifndef RILLE_KERNELS_CPU_RANDOM_H
#define RILLE_KERNELS_CPU_RANDOM_H

#include "runtime/view.h"

/* Positions first, first + 1, ..., first + n - 1 of the whole. */
void random_uniform(uint64_t key, uint64_t piece, uint64_t first, int64_t n, float *y);
void random_normal(uint64_t key, uint64_t piece, uint64_t first, int64_t n, float *y);

/* Fills a dense float view, each element by its position in the whole. */
void random_fill(const struct view *y, uint64_t key, uint64_t piece,
                 void (*draw)(uint64_t key, uint64_t piece, uint64_t first, int64_t n, float *y));

/* The elements of a dense view fall into runs of equal length whose positions in the whole are consecutive. */
int64_t whole_run(const struct view *v);
/* The position in the whole of local element i of a dense view. */
uint64_t whole_position(const struct view *v, int64_t i);

#endif
