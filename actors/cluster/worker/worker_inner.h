/* worker_inner.h - the state of a worker process, in parts by owner, and functions of worker.c for the other files. */
#ifndef RILLE_CLUSTER_WORKER_INNER_H
#define RILLE_CLUSTER_WORKER_INNER_H

#include "actors/cluster/memory/bus_host.h"
#include "actors/cluster/transport/carrier.h"
#include "actors/cluster/memory/device_heap.h"
#include "actors/cluster/wire/link.h"
#include "actors/cluster/coordinator/member.h"
#include "actors/cluster/memory/segment.h"
#include "actors/cluster/worker/worker.h"
#include "actors/plan/model/program.h"
#include "runtime/device/communicator.h"
#include "runtime/file/root.h"

#include <pthread.h>
#include <stdatomic.h>

struct order { /* work queued for the main thread or the files thread */
    struct order *next;
    struct work work;
    struct packet packet;
    unsigned char *copy; /* owned bytes behind the spans of packet and work */
    bool cancelled;      /* file orders only; under the lock */
};

/* A queue, first in, first out. */
struct orders {
    struct order *first, **last;
};

enum meeting { MEET_NOT, MEET_ASKED, MEET_DONE };

struct asker { /* a worker waiting for a list of channels */
    int rank;
    uint64_t program;
};

struct united { /* id of a communicator, from another worker, for a run */
    uint32_t run;
    uint64_t name;
    unsigned char id[COMMUNICATOR_ID];
};

struct brought { /* request to a worker of another host: destination, source, bytes */
    uint64_t count, at, from;
    int rank;
    size_t n;
};
enum { WORKER_FETCHES = 64 };

/* State of all threads, under the lock. */
struct worker_shared {
    struct str packet;    /* the packet that is sent */
    bool busy, quit;      /* the main thread is working; the link's thread must end */
    struct orders orders; /* for the main thread */
    int64_t tick_ns;
    uint32_t over; /* last epoch with a lost member */
    struct {
        bool asked;
        int status; /* reason of leaving: a LEAVE_ */
        int64_t until_ns;
        char text[WIRE_TEXT];
    } leave;
    struct engine *engine; /* of the epoch; STOP interrupts it */
    struct bus *bus_end;   /* NULL: no bus in this epoch yet */
    struct {
        uint32_t id, stop; /* run in progress, 0: none; run to be stopped */
        uint32_t stop_why;
        bool meets;        /* the current run is making communicators */
        atomic_bool parts; /* and must stop doing so; read without the lock */
        bool decides;      /* this memory decides if the current run can still be cancelled */
        bool yields;       /* decides, or updates nothing: an interrupt also ends the making of communicators */
    } run;
    struct {
        struct united *id; /* received ids, for runs that are not over */
        int n, capacity;
        pthread_cond_t changed; /* signals a new id, or the end of waiting */
    } ids;
    struct segment *segment;                /* memory of the host's devices */
    uint32_t segment_made;                  /* epoch in which it was made */
    struct device_heap heap;                /* device memory held by the worker */
    struct carrier *carrier;                /* to other hosts; NULL: no other hosts. Written once, by the main thread */
    struct brought brought[WORKER_FETCHES]; /* requests in flight, by count modulo the size */
    /* The epoch's table of devices: the main thread writes it with the lock, and reads it without. */
    struct plan_map map;
    struct slot *slot;        /* of all memories */
    int nslot, nall, nmemory; /* slots of this memory; of all memories; memories */
};

/* Orders for the files thread, under the lock. */
struct worker_files {
    struct orders queue;
    struct order *current; /* in progress; NULL: none */
    pthread_t thread;
    pthread_cond_t wake;
    bool runs;
};

/* State of the main thread alone. */
struct worker_main {
    struct segment *bus;      /* of the epoch; the link's thread reads it, too, while shared.bus_end is set */
    struct segment *made_bus; /* made by this worker */
    struct atlas *atlas;
    uint8_t *met; /* by memory, enum meeting: whether the ports of its workers are known */
    uint32_t *route;
    _Atomic uint64_t **doing;
    int nlocal, world; /* slots of this worker; workers */
    uint32_t epoch;
    unsigned char job_id[CLUSTER_ID];
    struct job **job;
    int njob, job_capacity;
    struct asker *asker;
    int nasker, asker_capacity;
    uint32_t anew; /* last failed run before the communicators were made */
};

/* A worker process. The first fields are constant once its threads run. */
struct worker_process {
    struct cluster_worker_options options;
    struct link *link;            /* used with the lock */
    struct worker_member *member; /* likewise */
    struct str machine, devices, gpus;
    char host[64];
    struct roots roots; /* allow-listed folders */
    int wake_fd;        /* wakes the main thread */
    pthread_t thread;   /* the link's */
    pthread_mutex_t lock;
    struct worker_shared shared;
    struct worker_files files;
    struct worker_main main;
};

/* With the lock. */
void worker_leave(struct worker_process *w, int status, const char *text);
void worker_take_control(struct worker_process *w);
struct order *order_take(struct orders *from); /* NULL: empty */
void order_free(struct order *o);
/* Finds n bytes at a position (position.h). E_BUS: not in the memory of this worker. With the lock. */
struct spot {
    const struct device_kind *kind; /* its copy() reads and writes data */
    char *data;
};
int worker_find(const struct worker_process *w, uint64_t at, size_t n, struct spot *out);
/* Repeats requests for bytes of other hosts that have not arrived; takes the lock. */
void worker_fetch_again(struct worker_process *w);
/* Handles messages of workers of other hosts; on the carrier's thread, takes the lock. */
extern const struct carrier_hear worker_hear;

#endif
