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

#include "actors/act/run/engine.h"
#include "actors/act/run/flow.h"
#include "actors/act/run/lane.h"
#include "runtime/base/waker.h"

struct communicator;

struct in_state {
    int32_t tokens; /* full registers (control: signals) not yet consumed */
    int32_t used;   /* acts that have read the current register so far */
    int32_t read;   /* index of the current register */
    int32_t given;  /* streams: completed acts that have read register `give` */
    int32_t give;   /* streams: index of the register given back next */
    int32_t *left;  /* by producer's register: readers on this thread still holding the register */
};
struct out_state {
    int32_t write;       /* index of the register that the next act writes */
    int32_t publish_reg; /* streams: index of the next register to publish to readers that wait for completion */
    int32_t *readers;    /* by register: fans that hold the register */
};
struct actor {
    int32_t waits, begun, done;
    int64_t received; /* bytes read from other devices' memory in this run */
    struct in_state *in;
    struct out_state *out;
};

/* Stream work that fills a register: stream mark, and observed completion time. */
struct fill {
    int64_t mark, done_ns;
};

struct actors {
    const struct plan *plan;
    struct actor *actor; /* by task */
    int32_t *first_out;  /* by task: index of the first result */
    int32_t **left;      /* by result: [fan][register], readers still holding the register; owned by the fan's thread */
    struct fill **fill;  /* by result, then register; NULL: the device has no streams */
    int64_t *busy_ns;    /* by plan device: busy time of the last run, ns: periods from a first act until idle, summed;
                            owned by the device's thread */
    uint8_t *roles;      /* by plan device: bit mask of stream roles in use (sync.h) */
    int32_t *channel;    /* by channel: micro-batches the task may send or receive now; direct RECV: enqueued so far
                            (p2p.h); owned by the task's thread */
    int32_t *peer, npeer;               /* index of the first channel to each other host */
    struct communicator **communicator; /* communicators with ranks of this plan, in order of creation */
    int32_t ncommunicator;
    int32_t naddress;      /* maximum number of arguments and results of a task */
    struct poison *poison; /* state of runs that poison; NULL: none */
    struct arena arena;
};

/* An act whose bytes the transport is still reading. */
struct sending {
    int32_t task, piece;
    int64_t ticket, begin_ns;
};

/* A device thread and its state in a run. */
struct worker {
    struct engine *engine;
    uint32_t addr;           /* bus address */
    int id;                  /* thread index in the plan */
    _Atomic uint64_t *doing; /* progress word (engine_options.doing); NULL: none */
    struct run *run;
    const struct plan *plan;
    struct actors *actors;
    uint32_t run_id;
    bool active, stopped; /* active: in a run; stopped: starts no more acts */
    bool quit;            /* the thread must exit */
    int64_t todo;         /* acts left to do on this thread */
    struct lane *lane;
    int32_t nlane, lane_capacity;
    int32_t nready; /* number of ready tasks in the lanes */
    int32_t *ready; /* storage of the lanes' heaps */
    uint64_t *ready_key;
    int32_t capacity;
    struct flow *flow; /* streams of the thread's devices, of every plan so far */
    int32_t nflow;
    struct flow **flow_of; /* by plan device, then role; NULL: the work is synchronous */
    int32_t device_capacity;
    struct flow **edge_of; /* by channel: the flow of a direct channel whose task is on this thread; else NULL */
    int32_t channel_capacity;
    int64_t nissued; /* acts enqueued on streams so far */
    int64_t nunder;  /* acts in flight: on streams, or sent and not yet taken */
    int64_t nleft;   /* acts in flight that belong to earlier, open runs */
    uint64_t number; /* number of the current or last run */
    struct left {
        uint64_t failed; /* number of the first open run whose work failed; 0: none */
        int status;      /* error not reported yet; 0: none */
        char text[2048];
    } left;
    struct put { /* number operands being copied to the device, of this run and of open runs */
        void *from, *to;
        size_t bytes, capacity; /* capacity: bytes allocated at `from` */
    } put[OPEN_RUNS + 1];
    uint32_t nput;
    struct sending *sending;
    int32_t nsending, sending_capacity;
    struct waker rest; /* waker for streams, if no message can arrive */
    void **address;    /* addresses of an act's arguments and results */
    int32_t address_capacity;
    struct act_time *act; /* acts of a timed run */
    int64_t nact, act_capacity;
    int64_t acts, messages, thread_messages, allocations;
    int64_t asked; /* must_count() at the start of the run */
    int32_t on;    /* device that the thread has worked for since `since_ns`; -1: the thread is idle */
    int64_t since_ns;
    int64_t until_ns; /* deadline, ns, of waits for the next task of a row; INT64_MAX: only stream progress ends the
                         wait; 0: a ready task need not wait */
    int status;
    int32_t blame; /* program node whose act failed; -1: none */
    char text[2048];
    /* Read by signal handlers on other threads (activity.c). */
    atomic_int acting; /* index of the task whose kernel is running, plus 1; 0: none */
    struct awaited {
        _Atomic(const struct task *) task; /* task whose stream work the thread waits for; NULL: none */
        _Atomic(const struct plan *) plan;
        _Atomic(const char *) file; /* file in the user's program; NULL: unknown */
        atomic_int line;
    } awaited;
};

