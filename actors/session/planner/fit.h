/* fit.h - makes a plan of a traced program that fits into a memory limit: chooses layouts, searches for a
 * schedule, and chooses how much to recompute so that the step is fastest. Used only on the session's thread. */
#ifndef RILLE_SESSION_FIT_H
#define RILLE_SESSION_FIT_H

#include "actors/session/step/compiled.h"

/* Makes a new copy of the traced program at each call. The plan owns the copy. */
struct fit_source {
    struct program *(*program)(void *arg);
    void *arg;
};
/* Makes the plan of step g. E_MEMORY: no plan fits; the text reports the least memory found and, for a searched
 * schedule, the idle share. */
int fit_plan(struct rille_graph *g, const struct rille_graph_options *o, const struct fit_source *from,
             struct plan **out);

#endif
