/* rates.h - what one core computes, as plans and planners reckon: floating-point operations and bytes a nanosecond.
 *
 * Constants, not measurements: what is decided by them is the same on every machine. */
#ifndef RILLE_PLAN_RATES_H
#define RILLE_PLAN_RATES_H

#define FLOPS_PER_NS 280.0
#define BYTES_PER_NS 20.0

#endif
