/* random.h - the random values of runtime/rng.h for consecutive positions, vectorised: the same bits, but that a normal
 * value may differ in its last place where libm's logarithm and cosine are not correctly rounded. Any thread: calls
 * keep nothing, and all memory is the caller's. */
#ifndef RILLE_KERNELS_CPU_RANDOM_H
#define RILLE_KERNELS_CPU_RANDOM_H

#include "runtime/view.h"

enum random { RANDOM_UNIFORM, RANDOM_NORMAL, RANDOM_BITS };
enum { RANDOM_BLOCK = 1024, RANDOM_GRAIN = 16384 }; /* RANDOM_GRAIN: values worth a thread */

/* Whose values: from which position of the whole on. */
struct random_at {
    uint64_t key, piece, position;
};
/* Space for a block of values, what lies before them in theirs, and what makes vectors whole. */
union random_workspace {
    float f32[2 * (RANDOM_BLOCK + 16)];
    double f64[RANDOM_BLOCK + 16];
    uint32_t u32[2 * (RANDOM_BLOCK + 16)];
    uint64_t u64[RANDOM_BLOCK + 16];
};

/* Draws n <= RANDOM_BLOCK values for a tensor of dtype d, somewhere in workspace: double of f64, uint64_t of bits, else
 * float. */
const void *random_values(enum random r, enum dtype d, const struct random_at *at, int64_t n,
                          union random_workspace *workspace);

/* Fills a dense float view, each element by its position in the whole. */
void random_fill(const struct view *y, uint64_t key, uint64_t piece, enum random law, int threads);

/* The elements of a dense view fall into runs of this length, whose positions in the whole are consecutive. */
int64_t global_run(const struct view *v);
/* The position in the whole of local element i of a dense view. */
uint64_t global_position(const struct view *v, int64_t i);

#endif
