/* exec.h - runs one operator on one rank: chooses a variant, prepares it and calls it.
 *
 * exec_new() runs on the session's thread at compile time. It chooses the first variant that accepts the call's
 * local shapes and strides, or else the reference with conversions. It also determines which operands are copied
 * into dense form, and the scratch size. exec_enqueue() runs on a device thread without allocating: it computes the
 * call, or puts the work on a stream. The work records invalid data in a finding, from which exec_say() later makes
 * the error on the host.
 *
 * Addresses are arguments of each run: an exec is read-only after exec_new(), and its owner frees it. The state of a
 * variant may be limited to one thread at a time. */
#ifndef RILLE_KERNELS_EXEC_EXEC_H
#define RILLE_KERNELS_EXEC_EXEC_H

#include "kernels/cpu/base/fuse.h"
#include "runtime/data/arena.h"

struct exec;

/* Makes an exec, owned by the caller, in *out. Copies the types, attributes and views of k; the views have NULL
 * data. device: the kind of device. */
int exec_new(const struct kcall *k, int device, struct exec **out);
void exec_free(struct exec **e);
size_t exec_scratch(const struct exec *e); /* size of scratch, bytes; the caller aligns scratch to 64 bytes */
/* Returns the caller's view of operand i, or of output i - nin if i >= nin. The view has NULL data. Returns NULL if
 * there is no such operand or output. */
const struct view *exec_view(const struct exec *e, int i);
const char *exec_variant(const struct exec *e); /* name of the method or variant: "dnnl", "ref", ... */
/* Puts the work of the exec on stream s, or computes at once if s is NULL. in[i], out[i]: data of each view, in the
 * order of the call (NULL: absent). The arrays and the data must stay valid until the work is done. If the work
 * fails (E_KERNEL), the stream reports the failure. find: receives the first invalid data. The caller sets it to
 * zero, in memory that device and host can access, and keeps it until the work is done. find NULL: the data is not
 * checked, because an earlier task did. Only the thread that owns the stream may call; does not block. After
 * kernel_check(true), also runs the reference and compares. */
struct stream;
/* EXEC_IN: maximum number of operands of a call or chain. EXEC_ADDRESSES: maximum number of operands and results of
 * an exec, together. */
enum { EXEC_IN = 64, EXEC_ADDRESSES = 256 };
int exec_enqueue(const struct exec *e, void *const *in, void *const *out, void *scratch, struct stream *s,
                 uint64_t piece, struct finding *find);
/* Computes the call at once, on a device of the exec's kind. Runs on a device thread, or within the work of a
 * stream. */
int exec_on(const struct exec *e, void *const *in, void *const *out, void *scratch, int device, uint64_t piece,
            struct finding *find);
/* Returns E_VALUE, with a message, if the work of micro-batch `piece` found invalid data. Call on the host after the
 * work. */
int exec_say(const struct exec *e, const struct finding *f, uint64_t piece);
/* Runs exec_on(), then exec_say(). */
int exec_run(const struct exec *e, void *const *in, void *const *out, void *scratch, uint64_t piece);

/* The steps that an exec computes; the exec owns them. A plain call is one step, whose arguments are the operands in
 * order and whose output has index 0. */
struct exec_made {
    int nstep;
    const struct fuse_step *step;
    struct pieces pieces; /* how the call is divided into micro-batches; all 0 for a chain */
    bool adds;            /* true: the results of micro-batches are added up; always false for a chain */
};
const struct exec_made *exec_made(const struct exec *e);
size_t exec_bytes(const struct exec *e); /* approximate memory that the exec holds, bytes */
/* Makes an exec of several steps. The steps are a group if group_is() returns true. Otherwise they are a chain:
 * steps that depend on each other or have different operators. */
int exec_fused(int nstep, const struct fuse_step *step, int nin, const struct view *in, int nout,
               const struct view *out, int device, int threads, struct exec **e);

/* Copies src to dst as view_copy() does, with at most `threads` threads, fewer for small views. Any thread. */
void kernel_copy(const struct view *dst, const struct view *src, int threads);

/* Computes k with the reference, converting dtypes as needed. Tests use this function as their oracle. May allocate. */
int ref_run(const struct kcall *k);

/* RILLE_CHECK=ref: turns the comparison of each kernel with the reference on or off, for the whole process. Call
 * before the first session. */
void kernel_check(bool ref);
bool kernel_checks(void);

/* Ends the threads that kernels on the calling thread use, before fork(); the next kernel starts them again. */
void kernel_end_threads(void);

#endif
