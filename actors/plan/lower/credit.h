/* credit.h - sets the number of registers of each result. Thread of plan_compile(). */
#ifndef RILLE_ACTORS_PLAN_LOWER_CREDIT_H
#define RILLE_ACTORS_PLAN_LOWER_CREDIT_H

#include "actors/plan/lower/lower.h"

void credit_registers(struct lower *l);
void credit_pools(struct lower *l);
int32_t credit_group(const struct lower *l, const struct draft *d);

#endif
