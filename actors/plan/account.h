/* account.h - what the acts of a run say: who waited, for what, and how many bytes lay in registers when.
 *
 * It follows from a plan and when its acts began and ended, played or measured: the plan says which tokens and
 * registers act n of a task took, and so what it waited for last. Any thread; belongs to the arena given. */
#ifndef RILLE_PLAN_ACCOUNT_H
#define RILLE_PLAN_ACCOUNT_H

#include "actors/plan/play.h"

enum stall_kind {
    STALL_INPUT,    /* for the result of `on` */
    STALL_REGISTER, /* for a register of its own, that `on` still read */
    STALL_TURN,     /* for its thread, which did something else, or had no core, or for a message that was under way */
    STALL_END,      /* nothing was left to do */
};
/* The idle time of the devices of one virtual stage, of one kind. */
struct stall {
    enum stall_kind kind;
    int32_t stage;    /* whose devices were idle */
    int32_t task, on; /* of the longest wait: which task waited, for whom; -1: nobody */
    int64_t ns;       /* over all its devices and acts */
    int64_t longest;
    int32_t ndevice; /* that the stage has */
};

struct account {
    int64_t begin, end; /* of the first act, of the last */
    int64_t *busy;      /* by device: in acts */
    int32_t nstall;
    struct stall *stall; /* the longest first */
    int32_t npoint;
    int64_t *memory; /* [device][point]: the most bytes in registers in each of npoint equal parts of the time */
};
void plan_account(const struct plan *p, const struct act_time *act, int64_t nact, int32_t npoint, struct arena *a,
                  struct account *out);
/* Returns how many of the plan's devices can act at once: each that has streams, and one on each thread of the others.
 */
int32_t plan_at_once(const struct plan *p);

/* A register with bytes comes into use, or its last reader gives it back: +bytes, -bytes of a plan device. */
struct reg_change {
    int64_t at, bytes;
    int32_t device;
};
/* Lists all changes, in order of time. */
void plan_changes(const struct plan *p, const struct act_time *act, int64_t nact, struct arena *a,
                  struct reg_change **list, int64_t *n);

/* A result whose registers lie on a device when these hold most, as the plan lists its tasks. */
struct peak_tenant {
    int32_t task, out;
    int64_t bytes; /* of all its registers */
};
/* Gives at most n of them, the largest first; returns how many. */
int32_t plan_tenants(const struct plan *p, int32_t device, struct peak_tenant *out, int32_t n);
/* Appends the same as text: "gelu f32{4, 8} 128 B (net.lua:7), ..."; nothing where there are none. */
void plan_tenants_print(const struct plan *p, int32_t device, int32_t n, struct str *s);

/* A full register that an act of another device took: tasks; when the writing act ended, when the reading one began. */
struct crossing {
    int32_t from, to;
    int64_t sent, taken;
};
void plan_crossings(const struct plan *p, const struct act_time *act, int64_t nact, struct arena *a,
                    struct crossing **list, int64_t *n);

/* Reckons what one act of each task takes on one core, with the constants of rates.h: nanoseconds, by task. */
void plan_reckon(const struct plan *p, int64_t *cost);
/* Returns the same of one rank's part of a node's call, without what an act takes by itself. */
int64_t node_reckon(const struct program *p, int32_t node, struct arena *tmp);

/* Sets what an act of each task took, nanoseconds: the median of its acts; a task without any keeps what it has. False:
 * there are no acts. */
bool account_costs(const struct plan *p, const struct act_time *act, int64_t nact, int64_t *cost);
/* Returns by what share of their costs acts took longer or shorter, at the most, if all shares are as likely. */
double account_jitter(const struct act_time *act, int64_t nact, const int64_t *cost);

#endif
