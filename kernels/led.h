/* led.h - a chain of element-wise calls that a product, or a call along lines, leads: what follows it - a bias, an
 * activation, a residual - is computed on its first result in the same task, and no register holds that. Or one call
 * follows a product that writes in place, over it (OP_FOLLOWS). An exec owns it; a thread at a time runs it. */
#ifndef RILLE_KERNELS_LED_H
#define RILLE_KERNELS_LED_H

#include "kernels/cpu/fuse.h"
#include "kernels/kernel.h"

struct led {
    struct exec *exec; /* the product, or line */
    struct exec *then; /* the other steps; who owns the chain frees both */
    int nfrom;
    int from[OP_OPERAND]; /* its operands, among those of the chain; -1: absent */
    int to;               /* output of the chain that its result is written into; -1: scratch */
    int nmade;            /* its results */
    int others;           /* that of its second result, which the rest follow */
    size_t at;            /* bytes from the start of scratch */
    bool follows;         /* one step follows, in place; then `then` has its operands in their order */
    int nin;              /* operands of the other steps: its result, then these of the chain */
    int in[EXEC_IN];
    int nout; /* their outputs, among those of the chain */
    int out[EXEC_IN];
    size_t scratch_bytes;
};

/* Returns the step that is a product, or line; -1: none. */
int led_by(int nstep, const struct fuse_step *step);
/* Makes the chain that step `lead` leads, as exec_fused() has it; all but the execs lies in the arena. On failure too
 * *made has execs to free, or NULL. */
int led_new(struct arena *a, int lead, int nstep, const struct fuse_step *step, const struct view *in,
            const struct view *out, int device, int threads, struct led **made);
/* As exec_on(). */
int led_run(const struct led *l, void *const *in, void *const *out, void *scratch, int device, uint64_t piece,
            struct finding *find);

#endif
