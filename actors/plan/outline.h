/* outline.h - what a program's plan will be, decided once for all ranks: the same wherever it is made.
 *
 * Of each step of the program: which chain it is computed in, its phase and virtual stage, and the way that each of its
 * operands takes to where it is wanted. It follows from the program alone; its size does not grow with the number of
 * ranks, and neither devices nor processes have a say. From it parts of a plan are lowered. Processes that compare
 * digests have the same outline (t/plan-outline.c makes one from bytes). Owner: who made it; read-only then, any
 * thread. */
#ifndef RILLE_PLAN_OUTLINE_H
#define RILLE_PLAN_OUTLINE_H

#include "actors/plan/stage.h"
#include "runtime/hash.h"

/* fuse.c: which element-wise nodes are computed together, in one pass over their elements. */
struct fusion {
    const struct program *program;
    struct arena *arena;
    int32_t *group; /* by node: the last node of the chain that it is computed in, itself when alone */
    int32_t *group_size;
    int32_t *member;                /* by end of a chain: its nodes, FUSE_STEPS places each */
    int32_t *reader_first, *reader; /* by node: who reads it */
    bool *is_root;                  /* by node: it outlives the run */
};
enum { FUSE_STEPS = 24, FUSE_INPUTS = 32 };
void fuse_nodes(struct fusion *f);
/* The members of the chain that ends at node, in order; returns how many (at most FUSE_STEPS). */
int fuse_members(const struct fusion *f, int32_t node, int32_t *member);
/* Is the result of a member wanted by anybody outside of its chain, or after the run? */
bool fuse_shown(const struct fusion *f, int32_t node);

/* How values of a type go from a layout to another: at once or in hops. */
struct way {
    struct type type;
    const struct layout *from, *to;
    const struct box_candidate *best;
};

struct outline {
    struct arena arena;
    const struct program *program; /* borrowed */
    struct stages stages;
    struct fusion fusion;
    bool *late;      /* by node: it may be known only after the last piece */
    struct way *way; /* each once, in the order in which steps want them */
    int32_t nway, way_capacity;
    struct hash_table ways;   /* their indices */
    unsigned char digest[16]; /* not against those who mean harm */
};

/* E_SBP when a move is refused, naming the line of the step. Layouts between are interned in the atlas. */
int outline_new(const struct program *p, struct atlas *at, struct outline **out);
void outline_free(struct outline **o);
/* The way that an operand takes; every move of the program has one. */
const struct box_candidate *outline_way(const struct outline *o, const struct type *t, const struct layout *from,
                                        const struct layout *to);

#endif
