/* rule.h - dimension rules: what corresponds to what between the operands and results of an operator.
 *
 * rule_parse reads it from the string of an operator record (syntax in runtime/op.h), rule_of_call binds it to the
 * sizes of a call. It tells the shapes of the results, which factors a layout may split, and how much work a call is.
 * Pure; any thread. */
#ifndef RILLE_SBP_RULE_H
#define RILLE_SBP_RULE_H

#include "runtime/op.h"

enum { RULE_FACTOR = 26 + 26, RULE_MERGE = 8, RULE_OPERAND = 64 };

struct rule_dim {
    uint8_t nfactor; /* 0: a size-one dimension; more than 1: merged, major first */
    int8_t factor[RULE_MERGE];
};
struct rule_operand {
    bool ignored; /* "=": absent or a number */
    uint8_t ndim;
    struct rule_dim dim[MAX_DIM];
};
struct rule_factor {
    char letter;
    bool unsplit; /* [x], or a letter only on the right */
    bool made;    /* x+: only on the right, but a rank may make its part of it */
    bool in_input, in_output;
    int64_t size; /* after binding; -1 before */
};
struct rule {
    int nin, nout, nfactor;
    struct rule_operand *operand; /* nin inputs, then nout outputs; in the arena given */
    struct rule_factor factor[RULE_FACTOR];
};

struct arena;
/* E_ARG with the text and position: we write the rules, so tests see this, not users. */
int rule_parse(struct arena *a, const char *text, struct rule *out);
/* The rule of a call: record's string or make_rule(), parsed, sizes bound from c->in. new_size: sizes of the letters on
 * the right that no dimension of an operand is alone (new ones, and parts of a merged dimension), in order of
 * appearance there (from infer; RULE_FACTOR entries, unused ones -1; NULL: none). Operands that are absent or numbers
 * take no part whatever the text says of them. E_SHAPE names operator, operands, dimension: "matmul: dimension 1 of a
 * is 5 but dimension 0 of b is 6 (k); a is f32{4, 5}, b is f32{6, 8}". */
int rule_of_call(struct arena *a, const struct call *c, const int64_t *new_size, struct rule *out);
/* The shape of output k; ndim and dims are set, dtype left. */
void rule_shape(const struct rule *r, int k, struct type *out);
/* The points at which the operator computes: each of its operands' factors with each, or of its results', whichever are
 * more. A factor that goes and one that comes do not meet: rows of x and of a part of it. */
double rule_points(const struct rule *r);

/* Writers of common rules, for make_rule(). They choose letters; absent operands and numbers become "=". */
int rule_keep(const struct call *c, int axis, struct str *rule); /* "ab[c]->ab[c]": all operands as in[0] */
int rule_broadcast(const struct call *c, struct str *rule);      /* NumPy broadcasting of all operands; E_SHAPE */
int rule_reduce(const struct call *c, const int64_t *axes, int naxes, bool keepdim,
                struct str *rule);                     /* naxes 0: all */
int rule_same(const struct call *c, struct str *rule); /* all operands and results one shape */
/* in[0] with its elements in the same order in another shape ("(ab)c->a(bc)"), dim[i] = -1 once: what is left. For
 * make_rule() give rule, for infer() give size (then it holds the sizes that the rule needs); either may be NULL. */
int rule_reshape(const struct call *c, int ndim, const int64_t *dim, struct str *rule, int64_t *size);

/* ---- checking a call before anything else: dtypes, rule, shapes, in one go ---- */

/* Fills c->out (types) from c->in and c->attr. Errors name the operator and operands (with layouts where c->layout is
 * given). It leaves the bound rule in *r. */
int call_infer(struct arena *a, struct call *c, struct rule *r);
/* "a is f32{4, 5} S(0) on cpu[0, 1], b is ..." for messages. */
void call_print_operands(const struct call *c, struct str *s);
/* The name of operand i; of a list, with its position: "x[2]". */
void call_print_name(const struct call *c, int i, struct str *s);

#endif
