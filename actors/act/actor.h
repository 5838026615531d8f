/* actor.h - what changes while a task runs, and the one rule by which it does.
 *
 *   An actor acts when every input has a full register and every output a free one.
 *
 * Acting takes a token of each input and a register of each output, runs the kernel, publishes the outputs to their
 * readers and gives the inputs back to their producers. On a stream (flow.h) it takes when it enqueues the work; it
 * publishes and gives back then or when the work is done, as each edge's token says.
 *
 * Only the thread that owns its device touches an actor. It tells readers on other threads through the worker's bus,
 * once for each thread (a fan). `waits` counts what is missing; 0 is ready. */
#ifndef RILLE_ACT_ACTOR_H
#define RILLE_ACT_ACTOR_H

#include "actors/act/engine.h"
#include "actors/act/flow.h"
#include "actors/act/lane.h"
#include "runtime/waker.h"

struct communicator;

struct in_state {
    int32_t tokens; /* full registers (control: signals) not yet taken */
    int32_t used;   /* acts that took the present register so far */
    int32_t read;   /* which register that is */
    int32_t given;  /* streams: acts that are done with the register that it gives back next */
    int32_t give;   /* streams: which register that is */
    int32_t *left;  /* by register of the producer: readers on this thread that still hold it */
};
struct out_state {
    int32_t write;       /* the register that the next act writes */
    int32_t publish_reg; /* streams: the register that it publishes next, to those who wait for the work */
    int32_t *readers;    /* by register: fans that hold it */
};
struct actor {
    int32_t waits, begun, done;
    int64_t received; /* bytes read of other devices' memory in this run */
    struct in_state *in;
    struct out_state *out;
};

/* Work on a stream that fills a register: its mark, and when it was found done. */
struct fill {
    int64_t mark, done_ns;
};

struct actors {
    const struct plan *plan;
    struct actor *actor;  /* by task */
    int32_t *first_out;   /* by task: number of its first result among all */
    int32_t **left;       /* by result: [fan][register], readers of that fan that still hold it; the fan's thread's */
    struct fill **fill;   /* by result: by register; NULL where its device has no streams */
    int64_t *busy_ns;     /* by plan device: in the last run, from its first act to when it had nothing to do, again and
                             again; the thread's of the device */
    uint8_t *roles;       /* by plan device: of its tasks (token.h) */
    int32_t *channel;     /* by channel: pieces that its task may send, or take, now; edge.h: that a RECV was told of;
                             that task's thread's */
    int32_t *peer, npeer; /* one channel to each other memory */
    struct communicator **communicator; /* in which the plan has seats, in the order in which they are made */
    int32_t ncommunicator;
    int32_t naddress;      /* arguments and results that a task has at most */
    struct poison *poison; /* of runs that poison; NULL */
    struct arena arena;
};

/* An act whose bytes the transport still reads. */
struct sending {
    int32_t task, piece;
    int64_t ticket, begin_ns;
};

