/* peak.h - reports the results that hold most of a device's register bytes at its peak. The functions are pure
 * and may run on any thread. */
#ifndef RILLE_PLAN_PEAK_H
#define RILLE_PLAN_PEAK_H

#include "actors/plan/model/plan.h"

/* Appends the n largest results that have registers on the device at the peak, the largest first, for example
 * "gelu f32{4, 8} 128 B (net.lua:7), ...". Assumes that tasks run in the order of the plan. Appends nothing if no
 * result has registers on the device. */
void plan_peak_print(const struct plan *p, int32_t device, int32_t n, struct str *s);
/* Appends the three largest results at the peak to this thread's error message: "...; largest tensors: gelu ...".
 * Appends nothing if no result has registers at the peak. Returns status. */
int plan_peak_blame(const struct plan *p, int32_t device, int status);

#endif
