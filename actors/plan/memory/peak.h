/* peak.h - the results that occupy most of a device's registers at its peak. Pure; any thread. */
#ifndef RILLE_PLAN_PEAK_H
#define RILLE_PLAN_PEAK_H

#include "actors/plan/model/plan.h"

/* Appends at most n results with registers on the device at its peak, the largest first, assuming the order of the
 * plan's tasks: "gelu f32{4, 8} 128 B (net.lua:7), ...". Without results, appends nothing. */
void plan_peak_print(const struct plan *p, int32_t device, int32_t n, struct str *s);

#endif
