/* recurrent.h - the operands, results and cells of the operators recurrence and recurrence_grad, and their kernel
 * for f32.
 *
 * x: (batch, length, gates), w: (gates, hidden), h0, c0: (batch, hidden), bias: (gates), lengths: (batch). If h0
 * and c0 are absent, they are zeros. `gates` is `hidden` times the cell's number of gates. Gates are in PyTorch's
 * order: lstm i, f, g, o; gru r, z, n; tanh and relu have one gate. Any thread; the state that prepare() makes is
 * for one run at a time. */
#ifndef RILLE_KERNELS_CPU_RECURRENT_H
#define RILLE_KERNELS_CPU_RECURRENT_H

#include "runtime/graph/op.h"

enum { RECUR_X, RECUR_W, RECUR_H0, RECUR_C0, RECUR_BIAS, RECUR_LENGTHS };
enum { RECUR_HS, RECUR_CS, RECUR_GATES };
/* operands and results of recurrence_grad */
enum { BACK_DHS, BACK_DCS, BACK_HS, BACK_CS, BACK_GATES, BACK_W, BACK_H0, BACK_C0, BACK_LENGTHS };
enum { BACK_DX, BACK_BEFORE, BACK_DH0, BACK_LAST };
enum { RECUR_CELL, RECUR_REVERSE };
enum { CELL_LSTM, CELL_GRU, CELL_TANH, CELL_RELU };

/* cell_gates() returns the number of gates of a cell. cell_saves() returns the number of values per hidden unit
 * that the cell saves for the backward pass. */
static inline int64_t
cell_gates(int64_t cell)
{
    return cell == CELL_LSTM ? 4 : cell == CELL_GRU ? 3 : 1;
}
static inline int64_t
cell_saves(int64_t cell)
{
    return cell == CELL_LSTM || cell == CELL_GRU ? 4 : 0;
}

/* The sizes of a call on one rank, and its order of steps. */
struct recur {
    int64_t cell, batch, length, hidden, gates, saves;
    bool reverse;
    const struct view *lengths; /* number of steps per row; NULL: all rows have `length` steps */
};
/* Returns the sizes of a call. hs: view of the hidden states of all steps. */
struct recur recur_of(const struct kcall *k, const struct view *hs, const struct view *lengths);
/* Returns true if the shards have all gates and hidden units; in tests of signatures, they may lack some. x: view
 * of the products of inputs and weights for all gates, or of their gradients. */
bool recur_is_whole(const struct recur *r, const struct view *x, const struct view *w, const struct view *saved);
/* Returns the position in the sequence at which the s-th step is computed. */
static inline int64_t
recur_at(const struct recur *r, int64_t s)
{
    return r->reverse ? r->length - 1 - s : s;
}
/* Returns true if row `row` has ended before position t, so that its state does not change at t. */
bool recur_is_over(const struct recur *r, int64_t row, int64_t t);

bool recurrent_accepts(const struct kcall *k); /* kernel variant of recurrence and recurrence_grad */
int recurrent_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
int recurrent_run(const struct kcall *k, const void *state);
int recurrent_back_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
int recurrent_back_run(const struct kcall *k, const void *state);
void recurrent_drop(void *state);

#endif
