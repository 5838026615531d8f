/* units.h - finds the units by which the dimensions of a program's values should be split (inside actors/plan).
 *
 * A reshape can split a merged dimension only into blocks that hold complete values of its major factor. If the ranks
 * do not divide that factor, the merged dimension needs a unit (layout.h), such as 64 columns for heads of size 64. All
 * values that share the factor need the unit: a projection's weight, its bias, their gradients. This pass propagates
 * units through the factors of all calls, so every candidate splits a dimension by the unit found here. The search
 * does not choose units.
 *
 * The user's layouts have precedence. If a leaf or a requested move splits a dimension without a unit, this dimension,
 * and all dimensions with the same factor, are split by elements.
 *
 * The caller's arena owns the result. Pure; any thread. */
#ifndef RILLE_PLAN_UNITS_H
#define RILLE_PLAN_UNITS_H

#include "actors/plan/model/program.h"

/* Row of a table of values (units_at()): unit of each dimension. 0 or 1: elements; -1: elements, because a layout of
 * the user splits the dimension without a unit. Table NULL: no value needs a unit. */
typedef int32_t units_row[MAX_DIM];
/* Returns the index of a value's row: rows for the results of nodes, then for leaves. -1: r is a number. */
int32_t units_at(const struct program *p, struct ref r);
/* Sets unit[k] to the row of operand or result k of node i; NULL: the operand is a number, or `row` is NULL. */
void units_of_call(const struct program *p, units_row *row, int32_t i, int32_t **unit);
/* Returns the units of all values, in the caller's arena; NULL: no value needs a unit. */
units_row *units_find(struct arena *a, const struct program *p);

#endif
