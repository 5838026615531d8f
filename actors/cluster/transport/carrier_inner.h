/* carrier_inner.h - internals that the transport's files share: carrier.c (owns the thread of the links),
 * carrier_channels.c (called by device threads), fetch.c and the nets. */
#ifndef RILLE_CLUSTER_CARRIER_INNER_H
#define RILLE_CLUSTER_CARRIER_INNER_H

#include "actors/cluster/transport/fetch.h"
#include "actors/cluster/transport/net_mpi.h"
#include "runtime/base/system.h"

#include <pthread.h>
#include <stdatomic.h>
#include <zmq.h>

enum {
    PIECE = CARRIER_PIECE,
    CREDITS = 8,
    LIST_MOST = 1 << 26,
    LINK_MS = 3000, /* default of carrier_options.link_ms, ms */
};
/* A road is an ordered stream of messages from one worker to another. BYTES has the pieces of parcels, and messages
 * that must arrive behind pieces; MESSAGES has all other messages. */
enum road { MESSAGES, BYTES, NROAD };
enum {
    CARRIER_ASK = 64,
    CARRIER_LIST,
    CARRIER_FETCH,
    CARRIER_FETCHED,
    CARRIER_ACK,  /* only a header, whose acknowledgements are the content */
    CARRIER_VOID, /* stands for a message whose run has ended, and has its number, so that the numbers have no gap */
};                /* further kinds of messages, used only between carriers; lower numbers: enum msg_kind */

/* Range of bytes that a CARRIER_FETCH requests. The answer (CARRIER_FETCHED) contains this range before the bytes. */
struct fetch {
    uint64_t count, at, n;
};

/* Header of every message. If the message is a list or a piece, its bytes follow. All hosts must have the same byte
 * order. */
struct head {
    unsigned char job[CLUSTER_ID];
    struct msg m;
    uint64_t program; /* id of the program, in CARRIER_ASK and CARRIER_LIST */
    /* offset of a piece in the bytes of its act; (CARRIER_ACK) 1: the receiver holds messages of a later run
     * (traffic.c) */
    uint64_t offset;
    uint32_t number; /* number of the message on its road, from 1 in each epoch; 0: the net loses no message */
    /* by road: number of the last message received from the worker to which this message is sent */
    uint32_t ack[NROAD];
};

/* A message that was sent, and that the other worker has not acknowledged. */
struct kept {
    struct head head;
    zmq_msg_t body;
    bool has_body;
};

/* The messages of one road, in both directions, with one other worker in one epoch. */
struct traffic {
    struct kept *kept; /* ring of messages that are not acknowledged; the oldest is at `first` */
    int32_t capacity, first, n;
    /* numbers of the last message that was sent, that was received (came), and that was acknowledged to the other
     * worker (told) */
    uint32_t sent, came, told;
    /* number of the last message that the other worker had acknowledged at the last tick */
    uint32_t acked;
    /* last time, ns, at which the link was seen to work: all messages were acknowledged, an acknowledgement arrived,
     * or the other worker reported that it still has unacknowledged messages of its own */
    int64_t moved_ns;
    int64_t patience; /* time without an acknowledgement after which the connection is replaced, ns; 0: not set yet */
};

/* The bytes that one act of a SEND task sends, in pieces of at most PIECE bytes. */
struct parcel {
    struct parcel *next; /* next parcel in the queue to the same peer */
    struct carrier_channel *lane;
    struct msg m; /* FULL message, which announces the bytes and is sent behind them */
    const char *bytes;
    int64_t sent;
    _Atomic int32_t left; /* number of pieces that ZeroMQ has not released, including pieces not sent yet */
};

/* One end of a channel with bytes: a ring of acts, with an entry for each register of the channel. */
struct carrier_channel {
    struct carrier_channels *of;
    const struct channel *c;
    uint32_t far_addr;
    int32_t far_task, npiece;
    /* SEND: view of the bytes, if they are contiguous; NULL: put() gathers the bytes into a copy */
    const struct view *dense;
    char *copies;          /* SEND: buffers for copied bytes, by register */
    struct parcel *parcel; /* SEND: one parcel per register */
    /* SEND, device thread: put: number of acts whose bytes put() has handed to the carrier; told: number of acts
     * whose FULL was sent */
    int64_t put, told;
    _Atomic int64_t gone; /* SEND: number of acts whose bytes ZeroMQ has released */
    zmq_msg_t *piece;     /* RECV: received pieces, npiece for each register */
    /* RECV, carrier's thread: came: number of acts received completely; offset: received bytes of the next act */
    int64_t came, offset;
    _Atomic int64_t taken; /* RECV, device thread: number of acts whose bytes were copied to their register */
};

struct carrier_channels {
    struct carrier *carrier;
    const struct plan *plan;
    struct carrier_channel *lane; /* by channel of the plan: this process's end of the channel */
    /* sending ends of channels with bytes, sorted by address and task of the receiving end */
    struct carrier_channel **to;
    int32_t nto;
    struct transport transport;
};

