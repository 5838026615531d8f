/* op_forms.h - prints the operators that a composite operator consists of. Session's thread. */
#ifndef RILLE_SESSION_OP_FORMS_H
#define RILLE_SESSION_OP_FORMS_H

#include "runtime/base/str.h"

struct op;
struct rille_session;
/* Prints the operators that a composite operator consists of, and the layouts, for its help page. Prints nothing if
 * the operator is never a composite. */
void op_forms_print(struct rille_session *s, const struct op *op, struct str *out);

#endif
