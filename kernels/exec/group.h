/* group.h - a group: updates or casts of several variables as one call. The calls differ only in their variables,
 * and a group gives the same bits as separate calls.
 *
 * Each member has its own kernel, and members run one after the other. On devices that compile kernels, members with
 * the same kernel are launched together. Operands and results are passed as for a chain of independent steps. An
 * exec owns the group; a group runs on one thread at a time. */
#ifndef RILLE_KERNELS_GROUP_H
#define RILLE_KERNELS_GROUP_H

#include "kernels/cpu/base/fuse.h"
#include "kernels/exec/kernel.h"

struct group {
    int n;
    struct group_member {
        struct cuda_launch *launch; /* launch in a bundle; NULL: the member has an exec, which the owner frees */
        struct exec *exec;
        int from[OP_OPERAND]; /* per operand: index among the group's operands; -1: absent */
        int to;               /* index of the first result among the group's outputs */
    } * member;
    size_t scratch_bytes;
};

/* Returns true if these steps form a group instead of a chain. In a group, independent steps share one operator, and
 * each writes an output. In a chain, steps depend on each other or mix operators. */
bool group_is(int nstep, const struct fuse_step *step);
/* Makes a group from the arguments of exec_fused(). The arena owns the group without the execs. After a failure
 * *made is NULL or has execs to free. */
int group_new(struct arena *a, int nstep, const struct fuse_step *step, const struct view *in, const struct view *out,
              int device, int threads, struct group **made);
const char *group_variant(const struct group *g); /* see exec_variant() */
/* Runs the group; arguments as for exec_on(). */
int group_run(const struct group *g, void *const *in, void *const *out, void *scratch, int device, uint64_t piece,
              struct finding *find);

#endif
