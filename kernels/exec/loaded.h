/* loaded.h - operators of shared libraries (rille_operator.h), loaded while the program runs.
 *
 * loaded_library.c opens libraries and registers their operators. loaded_record.c makes an internal record from a
 * public record; no other file knows how the two correspond. loaded_check.c checks the internal record on its
 * samples. Libraries and records live as long as the process. Any thread may load libraries, one thread at a time. */
#ifndef RILLE_KERNELS_LOADED_H
#define RILLE_KERNELS_LOADED_H

#include "rille_operator.h"
#include "runtime/graph/op.h"

/* Loads all operators of a library, or none. Returns 0 at once if they are loaded already. E_IO: the file is no shared
 * library. E_ARG, E_SBP: a record is wrong. */
int loaded_open(const char *path);
/* Loads the libraries that the environment variable RILLE_OPERATORS lists, separated by ':'. */
int loaded_from_environment(void);

/* ---- functions that the files loaded_*.c share ---- */

enum { LOADED_OUT = 4 }; /* maximum number of results of an operator of a library */
struct loaded {
    struct op op;                      /* must be the first member: loaded_of() converts pointers */
    struct rille_operator record;      /* copy of the library's record; fields that the library does not know are 0 */
    const struct rille_operator *from; /* record in the library */
    struct kernel_variant variant[2];
    const struct op *gradient[RILLE_OPERATOR_OPERANDS];
    char saves[RILLE_OPERATOR_OPERANDS + OP_OUT + 1];
};
static inline const struct loaded *
loaded_of(const struct op *op)
{
    return (const struct loaded *)op;
}

/* Makes *l from a record of the library with this path, which must live as long as *l. E_ARG: a field is wrong. */
int loaded_record(const struct rille_operator *r, const char *path, struct loaded *l);
/* Finds the operators that compute l's gradients, among the n operators of its library and among all registered
 * ones. E_ARG: an operator is not found or does not fit. */
int loaded_link(struct loaded *l, int n, const struct loaded *library);
/* Sets the attributes of a gradient's call from those of the call that it differentiates. */
void loaded_pass_attributes(const struct op *from, const struct attr *given, const struct op *to, struct attr *attr);
/* Checks signatures, gradients and the fast kernel on all samples. Fails with E_ARG, E_SBP or E_KERNEL. */
int loaded_check(const struct loaded *l);

#endif
