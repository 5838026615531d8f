/* actor.h - the state of a running task (its actor), and the rule by which actors act.
 *
 *   An actor acts when every input has a full register and every output a free one.
 *
 * An act consumes a token of each input and a register of each output, runs the kernel, publishes the outputs to
 * their readers and gives the inputs back to their producers. On a stream (flow.h) an act consumes both at enqueue.
 * Each edge's `token` says whether the act publishes and gives back at enqueue or on completion.
 *
 * Only the device's thread touches an actor. Readers on another thread are notified through the worker's bus, one
 * message per thread (a fan). `waits` counts the ports that are not ready; 0: the actor is ready. */
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

/* A device thread and its state in a run. The session's thread reserves memory between runs; during a run only the
 * thread itself touches the fields, except `shown`. */
struct worker {
    struct engine *engine;
    uint32_t addr;           /* bus address */
    int id;                  /* thread index in the plan */
    _Atomic uint64_t *doing; /* progress word (engine_options.doing); NULL: none */
    struct run *run;
    const struct plan *plan;
    struct actors *actors;
    uint32_t run_id;
    uint64_t number;      /* number of the current or last run */
    bool active, stopped; /* active: in a run; stopped: starts no more acts */
    bool quit;            /* the thread must exit */
    int64_t todo;         /* acts left to do on this thread */
    struct lanes lanes;
    struct flows flows;
    struct open_runs open;
    struct waker rest; /* waker for streams, if no message can arrive */
    void **address;    /* addresses of an act's arguments and results */
    int32_t address_capacity;
    struct { /* acts whose bytes the transport is still reading */
        struct sending *sending;
        int32_t nsending, sending_capacity;
    } sends;
    struct { /* acts of a timed run */
        struct act_time *act;
        int64_t nact, act_capacity;
    } log;
    struct {
        int64_t acts, messages, thread_messages, allocations;
        int64_t asked; /* must_count() at the start of the run */
    } counts;
    struct {
        int32_t on; /* device that the thread has worked for since `since_ns`; -1: the thread is idle */
        int64_t since_ns;
    } bill;
    struct { /* the first failure of the run on this thread */
        int status;
        int32_t blame; /* program node whose act failed; -1: none */
        char text[2048];
    } outcome;
    struct {               /* read by signal handlers on other threads (activity.c) */
        atomic_int acting; /* index of the task whose kernel is running, plus 1; 0: none */
        struct awaited {
            _Atomic(const struct task *) task; /* task whose stream work the thread waits for; NULL: none */
            _Atomic(const struct plan *) plan;
            _Atomic(const char *) file; /* file in the user's program; NULL: unknown */
            atomic_int line;
        } awaited;
    } shown;
};

/* Returns the stream of a task; NULL: the work is synchronous. */
static inline struct flow *
flow_of(const struct worker *w, const struct task *t)
{
    return t->kind->flags & KIND_P2P ? w->flows.of_channel[t->channel]
                                     : w->flows.of_device[t->device * NSTREAM + t->stream];
}

/* Reserves memory for a run and opens streams for its devices. Session's thread, before START. driven: streams
 * advance only when stepped (worker_step). E_MEMORY. */
int worker_capacity(struct worker *w, const struct run *run, bool driven);
void worker_free(struct worker *w);
/* Resets the worker's actors; actors that need nothing become ready. From here on: worker's thread. */
void worker_begin(struct worker *w, struct run *run, uint32_t run_id);
/* Handles a message of the current run. */
void worker_receive(struct worker *w, const struct msg *m);
/* Bills the thread's time to this device from now on; -1: to no device. */
void worker_bill(struct worker *w, int32_t device);
/* Runs one act of ready task number i of a lane (0: the first). A failure sets w->outcome.status and w->outcome.text.
 */
void worker_act(struct worker *w, struct lane *l, int i);
/* Consumes a register of each output and a token of each input as an act begins, and notifies readers that need no
 * completion. mark: of the enqueued work; 0: not enqueued yet. */
void worker_take_ports(struct worker *w, int task, int piece, int64_t mark);
/* Enqueues the work of an act on its stream, which must have room. Returns the mark; -1: failed, see w->outcome.status.
 */
int64_t worker_enqueue(struct worker *w, int task, int piece, struct flow *f);
/* Makes a ready actor act: enters the task in its lane; a direct RECV offers acts instead (p2p.h). */
void worker_ready(struct worker *w, int task);
/* Finishes acts whose work is complete. Returns false if there was none. */
bool worker_complete(struct worker *w);
/* Steps one driven stream, selected by `choose`. Returns false if the stream has no work that can run. */
bool worker_step(struct worker *w, uint64_t (*choose)(struct bus *b, uint64_t n), struct bus *b);
/* Returns true if worker_complete may find a completed act. */
bool worker_may_complete(const struct worker *w);
/* Sleeps until worker_may_complete is true, for at most `ns` nanoseconds; 0: a default limit. */
void worker_rest(struct worker *w, int64_t ns);
/* Waits until a stream passes a mark; steps any driven stream, because the mark may depend on others. */
void flow_await(struct worker *w, struct flow *f, int64_t mark);
/* Steps the first driven stream that can do work. Returns false if no stream can. */
bool worker_drive(struct worker *w);
/* Waits until all streams are empty, and drops all acts in flight. */
void worker_drain(struct worker *w);

#endif
