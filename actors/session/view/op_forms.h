/* op_forms.h - prints the calls that a composite operator is made of. Session's thread. */
#ifndef RILLE_SESSION_OP_FORMS_H
#define RILLE_SESSION_OP_FORMS_H

#include "runtime/base/str.h"

struct op;
struct rille_session;
/* Prints the calls that a composite op is made of and the resulting layouts, for the op's help page. Prints nothing
 * if the op is never a composite. */
void op_forms_print(struct rille_session *s, const struct op *op, struct str *out);

#endif
