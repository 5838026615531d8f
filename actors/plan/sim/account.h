/* account.h - analyses the acts of a run: idle time and its causes, and bytes in registers over time.
 *
 * Input: a plan, and the begin and end times of its acts, simulated or measured. The plan determines the tokens
 * and registers that an act used. The token or register that was ready last is the cause of the act's delay. Any
 * thread; results are allocated in the given arena. */
#ifndef RILLE_PLAN_ACCOUNT_H
#define RILLE_PLAN_ACCOUNT_H

#include "actors/plan/sim/plan_sim.h"

enum stall_kind {
    STALL_INPUT,    /* waited for data of task `on` */
    STALL_REGISTER, /* waited for a register of its result that task `on` was still reading */
    /* waited because its thread was busy with another device or had no core, or because a message was in transit */
    STALL_TURN,
    STALL_END, /* no work was left until the end of the run */
};
/* Idle time of one cause, summed over the devices of one virtual stage. */
struct stall {
    enum stall_kind kind;
    int32_t stage;    /* virtual stage whose devices were idle */
    int32_t task, on; /* task: the one with the longest wait; on: the task for which it waited, -1: none */
    int64_t ns;       /* total idle time, ns */
    int64_t longest;
    int32_t ndevice; /* number of devices of that stage */
};

struct account {
    int64_t begin, end; /* begin of the first act and end of the last act, ns */
    int64_t *busy;      /* by device: time spent in acts, ns */
    int32_t nstall;
    struct stall *stall; /* stalls, longest first */
    int32_t npoint;
    int64_t *memory; /* [device][point]: largest number of bytes in registers during each of npoint equal intervals */
};
void plan_account(const struct plan *p, const struct act_time *act, int64_t nact, int32_t npoint, struct arena *a,
                  struct account *out);
/* Returns the largest number of acts that can run at the same time. Counts one per device with streams, and one
 * per thread that has devices without streams. */
int32_t plan_at_once(const struct plan *p);

/* A change of the register bytes in use on a plan device: positive when a register is first written, negative when
 * its last reader returns it. */
struct reg_change {
    int64_t at, bytes;
    int32_t device;
};
/* Lists all changes of register bytes, sorted by time. */
void plan_changes(const struct plan *p, const struct act_time *act, int64_t nact, struct arena *a,
                  struct reg_change **list, int64_t *n);

/* A read of a register by an act of another device. sent: end of the writing act; taken: begin of the reading act,
 * ns. */
struct crossing {
    int32_t from, to;
    int64_t sent, taken;
};
void plan_crossings(const struct plan *p, const struct act_time *act, int64_t nact, struct arena *a,
                    struct crossing **list, int64_t *n);

/* Sets the cost of each task to the median duration of its acts, ns; a task without acts keeps its cost. Returns
 * false if there are no acts at all. */
bool account_costs(const struct plan *p, const struct act_time *act, int64_t nact, int64_t *cost);
/* Returns the jitter: the largest relative deviation of act durations from their costs, at most 1. The estimate
 * is twice the mean absolute deviation, as if deviations were uniformly distributed. */
double account_jitter(const struct act_time *act, int64_t nact, const int64_t *cost);

#endif
