/* rates.h - assumed computing rates of one core (floating-point operations and bytes per nanosecond), for time
 * estimates of plans and planners.
 *
 * Plans always use the constants, so their decisions are the same on every machine. Planners use the constants
 * unless the caller passes measured rates. */
#ifndef RILLE_PLAN_RATES_H
#define RILLE_PLAN_RATES_H

#include <stdbool.h>

#define FLOPS_PER_NS 280.0
#define BYTES_PER_NS 20.0
#define ACT_NS       100 /* fixed cost of any act, ns */

struct compute_rates {
    double flops_per_ns, bytes_per_ns, act_ns;
    bool measured; /* the rates were measured on this machine (rille --calibrate) */
};

struct call;

#endif
