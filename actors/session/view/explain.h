/* explain.h - describes a program's operators and moves. The caller owns the result. Used only on the session's
 * thread. */
#ifndef RILLE_SESSION_EXPLAIN_H
#define RILLE_SESSION_EXPLAIN_H

#include "rille.h"

struct program;
struct assigned;
struct origin;
/* Describes a program. planned: result of the planner, with regrets; NULL: no planner was used. origin: source of
 * each leaf, for a planned step. */
int explain_program(struct rille_session *s, const struct program *p, struct assigned *planned,
                    const struct origin *origin, struct rille_explain **out);

#endif
