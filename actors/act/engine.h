/* engine.h - the threads that own devices, and a run of a plan on them.
 *
 * Device thread 0 is the session's own: while it waits for a run, it works. The others start when a plan first needs
 * them, sleep between runs, and own the actors and registers of their devices. They talk by messages alone (message.h,
 * bus.h). On the simulator bus there is one thread, which plays all of them in an order that a seed decides. */
#ifndef RILLE_ACT_ENGINE_H
#define RILLE_ACT_ENGINE_H

#include "actors/act/bus.h"
#include "actors/plan/play.h"
#include "actors/plan/transport.h"

#include <stdatomic.h>

struct engine;

/* What a run needs: the plan, and where everything that is not a register lies. The session owns it; read-only while it
 * runs. */
struct run {
    const struct plan *plan;
    void **leaf;                       /* by leaf part */
    void **root;                       /* by root part */
    uint64_t *number;                  /* double or int64_t, by number */
    void **arena;                      /* by plan device */
    struct line *line;                 /* by program node: where in the user's program, this time */
    struct actors *actors;             /* the state of the plan's actors, kept between runs */
    const struct channel_far *far;     /* by channel: its other end */
    const struct transport *transport; /* of the bytes of channels; NULL when there are none */
    const struct lane_rows *rows;      /* of threads: for what they wait a little; NULL: for nothing */
    bool timed;                        /* record when each act began and ended */
    bool stays_open;                   /* it ends when all its work is on streams (see below) */
    /* The engine sets these: which of its runs it is, from 1; when it began (CLOCK_MONOTONIC, as the times of acts), or
     * the one before was done, if that was later; how long it took: of one that is open, until it was left. */
    uint64_t nth;
    int64_t begin_ns, elapsed_ns;
    bool poison; /* fill registers with NaN while they hold nothing (poison.h) */
    uint32_t id; /* its number, where a cluster counts them; 0: the engine does */
    /* Tests: the worker calls it with `hook` before each act begins its work; an error fails the act. NULL: none.
     * engine_run sets it. */
    int (*before_act)(void *hook, const struct act *a);
    void *hook;
};

/* How many bytes a run wants of a device: the arena, and behind it the numbers where its work does not reach the
 * host's.
 */
int64_t run_room(const struct plan *p, int device);
/* Gives where these lie, and how many bytes they are; 0: nowhere but in the run. */
size_t run_numbers(const struct run *r, int device, void **at);
struct communicator_post;
/* Makes the communicators in which the run has seats, where others have some too: before it begins, while all who have
 * seats do so. E_KERNEL; E_CANCEL: somebody cut them. The session's thread. */
int run_meet(const struct run *r, const struct communicator_post *post);
/* A run of this plan, its lists in a; addresses and numbers are still to be bound. */
struct run run_of(struct arena *a, const struct plan *p, struct actors *actors);

enum { DOING_OVER = 1 << 30 };
struct engine_options {
    int process; /* number in the cluster; 0 when alone */
    int threads; /* at most */
    const struct bus_kind *bus;
    uint64_t seed; /* of the simulator */
    int64_t spin_ns;
    struct bus *with; /* sim: the bus of another process's engine; NULL: one of its own */
    /* In a cluster: where messages reach each thread of a plan, which are those of several processes; this one has
     * those with its number. NULL: all threads are this process's own. */
    const uint32_t *route;
    int nroute;
    /* By thread of this process: a word in which it says what it does, for whoever looks from outside: run << 32 | task
     * + 1, with DOING_OVER when that act is over. NULL: nobody looks. */
    _Atomic uint64_t *const *doing;
    /* In a cluster: the word by which all processes decide together whether one can still cancel a run. NULL: alone. */
    _Atomic uint64_t *gate;
};
int engine_new(const struct engine_options *o, struct engine **out);
void engine_free(struct engine **e);

/* The actors of a plan; their owner makes them once, for one run at a time. */
struct actors *actors_new(const struct plan *p);
void actors_free(struct actors **a);
size_t actors_bytes(const struct actors *a); /* of host memory */
/* True if the task acted at least once in the last run; after a failure its results may be half written. */
bool actors_acted(const struct actors *a, int task);
/* The same of a run in another process: forgets what tasks did, notes how often one acted. */
void actors_clear(struct actors *a);
void actors_mark(struct actors *a, int task, int32_t acts);