/* Returns the stream of a task; NULL: the work is synchronous. */
static inline struct flow *
flow_of(const struct worker *w, const struct task *t)
{
    return t->kind->flags & KIND_P2P ? w->edge_of[t->channel] : w->flow_of[t->device * NSTREAM + t->stream];
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
/* Runs one act of ready task number i of a lane (0: the first). A failure sets w->status and w->text. */
void worker_act(struct worker *w, struct lane *l, int i);
/* Returns true if the run may overwrite variables from now on; false: it was cancelled before. In engine.c. */
bool worker_may_update(struct worker *w);
/* Lets kernels on this thread poll whether to stop with the run; in engine.c. */
void worker_ask(struct worker *w);
/* Consumes a register of each output and a token of each input as an act begins, and notifies readers that need no
 * completion. mark: of the enqueued work; 0: not enqueued yet. */
void worker_take_ports(struct worker *w, int task, int piece, int64_t mark);
/* Enqueues the work of an act on its stream, which must have room. Returns the mark; -1: failed, see w->status. */
int64_t worker_enqueue(struct worker *w, int task, int piece, struct flow *f);
/* Makes a ready actor act: enters the task in its lane; a direct RECV offers acts instead (p2p.h). */
void worker_ready(struct worker *w, int task);
/* Fails the run on this worker for the reason in err_text(); the worker starts no more acts. In engine.c. */
void worker_fail(struct worker *w, int status);
/* Finishes acts whose work is complete. Returns false if there was none. */
bool worker_complete(struct worker *w);
/* Steps one driven stream, selected by `choose`. Returns false if the stream has no work that can run. */
bool worker_step(struct worker *w, uint64_t (*choose)(struct bus *b, uint64_t n), struct bus *b);
/* Returns true if worker_complete may find a completed act. */
bool worker_may_complete(const struct worker *w);
/* Sleeps until worker_may_complete is true, for at most `ns` nanoseconds; 0: a default limit. */
void worker_rest(struct worker *w, int64_t ns);
/* Wakes the worker `of`, because one of its streams has completed work. Called on the stream's thread; in engine.c. */
void worker_told(void *of);
/* Waits until a stream passes a mark; steps any driven stream, because the mark may depend on others. */
void flow_await(struct worker *w, struct flow *f, int64_t mark);
/* Steps the first driven stream that can do work. Returns false if no stream can. */
bool worker_drive(struct worker *w);
/* Waits until all streams are empty, and drops all acts in flight. */
void worker_drain(struct worker *w);

/* ---- open_run.c: runs that end before their work is complete (engine.h) ---- */
/* Returns the number of the first open run with work left; else of the current or last run. */
uint64_t left_first(const struct worker *w);
/* Returns true if the current run can end: every act is done (enqueued, if the run stays open), and so is the
 * OPEN_RUNS-th run before. */
static inline bool
worker_is_over(const struct worker *w)
{
    return w->todo == 0 && w->number - left_first(w) < OPEN_RUNS;
}
/* Returns true if the act belongs to a run that was left open. */
static inline bool
is_left(const struct worker *w, const struct under_way *u)
{
    return !w->active || u->run != w->number;
}
/* Ends the current run and leaves its work in flight. */
void worker_leave(struct worker *w);
/* Finishes the oldest act of a flow: the work is complete, and the run was left open. */
void left_finish(struct worker *w, struct flow *f);
/* Checks the acts of open runs for failures before the flow is emptied, and keeps the reason. */
void left_look(struct worker *w, const struct flow *f);
/* Orders the run and the copy of its numbers behind the open runs; if none is open, copies the numbers. Before
 * worker_begin, on the session's thread. E_KERNEL, E_MEMORY. */
int worker_put_numbers(struct worker *w, const struct run *run);
void puts_free(struct worker *w);
/* In engine.c: return the session's thread as a worker; the flag that an interrupt sets. */
struct worker *engine_first(const struct engine *e);
atomic_int *engine_interrupts(struct engine *e);
/* Sends a message to the worker of another thread of the plan; in engine.c. */
void worker_send(struct worker *w, int to, struct msg m);
/* Sends a message to an address, which may belong to another process. */
void worker_send_to(struct worker *w, uint32_t addr, struct msg m);

/* ---- activity.c: progress of a thread; functions that print are async-signal-safe ---- */
/* Records that the thread is about to wait for streams: for f only; NULL: for any stream. */
void worker_await(struct worker *w, const struct flow *f);
void worker_awaits_nothing(struct worker *w);
/* Prints the task that the thread computes, or waits for on a stream; "": none. */
void worker_activity(const struct worker *w, char *text, size_t size);
/* Prints the thread's first actor that is blocked by another thread, and the blocking task; "": none. */
void run_waiting(const struct run *r, int thread, char *text, size_t size);

/* In inspect.c, also for deadlock reports: return true if an input lacks full registers, an output a free one. actors:
 * struct actors. */
bool inspect_in(const void *actors, int32_t task, int32_t port);
bool inspect_out(const void *actors, int32_t task, int32_t out);
/* Returns a task that still reads the register the actor writes next; -1: none. */
int32_t inspect_reader(const void *actors, int32_t task, int32_t out);

/* Fills in the addresses of an act whose plan, task and piece are set; `address` provides the storage (address.c). */
void act_address(const struct worker *w, struct act *a, void **address);
/* Returns the address of register `reg` of a result, for the act on micro-batch `piece`. The only code that computes
 * register addresses. */
char *reg_address(const struct run *r, const struct where *w, int reg, int piece);

#endif
