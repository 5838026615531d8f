/* worker_inner.h - internal to a worker: state, used by one thread at a time, and functions that the serve*.c files
 * share. */
#ifndef RILLE_CLUSTER_WORKER_INNER_H
#define RILLE_CLUSTER_WORKER_INNER_H

#include "actors/act/run/address.h"
#include "actors/act/run/inspect.h"
#include "actors/act/run/actor.h"
#include "actors/cluster/memory/bus_host.h"
#include "actors/cluster/transport/carrier.h"
#include "actors/cluster/memory/device_heap.h"
#include "actors/cluster/wire/link.h"
#include "actors/cluster/coordinator/member.h"
#include "actors/cluster/memory/segment.h"
#include "actors/cluster/worker/worker.h"
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
enum { SERVER_BRINGS = 64 };

struct job { /* a program and its plan */
    uint64_t id;
    struct plan *plan; /* NULL: compilation failed */
    struct actors *actors;
    struct run run;
    struct arena arena, of_rows;
    struct lane_rows rows; /* last received; in use if run.rows is set */
    struct channel_far *far;
    struct carrier_channels *carrying; /* NULL: no channels */
    bool *listed;                      /* by memory: its list has arrived, or is not needed */
    int32_t nwanted;                   /* lists still missing */
    uint32_t epoch;                    /* epoch of the addresses in far */
    bool had;                          /* the outcome was reported to the coordinator */
    bool waits;                        /* for ports of workers, before asking for their lists */
};

struct server {
    struct cluster_worker_options options;
    struct link *link;
    struct worker_member *member;
    struct str packet, machine, devices, gpus;
    char host[64];
    pthread_mutex_t lock; /* guards the fields above and below, except the main thread's own */
    pthread_t thread;
    int wake_fd;
    bool busy, quit; /* the main thread is working; the link's thread must end */
    struct orders orders;
    struct orders files; /* for the files thread (worker_files.c) */
    struct order *file;  /* in progress on the files thread; NULL: none */
    pthread_t files_thread;
    pthread_cond_t filed;
    bool has_files;
    struct roots roots; /* allow-listed folders; constant */
    uint32_t over;      /* last epoch with a lost member */
    int status;         /* reason of leaving: a LEAVE_ */
    bool leaving;
    int64_t leave_ns, tick_ns;
    char text[WIRE_TEXT];
    struct engine *engine;  /* of the epoch; STOP interrupts it */
    struct bus *bus_end;    /* NULL: no bus in this epoch yet */
    uint32_t stop, running; /* run to be stopped; run in progress, 0: none */
    uint32_t stop_why;
    struct united *united; /* ids for runs that are not over */
    int nunited, united_capacity;
    pthread_cond_t unites;   /* signals a new id, or the end of waiting */
    bool meets;              /* the current run is making communicators */
    atomic_bool parts;       /* and must stop doing so */
    uint32_t anew;           /* last failed run before the communicators were made; the main thread's */
    bool decides;            /* this memory decides if the current run can still be cancelled */
    bool yields;             /* decides, or updates nothing: an interrupt also ends the making of communicators */
    struct segment *segment; /* memory of the host's devices; set under the lock, because several threads read it */
    uint32_t segment_made;   /* epoch in which it was made */
    struct device_heap held; /* device memory held by the worker; under the lock */
    struct carrier *carrier; /* to other hosts; NULL: no other hosts */
    struct brought brought[SERVER_BRINGS]; /* requests in flight, by count modulo the size */
    /* Private to the main thread. */
    struct segment *bus, *made_bus; /* of the epoch; made by this worker */
    struct atlas *atlas;
    struct plan_map map; /* written under the lock */
    struct slot *slot;   /* of all memories */
    uint8_t *met;        /* by memory, enum meeting: whether the ports of its workers are known */
    uint32_t *route;
    _Atomic uint64_t **doing;
    int nslot, nall, nlocal; /* slots of this memory; of all memories; of this worker */
    int nmemory, world;
    uint32_t epoch;
    unsigned char job_id[CLUSTER_ID];
    struct job **job;
    int njob, job_capacity;
    struct asker *asker;
    int nasker, asker_capacity;
};

/* worker.c; with the lock. */
void server_leave(struct server *s, int status, const char *text);
void server_take_control(struct server *s);
struct order *server_take(struct orders *from); /* NULL: empty */
void order_free(struct order *o);
/* Finds n bytes at a position (position.h). E_BUS: not in the memory of this worker. With the lock. */
struct spot {
    const struct device_kind *kind; /* its copy() reads and writes data */
    char *data;
};
int server_find(const struct server *s, uint64_t at, size_t n, struct spot *out);
/* Repeats requests for bytes of other hosts that have not arrived; takes the lock. */
void server_bring_again(struct server *s);
/* Handles messages of workers of other hosts; on the carrier's thread, takes the lock. */
extern const struct carrier_hear server_hear;

/* worker_epoch.c: steps of a new epoch; main thread. */
void server_welcome(struct server *s, const struct order *o);
void server_make(struct server *s, const struct order *o);
void server_form(struct server *s, const struct order *o);
void server_close_engine(struct server *s);
/* Returns the bus address of a thread of a memory's partition; -1: no such thread. */
int64_t server_address(const struct server *s, int memory, int thread);

/* worker_job.c: compiles programs and connects their channels to other hosts. */
void server_program(struct server *s, const struct order *o);
void server_forget(struct server *s, const struct order *o);
void server_rows(struct server *s, const struct order *o);
void server_asked(struct server *s, const struct order *o);
void server_listed(struct server *s, const struct order *o);
void server_ports(struct server *s, const struct order *o);
/* Marks the memories of these workers as met. ports: text as in FORM. */
void server_met(struct server *s, const char *ports);
struct job *server_job(struct server *s, uint64_t id); /* NULL: unknown */
/* Sets the addresses of the channels' other ends in this epoch. E_PLAN. */
int server_find_ends(struct server *s, struct job *j);
void job_free(struct job *j);

/* worker_files.c. Wakes the files thread for a new order. With the lock. */
void server_file(struct server *s);
/* Cancels the file of this count between two blocks, if it is unanswered. With the lock. */
void server_cancel_file(struct server *s, uint64_t count);
void server_close_files(struct server *s);
/* Carries out a file order and reports the outcome. On the files thread. */
void server_serve_file(struct server *s, const struct order *o);

/* worker_unite.c: makes the communicators of a run, together with other workers, before the run begins. */
int server_meet(struct server *s, struct job *j, const struct packet *start);
/* Cuts all communicators, so that later runs make new communicators; main thread. */
void server_cut(void);
/* server_unite stores a received id; server_part makes the run abandon waiting for ids. With the lock. */
void server_unite(struct server *s, const struct packet *p);
void server_part(struct server *s);

/* worker_run.c: runs. */
void server_start(struct server *s, const struct order *o);

#endif
