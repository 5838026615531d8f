/* chart_costs.h - costs that the user gives for a chart or for the search of a schedule. Pure. */
#ifndef RILLE_SESSION_CHART_COSTS_H
#define RILLE_SESSION_CHART_COSTS_H

#include "actors/plan/sim/schedule_search.h"
#include "rille.h"

/* Checks the costs. E_ARG. */
int chart_costs_check(const struct rille_chart_costs *k);
/* Checks the costs and converts them to those of a schedule search. E_ARG. */
int schedule_search_costs_of(const struct rille_chart_costs *k, struct schedule_search_costs *out);

#endif
