/* token.h - on which stream of its device each task's work is; what each edge of a plan tells its reader, and when.
 *
 * Decided on the thread that makes the plan; read-only from then on. */
#ifndef RILLE_PLAN_TOKEN_H
#define RILLE_PLAN_TOKEN_H

#include "actors/plan/plan.h"

/* Sets the stream of every task and the token of every in-port of a plan in the making. */
void token_choose(struct plan *p);
/* Gives, by plan device, the roles of its tasks: 1 << enum stream_role. Any thread. */
void token_roles(const struct plan *p, uint8_t *roles);

#endif
