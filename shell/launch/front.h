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
/* Reads the launcher's environment variables. Non-zero: the variables contradict each other; `why` says how. */
int ranked_read(struct ranked *r, char why[FRONT_TEXT]);

/* agent_store.c: stores the coordinator's address in torchrun's store. Non-zero: the error was printed. */
int agent_store_put(const struct ranked *r, const char *address);
/* Waits up to `seconds` for rank 0's address in the store. */
int agent_store_get(const struct ranked *r, int seconds, char address[FRONT_TEXT]);
/* Removes the address from the store. Otherwise a process could connect to the old coordinator after the same
 * agents have restarted the job. */
void agent_store_remove(const struct ranked *r);

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

/* front_workers.c. Reads an integer; non-zero: the text is no integer from least to most. */
int front_integer(const char *text, int least, int most, int *out);
/* Reads a number of workers, "4", or the smallest and the largest number of an elastic job, "2:4". Returns 0 or an
 * exit code, after printing the error. */
int front_workers(const char *option, const char *text, int most, struct rille_workers *w);
/* Reads the value of --restarts, N:SECONDS; NULL: not given. Returns 0 or an exit code. */
int front_restarts(const char *text, struct rille_workers *w);

/* spawn.c: worker processes of this program; each output line is prefixed with the rank. devices, key_file, host:
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
 * must stay valid. Non-zero: stdin is malformed, or a system call failed. */
int spawned_read(unsigned char secret[RILLE_SECRET], const char **key_file, const char *join, bool kept);
void spawn_close(void); /* waits for the workers' last output lines */

/* front_keys.c. Creates a key file in memory, outside any folder, which only this process can open; returns 0 or
 * an errno. */
int key_in_memory(const char *text, size_t n, char path[KEY_PATH]);
/* front_workers.c: reads a list of hosts, or the file at `path` if the list is NULL; non-zero after printing the error.
 */
int hosts_read(const char *list, const char *path, struct hosts *out);
/* munge.c: the key of a job. key_file "munge:" or "munge:PORT": the coordinator makes a key, and serves it at the port
 * until the program ends; a worker fetches the key, and waits for the coordinator at most wait_s seconds. *path: path
 * of the key, readable by this process alone; NULL if the address is no tcp address, because processes of one host need
 * no key. Another key_file: *path is key_file. Return exit codes, after printing the error. */
bool munge_is_named(const char *key_file);
int munge_serve(const char *key_file, const char *address, const char **path);
int munge_fetch(const char *key_file, const char *address, int wait_s, const char **path);
/* Run the subcommand rille keys; return exit codes. */
int keys_one(void);
int keys_folder(const char *folder, int workers);
/* Creates keys for the workers of a job. Returns 0, or non-zero after printing the error. */
int keys_of_job(struct front *f);
/* Returns the path of a worker's key file; NULL: no key. path: buffer for the path. */
const char *key_of_worker(const struct front *f, int rank, char path[FRONT_TEXT]);

/* ---- doctor.c ---- */

/* Prints the program's environment, as text or JSON; non-zero: writing to stdout failed. Main thread. */
int doctor_print(lua_State *L, bool json);

#endif
