/* fit.h - from a traced program to a plan that fits: laid out, its schedule searched for, within a limit of bytes, and
 * with so much computed again as is fastest in what memory there is. On the session thread. */
#ifndef RILLE_SESSION_FIT_H
#define RILLE_SESSION_FIT_H

#include "actors/session/compiled.h"

/* A program as it was traced, made anew each time: the plan takes it over. */
struct fit_source {
    struct program *(*program)(void *arg);
    void *arg;
};
/* Makes the plan of g. E_MEMORY: nothing fits; what the least would be, and how idle. */
int fit_plan(struct rille_graph *g, const struct rille_graph_options *o, const struct fit_source *from,
             struct plan **out);

#endif
