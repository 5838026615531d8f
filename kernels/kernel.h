/* kernel.h - running one operator on one rank: choosing a variant, preparing it, calling it.
 *
 * exec_new() decides, on the session thread at compile time, how a call with
 * these local shapes and strides will be computed: the first variant that accepts
 * it, else ref with conversions; what must be made dense; how much scratch.
 * exec_enqueue() does it, on a device thread and without allocating, or puts it on
 * a stream; what is wrong in its data it finds there, and exec_say() says later,
 * on the host. Addresses come with each of these: an exec is read-only after it
 * was made. (A variant's own state may be for one thread at a time.) */
#ifndef RILLE_KERNELS_KERNEL_H
#define RILLE_KERNELS_KERNEL_H

#include "kernels/cpu/fuse.h"
#include "runtime/arena.h"

struct exec;

/* k's views have NULL data. Types, attributes and views are copied. device: its kind. */
int exec_new(const struct kcall *k, int device, struct exec **out);
void exec_free(struct exec **e);
size_t exec_scratch(const struct exec *e); /* bytes, 64-byte aligned by the caller */
/* Operand i, or output i - nin, as it lies for the caller (data NULL); NULL: there is no such one. */
const struct view *exec_view(const struct exec *e, int i);
const char *exec_variant(const struct exec *e); /* "dnnl", "ref", ... */
/* Work on a stream (s NULL: it is done at once). in[i], out[i]: data of each view, in the order of the call (NULL where
 * absent); they and what they point to stay until the work is done. What fails there is the stream's trouble; E_KERNEL.
 * find: zeros; lies where device and host reach it, and stays. The thread that owns the stream; does not block. With
 * check_ref, runs the reference beside the variant and compares (RILLE_CHECK=ref). */
struct stream;
enum { EXEC_IN = 64 }; /* operands at most */
int exec_enqueue(const struct exec *e, void *const *in, void *const *out, void *scratch, struct stream *s,
                 uint64_t piece, struct finding *find);
/* After the work of that piece is done: E_VALUE if it found something. The host. */
int exec_say(const struct exec *e, const struct finding *f, uint64_t piece);
/* Both, at once. */
int exec_run(const struct exec *e, void *const *in, void *const *out, void *scratch, uint64_t piece);

/* What an exec was made to compute: a plain call is one step that reads operand i as argument i and writes output 0. */
struct exec_made {
    int nstep;
    const struct fuse_step *step;
    struct pieces pieces; /* as the call had them; of a chain all 0 */
};
const struct exec_made *exec_made(const struct exec *e);
size_t exec_bytes(const struct exec *e); /* of memory that it holds, about */
int exec_fused(int nstep, const struct fuse_step *step, int nin, const struct view *in, int nout,
               const struct view *out, int device, int threads, struct exec **e);

/* Computes k with the reference alone, converting as needed: the oracle of tests. May allocate. */
int ref_run(const struct kcall *k);

/* RILLE_CHECK: compare with the reference; look for NaN in outputs. Process-wide, set before the first session. */
void kernel_check(bool ref, bool nan);

#endif
