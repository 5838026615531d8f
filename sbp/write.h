/* write.h - writes common dimension rules from the shapes of a call. Pure; any thread. */
#ifndef RILLE_SBP_WRITE_H
#define RILLE_SBP_WRITE_H

#include <stdbool.h>
#include <stdint.h>

struct call;
struct str;

/* The rule_ functions below write common rules, for make_rule(). They choose the letters, and write "=" for absent
 * operands and numbers. */

/* Writes the rule "ab[c]->ab[c]": every operand has the dimensions of in[0], and `axis` stays unsplit. */
int rule_keep(const struct call *c, int axis, struct str *rule);
/* Writes this rule for the axis that attribute 0 contains. */
int rule_keep_axis(const struct call *c, struct str *rule);
/* Writes the rule that broadcasts all operands as NumPy does. E_SHAPE: sizes differ, and none of them is 1. */
int rule_broadcast(const struct call *c, struct str *rule);
/* Writes the rule that reduces axes of in[0]; naxes 0: all axes. */
int rule_reduce(const struct call *c, const int64_t *axes, int naxes, bool keepdim, struct str *rule);
/* Writes the rule of a call whose operands and results all have one shape. */
int rule_same(const struct call *c, struct str *rule);
/* Writes the rule for reshaping in[0], whose elements keep their row-major order ("(ab)c->a(bc)"). One dim[i] may be
 * -1: its size is inferred. make_rule() passes `rule`. infer() passes `size`, to receive the sizes of the rule's
 * letters. Either may be NULL. */
int rule_reshape(const struct call *c, int ndim, const int64_t *dim, struct str *rule, int64_t *size);

#endif
