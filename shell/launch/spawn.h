/* spawn.h - starts worker processes on this host or by ssh, and prints their output. Main thread. */
#ifndef RILLE_SHELL_LAUNCH_SPAWN_H
#define RILLE_SHELL_LAUNCH_SPAWN_H

#include "rille.h"

struct host;

/* Worker processes of this program; each output line is prefixed with the rank. devices, key_file, host:
 * may be NULL. */
struct spawned {
    int rank;
    const char *address, *devices, *collectives, *key_file;
    const char *host;            /* host name that the worker reports; NULL: its real name */
    const char *root;            /* folders (A:B) below which the worker may read and write files; NULL: none */
    int keep;                    /* time for which the worker outlives this process, s; 0: it does not */
    double link, orphan;         /* limits as in struct rille_worker_options, s; 0: default */
    const struct host *over_ssh; /* host on which to start the worker; NULL: this host */
    const unsigned char *secret; /* secret of the job, RILLE_SECRET bytes */
};
int spawn_worker(const struct spawned *w, int *pid);
/* In a spawned worker: reads its secret and key from stdin. Unless `kept`, the worker exits a moment after stdin
 * ends. *key_file: path of the key, readable by this process alone; NULL: no key. join: the coordinator's address;
 * must stay valid. Returns NULL; else the text of an error. */
const char *spawned_read(unsigned char secret[RILLE_SECRET], const char **key_file, const char *join, bool kept);
void spawn_close(void); /* waits for the workers' last output lines */

#endif
