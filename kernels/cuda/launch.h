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
    struct cuda_launch *finder; /* kernel that searches for invalid data, for operators that check data; NULL: none */
    size_t scratch_bytes;       /* scratch of all passes and of the finder, bytes */
    struct cuda_launch *then;   /* launch of the next pass; NULL: this is the last */
};
/* Makes the launch of a call in arena a. Sets *out to NULL, without an error, if the host must compute the call.
 * Fails with E_KERNEL if the text does not compile. */
int cuda_launch_call(struct arena *a, const struct kcall *k, struct cuda_launch **out);
/* Makes the launch of a chain. lead: as in cuda_source_chain(). */
int cuda_launch_chain(struct arena *a, int lead, int nstep, const struct fuse_step *step, int nin,
                      const struct view *in, int nout, const struct view *out, struct cuda_launch **made);
/* Makes the launch of a call that is only used in bundles (struct cuda_bundle). Sets *out to NULL, without an error,
 * if the call cannot be bundled. */
int cuda_launch_bundled(struct arena *a, const struct kcall *k, struct cuda_launch **out);
/* Makes the launch of a combination (cuda_source_combine()). A single source that has the result's dtype is copied
 * bit by bit. bundled: the launch is only used in bundles. */
int cuda_launch_combine(struct arena *a, enum reduce r, int nin, const struct view *in, const struct view *to,
                        bool bundled, struct cuda_launch **made);
/* Launches all passes. If the call checks data, waits for the search's end. scratch: scratch_bytes bytes of memory
 * that the device can access. find: receives the first invalid element; NULL: no check. Fails with E_KERNEL. */
int cuda_launch_run(const struct cuda_launch *l, int device, void *const *in, void *const *out, void *scratch,
                    uint64_t piece, struct finding *find);

/* A bundle of independent calls. Consecutive calls with the same kernel become one launch. The thread that makes the
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
int cuda_bundle_end(struct cuda_bundle *b); /* launches the rest of the bundle; fails with E_KERNEL */

#endif
