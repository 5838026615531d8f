/* outline.h - what a program's plan will be: decisions for all ranks at once, the same in every process.
 *
 * Of each step of the program: which chain computes it, its phase and virtual stage, and the hops by which its operands
 * come to where it wants them, numbered over the whole program. Of all steps: the credits between them, and how many
 * threads share the cores. It follows from the program alone; its size does not grow with the number of ranks, and
 * neither processes nor memories have a say. plan_compile() lowers parts of a plan from it: they read these decisions.
 * Processes that compare digests have the same outline (t/plan-outline.c makes one from bytes). Owner: who made it;
 * read-only then, any thread. */
#ifndef RILLE_PLAN_OUTLINE_H
#define RILLE_PLAN_OUTLINE_H

#include "actors/plan/stage.h"
#include "runtime/hash.h"
#include "runtime/str.h"

/* fuse.c: which element-wise nodes one task computes together, in one pass over their elements, and which updates, or
 * casts of variables, one after the other. */
struct fusion {
    const struct program *program;
    const struct stages *stages;
    struct arena *arena;
    bool any_layout; /* as if all lay as their readers want them: what a planner asks, who chooses layouts */
    bool hoists;     /* as if casts of leaves stood where the first of their group does (hoist.c) */
    int32_t *group;  /* by node: the last node of its chain, itself when alone */
    int32_t *group_size;
    int32_t *member;                /* by end of a chain: its nodes, FUSE_STEPS places each */
    int32_t *reader_first, *reader; /* by node: who reads it */
    uint8_t *roots;                 /* by node: bit k: result k outlives the run */
    int32_t *sum;                   /* by node: the sum over pieces that its kernel adds to; -1: it adds to none */
};
enum { FUSE_STEPS = 24, FUSE_INPUTS = 128, FUSE_OUTS = FUSE_STEPS * OP_OUT };
void fuse_nodes(struct fusion *f);
/* Gives the members of the chain that ends at node, in order; returns how many (at most FUSE_STEPS). */
int fuse_members(const struct fusion *f, int32_t node, int32_t *member);
/* Does this node end a group of casts of leaves, or is it such a cast by itself? */
bool fuse_casts(const struct fusion *f, int32_t node);
/* Gives what these members read from outside of them, each once, in the order in which they read it; returns how many
 * (at most FUSE_INPUTS). want: NULL of numbers. */
int fuse_inputs(const struct fusion *f, const int32_t *member, int n, struct ref *in, const struct layout **want);
/* Returns which of n inputs this is; n: none of them. */
int fuse_input(int n, const struct ref *in, const struct layout *const *want, struct ref r, const struct layout *as);
/* Is a result of a member written to memory? The first one where anybody wants it outside of its chain, or after the
 * run; others always. */
bool fuse_shown(const struct fusion *f, int32_t node, int out);

/* A value goes from one layout to another at once: one collective, whoever takes part in it. */
struct hop {
    int32_t step;          /* the node that needs it: the first that wants the value there; or that made it */
    int16_t operand, turn; /* of that node, or of its chain, and which hop of the operand's way: they name channels */
    int32_t number;        /* among the hops that move bytes; -1: the same bytes under another layout */
    struct ref value;      /* as it was before its first hop */
    const struct layout *from, *to;
    const char *name; /* the method: box_name() */
};

struct outline {
    struct arena arena;
    const struct program *program; /* borrowed */
    struct stages stages;
    struct fusion fusion;
    struct hop *hop; /* in the order of steps, their operands, and the way: a value goes to a layout once */
    int32_t nhop, hop_capacity;
    int32_t nmove;            /* hops that have a number: 0 to nmove - 1 */
    int32_t nshare;           /* device threads that share the cores, as one process would have them */
    unsigned char digest[16]; /* outline_digest() when it was made */
};

/* Interns the layouts between in the atlas; NULL: it has no hops, which nobody will ask for. E_SBP when nothing can
 * make a move: names the line of the step. */
int outline_new(const struct program *p, struct atlas *at, struct outline **out);
void outline_free(struct outline **o);
/* Digests the program's bytes and all decisions above; finds mistakes, not forgers. */
void outline_digest(const struct outline *o, unsigned char out[16]);
/* Returns how many registers lie between two moments, 1 to pieces. */
int32_t outline_credits(const struct outline *o, struct moment from, struct moment to);

/* hops.c: finds the hops of all steps. E_SBP, with the step's line. */
int hops_find(struct outline *o, struct atlas *at);
/* Returns the layout in which a node wants operand k; NULL: a number, or absent. */
const struct layout *hops_want(const struct prog_node *n, int k);
/* Returns the layout to which a result goes as soon as it is made, by hops of its own step: it is a sum that is still
 * owed, all who read it want it there, and it takes no more there than its addends, which then live no longer than a
 * step (gradients, which updates want much later). NULL: whoever wants it first asks. */
const struct layout *hops_early(const struct outline *o, struct ref r);
/* The same of layouts alone: may values of type t that lie so be made as sums there early? */
bool hops_early_fits(const struct type *t, const struct layout *from, const struct layout *to);
/* The same of a program whose layouts are still to be chosen: may a node's results? */
bool hops_early_open(const struct fusion *f, int32_t node);
/* Which operand of a step the hops of result k of its member m are: none of those that it reads. */
enum { HOP_RESULT = FUSE_INPUTS };
static inline int
hops_result(int m, int k)
{
    return HOP_RESULT + m * OP_OUT + k;
}
/* "operand 2", "result 0" */
static inline void
hops_side_print(int operand, struct str *s)
{
    bool made = operand >= HOP_RESULT;
    str_addf(s, "%s %d", made ? "result" : "operand", made ? operand - HOP_RESULT : operand);
}

#endif
