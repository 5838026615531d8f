/* controller.h - a cluster as the session sees it: open it, run programs on it, hear of losses, recover.
 *
 * Two threads drive the coordinator (coordinator.h) under one lock: one of the cluster's own, which lives by ticks of
 * 100 ms, watches processes and takes what comes at any time; and the session's, which takes it by itself while it
 * waits for a run, so that a run costs no change of threads here. Only the session's thread calls these functions, but
 * for cluster_interrupt().
 *
 * The devices of a host lie in one memory. The controller maps that of its own host, and the session too reads and
 * writes values there in place; of another host's the controller says what lies where, and messages read and write its
 * values (reach.h). */
#ifndef RILLE_CLUSTER_CONTROLLER_H
#define RILLE_CLUSTER_CONTROLLER_H

#include "actors/cluster/coordinator.h"
#include "actors/cluster/devices.h"
#include "actors/plan/program.h"
#include "runtime/file/shards.h"

struct cluster;

enum { TAKE_OVER_MS = 1500 }; /* longer than a worker's link takes to try again (link.c) */
struct cluster_options {
    int world;            /* workers */
    const char *bind;     /* "tcp://127.0.0.1:5555"; NULL: sockets in a folder of the user's own */
    const char *key_file; /* NULL: none */
    const char *root;     /* folders, with ":" between them, in which workers write and read files; NULL: none */
    const char *version;
    int threads; /* session constant that team sizes of kernels follow from */
    /* Starts the process of a rank, which joins the address; the secret reaches it by a pipe alone. NULL in start:
     * workers come by themselves; else cluster_open starts the first `started` ranks, and cluster_recover those of them
     * that are lost. */
    int (*start)(void *arg, int rank, const char *address, const unsigned char secret[CLUSTER_ID], int *pid);
    int started;
    const char *devices; /* of each that is started; NULL: nobody says */
    /* cluster_open waits TAKE_OVER_MS for workers that an earlier coordinator has left, before that; E_PLACE: they have
     * other devices. */
    bool takes_over;
    const char *(*host)(void *arg, int rank); /* where start() starts it, for messages; NULL, or its answer: here */
    void (*say)(void *arg,
                const char *text); /* news for the user: whom it did not let in, for whom it waits; may be NULL */
    void *arg;
};

/* Binds, starts workers, waits until all are there. E_ARG, E_BUS, E_IO, E_MEMORY, E_CANCEL; E_LOST: one ended first. */
int cluster_open(const struct cluster_options *o, struct cluster **out);
/* Ends the job with this exit status; workers end too, at the latest when the time is up that it gives them. */
void cluster_close(struct cluster **c, int status);

/* All devices, counted through the workers. */
const struct device_counts *cluster_devices(const struct cluster *c);
/* The GPU of a device of kind cuda, as its worker tells of it; kernels: adds who compiles for it. E_PLACE: there is no
 * such device; E_LOST. */
int cluster_gpu(struct cluster *c, int device, struct cuda_gpu *out, struct str *kernels);
/* The map of a memory's part. */
const struct plan_map *cluster_map(const struct cluster *c, int memory);
int cluster_memories(const struct cluster *c);
/* Whose part the session itself makes: its own host's where that has workers. */
int cluster_home(const struct cluster *c);
/* The memory of a device. */
int cluster_memory_of(const struct cluster *c, int kind, int device);
/* Its thread among those of the home memory, as in plans; -1: it is on another host. */
int cluster_thread_of(const struct cluster *c, int kind, int device);
/* The name of its host. */
void cluster_host(struct cluster *c, int memory, char out[64]);
/* Says where bytes of a pool of the device lie in its memory (position.h); POSITION_NONE: p is NULL. E_STATE: p is none
 * of its bytes. */
int cluster_position(const struct cluster *c, int kind, int device, const void *p, uint64_t *out);
/* Says where a pool of the device has its bytes. Messages read and write those of another host, from any thread:
 * E_LOST. */
void cluster_source(struct cluster *c, int kind, int device, struct pool_source *out);

/* Asks for the digests (runtime/file/source.h) of n blocks of another host's memory; place: where each begins, its
 * bytes. Any thread. E_LOST. */
int cluster_digests(struct cluster *c, int memory, const uint64_t *place, int n, uint64_t *out);

