/* scan_body.h - adds a scan (kernels/op/scan.c) for the nodes between stand-ins and results.
 *
 * A stand-in is a node that stands for a state, slice or captured value at one position, and is never run. The nodes
 * that depend on stand-ins become the body of the scan. Other values that these nodes read are captured. Session's
 * thread. */
#ifndef RILLE_SESSION_SCAN_BODY_H
#define RILLE_SESSION_SCAN_BODY_H

#include "actors/session/core/call_context.h"
#include "kernels/op/base/body.h"

enum { SCAN_INPUTS = RULE_OPERAND };

/* A list of inputs of a body: a placeholder for each (stand-in), and the scan's operand for it. The operand of a
 * sum is NULL. */
struct scan_inputs {
    int n;
    struct val *stand_in[SCAN_INPUTS], *operand[SCAN_INPUTS];
};
/* A scan to be added. Slices and captured values that the body does not read are dropped. */
struct scan {
    struct scan_inputs state, sum, slice, capture;
    int like[SCAN_INPUTS]; /* by sum: index of the captured value whose shape the sum has */
    /* results of the body. next: by state, its value after the position; total: by sum, its value after the
     * position; output: results that are stacked over the positions */
    struct val *next[SCAN_INPUTS], *total[SCAN_INPUTS], *output[SCAN_INPUTS];
    int noutput;
    int axis;
    int64_t length;
    bool reverse;
    bool gradient;  /* true: the scan is the gradient of a scan */
    bool differs;   /* true: values of the body that a gradient would read become further outputs, after all others */
    uint64_t first; /* serial number of the first stand-in; older nodes cannot belong to the body */
};
/* Adds an input to a list, which must have room, and returns its index. */
static inline int
scan_input(struct scan_inputs *list, struct val *stand_in, struct val *operand)
{
    assert(list->n < SCAN_INPUTS);
    list->stand_in[list->n] = stand_in;
    list->operand[list->n] = operand;
    return list->n++;
}
/* Makes a stand-in for a value: a node that stands for the value at one position. */
int scan_stand_in(const struct call_context *ctx, struct val *v, struct val **out);
/* Makes a stand-in for a slice of a value: one index along the axis. */
int scan_slice(const struct call_context *ctx, struct val *v, int axis, struct val **out);
/* Adds the scan. E_STATE, E_ARG: the nodes cannot be a body; the text says why. */
int scan_add(const struct call_context *ctx, const struct scan *c, struct val **out);
/* Sets the attributes of a scan operator in `attr`. */
void scan_attrs(int64_t body, int axis, int64_t length, bool reverse, struct attr *attr);

#endif
