/* chart_costs.h - checks costs that the user gives for a chart or a schedule search. Pure. */
#ifndef RILLE_SESSION_CHART_COSTS_H
#define RILLE_SESSION_CHART_COSTS_H

#include "actors/plan/sim/schedule_search.h"
#include "rille.h"

/* Checks that all costs given by the user are in range. E_ARG: a cost is out of range. */
int chart_costs_check(const struct rille_chart_costs *k);
/* Checks the costs and converts them for a schedule search. E_ARG: a cost is out of range or missing. */
int schedule_search_costs_of(const struct rille_chart_costs *k, struct schedule_search_costs *out);

#endif