/* A device thread while it runs a plan. */
struct worker {
    struct engine *engine;
    uint32_t addr;           /* where messages reach it */
    int id;                  /* thread of the plan */
    _Atomic uint64_t *doing; /* engine_options.doing; NULL */
    struct run *run;
    const struct plan *plan;
    struct actors *actors;
    uint32_t run_id;
    bool active, stopped; /* in a run; it acts no more */
    bool quit;            /* the thread is to leave */
    int64_t todo;         /* acts that are still to come here */
    struct lane *lane;
    int32_t nlane, lane_capacity;
    int32_t nready; /* of all lanes */
    int32_t *ready; /* room for their heaps */
    uint64_t *ready_key;
    int32_t capacity;
    struct flow *flow; /* the streams of its devices, of all plans so far */
    int32_t nflow;
    struct flow **flow_of; /* by plan device, then role: NULL when its work is done at once */
    int32_t device_capacity;
    struct flow **edge_of; /* by channel: of a direct one whose task is this thread's; else NULL */
    int32_t channel_capacity;
    int64_t nissued; /* acts on streams, so far */
    int64_t nunder;  /* acts whose work is under way: on streams, or sent and not yet taken */
    int64_t nleft;   /* of these, those of runs before, which are open */
    uint64_t number; /* of the run in progress, or the last one */
    struct left {
        uint64_t failed; /* the number of the first open run whose work failed; 0: of none */
        int status;      /* why, where nobody was told yet; 0 */
        char text[2048];
    } left;
    struct put { /* numbers on their way to the device, of this run and of open ones */
        void *from, *to;
        size_t bytes, capacity; /* capacity: of from */
    } put[OPEN_RUNS + 1];
    uint32_t nput;
    struct sending *sending;
    int32_t nsending, sending_capacity;
    struct waker rest; /* where it sleeps for a stream, if no message can come */
    void **address;    /* of an act's arguments and results */
    int32_t address_capacity;
    struct act_time *act; /* of a timed run */
    int64_t nact, act_capacity;
    int64_t acts, messages, thread_messages, allocations;
    int64_t asked; /* must_count() when the run began */
    int32_t on;    /* the device that the thread works for since `since_ns`, -1: it has nothing to do */
    int64_t since_ns;
    int64_t until_ns; /* all that is ready waits so long for what is next in rows, INT64_MAX: until a stream has gone
                         on; 0: something does not */
    int status;
    int32_t blame; /* program node whose act failed, -1 */
    char text[2048];
    /* Signal handlers of other threads read these (doing.c). */
    atomic_int acting; /* the task whose kernel runs now, plus 1; 0: none */
    struct awaited {
        _Atomic(const struct task *) task; /* whose work on a stream the thread waits for; NULL: for none */
        _Atomic(const struct plan *) plan;
        _Atomic(const char *) file; /* where in the user's program; NULL */
        atomic_int line;
    } awaited;
};

/* The stream of a task, NULL: its work is done at once. */
static inline struct flow *
flow_of(const struct worker *w, const struct task *t)
{
    return t->kind->flags & KIND_DIRECT ? w->edge_of[t->channel] : w->flow_of[t->device * NSTREAM + t->stream];
}

/* Makes room for a run of this plan, and streams for its devices; on the session thread, before START. driven: streams
 * do their work when worker_step says so. E_MEMORY. */
int worker_capacity(struct worker *w, const struct run *run, bool driven);
void worker_free(struct worker *w);
/* Puts the worker's actors back to their start; those that need nothing are ready. All that follows: the worker's
 * thread. */
void worker_begin(struct worker *w, struct run *run, uint32_t run_id);
/* Takes a message of this run. */
void worker_receive(struct worker *w, const struct msg *m);
/* From now on the thread works for this device; -1: it has nothing to do. */
void worker_bill(struct worker *w, int32_t device);
/* Ready actor number i of a lane (0: the first) acts once. A failure sets w->status and w->text. */
void worker_act(struct worker *w, struct lane *l, int i);
/* May the run write over variables from now on? false: somebody cancelled it before. In engine.c. */
bool worker_may_update(struct worker *w);
/* Lets whoever stops the run stop this thread's kernels too; in engine.c. */
void worker_ask(struct worker *w);
/* An act begins: it takes a register of each output and a token of each input. Its work is enqueued as the mark says;
 * 0: it will be. Those who come behind it are told. */
