/* controller.h - a cluster as the session sees it: open it, run programs on it, learn of losses, recover.
 *
 * Two threads drive the coordinator (coordinator.h) under one lock. The cluster's own thread wakes at ticks of 100
 * ms, watches processes, and receives packets at any time. The session's thread receives packets itself while it
 * waits for a run, so that a run needs no switch of threads here. Only the session's thread calls these functions,
 * except for cluster_interrupt() and those marked "any thread".
 *
 * The devices of a host share one memory. The controller maps the memory of its own host, and the session reads and
 * writes values there in place. On other hosts the controller only assigns addresses, and messages read and write
 * the values (remote_access.h). */
#ifndef RILLE_CLUSTER_CONTROLLER_H
#define RILLE_CLUSTER_CONTROLLER_H

#include "actors/cluster/coordinator/coordinator.h"
#include "actors/cluster/wire/devices.h"
#include "actors/plan/model/program.h"
#include "runtime/file/shards.h"

struct cluster;

enum { TAKE_OVER_MS = 1500 }; /* longer than a worker's link takes to reconnect (link.c) */
struct cluster_options {
    int world;            /* number of workers */
    const char *bind;     /* "tcp://127.0.0.1:5555"; NULL: sockets in a private folder of the user */
    const char *key_file; /* NULL: none */
    const char *root;     /* folders in which workers write and read files, separated by ":"; NULL: none */
    const char *version;
    int threads; /* session constant that determines the team sizes of kernels */
    /* Starts the process of a rank, which joins the address; the secret reaches it only by a pipe. NULL: workers
     * come by themselves. Otherwise cluster_open starts the first `started` ranks, and cluster_recover restarts
     * those of them that are lost. */
    int (*start)(void *arg, int rank, const char *address, const unsigned char secret[CLUSTER_ID], int *pid);
    int started;
    const char *devices; /* devices of each started worker; NULL: unspecified */
    /* cluster_open first waits TAKE_OVER_MS for workers left by an earlier coordinator, then starts the missing
     * ones. E_PLACE: workers that were left have other devices. */
    bool takes_over;
    double silence_s;                         /* time without a heartbeat until a worker is lost, s; 0: 0.8 */
    const char *(*host)(void *arg, int rank); /* host of start(), for messages; NULL, or a NULL result: here */
    void (*say)(void *arg,
                const char *text); /* news for the user: workers not admitted, workers it waits for; may be NULL */
    void *arg;
};

/* Binds, starts workers, and waits until all have joined. E_ARG, E_BUS, E_IO, E_MEMORY, E_CANCEL; E_LOST: a worker
 * ended first. */
int cluster_open(const struct cluster_options *o, struct cluster **out);
/* Ends the job. Workers end too; processes on this host are killed after a grace period. */
void cluster_close(struct cluster **c);

/* Returns the device counts of the cluster, numbered through the workers. */
const struct device_counts *cluster_devices(const struct cluster *c);
/* Describes the GPU of a cuda device, as its worker reported it; appends the compiler of its kernels to `kernels`.
 * E_PLACE: no such device; E_LOST: its worker is lost. */
int cluster_gpu(struct cluster *c, int device, struct cuda_gpu *out, struct str *kernels);
/* Returns the map of a memory's partition. */
const struct plan_map *cluster_map(const struct cluster *c, int memory);
int cluster_memories(const struct cluster *c);
/* Returns the memory whose partition the session compiles: the memory of this host if workers are here. */
int cluster_home(const struct cluster *c);
/* Returns the memory of a device. */
int cluster_memory_of(const struct cluster *c, int kind, int device);
/* Returns the device's thread in the home memory, as plans number it; -1: on another host. */
int cluster_thread_of(const struct cluster *c, int kind, int device);
/* Writes the host name of a memory to `out`. */
void cluster_host(struct cluster *c, int memory, char out[64]);
/* Sets *out to the position (position.h) of an address in a pool of the device; POSITION_NONE: p is NULL. E_STATE: p
 * is outside the pool. */
int cluster_position(const struct cluster *c, int kind, int device, const void *p, uint64_t *out);
/* Describes the bytes of a device's pool. Messages read and write bytes of another host, from any thread: E_LOST. */
void cluster_source(struct cluster *c, int kind, int device, struct pool_source *out);

/* Fetches the digests (runtime/file/source.h) of n blocks in another host's memory. place: pairs of position and
 * bytes. Any thread. E_LOST. */
int cluster_digests(struct cluster *c, int memory, const uint64_t *place, int n, uint64_t *out);

