/* worker_inner.h - the state of a worker process, grouped by the threads that use it, and functions of worker.c for
 * the other files. */
#ifndef RILLE_CLUSTER_WORKER_INNER_H
#define RILLE_CLUSTER_WORKER_INNER_H

#include "actors/cluster/memory/bus_host.h"
#include "actors/cluster/memory/device_heap.h"
#include "actors/cluster/wire/link.h"
#include "actors/cluster/coordinator/member.h"
#include "actors/cluster/memory/segment.h"
#include "actors/cluster/worker/worker.h"
#include "actors/plan/model/program.h"
#include "runtime/device/communicator.h"
#include "runtime/file/disk/root.h"
#include "runtime/base/system.h"

#include <pthread.h>
#include <stdatomic.h>

struct order { /* work that is queued for the main thread or for the files thread */
    struct order *next;
    struct work work;
    struct packet packet;
    unsigned char *copy; /* copy of the bytes to which the spans of `packet` and `work` point */
    bool cancelled;      /* (file requests, with the lock) true if the request was cancelled */
};

/* A queue of work: first in, first out. */
struct orders {
    struct order *first, **last;
};

enum meeting { MEET_NOT, MEET_ASKED, MEET_DONE };

struct asker { /* a worker that waits for this worker's list of channels */
    int rank;
    uint64_t program;
};

struct united { /* id of a communicator of a run, created by another worker */
    uint32_t run;
    uint64_t name;
    unsigned char id[COMMUNICATOR_ID];
};

/* A pending request for n bytes of worker `rank` on another host. from: position of the bytes there; at: position at
 * which this worker stores them; count: number of the request (0: the entry is free). */
struct brought {
    uint64_t count, at, from;
    int rank;
    size_t n;
};
enum { WORKER_FETCHES = 64 };

/* Memories with snapshots of earlier controllers (worker_kept.h), the latest first. */
enum { WORKER_KEPT = 2 };
struct worker_kept {
    struct {
        struct segment *segment; /* NULL: none */
        struct device_heap heap;
    } of[WORKER_KEPT];
    bool served; /* true: the worker has served an earlier controller */
};

/* State that is shared by the threads. Every use holds the lock. */
struct worker_shared {
    struct str packet;    /* buffer for the packet being sent */
    bool busy, quit;      /* busy: the main thread does work; quit: the link's thread must end */
    enum work_kind work;  /* the work that the main thread does while `busy` is true */
    uint32_t ndone;       /* number of completed pieces of work and copied blocks of files; reported as progress */
    struct orders orders; /* queue of work for the main thread */
    int64_t tick_ns;
    /* number of connections whose first packet was sent; linked: of socket `control`; greeted: of socket `bulk` */
    int linked, greeted;
    struct packet greeting; /* packet that is sent first on each connection of the socket `bulk` */
    bool signalled;         /* true after the process's signal was reported to the coordinator */
    uint32_t over;          /* number of the last epoch that is over because a member was lost */
    struct {
        bool asked;
        int status; /* reason why the worker leaves: a LEAVE_ constant */
        int code;   /* (LEAVE_DONE) exit code of the job */
        int64_t until_ns;
        char text[WIRE_TEXT];
    } leave;
    struct engine *engine; /* engine of the current epoch; a STOP packet interrupts it */
    struct bus *bus_end;   /* bus of the current epoch; NULL: there is none yet */
    struct {
        uint32_t id, stop; /* id: number of the run in progress, 0: none; stop: number of the run that must stop */
        uint32_t stop_why;
        const struct plan *plan; /* plan of the run in progress; NULL: none */
        /* true while the current run creates its communicators together with other workers */
        bool meets;
        atomic_bool parts; /* true: waiting for communicators' ids must stop; read without the lock */
        bool decides;      /* true if this memory decides whether the current run can be cancelled */
        /* true if an interrupt also stops the creation of communicators. It does if this memory decides (`decides`),
         * or if the run updates no variable */
        bool yields;
    } run;
    struct {
        struct united *id; /* ids received for runs that have not ended */
        int n, capacity;
        pthread_cond_t changed; /* signalled when an id arrives, and when waiting for ids must end */
    } ids;
    struct segment *segment;  /* memory that the host's processes share */
    uint32_t segment_made;    /* epoch in which `segment` was made */
    struct device_heap heap;  /* memory that the worker has allocated on its devices */
    struct worker_kept *kept; /* owner: cluster_serve() */
    /* transport to other hosts, set once by the main thread; NULL: the cluster has one host */
    struct carrier *carrier;
    struct brought brought[WORKER_FETCHES]; /* requests in flight; request `count` is at index count % WORKER_FETCHES */
    /* The epoch's tables of devices and slots. The main thread writes these tables with the lock held, and reads
     * them without it. */
    struct plan_map map;
    struct slot *slot; /* slots of all memories */
    /* numbers of slots (device threads) of this memory (nslot) and of all memories (nall); number of memories */
    int nslot, nall, nmemory;
};

/* State of the thread that writes and reads files. Every use holds the lock. */
struct worker_files {
    struct orders queue;
    struct order *current; /* the work in progress; NULL: none */
    pthread_t thread;
    pthread_cond_t wake;
    bool runs;
};

/* State that only the main thread uses. */
struct worker_main {
    /* segment for messages of the epoch; also read by the link's thread, while shared.bus_end is set */
    struct segment *bus;
    struct segment *made_bus; /* segment for messages, if this worker made one for its host; NULL: none */
    struct atlas *atlas;
    uint8_t *met; /* by memory (host), enum meeting: whether the addresses of its workers are known or requested */
    uint32_t *route;
    struct recorder **recorder; /* flight recorders of the device threads, by local thread; also read by the link's
                                   thread, while shared.bus_end is set */
    int nlocal, world;          /* nlocal: number of slots of this worker; world: number of workers */
    uint32_t epoch;
    unsigned char job_id[CLUSTER_ID];
    struct job **job;
    int njob, job_capacity;
    struct asker *asker;
    int nasker, asker_capacity;
    /* number of the last failed run (START packet) at the time when the present communicators were created */
    uint32_t anew;
};

/* A worker process. The fields before `lock` are constant once the worker's threads run. */
struct worker_process {
    struct cluster_worker_options options;
    struct link *link;            /* functions of the link are called with the lock held */
    struct worker_member *member; /* functions of the member are called with the lock held */
    struct str machine, kernels, devices, gpus;
    char host[64];
    unsigned char link_id[CLUSTER_ID]; /* number of the membership (HELLO) */
    struct roots roots;                /* folders that files may be in */
    struct system_event wake;          /* wakes the main thread */
    pthread_t thread;                  /* the link's thread */
    pthread_mutex_t lock;
    struct worker_shared shared;
    struct worker_files files;
    struct worker_main main;
};

/* The functions below are called with the lock held, unless their comments say otherwise. */
void worker_leave(struct worker_process *w, int status, const char *text);
void worker_take_control(struct worker_process *w);
struct order *order_take(struct orders *from); /* removes and returns the first order; NULL: the queue is empty */
void order_free(struct order *o);
/* Functions that handle messages from workers of other hosts. They are called on the carrier's thread, without the
 * lock. */
extern const struct carrier_hear worker_hear;

#endif
