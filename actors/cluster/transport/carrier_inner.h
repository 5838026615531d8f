/* carrier_inner.h - internals shared by carrier.c (owns the links' thread), carrier_channels.c (called by device
 * threads) and the nets. */
#ifndef RILLE_CLUSTER_CARRIER_INNER_H
#define RILLE_CLUSTER_CARRIER_INNER_H

#include "actors/cluster/transport/carrier.h"
#include "actors/cluster/transport/mpi.h"

#include <pthread.h>
#include <stdatomic.h>
#include <zmq.h>

enum {
    PIECE = CARRIER_PIECE,
    CREDITS = 8,
    LIST_MOST = 1 << 26,
    LINK_MS = 3000, /* default of link_ms */
};
enum road { MESSAGES, BYTES, NROAD };
enum {
    CARRIER_ASK = 64,
    CARRIER_LIST,
    CARRIER_FETCH,
    CARRIER_FETCHED
}; /* message kinds, in addition to enum msg_kind */

/* Body of BRING: the requested bytes; in BROUGHT it precedes the bytes. */
struct fetch {
    uint64_t count, at, n;
};

/* Header of every message; bytes follow it in lists and pieces. All hosts have the same byte order. */
struct head {
    unsigned char job[CLUSTER_ID];
    struct msg m;
    uint64_t program; /* ASK, LIST */
    uint64_t offset;  /* offset of a piece in the bytes of its act */
};

/* Bytes that one act of a SEND sends. */
struct parcel {
    struct parcel *next; /* in the peer's queue */
    struct carrier_channel *lane;
    struct msg m; /* FULL message sent behind the bytes */
    const char *bytes;
    int64_t sent;
    _Atomic int32_t left; /* pieces not yet released by ZeroMQ, unsent ones included */
};

/* One end of a channel with bytes: a ring with an entry per register. */
struct carrier_channel {
    struct carrier_channels *of;
    const struct channel *c;
    uint32_t far_addr;
    int32_t far_task, npiece;
    const struct view *dense; /* SEND: view of the bytes if contiguous; NULL: put() gathers them */
    char *copies;             /* SEND: copied bytes, one buffer per register */
    struct parcel *parcel;    /* SEND: one per register */
    int64_t put, told;        /* SEND: acts put; acts whose FULL was sent. Device thread's */
    _Atomic int64_t gone;     /* SEND: acts whose bytes ZeroMQ has released */
    zmq_msg_t *piece;         /* RECV: npiece per register */
    int64_t came, offset;     /* RECV: acts received, bytes received of the next act. Carrier thread's */
    _Atomic int64_t taken;    /* RECV: acts taken. Device thread's */
};

struct carrier_channels {
    struct carrier *carrier;
    const struct plan *plan;
    struct carrier_channel *lane; /* by channel */
    struct carrier_channel **to;  /* sending lanes with bytes, sorted by address and task of the other end */
    int32_t nto;
    struct transport transport;
};

struct peer {
    char port[NROAD][CARRIER_PORT];
    void *socket[NROAD], *monitor[NROAD]; /* for net_zmq */
    struct parcel *first, **last;         /* queue of parcels, not completely sent */
    _Atomic int32_t flying;               /* pieces in flight: not yet released by ZeroMQ */
    int64_t down_ns;                      /* time since which a link is down, ns; 0: none is */
};

struct item { /* queue entry: a message, or a parcel */
    struct msg m;
    struct parcel *parcel;
    struct fetch bring; /* of a CARRIER_FETCH message */
};

/* A way to carry messages between workers: a head, and at most one body. Heads of one road and sender arrive in
 * order. The carrier's thread calls these functions, with its lock held; ready() permits a device thread to send. */
