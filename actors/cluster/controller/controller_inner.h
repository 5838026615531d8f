/* controller_inner.h - internal to the controller: state, and functions that several files share. One lock guards the
 * state for the controller's two threads. */
#ifndef RILLE_CLUSTER_CONTROLLER_INNER_H
#define RILLE_CLUSTER_CONTROLLER_INNER_H

#include "actors/cluster/controller/controller.h"
#include "actors/cluster/wire/link.h"
#include "actors/cluster/controller/remote_access.h"
#include "actors/cluster/memory/segment.h"
#include "actors/plan/model/program.h"
#include "runtime/file/root.h"

#include <pthread.h>
#include <stdatomic.h>

enum { LOSSES = 64 };

/* Threads that sleep until an event: the cluster's own, the session's. */
enum cluster_sleeper { SLEEPS_CLUSTER, SLEEPS_SESSION, NSLEEPS };

struct process {    /* process of a rank */
    int pid, pidfd; /* 0, -1: unknown */
    bool child;
    int beat_peer; /* peer of its heartbeats; -1: none */
    int64_t heard_ns;
};

struct file_request { /* a SAVE, or a part of a LOAD */
    int file;         /* index in filing.file */
    struct packet packet;
    bool done;
};

struct filing { /* files awaited by a thread, on the thread's stack */
    struct filing *next;
    struct cluster_file *file;
    struct file_request *request;
    uint64_t first; /* count of the first request */
    int nfile, n, capacity;
    bool interruptible;
};

struct bank {
    struct memory *of;
    struct segment *segment; /* this host's memory, or the allocations of another host's */
    uint64_t first;          /* position (position.h) of the first byte */
};

struct cluster {
    struct cluster_options options;
    struct coordinator *c;
    struct link *link;
    struct reach *reach;
    struct memory { /* by number; NULL before the first full world */
        struct cluster *of;
        int number;
        uint32_t made_epoch;
        struct plan_map map;
        struct bank *bank; /* [0]: shared by the host's processes; then one per device with own memory */
        int nbank;
    } * memory;
    int nmemory, home;
    struct segment *own, *bus; /* of this host: memory of the devices, messages of the epoch */
    struct process *process;   /* by rank */
    unsigned char (*secret)[CLUSTER_ID], job_id[CLUSTER_ID];
    struct str machine, packet;
    char path[SEGMENT_PATH], bus_text[SEGMENT_PATH + 32]; /* paths of own and bus */
    pthread_mutex_t lock;                                 /* guards all fields except the session thread's own */
    pthread_t thread;
    bool started, quit;
    bool passes_on;       /* on close, workers stay for another controller */
    int wake_fd[NSLEEPS]; /* one eventfd per sleeper, because a shared one would be drained by the first to wake */
    atomic_bool attended; /* the session's thread receives control packets */
    pthread_t attendant;  /* the session's thread, while attended */
    atomic_int interrupted;
    bool full, formed, ended;
    int64_t tick_ns;
    struct cluster_job *job;
    int status, blame, node; /* of the ended run */
    char text[WIRE_TEXT];
    uint32_t run;
    struct cluster_loss loss[LOSSES];
    int nloss;
    uint32_t nepoch; /* losses so far; a change means that the epoch broke */
    struct roots roots;
    struct filing *filing;
    uint64_t nfile; /* count of the last requested file */
    pthread_cond_t filed;
    /* Set when the world is first full. */
    struct device_counts devices;
    struct range *range;
    struct plan_range *plan_range; /* the same ranges, as the maps of all memories hold them */
    struct slot *slot;
    uint64_t *bytes; /* memory size, by memory */
    int nrange, nslot;
    uint32_t abilities; /* common to all cuda devices: enum device_flags */
};

/* memories.c: begins the next epoch, once every rank is present. With the lock. E_ARG, E_PLACE, E_MEMORY. */
int control_begin(struct cluster *c);
/* Requests again the pages held in memories that were made afresh in this epoch. With the lock, released meanwhile. */
int control_renew(struct cluster *c);
/* Checks the devices of workers left by an earlier coordinator. E_PLACE: not the devices asked for now. With the
 * lock. */
int control_check_kept(const struct cluster *c);
void control_free(struct cluster *c);
/* controller.c: returns E_LOST, naming the first lost worker. */
int control_say_lost(const struct cluster *c);
/* Call after a send outside of attend(): the send may have consumed the readiness event of incoming packets. Handles
 * them and wakes the cluster's thread. With the lock. */
void control_look(struct cluster *c);
/* memories.c: `broken` of struct remote_access_options; of: the cluster. */
int control_broken(void *of);
/* files.c; with the lock. */
void control_filed(struct cluster *c, const struct notice *n);

#endif
