/* after.h - writes epilogues: a line kernel also computes the other steps of a chain. The caller owns the text; any
 * thread. */
#ifndef RILLE_KERNELS_CUDA_AFTER_H
#define RILLE_KERNELS_CUDA_AFTER_H

#include "kernels/cuda/line.h"

/* Writes declarations of the epilogue's operands, and of the C++ function y0(element, value), which applies the
 * epilogue to an element of the pass's result. */
void line_add_after(struct making *m, const struct lines_on *l, const struct passing *p);
/* Writes a chain whose leading step `lead` processes lines and writes its first result element by element. */
int making_epilogue(struct arena *a, int lead, int nstep, const struct fuse_step *step, const struct making_ends *e,
                    struct cuda_source *s);

#endif
