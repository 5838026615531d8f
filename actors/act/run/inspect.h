/* inspect.h - the states of actors, for reports. Session's thread, between runs. */
#ifndef RILLE_ACT_INSPECT_H
#define RILLE_ACT_INSPECT_H

#include "actors/act/run/actors.h"

/* inspect_begun returns how many acts an actor began in the last run; actors_print prints "done",
 * "ready", or what the actor waited for when the run ended. */
int32_t inspect_begun(const void *actors, int32_t task);
void actors_print(const struct actors *a, int32_t task, struct str *s);

/* Also for deadlock reports: return true if an input lacks full registers, an output a free one. actors:
 * struct actors. */
bool inspect_in(const void *actors, int32_t task, int32_t port);
bool inspect_out(const void *actors, int32_t task, int32_t out);
/* Returns a task that still reads the register the actor writes next; -1: none. */
int32_t inspect_reader(const void *actors, int32_t task, int32_t out);

#endif
