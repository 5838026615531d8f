/* lower.h - the making of a plan, shared by the files that make it: compile.c (order of work), lower.c (values and
 * tasks), credit.c (rates, registers, memory). Nothing else includes it. */
#ifndef RILLE_PLAN_LOWER_H
#define RILLE_PLAN_LOWER_H

#include "actors/plan/plan.h"

/* Where one rank's part of a value is found. */
struct part {
    uint8_t kind;         /* ARG_REG, ARG_LEAF */
    int32_t index;        /* task, or leaf part */
    int32_t out;          /* of the task */
    struct view view;     /* how it lies there; data NULL */
    int64_t skip;         /* elements from the start of the register or buffer */
    int64_t piece_stride; /* leaf: bytes */
};

/* A value in one layout: the result of a node, a leaf, or either of them moved. */
struct pval {
    struct type type;
    const struct layout *layout;
    bool piece;
    int32_t node;       /* program node it comes from, -1: a leaf */
    struct part *part;  /* by mesh position */
    struct pval *moved; /* the same value in other layouts */
};

struct edge {
    struct edge *next;
    int32_t task, out; /* producer */
    int32_t hold, need;
};

/* A task in the making. */
struct draft {
    struct task task;
    struct edge *in, **in_end;
    int32_t nin;
    struct out_port out[OP_OUT + 1]; /* results, then the control output if there is one */
    int32_t nout;
    int32_t control; /* index of the control output, -1 */
    bool piece, checks;
    int32_t stage;
    struct part *source; /* parts that arguments read, in order of arguments */
};

struct lower {
    struct program *program;
    struct atlas *atlas;
    struct plan *plan;
    struct arena tmp; /* dropped when the plan is made */
    struct draft *draft;
    int32_t ndraft, room;
    struct pval **node_val; /* [node * OP_OUT + out] */
    struct pval **leaf_val;
    uint64_t *reach; /* bit [b * words + a]: a happens before b; NULL when there are too many tasks */
    int32_t words;
    struct box_plan **box;
    int32_t nbox, box_room;
    struct way *way; /* how moves go that were looked at already (move.c) */
    int32_t at;      /* the node that is being lowered: by its line an error in the move of a leaf is told */
    int32_t *group;  /* by node: the last node of the chain that it is computed in, itself when alone (fuse.c) */
    int32_t *group_size;
    int32_t *member;                /* by end of a chain: its nodes, FUSE_STEPS places each */
    int32_t *reader_first, *reader; /* by node: who reads it (fuse.c) */
    bool *is_root;                  /* by node: it outlives the run */
};

/* fuse.c: which element-wise nodes are computed together, in one pass over their elements. */
void fuse_nodes(struct lower *l);
/* The members of the chain that ends at node, in order; returns how many (at most FUSE_STEPS). */
enum { FUSE_STEPS = 24, FUSE_INPUTS = 32 };
int fuse_members(const struct lower *l, int32_t node, int32_t *member);
/* Is the result of a member wanted by anybody outside of its chain, or after the run? */
bool fuse_shown(const struct lower *l, int32_t node);

/* draft.c */
struct draft *draft_new(struct lower *l, const struct task_kind *kind, int32_t node, int device_kind, int rank,
                        int32_t pos, bool piece, int32_t *id); /* valid until the next one */
void draft_out(struct draft *d, int64_t bytes, int32_t every);
bool draft_once(const struct draft *d); /* its results come once a batch */
void draft_args(struct lower *l, int32_t task, int n);
int draft_follows(struct lower *l, int32_t to, int32_t from, int32_t out, int32_t *port); /* `to` takes its register */
int draft_reads(struct lower *l, int32_t task, const struct part *part, int argument);
struct view part_local(const struct layout *layout, const struct type *type, int pos);
/* The window of a part (its box in the whole starts at lo) that holds slice; *skip elements from the part's start. */
struct view part_window(const struct view *part, const int64_t *lo, const struct box *slice, int64_t *skip);
void part_is_result(struct part *p, int32_t task, int32_t out);
struct pval *pval_new(struct lower *l, const struct type *type, const struct layout *layout, bool piece, int32_t node);
/* a happens before b, from now on (no edge when it did already). */
void lower_order(struct lower *l, int32_t a, int32_t b);
bool lower_before(const struct lower *l, int32_t a, int32_t b);

/* move.c */
struct mover { /* a move in the making */
    struct lower *l;
    const struct box_plan *b;
    struct pval *from;
    int32_t *stage_task; /* by stage */
};
int move_kind(const struct box_plan *b, int rank);
int move_add(struct mover *m, int32_t task, const struct box_step *step, const struct box *slice, int rank,
             const struct view *dst, int64_t skip);
/* share.c: parts that are alike on several ranks of one memory get one register; *done: they could. */
int share_parts(struct lower *l, const struct box_plan *b, struct pval *from, struct pval *to, bool *done);

/* move.c: v in another layout, by the cheapest way. share: its parts need not each have bytes of their own. */
int lower_moved(struct lower *l, struct pval *v, const struct layout *layout, bool share, struct pval **out);

/* chain.c */
int lower_chain(struct lower *l, int32_t node);

/* lower.c */
/* Threads for a kernel of so many operations and bytes on one rank. */
int lower_team(const struct lower *l, double flops, double bytes);
int lower_nodes(struct lower *l);
int lower_roots(struct lower *l);
struct pval *lower_value(struct lower *l, struct ref r);
struct call *lower_call(struct lower *l, const struct prog_node *n, struct arena *a);
struct view number_view(const struct type *t, void *data);

/* credit.c */
void credit_reach(struct lower *l);
void credit_updates(struct lower *l);
void credit_registers(struct lower *l);
int credit_memory(struct lower *l); /* E_MEMORY */

#endif
