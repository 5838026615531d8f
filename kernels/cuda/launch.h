/* launch.h - a call or a chain as a kernel that is compiled, and launching it. Made by the session's thread, run by a
 * stream's; read-only in between. */
#ifndef RILLE_KERNELS_CUDA_LAUNCH_H
#define RILLE_KERNELS_CUDA_LAUNCH_H

#include "kernels/cuda/source.h"

struct cuda_launch {
    struct cuda_source source;
    struct cuda_kernel *kernel; /* the process's */
    int nin;
    struct cuda_launch *finder; /* of an operator that checks data; NULL */
    size_t scratch_bytes;       /* of all passes, then of the finder */
    struct cuda_launch *then;   /* NULL: none */
};
/* All in arena a. *out NULL without failure: the host computes it. E_KERNEL: its text does not compile. */
int cuda_launch_call(struct arena *a, const struct kcall *k, struct cuda_launch **out);
/* lead: as cuda_source_chain has it. */
int cuda_launch_chain(struct arena *a, int lead, int nstep, const struct fuse_step *step, int nin,
                      const struct view *in, int nout, const struct view *out, struct cuda_launch **made);
/* For bundles alone. *out NULL without failure: a bundle does not take it. */
int cuda_launch_bundled(struct arena *a, const struct kcall *k, struct cuda_launch **out);
/* As cuda_source_combine; one source of the result's dtype is copied bit by bit. bundled: for bundles alone. */
int cuda_launch_combine(struct arena *a, enum reduce r, int nin, const struct view *in, const struct view *to,
                        bool bundled, struct cuda_launch **made);
/* Launches it; what it finds is there when it returns. scratch: scratch_bytes, which the device reaches. find: the
 * first that is wrong in the data of a call that checks it; NULL: nobody asks. E_KERNEL. */
int cuda_launch_run(const struct cuda_launch *l, int device, void *const *in, void *const *out, void *scratch,
                    uint64_t piece, struct finding *find);

/* Several calls, none of which reads what another writes: those that follow one another and have one kernel are one
 * launch. Belongs to the thread that makes it. */
struct cuda_bundle {
    int device, n;
    int64_t blocks;
    const struct cuda_launch *last;
    uint64_t word[512];
};
static inline void
cuda_bundle_begin(struct cuda_bundle *b, int device)
{
    b->device = device;
    b->n = 0;
    b->blocks = 0;
}
int cuda_bundle_add(struct cuda_bundle *b, const struct cuda_launch *l, void *const *in, void *const *out);
int cuda_bundle_end(struct cuda_bundle *b); /* E_KERNEL */

#endif
