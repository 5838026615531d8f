/* exec.h - one call or chain prepared for one rank, and the methods that can compute it. Private to kernels/exec;
 * others use kernel.h.
 *
 * exec.c has the table of methods; the first method that accepts an exec computes it. A method sees the caller's
 * operands and results, or, through stage.c, dense copies of them in scratch. The session's thread makes an exec and
 * owns it. Runs, on any thread, only read the exec. */
#ifndef RILLE_KERNELS_EXEC_H
#define RILLE_KERNELS_EXEC_H

#include "kernels/exec/kernel.h"

struct exec;

/* The arguments of one run besides operands and results. */
struct run_args {
    char *scratch;
    uint64_t piece;
    struct finding *find;
    int device;
};

struct method {
    /* Prepares the exec and calls exec_accept() if the method can compute the exec on this kind of device. Otherwise
     * changes nothing and returns 0. */
    int (*make)(struct exec *e, int device);
    int (*run)(const struct exec *e, void *const *in, void *const *out, const struct run_args *r);
    bool (*launches)(const struct exec *e, bool finds); /* true: no host code computes a part of it; NULL: host code */
    void (*drop)(struct exec *e);                       /* frees memory outside the exec's arena; NULL: none */
    bool waits;                                         /* run() is host code, which waits for launched work first */
    bool reference; /* true: RILLE_CHECK=ref compares other methods with this method */
};
extern const struct method method_group, method_launch, method_variant, method_epilogue, method_elt, method_window,
    method_ref;

/* A copy of an operand or result in scratch. */
struct stage {
    bool used;
    size_t at; /* offset in scratch, bytes */
    struct view view;
};

struct exec {
    struct arena arena;
    const char *name;
    const struct call *call; /* the call; the last step's if a chain */
    bool fused;              /* a chain or a group; false: one call */
    struct kcall k;          /* the call as the method sees it, with staged views; only `threads` is set for a chain */
    struct view *in, *out;   /* the caller's views */
    int nin, nout;
    struct view *seen_in, *seen_out;
    struct stage *stage_in, *stage_out;
    size_t scratch_bytes; /* bytes of scratch: the method's own, then the stages */

    const struct method *method;
    const void *own;    /* what the method prepared */
    size_t more_bytes;  /* memory outside the arena, estimated */
    struct exec **part; /* execs that the method runs; owned; NULL: no such part */
    int npart;

    int (*settle)(int device);          /* waits for launched work; NULL: the device launches none */
    struct cuda_multiply *multiply;     /* library product, used instead of the method if the addresses suit it */
    size_t sum_at;                      /* (k.adds) offset of the addend in scratch, bytes */
    struct cuda_launch *add;            /* (k.adds) kernel for the addition, on devices that compile kernels */
    struct exec *check;                 /* reference to compare with */
    size_t check_at, check_out[OP_OUT]; /* offsets in scratch of the reference's scratch and results, bytes */
    struct exec_made made;
};

/* Records that the method computes the exec. name: as exec_variant() returns it; own: see struct exec. */
int exec_accept(struct exec *e, const struct method *m, const char *name, const void *own, size_t scratch_bytes);
/* Returns true if no part of the exec is computed by host code, whatever its addresses. finds: data is checked. */
bool exec_launches(const struct exec *e, bool finds);
/* The launches() callback of methods that only run parts. */
bool exec_parts_launch(const struct exec *e, bool finds);
/* Returns true if the host computes what this kind of device has no kernel for. */
bool exec_by_host(int device);

/* ---- stage.c ---- */

size_t stage_align(size_t bytes); /* to 64 */
/* Returns a dense view of dtype d with v's sizes and global position. */
struct view stage_view(const struct view *v, enum dtype d);
/* Returns the dtype in which the reference computes d. */
enum dtype stage_ref_dtype(enum dtype d);
/* Reserves scratch for n elements of `width` bytes. More than STAGE_MOST bytes count as STAGE_MOST. */
static const size_t STAGE_MOST = (size_t)1 << 62;
void stage_reserve(struct exec *e, int64_t n, size_t width);
/* Returns true if operand i may be staged: neither absent nor a number. */
bool stage_has_operand(const struct exec *e, int i);
/* Makes the method see operand or result i as a dense copy of dtype d. */
void stage_operand(struct exec *e, int i, enum dtype d);
void stage_result(struct exec *e, int i, enum dtype d);
/* Removes all stages. */
void stage_clear(struct exec *e);

/* The views of one run with their data, as the method sees them. A run does not write the exec, so runs may overlap. */
struct stage_views {
    struct view in[EXEC_IN], out[OP_OUT];
};
/* Sets the views of the operands, and copies those that are staged. */
void stage_in(const struct exec *e, struct stage_views *v, void *const *in, char *scratch);
void stage_aim_out(const struct exec *e, struct stage_views *v, void *const *out, char *scratch);
/* Copies staged results to the caller's. */
void stage_out(const struct exec *e, const struct stage_views *v, void *const *out);
/* Returns the call of a run. */
struct kcall stage_call(const struct exec *e, const struct stage_views *v, const struct run_args *r);

#endif
