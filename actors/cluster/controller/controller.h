/* controller.h - a cluster as the session sees it: open a cluster, run programs, learn of losses, recover.
 *
 * Two threads drive the coordinator (coordinator.h) under one lock. The cluster's own thread wakes at ticks of 100
 * ms, watches processes, and receives packets at any time. The session's thread receives packets itself while it
 * waits for a run, so a run needs no switch of threads in the controller. Only the session's thread calls these
 * functions, except for cluster_interrupt() and the functions marked "any thread".
 *
 * The devices of a host share one memory. The controller maps the memory of its own host, and the session reads and
 * writes values there in place. On other hosts the controller only assigns addresses; values there are read and
 * written by messages (remote_access.h). */
#ifndef RILLE_CLUSTER_CONTROLLER_H
#define RILLE_CLUSTER_CONTROLLER_H

#include "actors/cluster/coordinator/coordinator.h"
#include "actors/cluster/memory/kept.h"
#include "actors/cluster/wire/devices.h"
#include "actors/plan/model/program.h"
#include "runtime/file/shards.h"

struct cluster;

/* time to wait for workers that an earlier controller left, ms; longer than a link takes to reconnect (link.c) */
enum { TAKE_OVER_MS = 1500, RESTARTS_MOST = 63 };
struct cluster_options {
    int world;        /* number of workers of the job; of an elastic job, the largest */
    int least;        /* smallest number of workers of an elastic job; 0: the job is not elastic */
    const char *bind; /* address to bind, "tcp://127.0.0.1:5555"; NULL: ipc sockets in a private folder of the user */
    const char *key_file; /* path of the key file; NULL: no key */
    const char *job;      /* text that names the job; NULL: no name */
    const char *root;     /* folders in which workers write and read files, separated by ":"; NULL: none */
    const char *version;
    int threads; /* device threads of the job; sets the size of kernels' thread teams; constant in a session */
    /* Starts the process of a rank; the process joins the cluster at `address`. The secret must be passed to the
     * process through a pipe, so that no other user can read it. cluster_open starts the first `started` ranks, and
     * cluster_recover restarts lost workers of these ranks. NULL: other programs start all workers. */
    int (*start)(void *arg, int rank, const char *address, const unsigned char secret[CLUSTER_ID], int *pid);
    int started;
    const char *devices; /* devices that each started worker must have; NULL: not specified */
    /* If true, cluster_open waits TAKE_OVER_MS for workers that an earlier coordinator left, then starts the missing
     * workers. E_PLACE: a worker that was left has other devices than `devices`. */
    bool takes_over;
    /* cluster_recover() fails if more than `restarts` workers were lost within restarts_s seconds; restarts_s 0: no
     * limit. restarts: at most RESTARTS_MOST */
    int restarts;
    double restarts_s;
    /* time limit for a packet that a heartbeat reported as sent and that has not arrived, s; 0: 3 s */
    double link_s;
    double silence_s; /* time without a heartbeat after which a worker is lost, s; 0: 0.8 s */
    /* time limit for the progress of workers that owe an answer, s: if none of them progresses, one is declared
     * lost; 0: 600 s */
    double hang_s;
    /* returns the name of the host on which start() starts the rank, for messages. NULL, or a result of NULL: this
     * host */
    const char *(*host)(void *arg, int rank);
    void (*say)(void *arg,
                /* receives messages for the user about workers that are rejected, slow or awaited; NULL: messages
                 * are dropped */
                const char *text);
    void *arg;
};

/* Binds the sockets, starts workers, and waits until all workers have joined. E_ARG, E_BUS, E_IO, E_MEMORY,
 * E_CANCEL; E_LOST: a worker ended before all had joined. */
int cluster_open(const struct cluster_options *o, struct cluster **out);
/* Sets the signals (bits 1 << number) that the program handles if a worker receives them. */
void cluster_hear(struct cluster *c, uint64_t signals);
/* Returns the first signal set by cluster_hear() that a worker received; 0: none. Sets *rank to the worker that
 * received it. */
int cluster_heard(struct cluster *c, int *rank);
/* Ends the job: asks the workers to end, and kills the workers of this host that have not ended after 2 s. */
void cluster_close(struct cluster **c);

/* Returns the number of devices of each kind in the cluster. Device numbers continue from worker to worker. */
const struct device_counts *cluster_devices(const struct cluster *c);
/* Describes the GPU of a cuda device in *out, as the device's worker reported it. Appends the description of the
 * worker's kernel compiler to `kernels`. E_PLACE: no such device; E_LOST: the device's worker is lost. */
int cluster_gpu(struct cluster *c, int device, struct cuda_gpu *out, struct str *kernels);
/* Returns the map of devices and slots (device threads) from which a host's plan partition is compiled. memory:
 * number of the host's memory. */
