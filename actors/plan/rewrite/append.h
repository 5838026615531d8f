/* append.h - computes a weight gradient once for the batch instead of once per micro-batch.
 *
 * A product that adds to a sum over micro-batches reads and writes the complete sum for each of them. A gradient that
 * does not fit in a cache is then limited by memory. append_operands() appends the operands of all micro-batches to
 * each other along dimension 0, and computes the product once, after the last micro-batch. The summed factor becomes
 * longer, so the result is the same sum in another grouping. The operator's dimension rule must say that dimension 0
 * of the operands is summed. An operand to which the result is added (index_add_to) is summed over the micro-batches
 * first. The appended operands take no more bytes than the gradient. bench/results has measurements (gpt2). The program
 * must not be shared yet; call it on the thread that makes the program. */
#ifndef RILLE_PLAN_APPEND_H
#define RILLE_PLAN_APPEND_H

#include "actors/plan/model/program.h"

/* size of the smallest gradient that is computed once for the batch, bytes: smaller ones stay in the L2 cache */
enum { APPEND_LEAST = 1 << 20 };

/* Rewrites the sums over micro-batches of at least `least` bytes. The program's layouts must already be chosen. */
void append_operands(struct program *p, int64_t least);

#endif
