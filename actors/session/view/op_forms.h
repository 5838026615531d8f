/* op_forms.h - prints the layouts of a composite operator, and the operators that compute it. Used only on the
 * session's thread. */
#ifndef RILLE_SESSION_OP_FORMS_H
#define RILLE_SESSION_OP_FORMS_H

#include "runtime/data/str.h"

struct op;
struct rille_session;
/* Prints the operands of a record's sample (kernels/exec/sample.h) as users write them: "f32{4,6}, 0.5, axis=1". */
void op_forms_sample(const char *sample, struct str *s);
/* Prints, for the help page of a composite operator, its layouts and the operators that compute it in each layout.
 * Prints nothing if the operator is never a composite. */
void op_forms_print(struct rille_session *s, const struct op *op, struct str *out);

#endif
