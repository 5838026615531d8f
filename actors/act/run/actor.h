/* actor.h - the state of a running task (its actor), and the rule by which actors act.
 *
 *   An actor acts when every input has a full register and every output a free one.
 *
 * A token is a full register that an input has not read yet. An act consumes a token of each input and a register of
 * each output, runs the kernel, publishes the outputs to their readers and returns the input registers to their
 * producers. An act on a stream (flow.h) consumes tokens and registers when it is enqueued. It publishes and returns
 * registers at enqueue or on completion, according to the synchronisation of the edge (in_port.token).
 *
 * Only the device's thread touches an actor. A fan is the group of a result's readers on one thread. One message on
 * the bus notifies a fan on another thread. `waits` counts the ports of an actor that are not ready; 0: the actor is
 * ready. */
#ifndef RILLE_ACT_ACTOR_H
#define RILLE_ACT_ACTOR_H

#include "actors/act/run/actors.h"
#include "actors/act/run/engine.h"
#include "actors/act/run/flow.h"
#include "actors/act/run/lane.h"
#include "runtime/base/waker.h"

struct sending {
    int32_t task, piece;
    int64_t ticket, begin_ns;
};

/* A device thread and its state in a run. The session's thread reserves memory between runs. During a run only the
 * device thread touches the fields, except `shown`. */
struct worker {
    struct engine *engine;
    uint32_t addr;             /* address of the thread on the bus */
    int id;                    /* index of the thread in the plan */
    struct recorder *recorder; /* flight recorder of the thread (engine_options.recorder); NULL: none */
    struct run *run;
    const struct plan *plan;
    struct actors *actors;
    uint32_t run_id;
    uint64_t number;      /* number of the current run; between runs, of the last run */
    bool active, stopped; /* active: the thread is in a run; stopped: it starts no more acts */
    bool quit;            /* true if the thread must exit */
    int64_t todo;         /* number of acts left to do on this thread in this run */
    struct lanes lanes;
    struct flows flows;
    struct open_runs open;
    struct waker rest; /* waker on which the thread sleeps if no message can arrive; streams wake it */
    void **address;    /* storage for the addresses of an act's arguments and results */
    int32_t address_capacity;
    struct { /* acts of SEND tasks whose bytes the transport is still reading */
        struct sending *sending;
        int32_t nsending, sending_capacity;
    } sends;
    struct { /* begin and end times of acts, if the run is timed */
        struct act_time *act;
        int64_t nact, act_capacity;
    } log;
    struct {
        int64_t acts, messages, thread_messages, allocations;
        int64_t asked; /* number of host allocations of the thread (must_count) before the run */
    } counts;
    struct {
        int32_t on; /* plan device to which the time since `since_ns` is charged; -1: none, the thread is idle */
        int64_t since_ns;
    } bill;
    struct { /* the first failure of this thread in the run */
        int status;
        int32_t blame;  /* index of the program node whose act failed; -1: none */
        int32_t module; /* module of the line (struct line) of that node; 0: none */
        char text[2048];
    } outcome;
    struct {               /* state that signal handlers on other threads read (activity.c) */
        atomic_int acting; /* 1 + index of the task whose kernel the thread computes; 0: none */
        struct awaited {
            _Atomic(const struct task *) task; /* task whose stream work the thread waits for; NULL: none */
            _Atomic(const struct plan *) plan;
            _Atomic(const char *) file; /* source file of the task in the user's program; NULL: unknown */
            atomic_int line;
        } awaited;
    } shown;
};

/* Returns the stream on which a task's work is enqueued; NULL: the work is synchronous. */
static inline struct flow *
flow_of(const struct worker *w, const struct task *t)
{
    return t->kind->flags & KIND_P2P ? w->flows.of_channel[t->channel]
                                     : w->flows.of_device[t->device * NSTREAM + t->stream];
}

/* Reserves memory for a run and opens streams on the thread's devices. Called on the session's thread, before START is
 * sent. driven: streams advance only when worker_step() is called. E_MEMORY. */
int worker_capacity(struct worker *w, const struct run *run, bool driven);
void worker_free(struct worker *w);
/* Resets the worker's actors, and marks the tasks that wait for nothing as ready. worker_begin() and the functions
 * below are called on the worker's thread. */
void worker_begin(struct worker *w, struct run *run, uint32_t run_id);
/* Handles a message of the current run. */
void worker_receive(struct worker *w, const struct msg *m);
/* Runs one act of ready task number i of a lane (0: the first in the lane's order). On failure sets
 * w->outcome.status and w->outcome.text. */
void worker_act(struct worker *w, struct lane *l, int i);
/* Claims a register of each output and consumes a full register of each input, when an act begins. Notifies the
 * readers that may act before the act is complete. mark: stream mark of the enqueued work; 0: the work is not
 * enqueued yet. */
void worker_take_ports(struct worker *w, int task, int piece, int64_t mark);
/* Enqueues the work of an act on its stream, which must have room. Returns the stream mark of the work; -1: failed,
 * see w->outcome.status. */
int64_t worker_enqueue(struct worker *w, int task, int piece, struct flow *f);
/* Adds a ready task to the queue of its lane. A RECV on a point-to-point link has no lane: its SEND is notified
 * instead (p2p.h). */
void worker_ready(struct worker *w, int task);
/* Finishes acts whose stream work is complete. Returns false if no act was finished. */
bool worker_complete(struct worker *w);
/* Executes the next piece of work of one stream, if streams are driven (advance only by this function). `choose`
 * selects the stream. Returns false if that stream has no work that can run. */
bool worker_step(struct worker *w, uint64_t (*choose)(struct bus *b, uint64_t n), struct bus *b);
/* Returns true if worker_complete may find a completed act. */
bool worker_may_complete(const struct worker *w);
/* Sleeps until worker_may_complete() is true, for at most `ns` nanoseconds; ns 0: at most LOOK_UP_NS. */
void worker_rest(struct worker *w, int64_t ns);
/* Waits until stream f passes a mark. If streams are driven by worker_step(), advances all of them, because the mark
 * may depend on other streams. */
void flow_await(struct worker *w, struct flow *f, int64_t mark);
/* Executes work of the first stream that has work to run, if streams are driven by worker_step(). Returns false if
 * no stream has work. */
bool worker_drive(struct worker *w);
/* Waits until all streams have done their work. The acts that were in flight then count as finished. */
void worker_drain(struct worker *w);

#endif
