/* order.h - tests whether a task precedes another, and adds missing edges. Thread of plan_compile(). */
#ifndef RILLE_ACTORS_PLAN_LOWER_ORDER_H
#define RILLE_ACTORS_PLAN_LOWER_ORDER_H

#include "actors/plan/lower/lower.h"

void order_begin(struct lower *l); /* call when all tasks exist */
/* Makes task a run before task b; adds an edge unless this order is already known. a must precede b in the list. */
void order_after(struct lower *l, int32_t a, int32_t b);
/* Makes all n tasks a[] run before task b. a[] must be sorted. */
void order_all(struct lower *l, const int32_t *a, int32_t n, int32_t b);
void order_edge(struct lower *l, int32_t a, int32_t b);
/* Limits task a to at most n acts ahead of task b. */
void order_credit(struct lower *l, int32_t a, int32_t b, int32_t n);

#endif
