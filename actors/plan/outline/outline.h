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

void fusion_nodes(struct fusion *f);
/* Lists the members of the group that ends at node, in order. Returns the number of members (at most FUSE_STEPS). */
int fusion_members(const struct fusion *f, int32_t node, int32_t *member);
/* Returns true if the node ends a group of casts of leaves, or is a cast of a leaf and in no group. */
bool fusion_casts(const struct fusion *f, int32_t node);
/* Lists the values that these members read from outside the group, each once, in the order of reading. want[]:
 * layout in which each value is read; NULL for numbers. Returns the number of values (at most FUSE_INPUTS). */
int fusion_inputs(const struct fusion *f, const int32_t *member, int n, struct ref *in, const struct layout **want);
/* Returns the index of a value in the list in[0] to in[n - 1]; n: not found. Entries match if both value and
 * layout are equal. */
int fusion_input(int n, const struct ref *in, const struct layout *const *want, struct ref r, const struct layout *as);
/* Returns true if the task stores result `out` of a node in memory. Result 0 is stored if the node is the last of
 * its group or an update, or if the result is a root or is read outside the group. All further results are always
 * stored. */
bool fusion_shown(const struct fusion *f, int32_t node, int out);

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

/* hops.c: finds the hops of all steps. E_SBP names the source line of the step. */
int hops_find(struct outline *o, struct atlas *at);
/* Returns the layout in which a node needs operand k; NULL: the operand is a number, or absent. */
const struct layout *hops_want(const struct prog_node *n, int k);
/* Returns the layout to which a result is converted right after it is computed, by hops of its own step; NULL:
 * the first reader converts it. A result is converted at once if it is a pending reduction, all readers need the
 * same layout, and this layout takes no more memory than the addends. Converting at once ends the life of the
 * addends early. For example, updates read gradients much later than backward computes them. */
const struct layout *hops_early(const struct outline *o, struct ref r);
/* Returns true if the type and the two layouts permit an early conversion (hops_early). */
bool hops_early_fits(const struct type *t, const struct layout *from, const struct layout *to);
/* Returns true if the results of the node may be converted early (hops_early), as far as that is known before
 * layouts are chosen. */
bool hops_early_open(const struct fusion *f, int32_t node);

#endif
