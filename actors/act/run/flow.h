/* flow.h - a flow: a device stream as the device's thread sees it, that is, the acts in flight on the stream, in
 * order.
 *
 * An act occupies its entry and its addresses until its work is complete. If the run stays open, the act may outlive
 * the run. Only the device's thread uses a flow; the session's thread creates and frees flows between runs. */
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
    int64_t order;  /* sequence number of the act among all acts of the thread */
    struct run *of; /* run to which the act belongs */
    uint64_t run;   /* number of the act's run; needed because `of` may be reused for a later run */
    /* the act counted as done when it was enqueued, because its run stays open: the run ends before the work */
    bool counted;
    struct line at; /* source line of the act in the user's program; set only when its run is left open */
};
struct flow {
    int kind, rank, role;
    bool driven;
    bool tells; /* true: the stream reports progress to the thread; false: the thread polls the stream */
    struct stream *stream;
    struct under_way *act; /* acts in flight: a ring of FLOW_ACTS entries */
    /* first: sequence number of the oldest act in flight; next: sequence number of the next act to be enqueued */
    int64_t first, next;
    int64_t until_ns; /* time, ns, at which the thread noticed the latest completion of an act */
    int64_t wanted;   /* stream mark that another stream is about to wait for; 0: none */
    void **address;   /* storage for the acts' addresses: FLOW_ACTS times naddress */
    int32_t naddress;
    /* For the stream of a point-to-point link (p2p.h): a ring of tasks to be enqueued on the stream, in order. The
     * ring has room for all acts that may be queued. */
    const struct communicator *edge; /* point-to-point link that the stream serves; NULL: none */
    int32_t *queue, nqueue, first_queued, queue_capacity;
    uint16_t turn; /* number of the link's next act in this run, from 0; equal at both ends of the link */
};

struct flows {         /* streams of the devices of a thread */
    struct flow *flow; /* streams of the thread's devices, for all plans that ran so far */
    int32_t nflow;
    struct flow **of_device; /* by plan device, then stream role: the stream; NULL: the work is synchronous */
    int32_t device_capacity;
    /* by channel: the stream of a direct channel whose task is on this thread; NULL: another channel */
    struct flow **of_channel;
    int32_t channel_capacity;
    int64_t nissued; /* number of acts enqueued on streams so far */
    int64_t nunder;  /* number of acts in flight: on streams, or of SENDs whose bytes the transport is still reading */
    int64_t nleft;   /* number of acts in flight that belong to earlier runs, which stayed open */
};

/* Open runs of a thread: runs that have ended while work is still on streams (open_run.h). Their failures, and live
 * numbers that are being copied for them. */
enum { OPEN_RUNS = 4 };
struct open_runs {
    uint64_t failed; /* number of the first open run whose work failed; 0: none */
    int status;      /* error that was not reported yet; 0: none */
    char text[2048];
    /* A pending copy of a run's live numbers to the device: scalars of the user's program that are evaluated again
     * before each run. Each open run has one copy, and the current run has one. */
    struct put {
        void *from, *to;
        size_t bytes, capacity; /* bytes: size of the copy; capacity: bytes allocated at `from` */
    } put[OPEN_RUNS + 1];
    uint32_t nput;
};

/* Opens the streams that a run's plan needs on the worker's devices, and reserves room for acts. Keeps the streams
 * of other plans. Earlier runs may still have work on the streams only if engine_follows() is true for the run.
 * driven: streams advance only when worker_step() is called. E_MEMORY. */
int flows_make(struct worker *w, const struct run *run, bool driven);
/* Aborts stream work that waits for other devices, because the run has failed. */
void flows_cut(const struct worker *w);
void flows_free(struct worker *w);
/* Creates the communicators in which the run has ranks, before the run begins. Blocks until every process with ranks
 * in these communicators has called this function, too. Called on the session's thread. E_KERNEL; E_CANCEL: aborted
 * meanwhile. */
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
/* Returns the entry for the next act of a stream, and sets *address to the storage for the act's addresses. */
static inline struct under_way *
flow_next(const struct flow *f, void ***address)
{
    *address = f->address + (f->next % FLOW_ACTS) * f->naddress;
    return &f->act[f->next % FLOW_ACTS];
}

#endif
