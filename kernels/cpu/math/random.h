/* random.h - computes the random values of runtime/data/rng.h for consecutive positions, vectorised.
 *
 * The values are bit-identical to those of rng.h, except that normal values may differ in the last place if libm's
 * logarithm or cosine is not correctly rounded. Any thread: calls keep no state, and the caller owns all memory. */
#ifndef RILLE_KERNELS_CPU_RANDOM_H
#define RILLE_KERNELS_CPU_RANDOM_H

#include "runtime/graph/op.h"
#include "runtime/tensor/view.h"

enum random { RANDOM_UNIFORM, RANDOM_NORMAL, RANDOM_BITS };
/* RANDOM_BLOCK: maximum number of values per call; RANDOM_GRAIN: minimum number of values per thread. */
enum { RANDOM_BLOCK = 1024, RANDOM_GRAIN = 16384 };

/* The key, the micro-batch and the first global position of a sequence of values. */
struct random_at {
    uint64_t key, piece, position;
};
/* Memory for a block of values. It has room for extra values before and after the block, because whole vectors are
 * computed. */
union random_workspace {
    float f32[2 * (RANDOM_BLOCK + 16)];
    double f64[RANDOM_BLOCK + 16];
    uint32_t u32[2 * (RANDOM_BLOCK + 16)];
    uint64_t u64[RANDOM_BLOCK + 16];
};

/* Computes n <= RANDOM_BLOCK values for a tensor of dtype d, and returns their address in workspace. The values are
 * double for f64, uint64_t for random bits, and float otherwise. */
const void *random_values(enum random r, enum dtype d, const struct random_at *at, int64_t n,
                          union random_workspace *workspace);

/* Maps the elements of a random call to positions in the random sequence. With micro-batches, an element gets the
 * position that it has in the whole batch. The whole batch consists of runs of elements, which belong to micro-batch
 * 0, 1, 2, ..., 0, 1, 2, ... run: length of a run, elements; -1: the call is the same for all micro-batches; 0: the
 * positions in the whole batch are unknown, so each micro-batch has its own sequence. */
struct random_draw {
    uint64_t key, piece;
    int64_t run, pieces;
};
/* Hidden attributes of each random operator, which the trace sets: `run` of struct random_draw, and the number of
 * micro-batches. */
#define RANDOM_ATTRS(at)                                                                                               \
    [at] = {"run", ATTR_INT, ATTR_HIDDEN, .doc = "consecutive elements of a micro-batch in the batch"},                \
    [(at) + 1] = {"micro_batches", ATTR_INT, ATTR_HIDDEN, .i = 1, .doc = "number of micro-batches"}
/* Returns the struct random_draw of a call. run: address of the call's two hidden attributes. */
struct random_draw random_draw(const struct kcall *k, uint64_t key, const struct attr *run);
/* Returns where in the random sequence an element is. position: the element's position in the micro-batch's global
 * tensor. */
struct random_at random_at(const struct random_draw *d, uint64_t position);
/* Returns how many of the n elements from `position` on have consecutive positions in the random sequence. */
int64_t random_length(const struct random_draw *d, uint64_t position, int64_t n);

/* Fills a dense float view with random values. Each value depends on the element's global position. */
void random_fill(const struct view *y, const struct random_draw *d, enum random law, int threads);

/* Returns the maximum number of consecutive elements of a dense view that also have consecutive global positions. */
int64_t global_run(const struct view *v);
/* Returns the global position of local element i of a dense view. */
uint64_t global_position(const struct view *v, int64_t i);

#endif
