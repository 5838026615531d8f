/* schedules.h - the named schedules of pipelines. Static data; any thread. */
#ifndef RILLE_SESSION_SCHEDULES_H
#define RILLE_SESSION_SCHEDULES_H

#include "rille.h"

/* Schedules given as numbers of credits (stage.h): lookahead of each hop in micro-batches, and whether weight
 * gradients may wait. Any assignment of stages to devices works. Other schedules are searched (schedule_search.h). */
struct lag_schedule {
    const char *name;
    int32_t lag;
    bool split;
};
/* Returns the lag schedule that the options ask for: named, by numbers, or for a searched schedule that of its first
 * plan. E_ARG: unknown schedule; the error lists all names. */
int schedules_find(const struct rille_graph_options *o, struct lag_schedule *out);
/* Checks the schedule's name. E_ARG: unknown schedule; the error lists all names. */
int schedules_check(const struct rille_graph_options *o);

#endif
