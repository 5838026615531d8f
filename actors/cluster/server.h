/* server.h - inside a worker: its state, which one thread has at a time, and what the files of serve.h call of each
 * other.
 */
#ifndef RILLE_CLUSTER_SERVER_H
#define RILLE_CLUSTER_SERVER_H

#include "actors/act/actor.h"
#include "actors/cluster/bus_host.h"
#include "actors/cluster/carrier.h"
#include "actors/cluster/held.h"
#include "actors/cluster/link.h"
#include "actors/cluster/member.h"
#include "actors/cluster/segment.h"
#include "actors/cluster/serve.h"
#include "runtime/communicator.h"
#include "runtime/file/root.h"

#include <pthread.h>
#include <stdatomic.h>

struct order { /* a piece of work that waits for the main thread */
    struct order *next;
    struct work work;
    struct packet packet;
    unsigned char *copy; /* of the bytes that the packet or the work names */
    bool cancelled;      /* of a file; under the lock */
};

/* Orders in the order in which they came. */
struct orders {
    struct order *first, **last;
};

enum meeting { MEET_NOT, MEET_ASKED, MEET_DONE };

struct asker { /* who waits for a list */
    int rank;
    uint64_t program;
};

struct united { /* an id that another worker has told for a run */
    uint32_t run;
    uint64_t name;
    unsigned char id[COMMUNICATOR_ID];
};

struct brought { /* a question to a worker of another host: where the answer belongs, what was asked for */
    uint64_t count, at, from;
    int rank;
    size_t n;
};
enum { SERVER_BRINGS = 64 };

struct job { /* a program and its plan */
    uint64_t id;
    struct plan *plan; /* NULL: its making failed */
    struct actors *actors;
    struct run run;
    struct arena arena, of_rows;
    struct lane_rows rows; /* that came last; run.rows: if any did */
    struct channel_far *far;
    struct carrying *carrying; /* NULL: it has no channels */
    bool *listed;              /* by memory: its list has come, or the job wants none */
    int32_t nwanted;           /* lists that have not come */
    uint32_t epoch;            /* in which far has its addresses */
    bool had;                  /* the coordinator knows of it */
    bool waits;                /* for ports of those whose lists it wants */
};

struct server {
    struct serve_options options;
    struct link *link;
    struct worker_member *member;
    struct str packet, machine, devices, gpus;
    char host[64];
    pthread_mutex_t lock; /* guards what is above and here, but for what is the main thread's */
    pthread_t thread;
    int wake_fd;
    bool busy, quit; /* the main thread is at work; the link's thread is to end */
    struct orders orders;
    struct orders files; /* of the thread that writes and reads them (serve_files.c) */
    struct order *file;  /* that it is at; NULL */
    pthread_t files_thread;
    pthread_cond_t filed;
    bool has_files;
    struct roots roots; /* where they lie; does not change */
    uint32_t over;      /* the last epoch that lost somebody */
    int status;         /* how it leaves */
    bool leaving;
    int64_t leave_ns, tick_ns;
    char text[WIRE_TEXT];
    struct engine *engine;  /* of the epoch; STOP interrupts it */
    struct bus *bus_end;    /* NULL: the epoch's bus is not there */
    uint32_t stop, running; /* the run that is to stop; the one in progress, 0: none */
    uint32_t stop_why;
    struct united *united; /* of runs that are not over */
    int nunited, united_capacity;
    pthread_cond_t unites;                 /* there is another one, or nobody waits for it any more */
    bool meets;                            /* the run in progress makes communicators */
    atomic_bool parts;                     /* and is to leave that */
    uint32_t anew;                         /* communicators were made after this run; the main thread's */
    bool decides;                          /* this memory says whether one can still cancel the run in progress */
    bool yields;                           /* or it updates nothing: who meets others leaves when that is asked for */
    struct segment *segment;               /* of this host's devices; under the lock, as others read it */
    uint32_t segment_made;                 /* the epoch in which it was made */
    struct held held;                      /* of this worker's devices' own memory; under the lock */
    struct carrier *carrier;               /* to other hosts; NULL: there are none */
    struct brought brought[SERVER_BRINGS]; /* by count; the last ones */
    /* The main thread's own. */
    struct segment *bus, *made_bus; /* the epoch's; the one that this worker made */
    struct atlas *atlas;
    struct plan_map map; /* changes under the lock, too */
    struct slot *slot;   /* of all memories */
    uint8_t *met;        /* by memory, enum meeting: do its workers have ports that are known? */
    uint32_t *route;
    _Atomic uint64_t **doing;
    int nslot, nall, nlocal; /* of this memory; of all; of this worker */
    int nmemory, world;
    uint32_t epoch;
    unsigned char job_id[CLUSTER_ID];
    struct job **job;
    int njob, job_capacity;
    struct asker *asker;
    int nasker, asker_capacity;
};

/* serve.c; with the lock. */
void server_leave(struct server *s, int status, const char *text);
void server_take_control(struct server *s);
struct order *server_take(struct orders *from); /* NULL: there is none */
void order_free(struct order *o);
/* Finds n bytes at a position (position.h). E_BUS: they do not lie in this worker's memory. With the lock. */
struct spot {
    const struct device_kind *kind; /* whose copy() reads and writes them */
    char *data;
};
int server_find(const struct server *s, uint64_t at, size_t n, struct spot *out);
/* Asks anew for bytes of other hosts that are not yet here; takes the lock. */
void server_bring_again(struct server *s);
/* What workers of other hosts say; on the carrier's thread, which takes the lock. */
extern const struct carrier_hear server_hear;

/* serve_epoch.c: what makes an epoch; the main thread. */
void server_welcome(struct server *s, const struct order *o);
void server_make(struct server *s, const struct order *o);
void server_form(struct server *s, const struct order *o);
void server_close_engine(struct server *s);
/* Where messages reach a thread of a memory's part; -1: there is no such thread. */
int64_t server_address(const struct server *s, int memory, int thread);

/* serve_job.c: programs, and connecting them to other hosts'. */
void server_program(struct server *s, const struct order *o);
void server_forget(struct server *s, const struct order *o);
void server_rows(struct server *s, const struct order *o);
void server_asked(struct server *s, const struct order *o);
void server_listed(struct server *s, const struct order *o);
void server_ports(struct server *s, const struct order *o);
/* Their memories' workers have ports now: of a text as FORM has it. */
void server_met(struct server *s, const char *ports);
struct job *server_job(struct server *s, uint64_t id); /* NULL: there is none */
/* Finds where the other ends of its channels are in this epoch. E_PLAN. */
int server_find_ends(struct server *s, struct job *j);
void job_free(struct job *j);

/* serve_files.c. With the lock: there is a file to write or read. */
void server_file(struct server *s);
/* With the lock: the file of that count, if it is not yet answered, is given up between two blocks. */
void server_cancel_file(struct server *s, uint64_t count);
void server_close_files(struct server *s);
/* On the thread that is there for it: carries out one order, whatever it says, and tells what came of it. */
void server_serve_file(struct server *s, const struct order *o);

/* serve_unite.c: before a run begins, its communicators are made, together with other workers. */
int server_meet(struct server *s, struct job *j, const struct packet *start);
/* Whatever communicators there are, they are made anew; the main thread. */
void server_cut(void);
/* With the lock: an id came; who waits for one leaves. */
void server_unite(struct server *s, const struct packet *p);
void server_part(struct server *s);

/* serve_run.c: runs. */
void server_start(struct server *s, const struct order *o);

#endif
