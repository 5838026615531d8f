/* front_keys.h - creates keys, in files or for the processes of one job. Main thread. */
#ifndef RILLE_SHELL_LAUNCH_FRONT_KEYS_H
#define RILLE_SHELL_LAUNCH_FRONT_KEYS_H

#include "shell/launch/front.h"

/* Creates a key file in memory, outside any folder, which only this process can open; returns 0 or
 * an errno. */
int key_in_memory(const char *text, size_t n, char path[KEY_PATH]);
/* Run the subcommand rille keys; return exit codes. */
int keys_one(void);
int keys_folder(const char *folder, int workers);
/* Creates keys for the workers of a job. Returns 0, or non-zero after printing the error. */
int keys_of_job(struct front *f);
/* Returns the path of a worker's key file; NULL: no key. path: buffer for the path. */
const char *key_of_worker(const struct front *f, int rank, char path[FRONT_TEXT]);

#endif
