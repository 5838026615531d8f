/* engine.h - device threads, and runs of a plan on them.
 *
 * Device thread 0 is the session's own thread, which works while it waits for a run. The other threads are started
 * when a plan first needs them, sleep between runs, and own the actors and registers of their devices. Threads
 * communicate by messages only (message.h, bus.h). On the simulator bus one thread does the work of all threads, in
 * an order that a seed decides. */
#ifndef RILLE_ACT_ENGINE_H
#define RILLE_ACT_ENGINE_H

#include "actors/act/bus/bus.h"
#include "actors/act/run/recorder.h"
#include "actors/act/run/run.h"

#include <stdatomic.h>

struct engine;

struct engine_options {
    int process; /* number of this process in the cluster; 0: the only process */
    int threads; /* maximum number of device threads */
    const struct bus_kind *bus;
    uint64_t seed; /* simulator: seed of the random choices */
    int64_t spin_ns;
    struct bus *with; /* simulator: open bus of another process, where the new ends are added; NULL: a new bus */
    /* Cluster: bus address of each device thread of the plan, for all processes. A process runs the threads whose
     * address has its process number. NULL: no cluster. */
    const uint32_t *route;
    int nroute;
    struct recorder *const *recorder; /* by thread: flight recorder for other threads and processes; NULL: none */
    /* Cluster: shared word by which the processes decide whether a run can still be cancelled. NULL: no cluster. */
    _Atomic uint64_t *gate;
};
int engine_new(const struct engine_options *o, struct engine **out);
void engine_free(struct engine **e);

/* Runs the plan to the end or to the first failure. On return no thread uses the run, unless the run stays open
 * (open_run.h). Errors: the error of the failing act, prefixed by its source line ("a.lua:3: embedding: ...");
 * E_CANCEL after engine_interrupt(). */
int engine_run(struct engine *e, struct run *r);
/* Run a plan step by step, if several engines share a simulator and each engine runs one partition of the plan. All
 * engines begin before the first step. engine_step returns false after the last step; engine_end returns 0 or the
 * run's error. An error or a stop in one engine ends the run in every engine. */
int engine_begin(struct engine *e, struct run *r);
bool engine_step(struct engine *e);
int engine_end(struct engine *e);
/* Stops the current run; without a run, does nothing. A run that has begun to update variables finishes its updates
 * before it stops. Any thread, async-signal-safe. */
void engine_interrupt(struct engine *e);
/* Returns true if a run is in progress. Async-signal-safe. */
bool engine_is_running(const struct engine *e);
/* Prints the task that a device thread computes. If the thread only waits for its streams, prints the first task
 * whose stream work is incomplete; that task may belong to an open run. "": the thread neither computes nor waits.
 * Returns false if the thread does not exist. Any thread during a run or a wait, async-signal-safe. */
bool engine_doing_thread(const struct engine *e, int thread, char *text, size_t size);
/* Prints the first actor of an idle thread that waits for a task of another thread, and this task; "": no actor
 * waits for another thread. Called on the session's thread, async-signal-safe. */
bool engine_waiting_thread(const struct engine *e, int thread, char *text, size_t size);
/* Stops the run even if it is updating variables, because another process that takes part in the run has failed. Any
 * thread. */
void engine_abort(struct engine *e);

/* Returns the number of the last run; the first run has number 1. */
uint64_t engine_last(const struct engine *e);

/* Returns the number of acts of a thread in the last timed run, and their array; the array is valid until the next
 * run. */
int64_t engine_acts(const struct engine *e, int thread, const struct act_time **acts);
/* returns the index of the program node whose act failed in the last run; -1: none */
int32_t engine_blame(const struct engine *e);

struct engine_count {
    int64_t runs, acts, messages, thread_messages, allocations;
};
struct engine_count engine_count(const struct engine *e);

/* Plant faults for tests: engine_fail_act makes the k-th act from now fail; engine_slow makes acts of an operator
 * sleep. */
void engine_fail_act(struct engine *e, int64_t k);
void engine_slow(struct engine *e, const struct op *op, int64_t ns);

#endif