struct net {
    const char *name;
    int (*connect)(struct carrier *c, int rank); /* opens the links to a worker. E_BUS */
    void (*close)(struct carrier *c, int rank);  /* closes them, and releases all bodies */
    /* Sends a message. Takes over the body, and frees it after use. body NULL: none. */
    void (*send)(struct carrier *c, int rank, enum road road, const struct head *h, zmq_msg_t *body);
    /* Receives the next complete message of a road into *h and the empty *body; false: none. */
    bool (*receive)(struct carrier *c, enum road road, struct head *h, zmq_msg_t *body);
    bool (*ready)(struct carrier *c, int rank);   /* link exists; any thread with the lock may send */
    bool (*is_down)(struct carrier *c, int rank); /* the link has ended since the last call */
};
extern const struct net net_zmq, net_mpi;
int net_zmq_bind(struct carrier *c, enum road road, const char *host);
/* Initializes MPI (net_mpi.c); waits until every worker does. E_BUS: MPI's ranks are not the workers. */
int mpi_open(struct carrier *c);
void mpi_close(struct carrier *c);         /* waits for the other workers, unless MPI is broken */
void mpi_break(struct carrier *c);         /* call after the loss of a worker */
bool mpi_is_busy(const struct carrier *c); /* true if frequent polling is worthwhile */

struct carrier {
    struct carrier_hear hear;
    const struct net *net;  /* for sending in this epoch; all nets receive */
    int link_ms;            /* as in the options */
    enum carrier_mpi wants; /* as requested */
    const struct mpi_plugin *plugin;
    struct mpi *mpi; /* NULL: not open */
    char why[256];   /* why MPI is not used; "": unknown or used */
    struct key key;
    bool has_key, was_joined;
    void *context;
    struct curve *curve;
    void *in[NROAD];
    char port[NROAD][CARRIER_PORT];
    int wake_fd;
    pthread_t thread;
    bool runs;
    atomic_bool over;     /* thread has ended */
    pthread_mutex_t lock; /* guards the fields below */
    bool quit, joined, told_lost;
    uint32_t epoch, run;
    unsigned char job[CLUSTER_ID];
    int rank, world, serial; /* serial: number of the next monitor's name */
    struct peer *peer;       /* by rank */
    struct bus *bus;
    struct carrier_channels *carrying; /* of the current run; NULL: none */
    bool held[NROAD];                  /* head[road] must wait for a later run or epoch, as must all behind it */
    bool look[NROAD];                  /* a message may be there; avoids system calls that find none */
    struct head head[NROAD];
    zmq_msg_t body[NROAD];
    int64_t tick_ns;
    pthread_mutex_t queue_lock;
    struct item *queue, *draining;
    int32_t nqueue, queue_capacity, draining_capacity;
    atomic_bool asleep, cut, lost, opens; /* lost: a worker was lost; opens: thread must open MPI */
    _Atomic int64_t flying;               /* pieces in flight, to all peers */
    atomic_bool dropping;                 /* run ended early: unsent bytes are dropped */
};

/* Fate of a received message: accepted or dropped; must wait, with all messages behind it; invalid. Takes over the
 * body if it is kept. */
enum fate { FATE_DONE, FATE_LATER, FATE_STRANGE };
enum fate carrier_take(struct carrier *c, enum road road, const struct head *h, zmq_msg_t *body);
/* Send and receive requests for bytes of memories, and the answers (fetch.c). */
void carrier_send_fetch(struct carrier *c, const struct item *i);
enum fate carrier_take_fetch(struct carrier *c, const struct head *h, zmq_msg_t *body);
enum fate carrier_take_fetched(struct carrier *c, const struct head *h, zmq_msg_t *body);
/* carrier.c: carrier_head returns a header for this epoch. carrier_knows returns true if the worker has a link, and
 * opens one if possible. carrier_post queues an item. */
struct head carrier_head(const struct carrier *c, const struct msg *m);
bool carrier_knows(struct carrier *c, int rank);
void carrier_post(struct carrier *c, const struct item *i);
/* Returns a message from this carrier to a worker's carrier. */
struct msg carrier_speech(const struct carrier *c, int kind, int rank);
/* Returns the lane of a FULL; NULL: its channel has no bytes. */
struct carrier_channel *carrier_channels_find(const struct carrier_channels *k, const struct msg *m);
/* Wakes the carrier's thread if it sleeps. Any thread. */
void carrier_wake(struct carrier *c);
/* Waits until ZeroMQ has released all pieces. */
void carrier_await(struct carrier *c);

#endif
