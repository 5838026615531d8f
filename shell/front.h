/* front.h - the words of the command line that make a cluster: rille launch, coordinator, worker, keys, attach; and
 * the variables by which torchrun, srun, mpirun and Kubernetes tell a process that it is one of many. Main
 * thread, before there is a session; it owns the struct front. */
#ifndef RILLE_SHELL_FRONT_H
#define RILLE_SHELL_FRONT_H

#include "rille.h"
#include "shell/attach.h"
#include "shell/hosts.h"

#include <sys/types.h>

enum { EXIT_LOST = 3, FRONT_TEXT = 256, FRONT_CHILDREN = 256, KEY_PATH = 32 };

/* Where a process stands among those that a launcher started. */
struct ranked {
    const char *launcher; /* "Slurm"; NULL: it is alone */
    int rank, size;
    bool mpi;                 /* it starts programs of MPI */
    char address[FRONT_TEXT]; /* where the one of rank 0 is the coordinator */
};
/* Reads what the environment says. Non-zero: it contradicts itself, and `why` says how. */
int ranked_read(struct ranked *r, char why[FRONT_TEXT]);

struct front {
    bool on;              /* this process is a controller */
    bool attached;        /* it is a prompt on another one */
    struct attach attach; /* then: which */
    struct rille_workers cluster;
    const char *devices;     /* of each worker that it starts; NULL: as alone */
    const char *collectives; /* how they make them; NULL: they are not told */
    const char *found;       /* the launcher, for :doctor; NULL: none */
    int keep;                /* seconds for which workers that it starts outlive it */
    char bind[FRONT_TEXT];
    char (*key)[KEY_PATH]; /* that it made: the coordinator's, and by rank; NULL: none */
    struct hosts hosts;    /* where it starts workers; n 0: on this one */
};

/* Takes the cluster's word and options out of the arguments. -1: go on, as controller if f->on says so; else the exit
 * code: it has done all (run a worker to its end, made a key), or has told a usage error. */
int front_read(int *argc, char **argv, struct front *f);
/* Fills in the session's options for a controller; devices is what -d said, or NULL. Non-zero: rille_error() says what
 * is wrong. */
int front_options(struct front *f, const char *devices, struct rille_options *options);
/* After the session, or without one: leaves none of the processes that it started. */
void front_close(struct front *f);

/* spawn.c: processes of this program, whose lines begin with their rank. devices, key_file, host: may be NULL. */
struct spawned {
    int rank;
    const char *address, *devices, *collectives, *key_file;
    const char *host;            /* that it says it is on */
    const char *root;            /* folders in which it writes and reads files; NULL: none */
    int keep;                    /* seconds for which it outlives this process; 0: not */
    const struct host *over_ssh; /* where to start it; NULL: here */
    const unsigned char *secret; /* RILLE_SECRET bytes */
};
int spawn_worker(const struct spawned *w, int *pid);
/* In such a process: reads its secret and key from stdin, whose end is the worker's, a moment later, unless it is kept.
 * *key_file: where the key is, in this process alone; NULL: there is none. join: the address, which it keeps. Non-zero:
 * stdin has something else. */
int spawned_read(unsigned char secret[RILLE_SECRET], const char **key_file, const char *join, bool kept);
void spawn_close(void); /* waits for the last lines */

/* front_keys.c. Makes a key file that no folder has, and that only this process can open; an errno. */
int key_in_memory(const char *text, size_t n, char path[KEY_PATH]);
/* What rille keys does; exit codes. */
int keys_one(void);
int keys_folder(const char *folder, int workers);
/* Makes keys for the workers that a job has; 0, or it has told why not. */
int keys_of_job(struct front *f);
/* Which key file a worker gets; NULL: none. path: room for its name. */
const char *key_of_worker(const struct front *f, int rank, char path[FRONT_TEXT]);

#endif
