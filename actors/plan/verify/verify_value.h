/* verify_value.h - contents of registers while a plan is proved. Shared by the verify_*.c files that prove values
 * and by the kind_*.c files. Used by a single plan_verify() call, on the caller's thread. */
#ifndef RILLE_PLAN_VERIFY_VALUE_H
#define RILLE_PLAN_VERIFY_VALUE_H

#include "actors/plan/verify/verify.h"

struct content {
    struct ref ref;              /* NODE or LEAF, never a move; NONE: from a move of an empty value */
    const struct layout *layout; /* NULL: a staging buffer */
    int32_t pos;                 /* mesh position; staging: stage index; received: index of the incoming channel */
    bool received;               /* received by a channel: slices of a remote shard or stage */
    const struct plan_move *box; /* move that produced it; NULL: a kernel */
    const struct view *turned;   /* (kernel) view with the order of its dimensions in memory; NULL: row-major */
};

struct values {
    struct proof *v;
    struct content *out;                       /* by out-port */
    int32_t *space;                            /* by task: memory space of its results */
    int32_t *done;                             /* by node: positions computed so far */
    int32_t *root_task;                        /* by root part: task that writes it; -1: none yet */
    bool *again;                               /* by result and leaf: see value_again */
    const void ***version;                     /* by node and argument: see value_read */
    const void **node_version, **root_version; /* by node that sums or copies; by root that is copied */
    const void *box_version;
    int32_t sum;      /* node whose sums are proved now */
    int32_t box;      /* index of the current move */
    int32_t box_task; /* number of tasks of this move proved so far */
    bool halfway; /* the task before made one half of a channel's way through host memory; the next task must make the
                     other */
    struct ref box_ref; /* value that the current move moves */
    struct redistributions crosses;
    const struct redistribution *cross; /* box plan of the current move on this host, and its channels */
    struct hash_table kernels;          /* kernels already proved, by address */
    int32_t filled, nfill;              /* of the shard filled last: its first task, and number of filling tasks */
    int32_t joined;                     /* of the shard joined last: its first task */
    int32_t *collected; /* by device: its last task of a collective, -1: none; NULL: no collective yet */
};

/* ---- verify_part.c ---- */

/* Returns the view of a dense shard, with its position in the global tensor. */
struct view value_part(const struct layout *l, const struct type *t, int pos);
/* Returns the window of a shard (which begins at lo) that contains slice; *skip: elements from the start of the
 * shard. */
struct view value_window(const struct view *part, const int64_t *lo, const struct box *slice, int64_t *skip);
/* Returns the value that r is, before all moves. */
struct ref value_unmoved(const struct proof *v, struct ref r);
bool value_varies(const struct proof *v, struct ref r); /* true if it differs between micro-batches */
/* Returns the flag that tells whether the value is fetched again for every micro-batch. */
bool *value_again(const struct values *s, struct ref r);
/* Finds shard pos of value r in layout l in a register or leaf with content c: its view, and the elements to skip.
 * Returns false if c does not contain it. */
bool value_find(const struct proof *v, const struct content *c, struct ref r, const struct layout *l, int pos,
                struct view *view, int64_t *skip);
/* Finds result 0 of view operator n there by the operator's record. Returns false if strides cannot express it. */
bool value_find_view(const struct proof *v, const struct content *c, const struct prog_node *n, int pos,
                     struct view *view, int64_t *skip);
/* Finds the content of argument a of a task. */
int value_content(const struct values *s, int32_t task, int32_t a, struct content *c);
struct content *value_result(const struct values *s, int32_t task, int32_t k);
/* Proves that argument a is shard pos of value r in layout l, and returns its view and the elements to skip from the
 * start of the register or leaf (_at: proves that the argument's own skip is equal). Also proves that addends of a
 * partial value belong together: all positions read addends made by the same kernel or move. *version: NULL before
 * the first of them. */
int value_read(const struct values *s, int32_t task, int32_t a, struct ref r, const struct layout *l, int pos,
               const void **version, struct view *view, int64_t *skip);
int value_read_at(const struct values *s, int32_t task, int32_t a, struct ref r, const struct layout *l, int pos,
                  const void **version, struct view *view);
/* value_on proves that the task runs on this rank; value_at, on the rank at the task's pos. */
int value_on(const struct values *s, int32_t task, int kind, int rank);
int value_at(const struct values *s, int32_t task, const struct layout *l);
/* Proves that the task acts once per micro-batch or once, and publishes results every so many acts. */
int value_rate(const struct values *s, int32_t task, bool piece, int32_t every);

/* ---- verify_value.c: prove what a task of this kind reads and writes ---- */

/* Finds the source of operand k of a chain's member: an earlier member, else an input of the chain; index -1:
 * neither. */
struct fuse_arg value_chain_source(const struct plan_chain *c, int32_t member, const struct prog_node *n, int32_t k);
int value_compute(struct values *s, int32_t task);
int value_accumulate(struct values *s, int32_t task);
int value_sum(struct values *s, int32_t task);
int value_copy(struct values *s, int32_t task);

/* ---- verify_kernel.c ---- */

/* Proves that the task's kernel computes its node, or its chain. */
int value_kernel(struct values *s, int32_t task);

/* ---- verify_move.c ---- */

int value_move(struct values *s, int32_t task);
/* Proves node and rate of a task that belongs to a move of s->box_ref. */
int value_moves(struct values *s, int32_t task);
/* value_takes proves that a step's source is this window; value_fills, that its destination is. */
int value_takes(const struct values *s, int32_t task, const struct box_from *f, const struct view *view, int64_t skip);
int value_fills(const struct values *s, int32_t task, const struct box_move *m, const struct view *view, int64_t skip);
/* Proves that f reads shard pos of the moved value; returns the window of it that contains slice. */
int value_source(struct values *s, int32_t task, const struct box_from *f, int32_t pos, const struct box *slice,
                 struct view *view, int64_t *skip);
/* Called for the first task of a move: proves the move's number and value, and sets s->cross and s->box_ref. */
int value_begin_move(struct values *s, int32_t task);

/* ---- verify_collective.c ---- */

int value_collect(struct values *s, int32_t task);

/* ---- verify_send.c ---- */

int value_send(struct values *s, int32_t task);
int value_recv(struct values *s, int32_t task);
int value_p2p_send(struct values *s, int32_t task);
int value_p2p_recv(struct values *s, int32_t task);
int value_transfer(struct values *s, int32_t task);
/* The tasks of a hop have a fixed order, by turns (send.c). Returns the turn of the next task; *which: index of the
 * outgoing or incoming channel, the stage or the shard. */
enum turn { SEND_ALL, RECV_ALL, FILL_STAGES, FILL_PARTS, NO_TURN };
enum turn value_turn(struct values *s, int32_t *which);
/* Proves, after the last task of a move, that all turns were taken. */
int value_end_move(const struct values *s, int32_t task);
/* Proves that argument f->arg is the receive buffer of the channel that delivers source i of the step. */
int value_received(struct values *s, int32_t task, const struct box_work *w, const struct box_step *step, int32_t i,
                   const struct box_from *f);
/* Finds the dense block of a local stage that contains slice. */
bool value_stage_window(const struct box_plan *b, int32_t stage, const struct box *slice, struct view *view,
                        int64_t *skip);

/* ---- verify_shared_shard.c ---- */

int value_fill(struct values *s, int32_t task);
int value_join(struct values *s, int32_t task);

#endif
