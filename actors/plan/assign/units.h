/* units.h - finds the units by which the dimensions of a program's values should be split (inside actors/plan).
 *
 * A reshape can split a merged dimension only by complete values of its major factor. If the ranks do not divide that
 * factor, the merged dimension needs a unit (layout.h): heads of 64 columns. The unit holds for all values that share
 * the factor: a projection's weight, its bias, their gradients. This pass carries units along the factors of all calls,
 * so that candidates split each dimension by one unit only. A value's unit is not a choice of the search.
 *
 * The user's layouts come first: a leaf or a requested move that splits a dimension without a unit fixes this dimension
 * to elements, and all dimensions with the same factor.
 *
 * The caller's arena owns the result. Pure; any thread. */
#ifndef RILLE_PLAN_UNITS_H
#define RILLE_PLAN_UNITS_H

#include "actors/plan/model/program.h"

/* Units by dimension. 0 or 1: elements; -1: elements, because the user's layout says so. Index: units_at(). NULL: no
 * value needs a unit. */
typedef int32_t units_row[MAX_DIM];
/* Returns the index of a value in a table with rows for the results of nodes, then for leaves; -1: r is a number. */
int32_t units_at(const struct program *p, struct ref r);
/* Fills unit[k] with the row of operand or result k of node i; NULL: a number, or `row` is NULL. */
void units_of_call(const struct program *p, units_row *row, int32_t i, int32_t **unit);
/* Returns the units of all values, in the caller's arena; NULL: no value needs a unit. */
units_row *units_find(struct arena *a, const struct program *p);

#endif
