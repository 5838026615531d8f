/* flow.h - a device stream as its thread sees it: the acts in flight, in order.
 *
 * An act keeps its entry and its addresses until its work is complete, even beyond its run if that stays open. Only
 * the device's thread touches a flow; the session's thread creates and frees flows between runs. */
#ifndef RILLE_ACT_FLOW_H
#define RILLE_ACT_FLOW_H

#include "actors/plan/model/kind.h"
#include "runtime/graph/graph.h"
#include "runtime/device/stream.h"

struct communicator;
struct communicator_post;
struct run;
struct worker;

enum { FLOW_ACTS = 64 }; /* maximum number of acts in flight on a stream */

struct under_way {
    struct act act;
    int64_t mark, begin_ns;
    int64_t order;  /* sequence number among all acts of the thread */
    struct run *of; /* run of the act */
    uint64_t run;   /* number of that run; `of` may describe a later run when the act completes */
    bool counted;   /* act counted as done at enqueue: its run does not wait for completion (open_run.c) */
    struct line at; /* line in the user's program, if the run was left open */
};
struct flow {
    int kind, rank, role;
    bool driven;
    bool tells; /* the stream reports progress; false: poll it */
    struct stream *stream;
    struct under_way *act; /* ring of FLOW_ACTS acts */
    int64_t first, next;   /* sequence number of the oldest act; of the next act */
    int64_t until_ns;      /* time, ns, at which the last act was found complete */
    int64_t wanted;        /* mark for which another stream is about to wait; 0: none */
    void **address;        /* FLOW_ACTS times naddress */
    int32_t naddress;
    /* Point-to-point link (p2p.h): ring of tasks to enqueue on the stream, in order; large enough for all. */
    const struct communicator *edge; /* NULL: not the stream of a link */
    int32_t *queue, nqueue, first_queued, queue_capacity;
    uint16_t turn; /* sequence number of the link's next act in this run, the same at both ends */
};

struct flows {         /* of a thread */
    struct flow *flow; /* streams of the thread's devices, of every plan so far */
    int32_t nflow;
    struct flow **of_device; /* by plan device, then role; NULL: the work is synchronous */
    int32_t device_capacity;
    struct flow **of_channel; /* by channel: the flow of a direct channel whose task is on this thread; else NULL */
    int32_t channel_capacity;
    int64_t nissued; /* acts enqueued on streams so far */
    int64_t nunder;  /* acts in flight: on streams, or sent and not yet taken */
    int64_t nleft;   /* acts in flight that belong to earlier, open runs */
};

/* State of open runs (open_run.h). */
enum { OPEN_RUNS = 4 };
struct open_runs {
    uint64_t failed; /* number of the first open run whose work failed; 0: none */
    int status;      /* error not reported yet; 0: none */
    char text[2048];
    struct put { /* number operands being copied to the device, of this run and of open runs */
        void *from, *to;
        size_t bytes, capacity; /* capacity: bytes allocated at `from` */
    } put[OPEN_RUNS + 1];
    uint32_t nput;
};

/* Opens the streams that a run's plan needs on the worker's devices, and reserves room for acts. Keeps the streams
 * of other plans. Work in flight is allowed only if the run can follow it (engine.h). driven: see stream_new
 * (device.h). E_MEMORY. */
int flows_make(struct worker *w, const struct run *run, bool driven);
/* Aborts stream work that waits for other devices, because the run has failed. */
void flows_cut(const struct worker *w);
void flows_free(struct worker *w);
/* Creates the communicators in which the run has ranks, before the run begins. Blocks until every process with ranks
 * has called. E_KERNEL; E_CANCEL: cut meanwhile. Session's thread. */
int run_connect(const struct run *r, const struct communicator_post *post);

static inline bool
flow_empty(const struct flow *f)
{
    return f->first == f->next;
}
static inline bool
flow_full(const struct flow *f)
{
    return f->next - f->first == FLOW_ACTS;
}
static inline struct under_way *
flow_oldest(const struct flow *f)
{
    return &f->act[f->first % FLOW_ACTS];
}
/* Returns the entry of the next act; *address: storage for its addresses. */
static inline struct under_way *
flow_next(const struct flow *f, void ***address)
{
    *address = f->address + (f->next % FLOW_ACTS) * f->naddress;
    return &f->act[f->next % FLOW_ACTS];
}

#endif
