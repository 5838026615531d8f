/* verify_value.h - what registers hold, as the proof of a plan goes on; the files that prove values and the kinds share
 * it. Belongs to one plan_verify() and its thread. */
#ifndef RILLE_PLAN_VERIFY_VALUE_H
#define RILLE_PLAN_VERIFY_VALUE_H

#include "actors/plan/verify.h"

struct content {
    struct ref ref;              /* NODE or LEAF, never a move; NONE: a move of nothing, so of no bytes */
    const struct layout *layout; /* NULL: a staging part */
    int32_t pos;                 /* mesh position; staging: which stage; received: which channel that comes in */
    bool received;               /* a channel brought it: slices of a part or of a stage elsewhere */
    const struct plan_move *box; /* the move that made it, NULL: a kernel did */
    const struct view *turned;   /* of a kernel: its dimensions lie in this order; NULL: in their own */
};

struct values {
    struct proof *v;
    struct content *out;                       /* by out-port */
    int32_t *space;                            /* by task: where its results lie */
    int32_t *done;                             /* by node: positions computed so far */
    int32_t *root_task;                        /* by root part: who writes it */
    bool *again;                               /* by result and leaf; see value_again */
    const void ***version;                     /* by node and argument; see value_read */
    const void **node_version, **root_version; /* of what a task sums or copies */
    const void *box_version;
    int32_t sum;        /* the node whose sums come now */
    int32_t box;        /* index of the move that the tasks now are part of */
    int32_t box_task;   /* how many of them the proof saw */
    bool halfway;       /* the task before took what a channel carries to or from host memory, and the next goes on */
    struct ref box_ref; /* what it moves */
    struct crosses crosses;
    const struct cross *cross; /* what it is made of here, and what crosses */
    struct hash_table kernels; /* that it looked at, by address */
    int32_t filled, nfill;     /* of the part filled last: its first task, how many fill it */
    int32_t joined;            /* of the part joined last: its first task */
    int32_t *collected;        /* by device: its last task in a collective, -1; NULL: there was none */
};

/* ---- verify_part.c ---- */

/* A part by itself: dense, with its place in the whole. */
struct view value_part(const struct layout *l, const struct type *t, int pos);
/* The window of a part (it begins at lo) that holds slice; *skip elements from the part's start. */
struct view value_window(const struct view *part, const int64_t *lo, const struct box *slice, int64_t *skip);
/* The value itself, however often it moved. */
struct ref value_unmoved(const struct proof *v, struct ref r);
bool value_varies(const struct proof *v, struct ref r); /* from piece to piece */
/* Is the value brought again for each piece? */
bool *value_again(const struct values *s, struct ref r);
/* How part pos of value r in layout l lies in a register or leaf that holds c: view, and elements to skip. */
bool value_find(const struct proof *v, const struct content *c, struct ref r, const struct layout *l, int pos,
                struct view *view, int64_t *skip);
/* How result r of a view operator lies there, by its record; false: no strides show it. */
bool value_find_view(const struct proof *v, const struct content *c, const struct prog_node *n, int pos,
                     struct view *view, int64_t *skip);
/* Finds what argument a of a task holds. */
int value_content(const struct values *s, int32_t task, int32_t a, struct content *c);
struct content *value_result(const struct values *s, int32_t task, int32_t k);
/* Proves that argument a is part pos of value r in layout l; it lies as *view, *skip elements from the argument's
 * register or leaf. _at: under the argument's own skip. And that the addends of a partial value belong together: all
 * positions read those that one kernel or one move made; *version is NULL before the first of them. */
int value_read(const struct values *s, int32_t task, int32_t a, struct ref r, const struct layout *l, int pos,
               const void **version, struct view *view, int64_t *skip);
int value_read_at(const struct values *s, int32_t task, int32_t a, struct ref r, const struct layout *l, int pos,
                  const void **version, struct view *view);
/* Proves that the task runs on this rank; on the one at its pos. */
int value_on(const struct values *s, int32_t task, int kind, int rank);
int value_at(const struct values *s, int32_t task, const struct layout *l);
/* Proves that it acts once a piece, or once, and publishes results every so many acts. */
int value_rate(const struct values *s, int32_t task, bool piece, int32_t every);

/* ---- verify_value.c: proves what a task of this kind reads and gives ---- */

/* Where operand k of a chain's member comes from: a member before it, else what the chain reads; index -1: neither. */
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
/* Proves that the task is part of a move of s->box_ref: its node, and how often it acts. */
int value_moves(struct values *s, int32_t task);
/* Proves that what a step takes of its source, or fills, is this window. */
int value_takes(const struct values *s, int32_t task, const struct box_from *f, const struct view *view, int64_t skip);
int value_fills(const struct values *s, int32_t task, const struct box_move *m, const struct view *view, int64_t skip);
/* Proves that f reads part pos of what is moved; the window of it that holds slice. */
int value_source(struct values *s, int32_t task, const struct box_from *f, int32_t pos, const struct box *slice,
                 struct view *view, int64_t *skip);
/* The first task of the next move: proves that its number and value are right; sets s->cross and s->box_ref. */
int value_begin_move(struct values *s, int32_t task);

/* ---- verify_collect.c ---- */

int value_collect(struct values *s, int32_t task);

/* ---- verify_send.c ---- */

int value_send(struct values *s, int32_t task);
int value_recv(struct values *s, int32_t task);
int value_direct_send(struct values *s, int32_t task);
int value_direct_recv(struct values *s, int32_t task);
int value_transfer(struct values *s, int32_t task);
/* The tasks of a hop stand in turns (send.c). Returns whose turn it is now; *which: of what goes out, comes in, of the
 * stages or of the parts. */
enum turn { SEND_ALL, RECV_ALL, FILL_STAGES, FILL_PARTS, NO_TURN };
enum turn value_turn(struct values *s, int32_t *which);
/* Proves that all of them had their turn. */
int value_end_move(const struct values *s, int32_t task);
/* Proves that argument f->arg holds source i of a step of this work, which lies elsewhere. */
int value_received(struct values *s, int32_t task, const struct box_work *w, const struct box_step *step, int32_t i,
                   const struct box_from *f);
/* Finds the dense block of a stage here that holds slice. */
bool value_stage_window(const struct box_plan *b, int32_t stage, const struct box *slice, struct view *view,
                        int64_t *skip);

/* ---- verify_share.c ---- */

int value_fill(struct values *s, int32_t task);
int value_join(struct values *s, int32_t task);

#endif
