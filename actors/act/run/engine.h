/* engine.h - device threads, and runs of a plan on them.
 *
 * Device thread 0 is the session's own, which works while it waits for a run. The other threads start when a plan
 * first needs them, sleep between runs, and own the actors and registers of their devices. Threads communicate by
 * messages only (message.h, bus.h). On the simulator bus one thread plays the others, too, in an order that a seed
 * decides. */
#ifndef RILLE_ACT_ENGINE_H
#define RILLE_ACT_ENGINE_H

#include "actors/act/bus/bus.h"
#include "actors/plan/sim/plan_sim.h"
#include "actors/plan/model/transport.h"

#include <stdatomic.h>

struct engine;

/* The inputs of a run: the plan, and the addresses of everything that is not a register. Owned by the session;
 * read-only during the run. */
struct run {
    const struct plan *plan;
    void **leaf;                       /* by leaf part */
    void **root;                       /* by root part */
    uint64_t *number;                  /* double or int64_t, by number */
    void **arena;                      /* by plan device */
    struct line *line;                 /* by program node: line in the user's program, of this run */
    struct actors *actors;             /* the state of the plan's actors, kept between runs */
    const struct channel_far *far;     /* by channel: its other end */
    const struct transport *transport; /* carries the bytes of channels; NULL: no channels */
    const struct lane_rows *rows;      /* schedule rows of lanes; NULL: lanes never wait */
    bool timed;                        /* record when each act began and ended */
    bool stays_open;                   /* the run ends when its work is on streams (see below) */
    /* Set by the engine. nth: run number, from 1. begin_ns: start time (CLOCK_MONOTONIC, like act times), or the end
     * of the previous run if later. elapsed_ns: duration; of an open run, until engine_run returned, and in the end
     * until its work was done. */
    uint64_t nth;
    int64_t begin_ns, elapsed_ns;
    bool poison; /* fill free registers with NaN (poison.h) */
    uint32_t id; /* run number given by the cluster; 0: the engine numbers the run */
    /* Tests: called with `hook` before an act begins work; an error fails the act. NULL: none. Set by engine_run. */
    int (*before_act)(void *hook, const struct act *a);
    void *hook;
};

/* Returns the bytes that a run needs on a device: the arena, and behind it the number operands if the device cannot
 * read host memory. */
int64_t run_arena_bytes(const struct plan *p, int device);
/* Sets *at to the numbers behind the arena and returns their bytes; 0: the numbers are in host memory only. */
size_t run_numbers(const struct run *r, int device, void **at);
struct communicator_post;
/* Creates the communicators in which the run has ranks, before the run begins. Blocks until every process with ranks
 * has called. E_KERNEL; E_CANCEL: cut meanwhile. Session's thread. */
int run_meet(const struct run *r, const struct communicator_post *post);
/* Returns a run of this plan with lists allocated in a; the caller binds addresses and numbers. */
struct run run_of(struct arena *a, const struct plan *p, struct actors *actors);

enum { DOING_OVER = 1 << 30 };
struct engine_options {
    int process; /* process number in the cluster; 0: alone */
    int threads; /* maximum number of device threads */
    const struct bus_kind *bus;
    uint64_t seed; /* seed of the simulator */
    int64_t spin_ns;
    struct bus *with; /* sim: bus of another process's engine to share; NULL: a new bus */
    /* In a cluster: bus addresses of a plan's threads, over processes; this process runs the threads with its
     * number. NULL: alone. */
    const uint32_t *route;
    int nroute;
    /* By thread: a progress word for observers outside the process: run << 32 | task + 1, with DOING_OVER when the
     * act is over. NULL: no observer. */
    _Atomic uint64_t *const *doing;
    /* In a cluster: the word by which all processes decide whether a run can still be cancelled. NULL: alone. */
    _Atomic uint64_t *gate;
};
int engine_new(const struct engine_options *o, struct engine **out);
void engine_free(struct engine **e);

/* Creates the actors of a plan; the owner keeps them and uses them for one run at a time. */
struct actors *actors_new(const struct plan *p);
void actors_free(struct actors **a);
size_t actors_bytes(const struct actors *a); /* bytes of host memory */
/* Returns true if the task acted at least once in the last run; after a failure its results may be half written. */
bool actors_acted(const struct actors *a, int task);
/* Record the acts of a run in another process: actors_clear resets all counts, actors_mark sets the count of a task. */
void actors_clear(struct actors *a);
void actors_mark(struct actors *a, int task, int32_t acts);

