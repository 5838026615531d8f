/* verify_value.h - records which values registers contain, while a plan is proved.
 *
 * Shared by the verify_*.c files that prove values and by the kind_*.c files. Used by a single plan_verify() call,
 * on the caller's thread. */
#ifndef RILLE_PLAN_VERIFY_VALUE_H
#define RILLE_PLAN_VERIFY_VALUE_H

#include "actors/plan/verify/verify.h"

struct content {
    struct ref ref; /* REF_NODE or REF_LEAF, a value before all moves; REF_NONE: result of a move of an empty value */
    const struct layout *layout; /* NULL: a stage buffer */
    int32_t pos;   /* mesh position; stage buffer: its index; received data: index of the incoming channel */
    bool received; /* received by a channel: slices of a shard or stage buffer on another host */
    const struct plan_move *box; /* move that produced the content; NULL: a kernel produced it */
    const struct view *turned;   /* kernel: view with the order in which dimensions are stored; NULL: row-major */
};

struct values {
    struct proof *v;
    struct content *out;   /* by out-port: content of its registers */
    int32_t *space;        /* by task: memory space of its results */
    int32_t *done;         /* by node: positions computed so far */
    int32_t *root_task;    /* by root part: task that writes it; -1: none yet */
    bool *again;           /* by result and leaf: the flag of value_again() */
    const void ***version; /* by node and argument: the *version of value_read() */
    /* the *version of value_read(): by node whose result is a sum over micro-batches or a dense copy; by root that a
     * task copies */
    const void **node_version, **root_version;
    const void *box_version;
    int32_t sum;      /* node whose sums are being proved */
    int32_t box;      /* index of the current move */
    int32_t box_task; /* number of tasks of the current move proved so far */
    /* the previous task moved a channel's data halfway, into host memory; the next task must move it the rest of the
     * way */
    bool halfway;
    struct ref box_ref; /* value that the current move reads */
    struct redistributions crosses;
    const struct redistribution *cross; /* steps and channels of the current move in this partition */
    struct hash_table kernels;          /* kernels already proved, by address */
    int32_t filled, nfill; /* shared shard that was filled last: its first FILL task, and the number of FILL tasks */
    int32_t joined;        /* shared shard that was joined last: its first FILL task */
    int32_t *collected;    /* by device: the last task of a collective so far, -1: none; NULL: no collective yet */
};

/* ---- verify_part.c ---- */

/* Returns the view of a dense shard, with the shard's position in the global tensor. */
struct view value_part(const struct layout *l, const struct type *t, int pos);
/* Returns the window of a shard that contains `slice`. lo: position of the shard's first element in the global
 * tensor; *skip: elements from the shard's start to the window. */
struct view value_window(const struct view *part, const int64_t *lo, const struct box *slice, int64_t *skip);
/* Returns the value before all moves that lead to r. */
struct ref value_unmoved(const struct proof *v, struct ref r);
bool value_varies(const struct proof *v, struct ref r); /* returns true if the value differs between micro-batches */
/* Returns a pointer to the flag that tells whether the value is fetched again for every micro-batch. */
bool *value_again(const struct values *s, struct ref r);
/* Finds shard pos of value r in layout l in a register or leaf with content c. Returns its view, and the elements to
 * skip. Returns false if c does not contain the shard. */
bool value_find(const struct proof *v, const struct content *c, struct ref r, const struct layout *l, int pos,
                struct view *view, int64_t *skip);
/* Finds result 0 of view operator n in a register or leaf with content c, by the operator's record. Returns false if
 * strides cannot express the view. */
bool value_find_view(const struct proof *v, const struct content *c, const struct prog_node *n, int pos,
                     struct view *view, int64_t *skip);
/* Finds the content of the register or leaf that argument a of a task reads. */
int value_content(const struct values *s, int32_t task, int32_t a, struct content *c);
struct content *value_result(const struct values *s, int32_t task, int32_t k);
/* Prove that argument a is shard pos of value r in layout l. value_read() returns its view, and the elements to skip
 * from the start of the register or leaf. value_read_at() proves that the argument's own skip is equal. Both
 * functions also prove that addends of a partial value belong together: all positions read addends made by the same
 * kernel or move. *version: NULL before the first call for a value. */
