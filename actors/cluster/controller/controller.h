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
/* Sets the exit code of the job, which the workers receive at its end; 0 if it is not set. */
void cluster_end_with(struct cluster *c, int code);
/* Ends the job: asks the workers to end, and kills the workers of this host that have not ended after 2 s. */
void cluster_close(struct cluster **c);

struct cluster_worker {
    int rank, pid, cores; /* cores: CPU cores that the worker may use */
    uint64_t bytes;
    char host[64], devices[256], state[16]; /* devices: text such as "cpu:2 cpu:3"; state: text (member_state_text) */
    double heartbeat;                       /* time since the last heartbeat arrived, s */
    int64_t acts;                           /* acts of the worker, over all runs */
    double silence, hang, link;             /* time limits of the controller (cluster_options), s */
    double own_link, own_orphan;            /* time limits of the worker (cluster_worker_options), s */
    /* busy: busy time of the worker's devices over all runs, s. slow: ratio of the worker's busy time to that of
     * other workers with as many acts; 0: not slow */
    double busy, slow;
};

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

#endif
