/* kernel.h - running one operator on one rank: choosing a variant, preparing it, calling it.
 *
 * exec_new() decides, on the session thread at compile time, what computes a call with these local shapes and strides:
 * the first variant that accepts it, else ref with conversions; what it must make dense; how much scratch it takes.
 * exec_enqueue() computes, on a device thread and without allocating, or puts the work on a stream; there it finds what
 * is wrong in the data, and exec_say() says so later, on the host. Each of these calls brings the addresses: an exec
 * stays as exec_new() made it, and its owner frees it. (A variant's own state may be for one thread at a time.) */
#ifndef RILLE_KERNELS_KERNEL_H
#define RILLE_KERNELS_KERNEL_H

#include "kernels/cpu/fuse.h"
#include "runtime/arena.h"

struct exec;

/* Copies types, attributes and views; k's views have NULL data. device: its kind. The caller owns *out. */
int exec_new(const struct kcall *k, int device, struct exec **out);
void exec_free(struct exec **e);
size_t exec_scratch(const struct exec *e); /* bytes, which the caller aligns to 64 */
/* Operand i, or output i - nin, as it lies for the caller (data NULL); NULL: there is none. */
const struct view *exec_view(const struct exec *e, int i);
const char *exec_variant(const struct exec *e); /* "dnnl", "ref", ... */
/* Puts the work on a stream (s NULL: does it at once). in[i], out[i]: data of each view, in the order of the call (NULL
 * where absent); they and what they point to stay until the work is done. What fails there is the stream's trouble;
 * E_KERNEL. find: zeros; lies where device and host reach it, and stays; NULL: it looks for nothing, since somebody
 * did. The thread that owns the stream; does not block. With check_ref, runs the reference beside the variant and
 * compares (RILLE_CHECK=ref). */
struct stream;
enum { EXEC_IN = 64, EXEC_ADDRESSES = 256 }; /* operands of a call or a chain at most; with results, of a group */
int exec_enqueue(const struct exec *e, void *const *in, void *const *out, void *scratch, struct stream *s,
                 uint64_t piece, struct finding *find);
/* The same at once, for a device of its kind; on a device thread, or where a stream does its work. */
int exec_on(const struct exec *e, void *const *in, void *const *out, void *scratch, int device, uint64_t piece,
            struct finding *find);
/* After the work of that piece, on the host: E_VALUE if it found something. */
int exec_say(const struct exec *e, const struct finding *f, uint64_t piece);
/* Both, at once. */
int exec_run(const struct exec *e, void *const *in, void *const *out, void *scratch, uint64_t piece);

/* What an exec computes, which the exec owns: a plain call is one step that reads operand i as argument i and writes
 * output 0. */
struct exec_made {
    int nstep;
    const struct fuse_step *step;
    struct pieces pieces; /* as the call had them; of a chain all 0 */
    bool adds;            /* likewise */
};
const struct exec_made *exec_made(const struct exec *e);
size_t exec_bytes(const struct exec *e); /* of memory that it holds, about */
int exec_fused(int nstep, const struct fuse_step *step, int nin, const struct view *in, int nout,
               const struct view *out, int device, int threads, struct exec **e);

/* view_copy() by as many threads as are worth it, `threads` at most; any thread. */
void kernel_copy(const struct view *dst, const struct view *src, int threads);

/* Computes k with the reference alone, converting as needed: the oracle of tests. May allocate. */
int ref_run(const struct kcall *k);

/* RILLE_CHECK: compares with the reference; looks for NaN in outputs. Process-wide; call it before the first
 * session. */
void kernel_check(bool ref, bool nan);
enum kernel_checks { BY_REFERENCE = 1, FOR_NAN = 2 };
unsigned kernel_checks(void);

#endif
