/* group.h - updates, or casts, that are alike in all but their variables, as one call, with the bits of as many calls:
 * each is computed by its own kernel, one after the other; on devices that compile, those of one kernel are launched
 * together. Their operands and results are those of a chain whose steps read nothing of each other. An exec owns it; a
 * thread at a time runs it. */
#ifndef RILLE_KERNELS_GROUP_H
#define RILLE_KERNELS_GROUP_H

#include "kernels/cpu/fuse.h"
#include "kernels/kernel.h"

struct group {
    int n;
    struct group_member {
        struct cuda_launch *launch; /* for a bundle; NULL: it has an exec, which who owns the group frees */
        struct exec *exec;
        int from[OP_OPERAND]; /* its operands, among those of the group; -1: absent */
        int to;               /* its first result, among those of the group */
    } * member;
    size_t scratch_bytes;
};

/* Are these steps a group, and not a chain? In a group one operator gives as many results as there are steps, none of
 * which reads another's. In a chain some step reads another's, or is computed beside one of another operator. */
bool group_is(int nstep, const struct fuse_step *step);
/* Makes it, as exec_fused() has it; all but the execs lies in the arena. On failure too *made has execs to free, or
 * NULL.
 */
int group_new(struct arena *a, int nstep, const struct fuse_step *step, const struct view *in, const struct view *out,
              int device, int threads, struct group **made);
const char *group_variant(const struct group *g); /* as exec_variant() */
/* As exec_on(). */
int group_run(const struct group *g, void *const *in, void *const *out, void *scratch, int device, uint64_t piece,
              struct finding *find);

#endif
