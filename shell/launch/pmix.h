/* pmix.h - asks a launcher's PMIx server for the number of processes. Main thread. */
#ifndef RILLE_SHELL_LAUNCH_PMIX_H
#define RILLE_SHELL_LAUNCH_PMIX_H

#include "shell/launch/front.h"

/* Sets the number of processes of the job, and of those on this host. Non-zero: `why` says what is wrong. Later calls
 * return the answer of the first one. */
int pmix_sizes(int *size, int *local, char why[FRONT_TEXT]);

#endif