/* Between runs: inspect_begun returns how many acts an actor began in the last run; actors_print prints "done",
 * "ready", or what the actor waited for when the run ended (inspect.c). */
int32_t inspect_begun(const void *actors, int32_t task);
void actors_print(const struct actors *a, int32_t task, struct str *s);

/* Runs the plan to the end or to the first failure. On return no thread touches the run, unless it stays open.
 * Errors: the failing act's, prefixed by the line of its node ("a.lua:3: embedding: ..."); E_CANCEL after
 * engine_interrupt. */
int engine_run(struct engine *e, struct run *r);
/* Run a plan step by step, if several engines share a simulator and each has its partition of one run. The engines
 * begin before the first step. engine_step returns false after the last step, and engine_end returns the outcome. An
 * error or a stop in one engine ends the run in every engine. */
int engine_begin(struct engine *e, struct run *r);
bool engine_step(struct engine *e);
int engine_end(struct engine *e);
/* Stops the current run, but no later one. A run that has begun to update variables finishes its updates before it
 * stops. Any thread, async-signal-safe. */
void engine_interrupt(struct engine *e);
/* Prints a task of a run: "matmul (a.lua:3)"; on a device with streams, "matmul (a.lua:3) on late:0".
 * Async-signal-safe. */
void activity_print(const struct plan *p, const struct run *r, int32_t task, char *text, size_t size);
/* Returns true if a run is in progress. Async-signal-safe. */
bool engine_is_running(const struct engine *e);
/* Prints the task that a device thread computes. If the thread only waits for its devices: the first task with
 * incomplete work, also of an open run. "": none. Returns false if the thread does not exist. Any thread during a
 * run or a wait, async-signal-safe. */
bool engine_doing_thread(const struct engine *e, int thread, char *text, size_t size);
/* Prints the first actor of an idle thread that is blocked by another thread, and the blocking task; "": none.
 * Session's thread, async-signal-safe. */
bool engine_waiting_thread(const struct engine *e, int thread, char *text, size_t size);
/* Stops the run even during updates, because another process that the run needs has failed. Any thread. */
void engine_abort(struct engine *e);

/* ---- open runs ----
 * A run that stays open ends when all its acts have begun and the findings in its data are known; part of the work
 * is still on streams then. Until that work is complete, the plan and the run's buffers must stay in place. The work
 * of the next run, and the copy of its numbers, are ordered behind the open run on all streams. So the next run may
 * use the same arena and overwrite what the open run reads. At most OPEN_RUNS runs are open: a run ends only when
 * the OPEN_RUNS-th run before is complete. A failure of open work ends the run that is in progress when the failure
 * is found, or is reported by engine_left(); either way with the text of the failing act. Session's thread. */

/* Returns true if the run may stay open: its plan has one device with streams, in this process only, and the run is
 * neither timed nor poisoned. */
bool run_may_stay_open(const struct run *r);
enum { OPEN_RUNS = 4 };
/* Return the number of the last run, from 1; the number of the run up to which all are complete. */
uint64_t engine_last(const struct engine *e);
uint64_t engine_done(const struct engine *e);
/* Returns true if no run is open, or the run can be ordered behind the open runs; else the open runs must be awaited
 * first. */
bool engine_follows(const struct engine *e, const struct run *r);
/* Waits until the run with this number is complete. E_CANCEL: not complete, after engine_interrupt; never if `must`. */
int engine_await(struct engine *e, uint64_t number, bool must);
/* Returns the number of the first open run whose work failed since the last call; 0: none. Results of that run and
 * of all later ones are invalid. */
uint64_t engine_left_failed(struct engine *e);
/* Returns 0, or the error of failed open work (after fail()), once; never a failure that a run in progress reported. */
int engine_left(struct engine *e);

/* Returns count and array of a thread's acts in the last timed run; the array is valid until the next run. */
int64_t engine_acts(const struct engine *e, int thread, const struct act_time **acts);
int32_t engine_blame(const struct engine *e); /* program node whose act failed in the last run; -1: none */

struct engine_count {
    int64_t runs, acts, messages, thread_messages, allocations;
};
struct engine_count engine_count(const struct engine *e);

/* Tests: make the k-th act from now fail; make acts of an operator sleep. */
void engine_fail_act(struct engine *e, int64_t k);
void engine_slow(struct engine *e, const struct op *op, int64_t ns);

#endif
