/* proof.h - the proof of a plan: data that the files of the proof share.
 *
 *   verify_program.c           the program is legal: operands, types, signatures
 *   verify.c                   indices and counts are in range, ports and readers agree
 *   flow/verify_sync.c         every edge means "happens before", whatever the streams
 *   flow/verify_run.c          the plan runs to its end: by rounds, or in a greedy simulation of tokens
 *   flow/verify_channel.c      the partitions of all hosts run to their end together
 *   value/verify_value.c       tasks read and write the bytes that the program means (with the other files of `value`)
 *   value/verify_kernel.c      kernels compute their nodes; credits, phases and turns follow the schedule
 *   verify_memory.c            no two live registers share bytes; updates wait for all readers of the old values
 *   verify_act_offset.c        the same, on devices with per-act offsets
 *
 * Each file relies on the proofs of the files listed before it. The compiler guarantees that arrays are as long as
 * their counts say. If a second count contradicts the first, the proof finds this before it reads the array. Used by
 * a single plan_verify() call, on the caller's thread. */
#ifndef RILLE_ACTORS_PLAN_VERIFY_FLOW_PROOF_H
#define RILLE_ACTORS_PLAN_VERIFY_FLOW_PROOF_H

#include "actors/plan/outline/redistribute.h"
#include "actors/plan/model/plan.h"
#include "actors/plan/outline/shared_update.h"

/* The producing end of an edge, as the reading task states it: producer task, its out-port, and the fan (multicast
 * list) that contains the reader. */
struct inlet {
    int32_t task, out, fan;
    uint8_t token; /* enum sync */
};

/* Data of one proof of a plan. Tasks and ports take hundreds of bytes each, and an edge connects tasks that are
 * far apart in memory. So proofs copy the few fields that they need of an edge's other end to dense arrays, which
 * fit in caches. */
struct proof {
    const struct plan *plan;
    struct arena tmp;
    struct local_set mines;
    /* first_in[task]: index of the task's first in-port; first_out[task]: index of its first out-port. The ports of
     * all tasks have consecutive indices; the entries [ntask] are the numbers of all ports. */
    int64_t *first_in, *first_out;
    int32_t *thread, *nact; /* copies of the tasks' fields */
    struct inlet *inlet;    /* by in-port */
    int32_t *from;          /* by in-port: the task that produces its tokens */
    int32_t *nreg;          /* by out-port: number of registers; 0: a control output */
    int32_t *made;          /* by out-port: number of tokens that it publishes per run */
    /* by out-port: index in `reader` of the port's first reader; after the last port, the number of readers */
    int64_t *first_reader;
    struct reader *reader; /* readers of all out-ports, in the order of the out-ports */
    bool *shares;          /* by node: true if replicas share the node's update (shared_update_nodes) */
    bool *checks;          /* by node: true if the node validates data (program_checks) */
    /* by node: the node that sums its result over micro-batches, if the result has no other reader (program_sums);
     * NULL: not yet computed */
    int32_t *sums;
    /* by node: bit mask of results that may be f32 instead of half precision (program_wide); NULL: not computed */
    uint32_t *wide;
    bool *late; /* by task: true if the task acts once, in the last round (verify_run.c) */
    /* first task that acts per micro-batch but waits for the last micro-batch (such a task makes the proof by
     * rounds fail); -1: none */
    int32_t no_round;
};

/* Fails with E_PLAN and the text "plan: task 12, matmul (a.lua:3) on cpu:1: ...". */
int proof_fail(const struct proof *v, int32_t task, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Returns true if the arena has allocated enough bytes for n items of this size. Detects a count that is larger
 * than any array of the plan can be. */
bool proof_fits(int64_t n, size_t size, const struct arena *a);
/* Fails with E_PLAN and the text "...: <field> is <got>, and should be <want>". */
int proof_differs(const struct proof *v, int32_t task, const char *field, int64_t got, int64_t want);
/* Fails with E_PLAN unless got equals want. field: name of the compared field. */
static inline int
proof_same(const struct proof *v, int32_t task, const char *field, int64_t got, int64_t want)
{
    return got == want ? 0 : proof_differs(v, task, field, got, want);
}

/* proof_wide() returns a bit mask of the results of node i that may be f32 instead of half precision. proof_sum()
 * returns the node that sums the result of node i over micro-batches; -1: there is no such node, or the result has
 * other readers. */
uint32_t proof_wide(struct proof *v, int32_t i);
int32_t proof_sum(struct proof *v, int32_t i);

#endif
