/* append.h - computes a weight gradient once for the batch instead of once per micro-batch.
 *
 * A product that is added to a sum over micro-batches reads and writes the complete sum once per micro-batch. If the
 * sum does not fit in a cache, memory bandwidth limits the product. append_operands() appends the operands of all
 * micro-batches along dimension 0, and computes the product once, after the last micro-batch. The addends of the sum
 * are the same, in another grouping.
 *
 * The rewrite requires that the operator's dimension rule sums over dimension 0 of the operands, and that the appended
 * operands take no more bytes than the gradient. An operand to which a call adds its result (index_add_to) is summed
 * over the micro-batches first. Measurements are in bench/results/2026-11/gpt2.md. Call append_operands() on the thread
 * that makes the program, before other threads read the program. */
#ifndef RILLE_PLAN_APPEND_H
#define RILLE_PLAN_APPEND_H

#include "actors/plan/model/program.h"

/* size of the smallest gradient that is computed once for the batch, bytes; smaller gradients stay in the L2 cache */
enum { APPEND_LEAST = 1 << 20 };

/* Rewrites sums over micro-batches of `least` bytes or more. The program's layouts must already be chosen. */
void append_operands(struct program *p, int64_t least);

#endif
