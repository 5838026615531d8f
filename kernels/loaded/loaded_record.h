/* loaded_record.h - makes internal records from the public records of libraries. One thread at a time. */
#ifndef RILLE_KERNELS_EXEC_LOADED_RECORD_H
#define RILLE_KERNELS_EXEC_LOADED_RECORD_H

#include "kernels/loaded/loaded.h"

/* Makes *l from a record of the library with this path. Path and record must live as long as *l. E_ARG: a field is
 * wrong. */
int loaded_record(const struct rille_operator *r, const char *path, struct loaded *l);
/* Finds the operators that compute l's gradients, among the n operators of its library and among all registered
 * ones. E_ARG: an operator is not found or does not fit. */
int loaded_link(struct loaded *l, int n, const struct loaded *library);
/* Sets the attributes of a gradient operator's call. Copies the attributes of the forward call, `given`, that both
 * operators have; the others have defaults. */
void loaded_pass_attributes(const struct op *from, const struct attr *given, const struct op *to, struct attr *attr);

#endif
