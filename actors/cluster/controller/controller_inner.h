/* controller_inner.h - internal to the controller: its state by subject, and functions of controller.c for the other
 * files. One lock guards the state for the controller's two threads. */
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

struct memory_heap {
    struct memory *of;
    struct segment *segment; /* this host's memory, or the allocations of another host's */
    uint64_t first;          /* position (position.h) of the first byte */
};

/* A host's memory, by number. */
struct memory {
    struct cluster *of;
    int number;
    uint32_t made_epoch;
    struct plan_map map;
    struct memory_heap *heap; /* [0]: shared by the host's processes; then one per device with own memory */
    int nheap;
};

/* The lock guards all fields that are not constant, except the session thread's own. */
struct cluster {
    /* Constant once the cluster is open. */
    struct cluster_options options;
    struct coordinator *c; /* used with the lock */
    struct link *link;     /* likewise */
    struct reach *reach;
    struct str machine;
    unsigned char (*secret)[CLUSTER_ID], job_id[CLUSTER_ID]; /* secret: by rank */
    struct roots roots;
    pthread_mutex_t lock;
    pthread_t thread;
    bool started;

    bool passes_on;          /* on close, workers stay for another controller */
    struct process *process; /* by rank */
    struct str packet;       /* the packet that is sent */
    struct {
        bool quit;
        int wake_fd[NSLEEPS]; /* one eventfd per sleeper, because a shared one would be drained by the first to wake */
        atomic_bool attended; /* the session's thread receives control packets */
        pthread_t attendant;  /* the session's thread, while attended */
        atomic_int interrupted;
        int64_t tick_ns;
    } wait;
    struct {
        bool full, formed;
        struct cluster_loss loss[LOSSES];
        int nloss;
        uint32_t nlost; /* losses so far; a change means that the epoch broke */
    } epoch;
    struct {
        struct cluster_job *job; /* NULL: no run */
        uint32_t id;
        bool ended;
        int status, blame, node; /* of the ended run */
        char text[WIRE_TEXT];
    } run;
    struct {
        struct filing *first;
        uint64_t nrequest; /* count of the last request */
        pthread_cond_t changed;
    } files;
    struct {
        struct memory *memory; /* by number; NULL before the first full world */
        int nmemory, home;
        struct segment *own, *bus; /* of this host: memory of the devices, messages of the epoch */
        char path[SEGMENT_PATH], bus_text[SEGMENT_PATH + 32]; /* paths of own and bus */
    } hosts;
    struct { /* devices, since the world was first full */
        struct device_counts devices;
        struct range *range;
        struct plan_range *plan_range; /* the same ranges, in the form of plan maps */
        struct slot *slot;
        uint64_t *bytes; /* memory size, by memory */
        int nrange, nslot;
        uint32_t abilities; /* common to all cuda devices: enum device_flags */
    } table;
};

/* Returns E_LOST, naming the first lost worker. */
int control_say_lost(const struct cluster *c);
/* Call after a send outside of attend(): the send may have consumed the readiness event of incoming packets. Handles
 * them and wakes the cluster's thread. With the lock. */
void control_look(struct cluster *c);

#endif
