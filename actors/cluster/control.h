/* control.h - inside the controller: its state, and what its files call of each other. Its two threads have it in
 * turns, under one lock. */
#ifndef RILLE_CLUSTER_CONTROL_H
#define RILLE_CLUSTER_CONTROL_H

#include "actors/cluster/controller.h"
#include "actors/cluster/link.h"
#include "actors/cluster/reach.h"
#include "actors/cluster/segment.h"
#include "actors/plan/program.h"
#include "runtime/file/root.h"

#include <pthread.h>
#include <stdatomic.h>

enum { LOSSES = 64 };

/* Who sleeps until something comes: the cluster's own thread, the session's. */
enum cluster_sleeper { SLEEPS_CLUSTER, SLEEPS_SESSION, NSLEEPS };

struct process {    /* behind a rank */
    int pid, pidfd; /* 0, -1: not known */
    bool child;
    int beat_peer; /* -1 */
    int64_t heard_ns;
};

struct filing { /* files that somebody waits for; on that thread's stack */
    struct filing *next;
    struct cluster_file *file;
    uint64_t first; /* number of the first */
    int n;
    bool interruptible;
};

struct bank {
    struct memory *of;
    struct segment *segment; /* who has which bytes of it */
    uint64_t first;          /* position (position.h) of its first byte */
};

struct cluster {
    struct cluster_options options;
    struct coordinator *c;
    struct link *link;
    struct reach *reach;
    struct memory { /* by number; [0] is there before workers are */
        struct cluster *of;
        int number;
        uint32_t made_epoch;
        struct plan_map map;
        struct bank *bank; /* [0]: what the host's processes share; then one a device that has its own */
        int nbank;
    } * memory;
    int nmemory, home;
    struct segment *own, *bus; /* of this host: the memory of its devices, the epoch's messages */
    struct process *process;   /* by rank */
    unsigned char (*secret)[CLUSTER_ID], job_id[CLUSTER_ID];
    struct str machine, packet;
    char path[SEGMENT_PATH], bus_text[SEGMENT_PATH + 32]; /* of own and bus */
    pthread_mutex_t lock; /* guards everything here but what the session's thread alone has */
    pthread_t thread;
    bool started, quit;
    bool passes_on;       /* its workers stay, for another controller */
    int wake_fd[NSLEEPS]; /* each has one of its own: of one for all the first to look would take what is the other's */
    atomic_bool attended; /* the session's thread takes what comes on the control socket */
    pthread_t attendant;  /* while attended: that thread */
    atomic_int interrupted;
    bool full, formed, ended;
    int64_t tick_ns;
    struct cluster_job *job;
    int status, blame, node; /* of the run that ended */
    char text[WIRE_TEXT];
    uint32_t run;
    struct cluster_loss loss[LOSSES];
    int nloss;
    uint32_t nepoch; /* that ended by a loss */
    struct roots roots;
    struct filing *filing;
    uint64_t nfile; /* that were asked for */
    pthread_cond_t filed;
    /* Settled when the world first forms. */
    struct device_counts devices;
    struct range *range;
    struct plan_range *plan_range; /* the same, of the maps of all memories */
    struct slot *slot;
    uint64_t *bytes; /* by memory */
    int nrange, nslot;
    uint32_t abilities; /* of all devices of kind cuda: enum device_flags */
};

/* memories.c: begins the next epoch once every rank is there. With the lock. E_ARG, E_PLACE, E_MEMORY. */
int control_begin(struct cluster *c);
/* Asks memories that began anew in this epoch for the pages again that were taken of them. With the lock, which it
 * drops meanwhile. */
int control_renew(struct cluster *c);
/* E_PLACE: somebody whom an earlier coordinator left has other devices than those that are wanted now. With the lock.
 */
int control_check_kept(const struct cluster *c);
void control_free(struct cluster *c);
/* controller.c: E_LOST, naming who was lost first. */
int control_say_lost(const struct cluster *c);
/* After something was sent that no attendance follows, which may have taken note of what came: looks for that, and
 * wakes the cluster's thread to look from now on. With the lock. */
void control_look(struct cluster *c);
/* memories.c: as reach.h has it; of: the cluster. */
int control_broken(void *of);
/* files.c; with the lock. */
void control_filed(struct cluster *c, const struct notice *n);

#endif
