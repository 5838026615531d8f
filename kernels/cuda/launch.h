/* launch.h - compiles a call or a chain to a kernel, and launches the kernel.
 *
 * The session's thread makes a launch, and a stream's thread runs it. A finished launch is read-only. */
#ifndef RILLE_KERNELS_CUDA_LAUNCH_H
#define RILLE_KERNELS_CUDA_LAUNCH_H

#include "kernels/cuda/source.h"

struct cuda_launch {
    struct cuda_source source;
    struct cuda_kernel *kernel; /* the compiled kernel, shared by the process */
    int nin;
    struct cuda_launch *finder; /* kernel that searches for invalid data if the operator checks data; NULL: none */
    size_t scratch_bytes;       /* size of the scratch of all passes and of the finder, bytes */
    struct cuda_launch *then;   /* launch of the next pass; NULL: this is the last */
};
/* Makes the launch of a call in arena a. Sets *out to NULL, without an error, if no kernel exists and the host
 * must compute the call. Fails with E_KERNEL if the text does not compile. */
int cuda_launch_call(struct arena *a, const struct kcall *k, struct cuda_launch **out);
/* Makes the launch of a chain. lead: the leading step (cuda_source_chain()). Sets *made to NULL, without an error,
 * if no kernel can compute the chain. */
int cuda_launch_chain(struct arena *a, int lead, int nstep, const struct fuse_step *step, int nin,
                      const struct view *in, int nout, const struct view *out, struct cuda_launch **made);
/* Makes the launch of a call that is used only as part of a bundle (struct cuda_bundle). Sets *out to NULL,
 * without an error, if the call cannot be bundled. */
int cuda_launch_bundled(struct arena *a, const struct kcall *k, struct cuda_launch **out);
/* Makes the launch that combines sources into one result by sum, maximum or minimum (cuda_source_combine()). A
 * single source of the result's dtype is copied bit by bit. bundled: the launch is used only as part of a bundle
 * (struct cuda_bundle). */
int cuda_launch_combine(struct arena *a, enum reduce r, int nin, const struct view *in, const struct view *to,
                        bool bundled, struct cuda_launch **made);
/* Launches all passes. If the call checks data and `find` is not NULL, first searches for invalid data and waits
 * for the result. scratch: scratch_bytes bytes of memory that the device can access. find: receives the first
 * invalid element. Fails with E_KERNEL. */
int cuda_launch_run(const struct cuda_launch *l, int device, void *const *in, void *const *out, void *scratch,
                    uint64_t piece, struct finding *find);

/* A bundle of independent calls. Consecutive calls with the same kernel become one launch. The thread that makes a
 * bundle owns it. */
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
int cuda_bundle_end(struct cuda_bundle *b); /* launches the calls that are not launched yet; fails with E_KERNEL */

#endif