const struct plan_map *cluster_map(const struct cluster *c, int memory);
int cluster_memories(const struct cluster *c);
/* Returns the memory (one per host) for which the session compiles its plan partition: that of this host if it has
 * workers, else memory 0. */
int cluster_home(const struct cluster *c);
/* Returns the number of the memory (one per host) that holds the values of a device. */
int cluster_memory_of(const struct cluster *c, int kind, int device);
/* Returns the number of the device's thread in plans of this host (cluster_home); -1: the device is on another
 * host. */
int cluster_thread_of(const struct cluster *c, int kind, int device);
/* Writes the name of a memory's host to `out`. */
void cluster_host(struct cluster *c, int memory, char out[64]);
/* Sets *out to the position (position.h) of address p in the device's pool; to POSITION_NONE if p is NULL. E_STATE:
 * p is outside the pool. */
int cluster_position(const struct cluster *c, int kind, int device, const void *p, uint64_t *out);
/* Fills *out with functions that allocate, read and write the bytes of a device's pool. For a device of another
 * host, these functions send messages; they may be called on any thread, and fail with E_LOST if a worker is lost. */
void cluster_source(struct cluster *c, int kind, int device, struct pool_source *out);

/* Fetches the digests (runtime/file/disk/source.h) of n blocks in another host's memory. place: for each block, a pair
 * of its position and its size in bytes. Any thread. E_LOST. */
int cluster_digests(struct cluster *c, int memory, const uint64_t *place, int n, uint64_t *out);

struct cluster_worker {
    int rank, pid, cores; /* cores: CPU cores that the worker may use */
    uint64_t bytes;
    char host[64], devices[256], state[16]; /* devices: text such as "cpu:2 cpu:3"; state: text (member_state_text) */
    double heartbeat;                       /* time since the last heartbeat arrived, s */
    int64_t acts;                           /* acts of the worker, over all runs */
    /* busy: busy time of the worker's devices over all runs, s. slow: ratio of the worker's busy time to that of
     * other workers with as many acts; 0: not slow */
    double busy, slow;
};
/* describes the i-th worker, without retired ranks; false: there are not so many workers */
bool cluster_worker(struct cluster *c, int i, struct cluster_worker *out);

/* Appends the phase, the numbers of epoch and run, and for each worker a line with its state, the time without
 * progress and the act that it runs. May be called on any thread, also during a run. */
void cluster_status(struct cluster *c, struct str *out);

/* Returns in *losses the number of workers lost so far, and in *recoveries the number of recoveries. May be called
 * on any thread, also during a run. */
void cluster_totals(struct cluster *c, int64_t *losses, int64_t *recoveries);

/* The plan partition of a program for one memory (host), as compiled. arena: pairs of a device's number (as in
 * `busy`) and the bytes of its arena. replaces: for each root (output shard), how it is stored: enum root_fate. */
struct cluster_part {
    const uint64_t *arena;
    int narena; /* number of entries in `arena`, two per device */
    const unsigned char *replaces;
    int nreplace;
};

/* A run of a program. Workers that lack the program receive it first. With the flag START_SHIPS, they only receive
 * it, and it is not run. */
struct cluster_job {
    struct start start;
    void *arg;
    /* Called for each worker with the act times of a timed run. began: start time of the run in the worker, ns, on
     * the clock of the act times. */
    void (*acts)(void *arg, int memory, int64_t began, const void *times, size_t n);
    /* called with each root (output shard) that a failed run had begun to overwrite */
    void (*begun)(void *arg, int32_t root);
    /* called with each task that acted in a failed run, and its number of acts */
    void (*acted)(void *arg, int memory, int32_t task, int32_t acts);
    void (*busy)(void *arg, int memory, uint64_t device,
                 uint64_t ns); /* called with the busy time of each device, ns; device: kind << 32 | rank */
    /* Appends the name of a node's operator; name = false: appends its source line, " (train.lua:14)". Any thread */
    void (*node_text)(void *arg, int32_t node, bool name, struct str *out);
    /* Called with each plan partition of the program, when a worker reports that the partition is compiled. With
     * START_SHIPS, it is also called if all workers have the program already. */
    void (*have)(void *arg, int memory, const struct cluster_part *part);
    /* Results: the first failure of the run. */
    int rank, node; /* rank: worker that failed; node: program node whose act failed; -1: none */
    int64_t nact;
};
/* Runs a job. E_LOST: a member was lost, see cluster_lost(). E_CANCEL: cluster_interrupt() was called. Any other
 * code is that of the first failure. */
int cluster_run(struct cluster *c, struct cluster_job *job);
/* interrupts any wait of the session's thread in these functions; any thread, async-signal-safe */
void cluster_interrupt(struct cluster *c);
void cluster_forget(struct cluster *c, uint64_t program);
/* Returns true if a run is in progress. Async-signal-safe. */
bool cluster_is_running(const struct cluster *c);
/* Sets *task to the task that a thread of this host computes in the current run; -1: none. Returns false if the
 * thread is on another host. Called in signal handlers, or on the session's thread. */