struct peer {
    char port[NROAD][CARRIER_PORT];
    /* by road: socket of net_zmq, and socket on which ZeroMQ reports the end of the link */
    void *socket[NROAD], *monitor[NROAD];
    /* queue of parcels (the bytes of one act each) to this peer that are not completely sent */
    struct parcel *first, **last;
    _Atomic int32_t flying; /* number of pieces to this peer that ZeroMQ has not released */
    struct traffic traffic[NROAD];
    bool was_up[NROAD]; /* true: the link has had a connection, so the next connection must repeat messages */
    bool down[NROAD];   /* the link has no connection */
    int64_t down_ns;    /* time, ns (CLOCK_MONOTONIC), at which a link to this peer went down; 0: no link is down */
};

struct item { /* an entry of the carrier's queue: a message, or a parcel */
    struct msg m;
    struct parcel *parcel;
    struct fetch bring; /* (message CARRIER_FETCH) the range of bytes to request */
};

/* A network that carries messages between workers: tcp or MPI. A message is a header (struct head) and at most one
 * body. Messages of one sender on one road (enum road) arrive in order. The carrier's thread calls these functions with
 * the carrier's lock held. If ready() is true, a device thread may call send(), too. */
struct net {
    const char *name;
    int (*connect)(struct carrier *c, int rank); /* opens the links to a worker. E_BUS */
    /* closes the links to a worker, and releases all bodies that were sent on them */
    void (*close)(struct carrier *c, int rank);
    /* Sends a header, and a body unless it is NULL. The net owns the body from now on, and frees it after use. */
    void (*send)(struct carrier *c, int rank, enum road road, const struct head *h, zmq_msg_t *body);
    /* Receives the next complete message of a road into *h and *body, which must be empty; false: none has arrived. */
    bool (*receive)(struct carrier *c, enum road road, struct head *h, zmq_msg_t *body);
    /* returns true if the link exists and any thread that holds the lock may send on it */
    bool (*ready)(struct carrier *c, int rank);
    /* Called at every tick. Returns true if a link to the worker has no connection. After a new connection, sends the
     * messages again that were not acknowledged. */
    bool (*is_down)(struct carrier *c, int rank);
};
extern const struct net net_zmq, net_mpi;

struct carrier {
    struct carrier_hear hear;
    const struct net *net;  /* net on which this epoch's messages are sent; messages are received on all nets */
    int link_ms;            /* carrier_options.link_ms; the default if that is 0 */
    enum carrier_mpi wants; /* carrier_options.mpi */
    const struct mpi_plugin *plugin;
    struct mpi *mpi; /* state of MPI; NULL: MPI is not open */
    char why[256];   /* reason why MPI is not used; "": not known, or MPI is used */
    struct key key;
    bool has_key, was_joined;
    void *context;
    struct curve *curve;
    void *in[NROAD];
    char port[NROAD][CARRIER_PORT];
    struct system_event wake;
    pthread_t thread;
    bool runs;
    atomic_bool over;     /* true if the carrier's thread has ended */
    pthread_mutex_t lock; /* lock for the fields below, up to queue_lock */
    bool quit, joined, told_lost;
    uint32_t epoch, run;
    unsigned char job[CLUSTER_ID];
    int rank, world, serial; /* serial: number for the name of the next socket that monitors a link */
    struct peer *peer;       /* link to the worker of each rank */
    struct bus *bus;
    struct carrier_channels *carrying; /* channels of the current run; NULL: no run */
    bool held[NROAD];                  /* true: head[road] and the messages behind it wait for a later run or epoch */
    bool look[NROAD]; /* by road: true if a message can have arrived; otherwise receiving makes no system call */
    struct head head[NROAD];
    zmq_msg_t body[NROAD];
    int64_t tick_ns;
    pthread_mutex_t queue_lock;
    struct item *queue, *draining;
    int32_t nqueue, queue_capacity, draining_capacity;
    /* cut: close all links; lost: a worker was lost; opens: the carrier's thread must open MPI */
    atomic_bool asleep, cut, lost, opens;
    _Atomic int64_t flying; /* number of pieces to all peers that ZeroMQ has not released */
    atomic_bool dropping;   /* true if the run ended early; bytes that were not sent are dropped then */
};

enum fate carrier_take(struct carrier *c, enum road road, const struct head *h, zmq_msg_t *body);
/* Functions of carrier.c. carrier_head returns a header for this epoch. carrier_knows returns true if there is a
 * link to the worker, and opens a link if possible. carrier_post queues an item for the carrier's thread. */
struct head carrier_head(const struct carrier *c, const struct msg *m);
bool carrier_knows(struct carrier *c, int rank);
void carrier_post(struct carrier *c, const struct item *i);
/* Returns a message of this kind, from this carrier to the carrier of worker `rank`. */
struct msg carrier_speech(const struct carrier *c, int kind, int rank);
/* Wakes the carrier's thread if it sleeps. Any thread. */
void carrier_wake(struct carrier *c);
/* Waits until ZeroMQ has released all pieces in flight. Called without the lock when no receiver needs a piece any
 * more: the runs that sent them have ended. */
void carrier_await(struct carrier *c);

#endif
