/* plan_print.h - a plan as text. Pure. */
#ifndef RILLE_ACTORS_PLAN_PLAN_PRINT_H
#define RILLE_ACTORS_PLAN_PLAN_PRINT_H

#include "actors/plan/model/plan.h"

/* Prints a plan. Tasks of equal ranks are printed once, with logical sizes, so the text is the same on every
 * machine. physical: also prints threads, offsets and the task list of each thread. */
void plan_print(const struct plan *p, bool physical, struct str *s);

#endif
