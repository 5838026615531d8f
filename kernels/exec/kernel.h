/* kernel.h - runs one operator on one rank: chooses a variant, prepares it and calls it.
 *
 * exec_new() runs on the session's thread at compile time. For the call's local shapes and strides it chooses the
 * first variant that accepts them (else the reference with conversions), the operands to copy into dense form, and
 * the scratch size. exec_enqueue() runs on a device thread without allocating. It computes the call, or puts the
 * work on a stream. The work records invalid data in a finding, from which exec_say() later makes the error on the
 * host.
 *
 * Addresses are arguments of each run: an exec is read-only after exec_new(), and its owner frees it. The state of a
 * variant may be limited to one thread at a time. */
#ifndef RILLE_KERNELS_KERNEL_H
#define RILLE_KERNELS_KERNEL_H

#include "kernels/cpu/base/fuse.h"
#include "runtime/base/arena.h"

struct exec;

/* Makes an exec. Copies types, attributes and views; the views of k have NULL data. device: the kind of device. The
 * caller owns *out. */
int exec_new(const struct kcall *k, int device, struct exec **out);
void exec_free(struct exec **e);
size_t exec_scratch(const struct exec *e); /* bytes; the caller aligns scratch to 64 */
/* Returns the caller's view of operand i or of output i - nin (data NULL); NULL: no such operand or output. */
const struct view *exec_view(const struct exec *e, int i);
const char *exec_variant(const struct exec *e); /* "dnnl", "ref", ... */
/* Puts the work on stream s, or computes at once if s is NULL. in[i], out[i]: data of each view, in the order of the
 * call (NULL: absent). The arrays and the data must stay valid until the work is done. A failure during the work
 * (E_KERNEL) is reported by the stream. find: zeroed, in memory that device and host can access, valid until the
 * work is done; NULL: data is not checked, because an earlier task did. Only the thread that owns the stream may
 * call; does not block. If kernel_check() asked for it, also runs the reference and compares. */
struct stream;
/* Maximum operands of a call or chain; maximum operands and results of an exec. */
enum { EXEC_IN = 64, EXEC_ADDRESSES = 256 };
int exec_enqueue(const struct exec *e, void *const *in, void *const *out, void *scratch, struct stream *s,
                 uint64_t piece, struct finding *find);
/* Computes the call at once, for a device of the exec's kind; on a device thread, or within the work of a stream. */
int exec_on(const struct exec *e, void *const *in, void *const *out, void *scratch, int device, uint64_t piece,
            struct finding *find);
/* Reports on the host, after the work of that micro-batch: E_VALUE if the work found invalid data. */
int exec_say(const struct exec *e, const struct finding *f, uint64_t piece);
/* Runs exec_on() and exec_say(). */
int exec_run(const struct exec *e, void *const *in, void *const *out, void *scratch, uint64_t piece);

/* The steps that an exec computes; the exec owns them. A plain call is one step, which reads operand i as argument i
 * and writes output 0. */
struct exec_made {
    int nstep;
    const struct fuse_step *step;
    struct pieces pieces; /* those of the call; all 0 for a chain */
    bool adds;            /* that of the call; false for a chain */
};
const struct exec_made *exec_made(const struct exec *e);
size_t exec_bytes(const struct exec *e); /* memory that the exec holds, bytes, approximate */
/* Makes an exec of several steps: a chain, in which steps depend on each other or mix operators; or a group. */
int exec_fused(int nstep, const struct fuse_step *step, int nin, const struct view *in, int nout,
               const struct view *out, int device, int threads, struct exec **e);

/* Returns true if these steps form a group instead of a chain: independent calls of one operator, each of which writes
 * an output. */
bool group_is(int nstep, const struct fuse_step *step);
/* Returns the index of a chain's producer, which the element-wise steps follow: the last step with OP_LEADS; -1:
 * none. */
int epilogue_by(int nstep, const struct fuse_step *step);

/* Copies src to dst as view_copy() does, with at most `threads` threads and no more than the size justifies; any
 * thread. */
void kernel_copy(const struct view *dst, const struct view *src, int threads);

/* Computes k with the reference alone, converting as needed: the tests' oracle. May allocate. */
int ref_run(const struct kcall *k);

/* RILLE_CHECK=ref: compares each kernel with the reference. Process-wide; call before the first session. */
void kernel_check(bool ref);
bool kernel_checks(void);

#endif
