/* verify_value.h - records the contents of registers while a plan is proved.
 *
 * The verify_*.c files that prove values and the kind_*.c files share this header. Used by a single plan_verify()
 * call, on the caller's thread. */
#ifndef RILLE_PLAN_VERIFY_VALUE_H
#define RILLE_PLAN_VERIFY_VALUE_H

#include "actors/plan/verify/verify.h"

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

/* ---- verify_part.c ---- */

/* Returns the view of a dense shard, with the shard's position in the global tensor. */
struct view value_part(const struct layout *l, const struct type *t, int pos);
/* Returns the view of `slice` in a shard. lo: position of the shard's first element in the global tensor; *skip:
 * elements from the shard's start to the slice. */
struct view value_window(const struct view *part, const int64_t *lo, const struct box *slice, int64_t *skip);
/* Returns the value of which r is a copy that moves made; r itself if no move made r. */
struct ref value_unmoved(const struct proof *v, struct ref r);
bool value_varies(const struct proof *v, struct ref r); /* returns true if the value differs between micro-batches */
/* Returns a pointer to the flag of value r in s->again: true if the value is fetched again for every micro-batch. */
bool *value_again(const struct values *s, struct ref r);
/* Looks for shard pos of value r in layout l in a register or leaf with content c. Returns true if the shard is
 * there: *view is the shard's view, *skip the number of elements before it. */
bool value_find(const struct proof *v, const struct content *c, struct ref r, const struct layout *l, int pos,
                struct view *view, int64_t *skip);
/* Looks for the result of view operator n in a register or leaf with content c, which stores the operator's
 * operand. Returns true if strides can express the result: *view is its view, *skip the number of elements before
 * it. */
bool value_find_view(const struct proof *v, const struct content *c, const struct prog_node *n, int pos,
                     struct view *view, int64_t *skip);
/* Finds the content of the register or leaf that argument a of a task reads. */
int value_content(const struct values *s, int32_t task, int32_t a, struct content *c);
struct content *value_result(const struct values *s, int32_t task, int32_t k);
/* Prove that argument a of a task is shard pos of value r in layout l. value_read() returns the shard's view, and
 * in *skip the number of elements from the start of the register or leaf to the shard. value_read_at() proves that
 * the argument's offset is this number. Both functions also prove that the addends of a partial value belong
 * together: tasks at all positions must read addends made by the same kernel or move. *version: identifies that
 * kernel or move; NULL before the first call for a value. */
int value_read(const struct values *s, int32_t task, int32_t a, struct ref r, const struct layout *l, int pos,
               const void **version, struct view *view, int64_t *skip);
int value_read_at(const struct values *s, int32_t task, int32_t a, struct ref r, const struct layout *l, int pos,
                  const void **version, struct view *view);
/* Prove that the task runs on the right device: value_on() expects the device with this kind and rank, value_at()
 * expects the device at the task's mesh position. */
int value_on(const struct values *s, int32_t task, int kind, int rank);
int value_at(const struct values *s, int32_t task, const struct layout *l);
/* Proves the task's rate. piece true: the task must act once per micro-batch; false: once per run. every: number of
 * acts after which the task must publish a result. */
int value_rate(const struct values *s, int32_t task, bool piece, int32_t every);

/* ---- verify_value.c: proofs of tasks, one function per kind of task ---- */

/* Returns the source of operand k of a chain's member: an earlier member or an input of the chain. The source has
 * index -1 if neither is found. */
struct fuse_arg value_chain_source(const struct plan_chain *c, int32_t member, const struct prog_node *n, int32_t k);
int value_compute(struct values *s, int32_t task);
int value_accumulate(struct values *s, int32_t task);
int value_append(struct values *s, int32_t task);
int value_sum(struct values *s, int32_t task);
int value_copy(struct values *s, int32_t task);

/* ---- verify_kernel.c ---- */

/* Proves that the task's kernel computes the task's node or chain. */
int value_kernel(struct values *s, int32_t task);

/* ---- verify_move.c ---- */

int value_move(struct values *s, int32_t task);
/* Proves that the task is part of the move of value s->box_ref: the task must name the node of that value, and act
 * as often as the value requires. */
int value_moves(struct values *s, int32_t task);
/* Prove one step of a move. value_takes() proves that source f is this window of its argument. value_fills() proves
 * that the destination is this window of the result. */
int value_takes(const struct values *s, int32_t task, const struct box_from *f, const struct view *view, int64_t skip);
int value_fills(const struct values *s, int32_t task, const struct box_move *m, const struct view *view, int64_t skip);
/* Proves that source f reads shard pos of the moved value. Returns the window of `slice` in the shard. */
int value_source(struct values *s, int32_t task, const struct box_from *f, int32_t pos, const struct box *slice,
                 struct view *view, int64_t *skip);
/* Proves, at the first task of a move, that the move has the right place in the list and moves the right value.
 * Sets s->cross and s->box_ref. */
int value_begin_move(struct values *s, int32_t task);

/* ---- verify_collective.c ---- */

int value_collect(struct values *s, int32_t task);

/* ---- verify_send.c ---- */

int value_send(struct values *s, int32_t task);
int value_recv(struct values *s, int32_t task);
int value_p2p_send(struct values *s, int32_t task);
int value_p2p_recv(struct values *s, int32_t task);
int value_transfer(struct values *s, int32_t task);
/* Groups of tasks of a hop, as value_turn() returns them for the next task of the hop. The order is: SENDs of
 * shards; for each level of stage buffers RECVs, FILLs of these stage buffers, and SENDs of them; RECVs for shards;
 * FILLs of shards (send.c). *which: index of the channel, stage buffer or shard. */
enum turn { SEND_ALL, RECV_ALL, FILL_STAGES, FILL_PARTS, NO_TURN };
enum turn value_turn(struct values *s, int32_t *which);
/* At the last task of a move, proves that the move had all its tasks. At other tasks, does nothing. */
int value_end_move(const struct values *s, int32_t task);
/* Proves that argument f->arg is the receive buffer of the right channel: the channel for source i of the step. */
int value_received(struct values *s, int32_t task, const struct box_work *w, const struct box_step *step, int32_t i,
                   const struct box_from *f);
/* Finds the dense block that contains `slice` in a stage buffer of this partition. */
bool value_stage_window(const struct box_plan *b, int32_t stage, const struct box *slice, struct view *view,
                        int64_t *skip);

/* ---- verify_shared_shard.c ---- */

int value_fill(struct values *s, int32_t task);
int value_join(struct values *s, int32_t task);

#endif