int value_read(const struct values *s, int32_t task, int32_t a, struct ref r, const struct layout *l, int pos,
               const void **version, struct view *view, int64_t *skip);
int value_read_at(const struct values *s, int32_t task, int32_t a, struct ref r, const struct layout *l, int pos,
                  const void **version, struct view *view);
/* Prove that the task runs on the right device: value_on() on this rank, value_at() on the rank at the task's mesh
 * position. */
int value_on(const struct values *s, int32_t task, int kind, int rank);
int value_at(const struct values *s, int32_t task, const struct layout *l);
/* Proves that the task acts once per micro-batch (piece) or once, and publishes results after every `every` acts. */
int value_rate(const struct values *s, int32_t task, bool piece, int32_t every);

/* ---- verify_value.c: functions that prove what a task of each kind reads and writes ---- */

/* Returns the source of operand k of a chain's member: an earlier member, else an input of the chain. Its index is
 * -1 if it is neither. */
struct fuse_arg value_chain_source(const struct plan_chain *c, int32_t member, const struct prog_node *n, int32_t k);
int value_compute(struct values *s, int32_t task);
int value_accumulate(struct values *s, int32_t task);
int value_sum(struct values *s, int32_t task);
int value_copy(struct values *s, int32_t task);

/* ---- verify_kernel.c ---- */

/* Proves that the task's kernel computes the task's node or chain. */
int value_kernel(struct values *s, int32_t task);

/* ---- verify_move.c ---- */

int value_move(struct values *s, int32_t task);
/* Proves the node and the rate of a task that moves the value s->box_ref. */
int value_moves(struct values *s, int32_t task);
/* value_takes() proves that the source of a step is this window; value_fills() proves that its destination is. */
int value_takes(const struct values *s, int32_t task, const struct box_from *f, const struct view *view, int64_t skip);
int value_fills(const struct values *s, int32_t task, const struct box_move *m, const struct view *view, int64_t skip);
/* Proves that f reads shard pos of the moved value. Returns the window of the shard that contains `slice`. */
int value_source(struct values *s, int32_t task, const struct box_from *f, int32_t pos, const struct box *slice,
                 struct view *view, int64_t *skip);
/* Proves the number and the value of a move, at its first task. Sets s->cross and s->box_ref. */
int value_begin_move(struct values *s, int32_t task);

/* ---- verify_collective.c ---- */

int value_collect(struct values *s, int32_t task);

/* ---- verify_send.c ---- */

int value_send(struct values *s, int32_t task);
int value_recv(struct values *s, int32_t task);
int value_p2p_send(struct values *s, int32_t task);
int value_p2p_recv(struct values *s, int32_t task);
int value_transfer(struct values *s, int32_t task);
/* The tasks of a hop have a fixed order: all SENDs, all RECVs, the FILLs of stage buffers, those of shards (send.c).
 * Returns the turn of the next task. *which: index of the outgoing or incoming channel, the stage buffer or the shard.
 */
enum turn { SEND_ALL, RECV_ALL, FILL_STAGES, FILL_PARTS, NO_TURN };
enum turn value_turn(struct values *s, int32_t *which);
/* Proves, after the last task of a move, that the move has all its tasks. */
int value_end_move(const struct values *s, int32_t task);
/* Proves that argument f->arg is the receive buffer of the channel that delivers source i of the step. */
int value_received(struct values *s, int32_t task, const struct box_work *w, const struct box_step *step, int32_t i,
                   const struct box_from *f);
/* Finds the dense block, of a stage buffer in this partition, that contains `slice`. */
bool value_stage_window(const struct box_plan *b, int32_t stage, const struct box *slice, struct view *view,
                        int64_t *skip);

/* ---- verify_shared_shard.c ---- */

int value_fill(struct values *s, int32_t task);
int value_join(struct values *s, int32_t task);

#endif
