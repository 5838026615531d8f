/* controller_inner.h - the controller's state by subject, and functions of controller.c for the other files of this
 * folder. Two threads use the state under one lock. */
#ifndef RILLE_CLUSTER_CONTROLLER_INNER_H
#define RILLE_CLUSTER_CONTROLLER_INNER_H

#include "actors/cluster/controller/controller.h"
#include "actors/cluster/coordinator/loss_times.h"
#include "actors/cluster/wire/link.h"
#include "actors/cluster/controller/remote_access.h"
#include "actors/cluster/memory/segment.h"
#include "runtime/file/disk/root.h"
#include "runtime/base/system.h"

#include <pthread.h>
#include <stdatomic.h>

enum { LOSSES = 64 };

/* The threads that sleep until an event: the cluster's own thread, and the session's thread. */
enum cluster_sleeper { SLEEPS_CLUSTER, SLEEPS_SESSION, NSLEEPS };

struct process {                /* the process of a rank */
    int pid;                    /* pid of the process; 0: unknown */
    struct system_process ends; /* handle to learn of the process's end; pid 0: not watched */
    bool child;
    int beat_peer; /* number of the link on which the process's heartbeats arrive; -1: none yet */
    int64_t heard_ns;
};

struct memory_heap {
    struct memory *of;
    /* this host's shared memory; for another host, the controller's list of allocations there */
    struct segment *segment;
    uint64_t first; /* position (position.h) of the heap's first byte */
};

/* A host's memory, as the controller addresses it. */
struct memory {
    struct cluster *of;
    int number;
    uint32_t made_epoch;
    struct plan_map map;
    /* heap 0: memory that the host's processes share. Further heaps: one for each device whose bytes host code
     * cannot read */
    struct memory_heap *heap;
    int nheap;
    void *note[KEPT_SLOTS]; /* notes of snapshots (kept.h), by slot; NULL: none */
};

/* The lock guards the fields that may change. Fields that only the session's thread uses need no lock. */
struct cluster {
    /* The fields up to `started` are constant once the cluster is open. */
    struct cluster_options options;
    struct coordinator *c; /* functions of the coordinator are called with the lock held */
    struct link *link;     /* functions of the link are called with the lock held */
    struct reach *reach;
    struct str machine, kernels; /* kernels: identity of cpu kernels (identity.h) */
    uint32_t isa;                /* instruction sets that matrix products may use in this process */
    /* secret: random secret that each started rank received, by rank */
    unsigned char (*secret)[CLUSTER_ID], job_id[CLUSTER_ID];
    struct roots roots;
    pthread_mutex_t lock;
    pthread_t thread;
    bool started;

    bool passes_on;          /* true: closing the cluster leaves the workers for another controller */
    int code;                /* exit code of the job, sent to the workers at its end */
    struct process *process; /* process of each rank */
    struct str packet;       /* buffer for the packet being sent */
    struct {
        bool quit;
        /* an event for each sleeping thread, because a thread that wakes resets its event */
        struct system_event wake[NSLEEPS];
        /* true while the session's thread, not the cluster's own thread, receives control packets */
        atomic_bool attended;
        pthread_t attendant; /* the thread that receives control packets, while `attended` is true */
        atomic_int interrupted;
        int64_t tick_ns;
        int64_t remind_ns, remind_after_ns; /* next report of absent workers: its time, and the interval to the
                                               following report, ns; 0: none */
    } wait;
    struct { /* the first received signal that the program handles; number 0: none */
        int number, rank;
    } signal;
    struct {
        bool full, formed;
        struct cluster_loss loss[LOSSES];
        int nloss;
        int nmet;       /* number of losses in `loss` that an error of the session or a message has reported */
        int64_t say_ns; /* time at which the other losses are reported by messages, ns */
        /* true: a worker was started for this epoch and was lost before it had joined, so another start is useless */
        bool vain;
        /* times of losses, ns; if the number of losses changes, the epoch of a waiting caller has ended */
        struct loss_times lost;
    } epoch;
    struct {
        struct cluster_job *job; /* the job in progress; NULL: none */
        uint32_t id;
        bool ended;
        int status, blame, node; /* outcome of the run that ended: status, rank and node of the run's failure */
        char text[WIRE_TEXT];
    } run;
    struct str hang; /* reports of the workers that make no progress, for the user */
    struct {
        struct filing *first;
        uint64_t nrequest; /* number of the last file request */
        pthread_cond_t changed;
    } files;
    struct {
        struct memory *memory; /* memory of each host; NULL until all ranks were present once */
        int nmemory, home;
        /* own: memory of this host for values; bus: message rings of this host for the epoch */
        struct segment *own, *bus;
        char path[SEGMENT_PATH], bus_text[SEGMENT_PATH + 32]; /* paths of `own` and of `bus` */
    } hosts;
    struct { /* hosts with the snapshot of an earlier controller (keep.c), by order of memories in this job */
        struct kept_place *place;
        int n;
        unsigned char job[KEPT_JOB]; /* job of the snapshot that was found */
        int turn;                    /* slot for the next description of a snapshot of this job */
    } kept;
    struct { /* the devices of all workers; a rank's devices are added when the rank is present for the first time */
        struct device_counts devices;
        struct range *range;
        struct plan_range *plan_range; /* the entries of `range`, in the form that plan maps use */
        struct slot *slot;
        uint64_t *bytes; /* size of each memory in bytes */
        bool *settled;   /* by rank: true if the tables contain the rank's devices */
        int *range_rank; /* by range: rank of its devices */
        uint32_t number; /* version of the tables; increases whenever they change */
        int nrange, nslot;
        uint32_t abilities; /* abilities that all cuda devices have, bits of enum device_flags */
    } table;
};

/* Waits until the epoch is formed: all members are ready. The caller holds the lock. */
int control_gather(struct cluster *c);
/* Starts a process for each absent rank, except for ranks whose process was started and has not joined yet. */
int control_start_absent(struct cluster *c);
/* Handles packets that have arrived, and wakes the cluster's thread. Must be called after each send outside of
 * attend(), because a send can consume the edge-triggered event of packets that have arrived. The caller holds the
 * lock. */
void control_look(struct cluster *c);

#endif
