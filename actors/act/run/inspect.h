/* inspect.h - the states of actors, for reports. Called on the session's thread, between runs. */
#ifndef RILLE_ACT_INSPECT_H
#define RILLE_ACT_INSPECT_H

#include "actors/act/run/actors.h"

/* inspect_begun returns the number of acts that an actor began in the last run. actors_print prints "done", "ready",
 * or the tasks for which the actor waited when the run ended. */
int32_t inspect_begun(const void *actors, int32_t task);
void actors_print(const struct actors *a, int32_t task, struct str *s);

/* inspect_in returns true if an input lacks full registers; inspect_out returns true if an output lacks a free
 * register. `actors` is a struct actors; the parameter is untyped because the reports of deadlocks call these
 * functions, too. */
bool inspect_in(const void *actors, int32_t task, int32_t port);
bool inspect_out(const void *actors, int32_t task, int32_t out);
/* Returns a task that still reads the register that the actor writes next; -1: there is none. */
int32_t inspect_reader(const void *actors, int32_t task, int32_t out);

#endif
