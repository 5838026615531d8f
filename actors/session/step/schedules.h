/* schedules.h - finds pipeline schedules by name. The data are static and may be read on any thread. */
#ifndef RILLE_SESSION_SCHEDULES_H
#define RILLE_SESSION_SCHEDULES_H

#include "rille.h"

/* A schedule defined by numbers of credits (stage.h): lookahead of each hop in micro-batches, and whether weight
 * gradients may be delayed. Stages may be assigned to devices in any way. A search finds all other schedules
 * (schedule_search.h). */
struct lag_schedule {
    const char *name;
    int32_t lag;
    bool split;
};
/* Returns the schedule that the options request by name or by numbers. If a search chooses the schedule later,
 * returns numbers for the first plan. E_ARG: unknown schedule; the text lists all names. */
int schedules_find(const struct rille_graph_options *o, struct lag_schedule *out);
/* Checks the name of the schedule in the options. E_ARG: unknown schedule; the error lists all names. */
int schedules_check(const struct rille_graph_options *o);

#endif
