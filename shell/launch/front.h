/* front.h - command-line subcommands for clusters: rille launch, coordinator, worker, keys, attach; and the
 * environment variables by which torchrun, srun, mpirun and Kubernetes tell a process its rank. Runs on the main
 * thread before there is a session, and owns the struct front. */
#ifndef RILLE_SHELL_FRONT_H
#define RILLE_SHELL_FRONT_H

#include "rille.h"
#include "shell/launch/attach.h"
#include "shell/launch/hosts.h"

#include <getopt.h>
#include <lua.h>
#include <sys/types.h>

enum { EXIT_USAGE = 2, EXIT_LOST = 3, FRONT_TEXT = 256, FRONT_CHILDREN = 256, KEY_PATH = 32 };

/* The rank of this process among the processes that a launcher started. */
struct ranked {
    const char *launcher; /* "Slurm"; NULL: no launcher */
    int rank, size;
    bool mpi;    /* true: the launcher can start MPI programs */
    bool spread; /* true: the processes are on several hosts */
    /* true: `address` is the address of torchrun's store, in which the coordinator's address is stored */
    bool store;
    char address[FRONT_TEXT]; /* address of rank 0, which is the coordinator */
    char job[FRONT_TEXT];     /* name of the job, such as "Slurm 4711.0"; "": the launcher does not name it */
};

struct front {
    bool on;              /* true: this process is a controller */
    bool attached;        /* true: this process is rille attach */
    struct attach attach; /* connection to the controller, if `attached` */
    struct rille_workers cluster;
    const char *devices;     /* devices of each started worker; NULL: default */
    const char *collectives; /* --collectives of the workers; NULL: default */
    struct ranked by;        /* rank and launcher of this process */
    int keep;                /* time for which started workers outlive this process, s */
    /* true: if a signal ends this controller, the controller does not dismiss the workers (BYE), so that kept
     * workers wait for the next controller */
    bool leaves;
    double link, orphan; /* --link and --orphan of started workers, s; 0: their defaults */
    char bind[FRONT_TEXT];
    /* paths of the key files that were created: the coordinator's, then by rank; NULL: none */
    char (*key)[KEY_PATH];
    struct hosts hosts; /* hosts on which to start workers; n 0: this host */
};

/* Removes the cluster subcommand and its options from the arguments. others: options of main.c, which stay in the
 * arguments. Returns -1 if the program must continue, as controller if f->on. Otherwise returns the exit code: the
 * subcommand is done (a worker ran to its end, a key was made), or a usage error was printed. */
int front_read(int *argc, char **argv, const struct option *others, struct front *f);
/* Fills in the session's options for a controller; `devices` is the argument of -d, or NULL. Non-zero: rille_error()
 * says what is wrong. */
int front_options(struct front *f, const char *devices, struct rille_options *options);
/* Ends the started workers by closing their stdin, waits for their last output, and frees the keys. Call it after the
 * session is closed, or if none was opened. */
void front_close(struct front *f);

/* Prints a usage error, in which %s of fmt is replaced by `what`. Returns the exit code. */
int front_usage(const char *fmt, const char *what);

#endif