/* Between runs: how many acts an actor began in the last one; prints "done", "ready", or what it waited for when the
 * run ended (look.c). */
int32_t look_begun(const void *actors, int32_t task);
void actors_print(const struct actors *a, int32_t task, struct str *s);

/* Runs to the end or to the first failure. On return no thread touches anything of the run, unless it stays open.
 * Errors: the failing act's, with the line of its node in front ("a.lua:3: embedding: ..."); E_CANCEL after
 * engine_interrupt. */
int engine_run(struct engine *e, struct run *r);
/* The same, a piece at a time: where several engines share a simulator, and each has its part of one run. All begin
 * before the first step; after the last step, which returns false, the end says how it went. An error or a stop in one
 * of them ends the run in all. */
int engine_begin(struct engine *e, struct run *r);
bool engine_step(struct engine *e);
int engine_end(struct engine *e);
/* Stops the run in progress, no later one, unless it has begun to update variables: then it finishes these updates, and
 * itself. Any thread, async-signal-safe. */
void engine_interrupt(struct engine *e);
/* Prints what a task of a run does: "matmul (a.lua:3)"; of a device whose work is done later, "matmul (a.lua:3) on
 * late:0". Async-signal-safe. */
void doing_print(const struct plan *p, const struct run *r, int32_t task, char *text, size_t size);
/* Is a run in progress? As safe. */
bool engine_is_running(const struct engine *e);
/* Prints what a device thread does, or, where it only waits for its devices, the first task whose work there has not
 * ended, of a run that is open too; "" for nothing; false: there is no such thread. Any thread while the run is in
 * progress, or somebody waits, async-signal-safe. */
bool engine_doing_thread(const struct engine *e, int thread, char *text, size_t size);
/* Prints what a thread that does nothing waits for, of the first of its actors that others keep from acting; "":
 * nothing. On the session's thread, async-signal-safe. */
bool engine_waiting_thread(const struct engine *e, int thread, char *text, size_t size);
/* Stops the run whatever it has begun: another process, without which it cannot end, has failed. Any thread. */
void engine_abort(struct engine *e);

/* ---- open runs ----
 * A run that stays open ends when all its acts have begun and all is known that they find in data: some of its work is
 * still on streams then. Until that is done its plan, and all that its bases name, must stay as they are; work of the
 * next run is ordered behind it, on all streams, and so are that run's numbers, so that this one may use the same
 * arena and write over what the first reads. OPEN_RUNS are open at most: the last of them ends when the first is done.
 * A failure of that work ends the run that is in progress when it is found, or is told by engine_left(); in both cases
 * the text is the failing act's. The session's thread. */

/* May it stay open: is its plan one device's of this process, that has streams, and does nobody want to know what its
 * acts did, or when? */
bool run_may_stay_open(const struct run *r);
enum { OPEN_RUNS = 4 };
/* Runs have numbers, from 1: that of the last one; up to which all are done. */
uint64_t engine_last(const struct engine *e);
uint64_t engine_done(const struct engine *e);
/* Can it be ordered behind the runs that are open? (Where none is it can.) Else these are to be waited for before. */
bool engine_follows(const struct engine *e, const struct run *r);
/* Waits until the run with this number is done. E_CANCEL after engine_interrupt, unless it must: it is not. */
int engine_await(struct engine *e, uint64_t number, bool must);
/* 0, or the number of the first run whose work failed when it was open, since this was asked last: all behind it, up to
 * the last run, are no good either. */
uint64_t engine_left_failed(struct engine *e);
/* 0, or after fail() why, unless a run in progress told it; it is told once. */
int engine_left(struct engine *e);

/* Acts of the last timed run, by thread: count and array (valid until the next run). */
int64_t engine_acts(const struct engine *e, int thread, const struct act_time **acts);
int32_t engine_blame(const struct engine *e); /* the program node whose act failed in it, -1 */

struct engine_count {
    int64_t runs, acts, messages, thread_messages, allocations;
};
struct engine_count engine_count(const struct engine *e);

/* Tests: makes the k-th act from now fail; makes acts of this operator sleep. */
void engine_fail_act(struct engine *e, int64_t k);
void engine_slow(struct engine *e, const struct op *op, int64_t ns);

#endif