struct cluster_worker {
    int rank, pid, cores; /* cores, bytes: of its host */
    uint64_t bytes;
    char host[64], devices[256], state[16]; /* devices: "cpu:2 cpu:3" */
    double heartbeat;                       /* seconds since the last one */
    int64_t acts;                           /* in all runs */
    double busy, slow;                      /* seconds, of all its devices; coordinator_slow() */
};
bool cluster_worker(struct cluster *c, int i, struct cluster_worker *out); /* the i-th that is or was a member */

/* A memory's part of a program: where it needs arenas (device as in busy, bytes), and what becomes of roots there. */
struct cluster_part {
    const uint64_t *arena;
    int narena; /* numbers */
    const unsigned char *replaces;
    int nreplace;
};

/* A run of a program, which ships it first to who lacks it; or (START_SHIPS) the shipping alone. */
struct cluster_job {
    struct start start;
    void *arg;
    /* Of a timed run: what came, worker by worker. began: when it did there, on the clock of the times. */
    void (*acts)(void *arg, int memory, int64_t began, const void *times, size_t n);
    void (*begun)(void *arg, int32_t root); /* of a failed one: roots that it had begun to write over */
    void (*acted)(void *arg, int memory, int32_t task, int32_t acts); /* and what of a part had begun */
    void (*busy)(void *arg, int memory, uint64_t device,
                 uint64_t ns); /* how long devices had work; device: kind << 32 | rank */
    /* Of a program that was shipped now: what a worker made of it. */
    void (*have)(void *arg, int memory, const struct cluster_part *part);
    /* Out: of a failure. */
    int rank, node; /* -1 */
    int64_t nact;
};
/* E_LOST: the cluster lost a member, cluster_lost() tells. Other codes: the first failure. E_CANCEL after
 * cluster_interrupt(). */
int cluster_run(struct cluster *c, struct cluster_job *job);
void cluster_interrupt(struct cluster *c); /* any thread, async-signal-safe */
void cluster_forget(struct cluster *c, uint64_t program);
/* Is a run in progress? Async-signal-safe. */
bool cluster_is_running(const struct cluster *c);
/* Says at which task of the run in progress a thread of this host is, -1: none; false: there is no such thread here. In
 * a signal handler, or on the session's thread. */
bool cluster_doing(const struct cluster *c, int thread, int32_t *task);

/* ---- files: what workers write and read, each its own ---- */

/* Is the path, as realpath() says it, one that workers write and read? */
bool cluster_has_root(const struct cluster *c, const char *path);
int cluster_world(const struct cluster *c);                       /* workers */
int cluster_owner(struct cluster *c, int kind, int device);       /* the rank that runs it now; -1: nobody */
enum { CLUSTER_COPIES = WIRE_PIECE / sizeof(struct shard_copy) }; /* of one wish */
struct cluster_file {
    int rank;
    const char *path;
    /* What the file holds, one behind the other: position in the memory of the rank's host, bytes; or (copy) what of it
     * belongs where in that memory, and the digests of its blocks. */
    const uint64_t *place;
    const struct shard_copy *copy;
    const uint64_t *digest;
    int32_t n;          /* numbers of place; copies */
    struct str digests; /* out: of what was written, u64 */
    bool done;          /* the rest is files.c's */
    int status;
    struct str why;
};
/* Asks for all of them at once, and waits. Any thread. E_LOST; E_IO: which worker could not, and why. interruptible
 * (the session's thread alone): E_CANCEL after cluster_interrupt(), when every worker has given up what it had not
 * done. */
int cluster_files(struct cluster *c, int n, struct cluster_file *file, bool interruptible);
void cluster_file_free(struct cluster_file *f);

struct cluster_loss {
    int rank, pid;
    char host[64], how[256];
    uint32_t run; /* in which it ran, 0: none */
    int32_t task; /* of that run's plan, which it was at; -1 */
    bool again;   /* another one may be waited for: it was there before the epoch was begun, or comes by itself */
};
/* Gives the members lost in this epoch, in order; false: no more. */
bool cluster_lost(struct cluster *c, int i, struct cluster_loss *out);
/* Does the epoch stand? Not before all are there, nor after a loss. */
bool cluster_stands(struct cluster *c);
/* Begins the next epoch: replaces what was lost, or goes on with so many workers (0: as many as there were). After an
 * interrupt it goes on with the one that was begun. E_LOST: somebody is lost meanwhile. */
int cluster_recover(struct cluster *c, int workers);

#endif
