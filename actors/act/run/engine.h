/* engine.h - device threads, and runs of a plan on them.
 *
 * Device thread 0 is the session's own, which works while it waits for a run. The other threads start when a plan
 * first needs them, sleep between runs, and own the actors and registers of their devices. Threads communicate by
 * messages only (message.h, bus.h). On the simulator bus one thread plays the others, too, in an order that a seed
 * decides. */
#ifndef RILLE_ACT_ENGINE_H
#define RILLE_ACT_ENGINE_H

#include "actors/act/bus/bus.h"
#include "actors/act/run/run.h"

#include <stdatomic.h>

struct engine;

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

/* Returns the number of the last run, from 1. */
uint64_t engine_last(const struct engine *e);

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
