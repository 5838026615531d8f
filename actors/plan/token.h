/* token.h - what each edge of a plan tells its reader, and when. Pure but for the plan that is made; the session's
 * thread. */
#ifndef RILLE_PLAN_TOKEN_H
#define RILLE_PLAN_TOKEN_H

#include "actors/plan/plan.h"

/* Sets the token of every in-port. */
void token_choose(struct plan *p);

#endif
