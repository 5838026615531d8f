/* exec.h - struct exec: one call or chain, prepared for one rank; and struct method: code that computes an exec.
 * Private to kernels/exec; other folders use kernel.h.
 *
 * exec.c has the table of methods; the first method that accepts an exec computes it. A method reads and writes the
 * caller's operands and results, or, through stage.c, dense copies of them in scratch. The session's thread makes an
 * exec and owns it. Runs only read the exec, so they may be on any thread. */
#ifndef RILLE_KERNELS_EXEC_H
#define RILLE_KERNELS_EXEC_H

#include "kernels/exec/kernel.h"

struct exec;

/* The arguments of one run, except operands and results. */
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
    /* Returns true if no host code computes any part of the exec; NULL: host code computes it. finds: the run also
     * checks data. */
    bool (*launches)(const struct exec *e, bool finds);
    void (*drop)(struct exec *e); /* frees memory outside the exec's arena; NULL: none */
    bool waits;                   /* true: run() is host code, so launched work that it depends on must be done first */
    bool reference;               /* true: this method is the reference for RILLE_CHECK=ref */
};
extern const struct method method_group, method_launch, method_variant, method_epilogue, method_elt, method_window,
    method_scan, method_ref;

/* Location of a dense copy of an operand or result. */
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
    /* The call that the method computes, with the views of staged copies; for a chain only k.threads is set. */
    struct kcall k;
    struct view *in, *out; /* the caller's views of operands and results */
    int nin, nout;
    struct view *seen_in, *seen_out;
    struct stage *stage_in, *stage_out;
    size_t scratch_bytes; /* size of scratch, bytes: first the method's own scratch, then the staged copies */

    const struct method *method;
    const void *own;    /* data that the method prepared for its runs */
    size_t more_bytes;  /* memory that the exec holds outside the arena, bytes (estimated) */
    struct exec **part; /* the prepared calls (execs) of which the method consists, owned; NULL: none */
    int npart;

    int (*settle)(int device); /* waits until launched work is done; NULL: the device launches none */
    /* Matrix product of a library, used instead of the method if the addresses suit it; NULL: none. */
    struct cuda_multiply *multiply;
    /* if micro-batches are added up (k.adds): offset in scratch of the result that is added to the sum, bytes */
    size_t sum_at;
    /* if micro-batches are added up (k.adds): kernel that adds a result to the sum; NULL: the host adds it */
    struct cuda_launch *add;
    struct exec *check; /* the same call computed by the reference, for RILLE_CHECK=ref; NULL: no comparison */
    /* Offsets in scratch of the reference's own scratch and of its results, bytes. */
    size_t check_at, check_out[OP_OUT];
    struct exec_made made;
};

/* Records that method m computes the exec. name: the text that exec_variant() returns; own: data that the method
 * prepared. */
int exec_accept(struct exec *e, const struct method *m, const char *name, const void *own, size_t scratch_bytes);
/* Returns true if no host code computes any part of the exec, whatever the addresses. finds: the run also checks
 * data. */
bool exec_launches(const struct exec *e, bool finds);
/* Implements the callback `launches` for methods that only run their parts: returns true if no part needs host code. */
bool exec_parts_launch(const struct exec *e, bool finds);
/* Returns true if the host computes the calls for which this kind of device has no kernel. */
bool exec_by_host(int device);

/* ---- stage.c ---- */

/* Returns a dense view of dtype d with the sizes and the global position of v. */
struct view stage_view(const struct view *v, enum dtype d);
/* Returns the dtype that the reference uses in place of d: f64, or i64. */
enum dtype stage_ref_dtype(enum dtype d);
/* Reserves scratch for n elements of `width` bytes. Treats more than STAGE_MOST bytes as STAGE_MOST. */
static const size_t STAGE_MOST = (size_t)1 << 62;
void stage_reserve(struct exec *e, int64_t n, size_t width);
/* Returns true if operand i may be staged, that is, if it is neither absent nor a number. */
bool stage_has_operand(const struct exec *e, int i);
/* Make the method read operand i, or write result i, as a dense copy of dtype d in scratch. */
void stage_operand(struct exec *e, int i, enum dtype d);
void stage_result(struct exec *e, int i, enum dtype d);
/* Removes all staged copies, so that the method sees the caller's views. */
void stage_clear(struct exec *e);

/* Views and data of the operands and results of one run, as the method sees them. A run does not write the exec, so
 * runs may overlap. */
struct stage_views {
    struct view in[EXEC_IN], out[OP_OUT];
};
/* Sets the operands' views, and copies the operands that are staged. */
void stage_in(const struct exec *e, struct stage_views *v, void *const *in, char *scratch);
void stage_aim_out(const struct exec *e, struct stage_views *v, void *const *out, char *scratch);
/* Copies the staged results to the caller's results. */
void stage_out(const struct exec *e, const struct stage_views *v, void *const *out);
/* Returns the call that the method computes in this run. */
struct kcall stage_call(const struct exec *e, const struct stage_views *v, const struct run_args *r);

#endif