void worker_take_ports(struct worker *w, int task, int piece, int64_t mark);
/* Enqueues the work of an act on its stream, which has room for it; its mark. -1: that failed, as w->status says. */
int64_t worker_enqueue(struct worker *w, int task, int piece, struct flow *f);
/* Nothing holds the actor up any more. */
void worker_ready(struct worker *w, int task);
/* The run has failed here, for the reason in err_text(): the worker acts no more. In engine.c. */
void worker_fail(struct worker *w, int status);
/* Finishes acts whose streams have done their work; false: there are none. */
bool worker_complete(struct worker *w);
/* Driven streams: one of them, by choice, does its oldest work; false: it has none that it can do. */
bool worker_step(struct worker *w, uint64_t (*choose)(struct bus *b, uint64_t n), struct bus *b);
/* May worker_complete find something? */
bool worker_may_complete(const struct worker *w);
/* Sleeps until it may, or so many nanoseconds have gone by; 0: a while. */
void worker_rest(struct worker *w, int64_t ns);
/* Wakes the worker `of`: one of its streams has done more work. On the stream's thread; in engine.c. */
void worker_told(void *of);
/* Waits until a stream has come so far: others' work may have to go first. */
void flow_await(struct worker *w, struct flow *f, int64_t mark);
/* Of driven streams one does its oldest work, the first that can; false: none can. */
bool worker_drive(struct worker *w);
/* Waits until nothing is on a stream any more. */
void worker_drain(struct worker *w);

/* ---- open_run.c: runs that end before their work is done (engine.h) ---- */
/* The number of the first run that has work left of it; of the run in progress, or the last one, where none has. */
uint64_t left_first(const struct worker *w);
/* Is nothing of the run in progress left to wait for? Of one that stays open: but for its work on streams. */
static inline bool
worker_is_over(const struct worker *w)
{
    return w->todo == 0 && w->number - left_first(w) < OPEN_RUNS;
}
/* Is the act of a run that was left open? */
static inline bool
is_left(const struct worker *w, const struct under_way *u)
{
    return !w->active || u->run != w->number;
}
/* The run in progress ends, and what it has under way is left. */
void worker_leave(struct worker *w);
/* The oldest act of a flow is of a run that was left: its work is done. */
void left_finish(struct worker *w, struct flow *f);
/* Before the flow is emptied: is what was left of it done, or does it fail? Keeps why. */
void left_look(struct worker *w, const struct flow *f);
/* Orders the run behind what was left, and its numbers; where nothing was, copies them. Before worker_begin, on the
 * session's thread. E_KERNEL, E_MEMORY. */
int worker_put_numbers(struct worker *w, const struct run *run);
void puts_free(struct worker *w);
/* In engine.c: the session's thread as a device thread; the word that an interrupt sets. */
struct worker *engine_first(const struct engine *e);
atomic_int *engine_interrupts(struct engine *e);
/* Sends from this worker to the one of another thread of the plan; in engine.c. */
void worker_send(struct worker *w, int to, struct msg m);
/* The same to an address, which may be another process's. */
void worker_send_to(struct worker *w, uint32_t addr, struct msg m);

/* ---- doing.c: what a thread does and waits for; all that print are async-signal-safe ---- */
/* The thread is about to wait for streams, of them for f alone, NULL: for any. */
void worker_await(struct worker *w, const struct flow *f);
void worker_awaits_nothing(struct worker *w);
/* Prints what the thread computes, or waits for on streams; "": nothing. */
void worker_doing(const struct worker *w, char *text, size_t size);
/* Prints for what the first actor of a thread waits that others keep from acting; "": for nothing. */
void run_waiting(const struct run *r, int thread, char *text, size_t size);

/* look.c, for deadlock reports too: does an actor lack full registers, a free one? actors: struct actors. */
bool look_in(const void *actors, int32_t task, int32_t port);
bool look_out(const void *actors, int32_t task, int32_t out);
/* Who reads the register that the actor writes next, or -1. */
int32_t look_reader(const void *actors, int32_t task, int32_t out);

/* Fills in the addresses of an act whose plan, task and piece are known; `address` has room for them (address.c). */
void act_address(const struct worker *w, struct act *a, void **address);
/* Where a result lies in a run that the act for a piece puts into register reg. The only place that knows. */
char *reg_address(const struct run *r, const struct where *w, int reg, int piece);

#endif
