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

enum { EXIT_LOST = 3, FRONT_TEXT = 256, FRONT_CHILDREN = 256, KEY_PATH = 32 };

/* The rank of this process among those that a launcher started. */
struct ranked {
    const char *launcher; /* "Slurm"; NULL: no launcher */
    int rank, size;
    bool mpi;                 /* the launcher can start MPI programs */
    bool spread;              /* the processes are on several hosts */
    bool store;               /* `address` is that of torchrun's store, which receives the coordinator's address */
    char address[FRONT_TEXT]; /* address of rank 0, the coordinator */
    char job[FRONT_TEXT];     /* name of the job, such as "Slurm 4711.0"; "": the launcher does not name it */
};
/* Reads the launcher's environment variables. Non-zero: they contradict each other; `why` says how. */
int ranked_read(struct ranked *r, char why[FRONT_TEXT]);

/* agent_store.c: the coordinator's address in torchrun's store. Non-zero: the error was printed. */
int agent_store_put(const struct ranked *r, const char *address);
/* Waits for the address. */
int agent_store_get(const struct ranked *r, int seconds, char address[FRONT_TEXT]);
/* Removes the address, so that no process of a later round of the same agents joins at it. */
void agent_store_remove(const struct ranked *r);

struct front {
    bool on;              /* this process is a controller */
    bool attached;        /* this process is rille attach */
    struct attach attach; /* connection to the controller, if attached */
    struct rille_workers cluster;
    const char *devices;     /* devices of each started worker; NULL: default */
    const char *collectives; /* --collectives of the workers; NULL: default */
    struct ranked by;        /* launcher of this process */
    int keep;                /* time that started workers outlive this process, s */
    bool leaves;             /* a signal ends the controller without BYE, so that kept workers wait for the next one */
    double link, orphan;     /* --link and --orphan of started workers, s; 0: their defaults */
    char bind[FRONT_TEXT];
    char (*key)[KEY_PATH]; /* paths of created key files: coordinator's, then by rank; NULL: none */
    struct hosts hosts;    /* hosts on which to start workers; n 0: this host */
};

/* Removes the cluster subcommand and its options from the arguments. others: options of main.c, which stay. Returns -1
 * to continue, as controller if f->on; else the exit code: the subcommand is done (a worker ran to its end, a key was
 * made), or a usage error was printed. */
int front_read(int *argc, char **argv, const struct option *others, struct front *f);
/* Fills in the session's options for a controller; `devices` is the argument of -d, or NULL. Non-zero: rille_error()
 * says what is wrong. */
int front_options(struct front *f, const char *devices, struct rille_options *options);
/* Ends the started workers by closing their stdin, waits for their last output, and frees the keys. Call it after the
 * session is closed, or if none was opened. */
void front_close(struct front *f);

/* spawn.c: worker processes of this program; each output line is prefixed with the rank. devices, key_file, host:
 * may be NULL. */
struct spawned {
    int rank;
    const char *address, *devices, *collectives, *key_file;
    const char *host;            /* host name that the worker reports */
    const char *root;            /* folders that the worker may read and write; NULL: none */
    int keep;                    /* seconds that the worker outlives this process; 0: none */
    double link, orphan;         /* limits as in struct rille_worker_options, s; 0: default */
    const struct host *over_ssh; /* host on which to start the worker; NULL: this host */
    const unsigned char *secret; /* secret of the job, RILLE_SECRET bytes */
};
int spawn_worker(const struct spawned *w, int *pid);
/* In a spawned worker: reads its secret and key from stdin. Unless `kept`, the worker exits a moment after stdin
 * ends. *key_file: path of the key, readable by this process alone; NULL: no key. join: the coordinator's address;
 * must stay valid. Non-zero: stdin is malformed, or a system call failed. */
int spawned_read(unsigned char secret[RILLE_SECRET], const char **key_file, const char *join, bool kept);
void spawn_close(void); /* waits for the workers' last output lines */

/* front_keys.c. Creates a key file outside any folder, which only this process can open; returns an errno. */
int key_in_memory(const char *text, size_t n, char path[KEY_PATH]);
/* Run rille keys; return exit codes. */
int keys_one(void);
int keys_folder(const char *folder, int workers);
/* Creates keys for the workers of a job. Returns 0, or non-zero after printing the error. */
int keys_of_job(struct front *f);
/* Returns the key file of a worker; NULL: none. path: buffer for its name. */
const char *key_of_worker(const struct front *f, int rank, char path[FRONT_TEXT]);

/* ---- doctor.c ---- */

/* Prints the program's environment, as text or JSON; non-zero: writing to stdout failed. Main thread. */
int doctor_print(lua_State *L, bool json);

#endif
