/* rates.h - what one core computes, as plans and planners reckon: floating-point operations and bytes a nanosecond.
 *
 * Plans reckon with constants, not measurements: they decide the same on every machine. Planners reckon with those too
 * unless they are given others. */
#ifndef RILLE_PLAN_RATES_H
#define RILLE_PLAN_RATES_H

#define FLOPS_PER_NS 280.0
#define BYTES_PER_NS 20.0
#define ACT_NS       100 /* any act, however small */

struct compute_rates {
    double flops_per_ns, bytes_per_ns, act_ns;
};

struct call;
/* Says what a call does on whole tensors: floating-point operations, and bytes read and written (reckon.c). */
void call_work(const struct call *c, double *flops, double *bytes);

#endif