struct cluster_worker {
    int rank, pid, cores; /* cores, bytes: of its host */
    uint64_t bytes;
    char host[64], devices[256], state[16]; /* devices: "cpu:2 cpu:3" */
    double heartbeat;                       /* seconds since the last one arrived */
    int64_t acts;                           /* over all runs */
    double busy, slow;                      /* seconds of all its devices; coordinator_slow() */
};
bool cluster_worker(struct cluster *c, int i, struct cluster_worker *out); /* i-th rank not retired; false: none */

/* A memory's partition of a program. arena: pairs of device (as in busy) and bytes. replaces: by root, enum
 * root_fate. */
struct cluster_part {
    const uint64_t *arena;
    int narena; /* numbers in arena */
    const unsigned char *replaces;
    int nreplace;
};

/* A run of a program, shipped first to workers without it; with START_SHIPS only the shipping. */
struct cluster_job {
    struct start start;
    void *arg;
    /* Called with the acts of a timed run, worker by worker. began: start of the run there, on the clock of the
     * acts. */
    void (*acts)(void *arg, int memory, int64_t began, const void *times, size_t n);
    void (*begun)(void *arg, int32_t root); /* called with roots that a failed run had begun to overwrite */
    void (*acted)(void *arg, int memory, int32_t task, int32_t acts); /* called with tasks begun in a failed run */
    void (*busy)(void *arg, int memory, uint64_t device,
                 uint64_t ns); /* called with busy times; device: kind << 32 | rank */
    /* Called with each partition of the program: when a worker reports it, or at once if START_SHIPS finds the
     * program there. */
    void (*have)(void *arg, int memory, const struct cluster_part *part);
    /* Out: the first failure. */
    int rank, node; /* -1: none */
    int64_t nact;
};
/* Runs a job. E_LOST: the cluster lost a member, see cluster_lost(). E_CANCEL: after cluster_interrupt(). Other
 * codes: the first failure. */
int cluster_run(struct cluster *c, struct cluster_job *job);
void cluster_interrupt(struct cluster *c); /* any thread, async-signal-safe */
void cluster_forget(struct cluster *c, uint64_t program);
/* Returns true if a run is in progress. Async-signal-safe. */
bool cluster_is_running(const struct cluster *c);
/* Sets *task to the task of the current run that a thread of this host is running; -1: none. Returns false if the
 * thread does not exist here. Signal handlers, or the session's thread. */
bool cluster_doing(const struct cluster *c, int thread, int32_t *task);

/* ---- files: every worker has its own ---- */

/* Returns true if workers may write and read this path, as realpath() returns it. */
bool cluster_has_root(const struct cluster *c, const char *path);
int cluster_world(const struct cluster *c);                 /* number of workers */
int cluster_owner(struct cluster *c, int kind, int device); /* rank that runs the device now; -1: none */
struct cluster_file {
    int rank;
    const char *path;
    /* Content of the file. place: pairs of position in the memory of the rank's host and bytes, in file order. Or
     * copy: positions in that memory of bytes of the file; then digest: of the file's blocks. */
    const uint64_t *place;
    const struct shard_copy *copy;
    const uint64_t *digest;
    int32_t n;          /* numbers in place, or copies */
    struct str digests; /* out: of the written blocks, u64 */
    int status;         /* private to files.c from here on */
    struct str why;
};
/* Requests all n files at once and waits. Any thread. E_LOST; E_IO: names the worker and its reason. interruptible
 * (session's thread only): E_CANCEL after cluster_interrupt(), once every worker has abandoned its unfinished files. */
int cluster_files(struct cluster *c, int n, struct cluster_file *file, bool interruptible);
void cluster_file_free(struct cluster_file *f);

struct cluster_loss {
    int rank, pid;
    char host[64], how[256];
    uint32_t run; /* run in progress at the loss; 0: none */
    int32_t task; /* task of that run's plan, in progress at the loss; -1: unknown */
    bool again;   /* a replacement may come: the lost worker joined before this epoch, or was not started by start() */
};
/* Returns the i-th member lost in this epoch, in order; false: no more. */
bool cluster_lost(struct cluster *c, int i, struct cluster_loss *out);
/* Returns true if the epoch is formed: every rank has joined, and none is lost since. */
bool cluster_stands(struct cluster *c);
/* Begins the next epoch: replaces the lost workers, or continues with `workers` members (0: as many as before).
 * After an interrupt it continues the epoch already begun. E_LOST: a further loss meanwhile. */
int cluster_recover(struct cluster *c, int workers);

#endif
