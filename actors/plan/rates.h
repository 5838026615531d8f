/* rates.h - what one core computes, as plans and planners reckon: floating-point operations and bytes a nanosecond.
 *
 * Constants, not measurements: they decide the same on every machine. */
#ifndef RILLE_PLAN_RATES_H
#define RILLE_PLAN_RATES_H

#define FLOPS_PER_NS 280.0
#define BYTES_PER_NS 20.0

struct call;
/* Says what a call does on whole tensors: floating-point operations, and bytes read and written (reckon.c). */
void call_work(const struct call *c, double *flops, double *bytes);

#endif
