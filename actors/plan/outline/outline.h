/* outline.h - the outline of a plan: those decisions that hold for all ranks and are equal in every process.
 *
 * For each step of the program, the outline has the step's chain, phase and virtual stage, and the hops that
 * convert the step's operands to the required layouts. Hops are numbered over the whole program. For the program
 * as a whole, the outline has the credits between steps and the number of threads that share the cores. The
 * outline depends on the program alone, not on processes or hosts, and its size does not grow with the number of
 * ranks. plan_compile() lowers plan partitions from the outline. Processes with equal digests have the same
 * outline (t/plan/outline.c checks that on programs read from bytes). The maker owns the outline; once made, it
 * is read-only for any thread. */
#ifndef RILLE_PLAN_OUTLINE_H
#define RILLE_PLAN_OUTLINE_H

#include "actors/plan/outline/stage.h"
#include "runtime/data/hash.h"
#include "runtime/data/str.h"

/* Result of fusion.c: groups of nodes. One task computes a group. A group is either a chain of element-wise
 * nodes, computed in a single pass, or a set of updates or casts of variables, computed one after the other. */
struct fusion {
    const struct program *program;
    const struct stages *stages;
    struct arena *arena;
    bool any_layout; /* treats all layouts as equal, for a planner that has not chosen them yet */
    /* true: treats casts of leaves as if they directly followed the first cast of their group (hoist.c) */
    bool hoists;
    int32_t *group; /* by node: last node of its group; the node itself if it is in no group */
    int32_t *group_size;
    int32_t *member; /* by last node of a group: its members; FUSE_STEPS entries per node */
    /* by node i: readers reader[reader_first[i]] to reader[reader_first[i + 1] - 1] */
    int32_t *reader_first, *reader;
    uint8_t *roots; /* by node: bit k is set if result k is a root of the program */
    int32_t *sum;   /* by node: the sum over micro-batches to which the node's kernel adds its result; -1: none */
};

/* A hop: one step of the path between two layouts, performed by one collective. */
struct hop {
    /* first node that needs the value in this layout. For a sum that is computed early (hops_early): the node that
     * computes the addends */
    int32_t step;
    /* operand: operand number in that node or its group; turn: index of the hop on the path. Channel names
     * contain both numbers */
    int16_t operand, turn;
    /* number of the hop among those that move bytes; -1: the hop only renames the layout */
    int32_t number;
    struct ref value; /* the value before its first hop */
    const struct layout *from, *to;
    const char *name; /* method of the hop, as in box_name() */
};

struct outline {
    struct arena arena;
    const struct program *program; /* the program, owned by the caller */
    struct stages stages;
    struct fusion fusion;
    /* sorted by step, operand, and place on the path. A value is converted to each layout only once */
    struct hop *hop;
    int32_t nhop, hop_capacity;
    int32_t nmove;            /* number of hops that move bytes */
    int32_t nshare;           /* device threads that share the cores, counted as if all were in one process */
    unsigned char digest[16]; /* result of outline_digest() */
};

/* Makes the outline. Interns intermediate layouts in the atlas; at NULL: finds no hops. E_SBP: a value cannot be
 * moved to the required layout; the error names the source line of the step. */
int outline_new(const struct program *p, struct atlas *at, struct outline **out);
void outline_free(struct outline **o);
/* Computes a digest of the program's bytes and of all decisions of the outline. The digest detects bugs; it does
 * not protect against forgery. */
void outline_digest(const struct outline *o, unsigned char out[16]);
/* Returns the number of registers of a value that is made at one moment and read at another. A moment is a stage
 * and a phase. The number is at least 1, and at most the number of micro-batches. */
int32_t outline_credits(const struct outline *o, struct moment from, struct moment to);

#endif
