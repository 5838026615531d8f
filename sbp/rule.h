/* rule.h - dimension rules: the correspondence between the dimensions of an operator's operands and results.
 *
 * rule_parse parses the string of an operator record (syntax in runtime/graph/op.h); rule_of_call binds the rule to
 * the sizes of a call. A bound rule gives the shapes of the results, the factors that a layout may split, and the
 * work of a call. Pure; any thread. */
#ifndef RILLE_SBP_RULE_H
#define RILLE_SBP_RULE_H

#include "runtime/graph/op.h"

enum { RULE_FACTOR = 26 + 26, RULE_MERGE = 8, RULE_OPERAND = 64 };

struct rule_dim {
    /* number of factors; 0: a dimension of size 1; more than 1: a merged dimension, major factor first */
    uint8_t nfactor;
    int8_t factor[RULE_MERGE];
};
struct rule_operand {
    bool ignored; /* true: the operand is absent or a number ("=" in the rule) */
    uint8_t ndim;
    struct rule_dim dim[MAX_DIM];
};
struct rule_factor {
    char letter;
    /* true: the factor must not be split. The rule writes it as "[x]", or only results have it */
    bool unsplit;
    /* true: only results have the factor ("x+" in the rule), but each rank can make its own shard */
    bool made;
    bool in_input, in_output;
    int64_t size; /* size of the factor; -1: not bound yet */
};
struct rule {
    int nin, nout, nfactor;
    struct rule_operand *operand; /* nin operands, then nout results; allocated in the caller's arena */
    struct rule_factor factor[RULE_FACTOR];
};

struct arena;
/* Parses a rule. E_ARG: a syntax error; the text gives the position. Rules are built in, so only tests see this
 * error. */
int rule_parse(struct arena *a, const char *text, struct rule *out);
/* Returns the rule of a call: the record's string or make_rule(), parsed, with sizes bound from c->in. new_size:
 * sizes that infer() has set, in order of appearance in the results, for the letters that are not alone in any
 * operand dimension: new letters, and factors of merged dimensions. new_size has RULE_FACTOR entries, unused
 * entries -1; NULL: none. Absent operands and numbers are ignored, even if the rule has letters for them. E_SHAPE
 * names operator, operands and dimension: "matmul: dimension 1 of a is 5 but dimension 0 of b is 6 (k); a is
 * f32{4, 5}, b is f32{6, 8}". */
int rule_of_call(struct arena *a, const struct call *c, const int64_t *new_size, struct rule *out);
/* Sets the dimensions of result k; leaves its dtype unchanged. */
void rule_shape(const struct rule *r, int k, struct type *out);
/* Returns the number of points that the call computes: the product of the sizes of all factors of operands, or of
 * all factors of results, whichever is larger. A factor that only operands have is not multiplied with a factor that
 * only results have. For example, slice reads rows of x and writes rows of its result, and these rows are different
 * factors. */
double rule_points(const struct rule *r);

#endif
