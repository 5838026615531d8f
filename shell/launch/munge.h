/* munge.h - passes the key of a job to its workers by MUNGE, in place of a key file. Main thread. */
#ifndef RILLE_SHELL_LAUNCH_MUNGE_H
#define RILLE_SHELL_LAUNCH_MUNGE_H

#include <stdbool.h>

/* munge_serve makes a key, and serves the key at the port until the program ends. munge_fetch fetches the key, and
 * waits for the coordinator at most wait_s seconds. key_file: "munge:" or "munge:PORT". *path: path of the key,
 * readable by this process alone; NULL if the address is no tcp address, because processes of one host need no key.
 * Another key_file: *path is key_file. Return exit codes, after printing the error. */
bool munge_is_named(const char *key_file);
int munge_serve(const char *key_file, const char *address, const char **path);
int munge_fetch(const char *key_file, const char *address, int wait_s, const char **path);

#endif
