/* machine.h - which host this is, and whether a process is one of ours. Any thread. */
#ifndef RILLE_CLUSTER_MACHINE_H
#define RILLE_CLUSTER_MACHINE_H

#include "runtime/str.h"

/* Equal for processes that can open each other's memory: one boot of one kernel, one user, one view of processes. */
void machine_text(struct str *out);
void machine_host(char out[64]); /* its name */
/* Is the process another one that runs this very program as this user? Only such a one is watched, and killed. */
bool machine_runs_us(int pid);

#endif
