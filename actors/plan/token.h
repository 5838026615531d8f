/* token.h - what each edge of a plan tells its reader, and when. Changes nothing but the plan in the making; on the
 * thread that makes it. */
#ifndef RILLE_PLAN_TOKEN_H
#define RILLE_PLAN_TOKEN_H

#include "actors/plan/plan.h"

/* Sets the token of every in-port. */
void token_choose(struct plan *p);

#endif
