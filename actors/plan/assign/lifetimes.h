/* lifetimes.h - finds from when until when each value of a planned step occupies memory. Pure; any thread. */
#ifndef RILLE_ACTORS_PLAN_ASSIGN_LIFETIMES_H
#define RILLE_ACTORS_PLAN_ASSIGN_LIFETIMES_H

#include "actors/plan/assign/planner.h"

/* Computes lifetimes and register counts of all values, after all nodes are built. */
void planner_lifetimes(struct planner *w);

#endif
