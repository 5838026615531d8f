/* verify_value.h - records the contents of registers while a plan is proved.
 *
 * The verify_*.c files that prove values and the kind_*.c files share this header. Used by a single plan_verify()
 * call, on the caller's thread. */
#ifndef RILLE_PLAN_VERIFY_VALUE_H
#define RILLE_PLAN_VERIFY_VALUE_H

#include "actors/plan/verify/flow/proof.h"

struct content {
    /* value in the register: REF_NODE or REF_LEAF, the value before all moves. REF_NONE: any empty value, because
     * the register was filled by a move without sources */
    struct ref ref;
    const struct layout *layout; /* layout of the value; NULL: the register is a stage buffer of a move */
    /* mesh position of the shard. For a stage buffer: its index. For received data: index of the incoming channel */
    int32_t pos;
    bool received;               /* true: slices of a shard or stage buffer, received from another host */
    const struct plan_move *box; /* move that filled the register; NULL: a kernel filled it */
    /* view that states the order in which the kernel stored the dimensions; NULL: row-major */
    const struct view *turned;
};

struct values {
    struct proof *v;
    struct content *out; /* by out-port: content of its registers */
    int32_t *space;      /* by task: memory space of its results */
    int32_t *done;       /* by node: number of its local positions whose tasks were proved */
    int32_t *root_task;  /* by root part: task that writes the part; -1: none yet */
    /* by result, then by leaf: true if the value is fetched again for every micro-batch (value_again) */
    bool *again;
    /* by node and argument: kernel or move that made the addends of a partial value (value_read()) */
    const void ***version;
    /* kernel or move that made the addends of values that no kernel reads. node_version: by node whose result is
     * summed over micro-batches or copied dense; root_version: by root that a task copies */
    const void **node_version, **root_version;
    const void *box_version;
    int32_t sum;      /* node of the sum over micro-batches whose tasks are under proof */
    int32_t box;      /* index of the move under proof */
    int32_t box_task; /* number of tasks of this move proved so far */
    /* true: the previous task was a transfer to a cpu device, or a RECV for a transfer. The next task must be the
     * second half of that channel end */
    bool halfway;
    struct ref box_ref; /* value that the move under proof reads */
    struct redistributions crosses;
    const struct redistribution *cross; /* steps and channels of that move in this partition */
    struct hash_table kernels;          /* kernels that were proved already, by address */
    int32_t filled, nfill; /* first FILL task of the shared shard under proof; number of its FILL tasks so far */
    int32_t joined;        /* first FILL task of the shared shard whose JOIN tasks are under proof */
    int32_t *collected;    /* by device: its last collective task so far, -1: none; NULL: no collective yet */
};

/* ---- verify_value.c: proofs of tasks, one function per kind of task ---- */

/* Returns the source of operand k of a chain's member: an earlier member or an input of the chain. The source has
 * index -1 if neither is found. */
struct fuse_arg value_chain_source(const struct plan_chain *c, int32_t member, const struct prog_node *n, int32_t k);
int value_compute(struct values *s, int32_t task);
int value_accumulate(struct values *s, int32_t task);
int value_append(struct values *s, int32_t task);
int value_sum(struct values *s, int32_t task);
int value_copy(struct values *s, int32_t task);

int prove_values(struct proof *v);

#endif
