/* ranked.h - reads rank and coordinator's address from the environment of a launcher, such as torchrun. Main thread. */
#ifndef RILLE_SHELL_LAUNCH_RANKED_H
#define RILLE_SHELL_LAUNCH_RANKED_H

#include "shell/launch/front.h"

/* Reads the launcher's environment variables. Non-zero: the variables contradict each other; `why` says how. */
int ranked_read(struct ranked *r, char why[FRONT_TEXT]);

#endif