bool cluster_doing(const struct cluster *c, int thread, int32_t *task);

/* ---- files: let workers write bytes of their memory, and read them back ---- */

/* Returns true if workers may write and read this path, which must be a result of realpath(). */
bool cluster_has_root(const struct cluster *c, const char *path);
int cluster_world(const struct cluster *c); /* returns the largest number of workers of the job */
/* returns the rank that runs the device at present; -1: none */
int cluster_owner(struct cluster *c, int kind, int device);
struct cluster_file {
    int rank;
    const char *path;
    /* To write a file: `place` holds a pair for each range of bytes, in the order of the file: the range's position
     * in the memory of the rank's host, and its length. To read a file: `copy` lists the copies from the file to
     * positions of that memory, and `digest` holds the digests of the file's blocks. */
    const uint64_t *place;
    const struct shard_copy *copy;
    const uint64_t *digest;
    int32_t n;          /* number of entries in `place`, two per range; or in `copy` */
    struct str digests; /* result: digests of the written blocks, uint64_t each */
    int status;         /* from here on: fields that only files.c uses */
    struct str why;
};
/* Requests all n files at once and waits for the outcomes. Any thread. E_LOST; E_IO: the error text names the worker
 * and the reason. interruptible (session's thread only): after cluster_interrupt() the call waits until every worker
 * has abandoned its unfinished files, then fails with E_CANCEL. */
int cluster_files(struct cluster *c, int n, struct cluster_file *file, bool interruptible);
void cluster_file_free(struct cluster_file *f);

/* ---- snapshots that outlive the controller (memory/kept.h); session's thread ---- */

/* Returns true if a worker of the job outlives the controller, so that the next controller can find snapshots. */
bool cluster_keeps(struct cluster *c);
/* Returns true if a present worker has served an earlier controller. */
bool cluster_took_over(struct cluster *c);
/* Stores the description of a snapshot in the memory of each host. range: by memory, the bytes that the snapshot needs
 * there. number: larger than that of the snapshot before, whose bytes may be freed after this call. E_LOST, E_MEMORY.
 */
struct kept_ranges {
    struct kept_range *range;
    int n, capacity;
};
int cluster_keep(struct cluster *c, uint64_t number, const struct kept_ranges *ranges, const struct str *text);
/* Finds the latest snapshot that workers keep from an earlier controller, and makes them free other memory of that
 * controller. Sets *number to its number and *text to its text; *number 0: there is none. Later snapshots need larger
 * numbers. E_LOST. */
int cluster_kept(struct cluster *c, uint64_t *number, struct str *text);
/* Reads bytes of that snapshot. memory: number of the host's memory in the job that took it. E_LOST: no worker keeps
 * this memory. */
int cluster_kept_read(struct cluster *c, int memory, uint64_t at, void *to, size_t bytes);
/* Makes the workers free the snapshots of earlier controllers. E_LOST. */
int cluster_kept_drop(struct cluster *c);

struct cluster_loss {
    int rank, pid;
    char host[64], how[256];
    uint32_t run; /* number of the run that was in progress when the worker was lost; 0: none */
    int32_t task; /* index of the task that the worker was running; -1: not known */
    int32_t node; /* program node of the act that a hung worker was running; -1: not known */
    /* true if a recovery may succeed: the lost worker had joined before this epoch, this process had not started it by
     * start(), or the job is elastic */
    bool again;
};
/* Describes the i-th member lost in this epoch, in the order of losses; false: fewer members were lost. */
bool cluster_lost(struct cluster *c, int i, struct cluster_loss *out);
/* Returns true if the epoch is formed and has lost no member. */
bool cluster_stands(struct cluster *c);
/* Begins the next epoch: replaces the lost workers, or continues with `workers` members (0: as many as before; in an
 * elastic job all who are present or wait, but at least the smallest number). E_STATE: too many losses.
 * After an interrupted call, continues the epoch that the interrupted call had begun. E_LOST: a further member was
 * lost meanwhile. */
int cluster_recover(struct cluster *c, int workers);
/* Returns true if the job is elastic, and cluster_grow() would admit workers that wait for a rank. */
bool cluster_can_grow(struct cluster *c);
/* Begins the next epoch if cluster_can_grow(), and sets *grew to true. Requests about files must have ended. E_LOST: a
 * member was lost meanwhile. */
int cluster_grow(struct cluster *c, bool *grew);
/* Returns the version of the tables that assign devices to memories and threads. It changes with the tables. Plans
 * made for another version are invalid. */
uint32_t cluster_table(const struct cluster *c);
/* Returns true if the worker that originally had the device is present. Otherwise another worker runs the device. */
bool cluster_is_present(struct cluster *c, int kind, int device);

#endif
