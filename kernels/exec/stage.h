/* stage.h - copies operands and results to and from dense form in scratch, for a method. Runs only read the exec; any
 * thread. */
#ifndef RILLE_KERNELS_EXEC_STAGE_H
#define RILLE_KERNELS_EXEC_STAGE_H

#include "kernels/exec/exec_inner.h"

/* Views and data of the operands and results of one run, as the method receives them: those of the caller or of the
 * dense copies. A run does not write the exec, so several threads may run one exec. */
struct stage_views {
    struct view in[EXEC_IN], out[OP_OUT];
};

/* Returns a dense view of dtype d with the sizes and the global position of v. */
struct view stage_view(const struct view *v, enum dtype d);
/* Returns the dtype that the reference uses in place of d: f64, or i64. */
enum dtype stage_ref_dtype(enum dtype d);
/* Reserves scratch for n elements of `width` bytes. If the total exceeds STAGE_MOST bytes, sets it to STAGE_MOST,
 * and exec_new() fails. */
static const size_t STAGE_MOST = (size_t)1 << 62;
void stage_reserve(struct exec *e, int64_t n, size_t width);
/* Returns true if operand i may have a dense copy: the operand is neither absent nor a number. */
bool stage_has_operand(const struct exec *e, int i);
/* Make the method read operand i, or write result i, as a dense copy of dtype d in scratch. */
void stage_operand(struct exec *e, int i, enum dtype d);
void stage_result(struct exec *e, int i, enum dtype d);
/* Removes all staged copies, so that the method sees the caller's views. */
void stage_clear(struct exec *e);

/* Sets the operands' views, and copies the operands that are staged. */
void stage_in(const struct exec *e, struct stage_views *v, void *const *in, char *scratch);
void stage_aim_out(const struct exec *e, struct stage_views *v, void *const *out, char *scratch);
/* Copies the staged results to the caller's results. */
void stage_out(const struct exec *e, const struct stage_views *v, void *const *out);
/* Returns the call that the method computes in this run. */
struct kcall stage_call(const struct exec *e, const struct stage_views *v, const struct run_args *r);

#endif
