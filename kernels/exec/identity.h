/* identity.h - what determines the bits of results of cpu kernels: the build, libraries, and the instruction set.
 *
 * Loops of Rille add in the same order at each level of processor and are compiled without contraction, so they have
 * equal bits. oneDNN's products differ by instruction set. A set is a mask (dnnl_cpu_isa_t): the sets that two
 * processors have in common are the AND of their masks. Session's thread. */
#ifndef RILLE_KERNELS_IDENTITY_H
#define RILLE_KERNELS_IDENTITY_H

#include "runtime/base/str.h"

/* Appends the identity of build and libraries; equal in processes whose kernels have equal bits at one instruction set.
 */
void kernels_print(struct str *out);
/* Returns the instruction sets that products may use in this process; 0: the processor has no choice of sets. */
unsigned kernels_isa(void);
const char *
kernels_isa_name(unsigned isa); /* returns the name of the largest known set in a mask, such as "avx2"; "": none */
/* Restricts products to an instruction set. E_STATE: a product was already made with a larger set. */
int kernels_limit_isa(unsigned isa);

#endif
