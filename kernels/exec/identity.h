/* identity.h - facts that determine the bits of CPU kernels' results: the build, libraries, and the instruction set.
 *
 * Rille's own loops have equal bits on all processors, because they add in the same order at every SIMD level and
 * are compiled without contraction (fused multiply-add). The bits of oneDNN's products depend on the instruction
 * set. An instruction set is a mask (dnnl_cpu_isa_t) with one bit per extension. The AND of two processors' masks
 * holds the extensions that both have. Session's thread. */
#ifndef RILLE_KERNELS_IDENTITY_H
#define RILLE_KERNELS_IDENTITY_H

#include "runtime/data/str.h"

/* Appends a text that identifies the build and the libraries. If two processes have the same text and the same
 * instruction set, the results of their kernels have equal bits. */
void kernels_print(struct str *out);
/* Returns the instruction sets that products may use in this process; 0: the processor has no choice of sets. */
unsigned kernels_isa(void);
const char *
kernels_isa_name(unsigned isa); /* returns the name of the largest known set in a mask, such as "avx2"; "": none */
/* Restricts products to an instruction set. E_STATE: a product was already made with a larger set. */
int kernels_limit_isa(unsigned isa);
/* Restricts products to the instruction set of this name, such as "avx2", or to a smaller one if the processor lacks
 * it. E_VALUE: unknown name; E_STATE as above. */
int kernels_limit_isa_by_name(const char *name);

#endif
