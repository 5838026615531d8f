/* exec_inner.h - struct exec: one call or chain, prepared for one rank; and struct method: code that computes an exec.
 * Private to kernels/exec; other folders use exec.h.
 *
 * exec.c has the table of methods; the first method that accepts an exec computes it. A method reads and writes the
 * caller's operands and results, or, through stage.c, dense copies of them in scratch. The session's thread makes an
 * exec and owns it. Runs only read the exec, so they may be on any thread. */
#ifndef RILLE_KERNELS_EXEC_EXEC_INNER_H
#define RILLE_KERNELS_EXEC_EXEC_INNER_H

#include "kernels/exec/exec.h"

struct exec;

/* Arguments of one run of an exec, besides the addresses of operands and results. piece: number of the micro-batch.
 * find: receives the first invalid element of an operand; NULL: the data is not checked. */
struct run_args {
    char *scratch;
    uint64_t piece;
    struct finding *find;
    int device;
};

struct method {
    /* Prepares the exec. Calls exec_accept() if the method can compute the exec on this kind of device; otherwise
     * changes nothing and returns 0. */
    int (*make)(struct exec *e, int device);
    int (*run)(const struct exec *e, void *const *in, void *const *out, const struct run_args *r);
    /* Returns true if the device computes the whole exec, without host code. NULL: host code computes the exec.
     * finds: the run also checks the operands' data. */
    bool (*launches)(const struct exec *e, bool finds);
    void (*drop)(struct exec *e); /* frees memory outside the exec's arena; NULL: none */
    bool waits;                   /* true: run() is host code, so it waits for the work launched before */
    bool reference;               /* true: this method is the reference for RILLE_CHECK=ref */
};
extern const struct method method_group, method_launch, method_variant, method_epilogue, method_elt, method_window,
    method_scan, method_ref;

/* The dense copy of one operand or result in scratch. used: the method reads or writes the copy. */
struct stage {
    bool used;
    size_t at; /* offset of the copy in scratch, bytes */
    struct view view;
};

struct exec {
    struct arena arena;
    const char *name;
    const struct call *call; /* the call; for a chain, the call of the last step */
    bool fused;              /* true: a chain or a group; false: one call */
    /* The call that the method computes. Operands and results that have a dense copy (stage.c) have the view of the
     * copy. For a chain only k.threads is set. */
    struct kcall k;
    struct view *in, *out; /* the caller's views of operands and results */
    int nin, nout;
    struct view *seen_in, *seen_out;
    struct stage *stage_in, *stage_out;
    size_t scratch_bytes; /* size of scratch, bytes: first the method's own scratch, then the staged copies */

    const struct method *method;
    const void *own;    /* data that the method prepared for its runs */
    size_t more_bytes;  /* memory that the exec holds outside the arena, bytes (estimated) */
    struct exec **part; /* execs that the method runs, owned; NULL: the method computes the part itself */
    int npart;

    int (*settle)(int device); /* waits until launched work is done; NULL: the device launches none */
    /* Matrix product of the device's library. A run whose addresses suit the library uses this product instead of
     * the method. NULL: the library has no such product. */
    struct cuda_multiply *multiply;
    /* if the results of micro-batches are added (k.adds): offset in scratch of one micro-batch's result, bytes */
    size_t sum_at;
    /* if k.adds: kernel that adds the result of one micro-batch to the sum; NULL: the host adds */
    struct cuda_launch *add;
    struct exec *check; /* the same call computed by the reference, for RILLE_CHECK=ref; NULL: no comparison */
    /* check_at: offset of the reference's own scratch in the exec's scratch, bytes; check_out: offsets of the
     * reference's results, for the comparison. */
    size_t check_at, check_out[OP_OUT];
    struct exec_made made;
};

/* Records that method m computes the exec. name: the text that exec_variant() returns; own: data that the method
 * prepared. */
int exec_accept(struct exec *e, const struct method *m, const char *name, const void *own, size_t scratch_bytes);
/* Implements the callback `launches` for methods that only run their parts: returns true if no part uses host
 * code. */
bool exec_parts_launch(const struct exec *e, bool finds);
/* Returns true if the host computes the calls for which this kind of device has no kernel. */
bool exec_by_host(int device);

#endif
