/* body.h - a body: a small program of operators that the operator scan runs once per position of an axis.
 *
 * A body has no types. A call of scan determines them, because its operands have types. The inputs of a body are
 * numbered: states, sums, slices, captured values. The results of its operators follow, in order. A body is stored as
 * one line of text, without spaces, from which any process can make it again:
 *
 *   1,1,1,=2:matmul(0,3);add(4,2);tanh(5)>6,6
 *
 * Before the colon are the numbers of states, of slices and of captured values; then, for each sum, "=" and the
 * number of an input that has the sum's shape. The operands of a call are states, slices and captured values, in
 * order. A sum is a state that has no operand and begins with zeros. After ">" are the numbers of the values that
 * become the next states, the next sums and the outputs.
 *
 * An attribute is written as name=value, or as name~value if only its value differs from the default. Bodies are
 * interned: equal texts give the same body. A body is constant and lives as long as the process; any thread. */
#ifndef RILLE_KERNELS_OP_BASE_BODY_H
#define RILLE_KERNELS_OP_BASE_BODY_H

#include "sbp/rule.h"

struct str;
struct body_node {
    const struct op *op;
    struct attr *attr;
    int nin, nout;
    int *in;   /* by operand: number of its value; -1: absent */
    int first; /* number of the value that is the first result */
};
struct body {
    const char *text;
    int nstate, nslice, ncapture, nsum;
    /* number of inputs, of operators and of values; the first ninput values are the inputs */
    int ninput, nnode, nvalue;
    int noutput;     /* number of outputs, which are the last results */
    const int *like; /* [nsum] by sum: an input that has the sum's shape */
    const struct body_node *node;
    const int *result; /* [nstate + nsum + noutput] numbers of values: next states, next sums, outputs */
};

/* Returns the number of the body with this text in *number. E_ARG: the text is no body. */
int body_number(const char *text, int64_t *number);
/* Returns the body with this number; NULL: no body has it. */
const struct body *body_at(int64_t number);
/* Returns the number of the call's operand that input i receives; -1: input i is a sum, which has no operand. */
int body_operand(const struct body *b, int i);
/* Returns the number of operands of a scan with this body: one for each state, slice and captured value. */
int body_noperand(const struct body *b);
int body_nresult(const struct body *b);
/* Appends the text of one operator to the text of a body. in: numbers of the operands' values; -1: absent. */
void body_write(const struct op *op, const struct attr *attr, int nin, const int *in, struct str *s);

/* ---- binding a body to a call: the types of its values, and their factors ---- */

/* Type of one value of the body, and the factor of each dimension. A factor is a group of dimensions that have equal
 * sizes and are split alike. factor -1: the dimension has size 1. */
struct body_value {
    struct type type;
    int factor[MAX_DIM];
};
struct body_factor {
    bool split; /* a layout may split the factor: the ranks then run the body on their shards, without communication */
    int joined; /* 1 + number of the factor into which this factor was merged; 0: not merged */
    int64_t size;
};
struct bound_body {
    const struct body *body;
    struct call *call;        /* [nnode] */
    struct rule *rule;        /* [nnode] */
    struct body_value *value; /* [nvalue] */
    struct body_factor *factor;
    int nfactor;
};
/* Returns the dimension over which the scan iterates, in a tensor of slices or outputs with ndim dimensions. */
static inline int
body_axis(int64_t axis, int ndim)
{
    return (int)MIN(axis, ndim - 1);
}

#endif
