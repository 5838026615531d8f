/* agent_store.h - reads and writes keys in the store of torchrun's agent. Main thread. */
#ifndef RILLE_SHELL_LAUNCH_AGENT_STORE_H
#define RILLE_SHELL_LAUNCH_AGENT_STORE_H

#include "shell/launch/front.h"

/* Stores the coordinator's address in torchrun's store. Non-zero: the error was printed. */
int agent_store_put(const struct ranked *r, const char *address);
/* Waits up to `seconds` for rank 0's address in the store. */
int agent_store_get(const struct ranked *r, int seconds, char address[FRONT_TEXT]);
/* Removes the address from the store. Otherwise a process could connect to the old coordinator after the same
 * agents have restarted the job. */
void agent_store_remove(const struct ranked *r);

#endif
