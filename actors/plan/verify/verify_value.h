/* verify_value.h - records the contents of registers while a plan is proved.
 *
 * The verify_*.c files that prove values and the kind_*.c files share this header. Used by a single plan_verify()
 * call, on the caller's thread. */
#ifndef RILLE_PLAN_VERIFY_VALUE_H
#define RILLE_PLAN_VERIFY_VALUE_H

#include "actors/plan/verify/verify.h"

struct content {
    /* REF_NODE or REF_LEAF: the value before all moves; REF_NONE: a move of an empty value made the content */
    struct ref ref;
    const struct layout *layout; /* layout of the value; NULL: the content is a stage buffer */
    /* mesh position; for a stage buffer: its index; for received data: index of the incoming channel */
    int32_t pos;
    bool received;               /* received from another host: slices of a shard or stage buffer */
    const struct plan_move *box; /* move that made the content; NULL: a kernel did */
    /* content made by a kernel: view with the order in which its dimensions are stored; NULL: row-major */
    const struct view *turned;
};

struct values {
    struct proof *v;
    struct content *out; /* by out-port: content of its registers */
    int32_t *space;      /* by task: memory space of its results */
    int32_t *done;       /* by node: number of positions whose tasks were proved */
    int32_t *root_task;  /* by root part: task that writes the part; -1: none yet */
    /* by result, then by leaf: true if the value is fetched again for every micro-batch (value_again) */
    bool *again;
    const void ***version; /* by node and argument: maker of the addends, as *version of value_read() identifies it */
    /* *version of value_read(). node_version: by node whose result is a sum over micro-batches or a dense copy;
     * root_version: by root that a task copies */
    const void **node_version, **root_version;
    const void *box_version;
    int32_t sum;      /* node whose sums are being proved */
    int32_t box;      /* index of the current move */
    int32_t box_task; /* number of tasks of the current move proved so far */
    /* the previous task moved a channel's data only to or from a cpu device; the next task must do the rest */
    bool halfway;
    struct ref box_ref; /* value that the current move reads */
    struct redistributions crosses;
    const struct redistribution *cross; /* steps and channels of the current move in this partition */
    struct hash_table kernels;          /* kernels that were proved already, by address */
    int32_t filled, nfill;              /* shared shard under proof: its first FILL task; number of its FILL tasks */
    int32_t joined;                     /* shared shard that is being joined: its first FILL task */
    int32_t *collected; /* by device: its last collective task so far, -1: none; NULL: no collective yet */
};

/* ---- verify_part.c ---- */

/* Returns the view of a dense shard, with the shard's position in the global tensor. */
struct view value_part(const struct layout *l, const struct type *t, int pos);
/* Returns the view of `slice` in a shard. lo: position of the shard's first element in the global tensor; *skip:
 * elements from the shard's start to the slice. */
struct view value_window(const struct view *part, const int64_t *lo, const struct box *slice, int64_t *skip);
/* Returns the value from which moves made r; r itself if no move made r. */
struct ref value_unmoved(const struct proof *v, struct ref r);
bool value_varies(const struct proof *v, struct ref r); /* returns true if the value differs between micro-batches */
/* Returns a pointer to the flag of value r in s->again: true if the value is fetched again for every micro-batch. */
bool *value_again(const struct values *s, struct ref r);
/* Finds shard pos of value r in layout l in a register or leaf with content c. Returns the view of the shard, and
 * in *skip the elements before it. Returns false if c does not contain the shard. */
bool value_find(const struct proof *v, const struct content *c, struct ref r, const struct layout *l, int pos,
                struct view *view, int64_t *skip);
/* The operand of view operator n is stored in a register or leaf with content c. Returns the view of the part
 * that is the operator's result, and in *skip the elements before the part. Returns false if strides cannot
 * express the view. */
bool value_find_view(const struct proof *v, const struct content *c, const struct prog_node *n, int pos,
                     struct view *view, int64_t *skip);
/* Finds the content of the register or leaf that argument a of a task reads. */
int value_content(const struct values *s, int32_t task, int32_t a, struct content *c);
struct content *value_result(const struct values *s, int32_t task, int32_t k);
/* Prove that argument a is shard pos of value r in layout l. value_read() returns the shard's view, and in *skip
 * the elements from the start of the register or leaf. value_read_at() proves that the argument's offset is this
 * number of elements. Both functions also prove that the addends of a partial value belong together: all
 * positions must read addends made by the same kernel or move. *version: identifies that kernel or move; NULL
 * before the first call for a value. */
int value_read(const struct values *s, int32_t task, int32_t a, struct ref r, const struct layout *l, int pos,
               const void **version, struct view *view, int64_t *skip);
int value_read_at(const struct values *s, int32_t task, int32_t a, struct ref r, const struct layout *l, int pos,
                  const void **version, struct view *view);
/* Prove that the task runs on the right device: value_on() expects the device with this kind and rank, value_at()
 * expects the device at the task's mesh position. */
int value_on(const struct values *s, int32_t task, int kind, int rank);
int value_at(const struct values *s, int32_t task, const struct layout *l);
/* Proves that the task acts once per micro-batch (piece true) or once, and publishes results after every `every`
 * acts. */
int value_rate(const struct values *s, int32_t task, bool piece, int32_t every);

/* ---- verify_value.c: proofs of tasks by kind ---- */

/* Returns the source of operand k of a chain's member: an earlier member or an input of the chain. The source has
 * index -1 if neither is found. */
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
/* Prove the windows of a step: value_takes() proves the window that a source reads, value_fills() proves the
 * window of the destination. */
int value_takes(const struct values *s, int32_t task, const struct box_from *f, const struct view *view, int64_t skip);
int value_fills(const struct values *s, int32_t task, const struct box_move *m, const struct view *view, int64_t skip);
/* Proves that source f reads shard pos of the moved value. Returns the window of `slice` in the shard. */
int value_source(struct values *s, int32_t task, const struct box_from *f, int32_t pos, const struct box *slice,
                 struct view *view, int64_t *skip);
/* Proves, at the first task of a move, the move's place in the list and the moved value. Sets s->cross and
 * s->box_ref. */
int value_begin_move(struct values *s, int32_t task);

/* ---- verify_collective.c ---- */

int value_collect(struct values *s, int32_t task);

/* ---- verify_send.c ---- */

int value_send(struct values *s, int32_t task);
int value_recv(struct values *s, int32_t task);
int value_p2p_send(struct values *s, int32_t task);
int value_p2p_recv(struct values *s, int32_t task);
int value_transfer(struct values *s, int32_t task);
/* The tasks of a hop have a fixed order: SENDs, RECVs, FILLs of stage buffers, FILLs of shards (send.c). Returns
 * the turn of the next task. *which: index of the outgoing or incoming channel, of the stage buffer, or of the
 * shard. */
enum turn { SEND_ALL, RECV_ALL, FILL_STAGES, FILL_PARTS, NO_TURN };
enum turn value_turn(struct values *s, int32_t *which);
/* Proves, after the last task of a move, that the move has all its tasks. */
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
