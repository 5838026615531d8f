/* infer.h - checks operands, dtypes, rule and shapes of a call. Pure; any thread. */
#ifndef RILLE_SBP_INFER_H
#define RILLE_SBP_INFER_H

#include "sbp/rule.h"
#include "runtime/base/error.h"

/* Fills in c->out (types) from c->in and c->attr, and *r with the bound rule. Error texts name the operator and the
 * operands (with layouts if c->layout is set). */
int call_infer(struct arena *a, struct call *c, struct rule *r);
/* Prints "a is f32{4, 5} S(0) on cpu[0, 1], b is ..." for messages. */
void call_print_operands(const struct call *c, struct str *s);
/* Fails with "NAME: text; a is f32{4, 5}, ...", which shows the operands of the call. */
int call_fail(enum err_code code, const struct call *c, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Prints the name of operand i; for a list, with its position: "x[2]". */
void call_print_name(const struct call *c, int i, struct str *s);

#endif
