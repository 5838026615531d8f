/* verify.h - proves plans, and programs that another process sent. Each call uses its own thread only. */
#ifndef RILLE_PLAN_VERIFY_VERIFY_H
#define RILLE_PLAN_VERIFY_VERIFY_H

#include "actors/plan/model/plan.h"

/* Proves that a plan is well-formed and runs to its end in every order of events: indices and sizes are in range,
 * shapes and signatures are legal, a greedy token simulation finishes, and no two live registers share bytes.
 * E_PLAN: the plan is wrong; the error names a task and a field. */
int plan_verify(const struct plan *p);

#endif
