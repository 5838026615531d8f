/* peak.h - the results that occupy most of a device's registers at its peak. Pure; any thread. */
#ifndef RILLE_PLAN_PEAK_H
#define RILLE_PLAN_PEAK_H

#include "actors/plan/model/plan.h"

/* A result with registers on a device at the time of that device's peak, assuming the order of the plan's tasks. */
struct peak_tenant {
    int32_t task, out;
    int64_t bytes; /* of all its registers */
};
/* Lists at most n of them, the largest first; returns their number. */
int32_t plan_tenants(const struct plan *p, int32_t device, struct peak_tenant *out, int32_t n);
/* Appends the same as text: "gelu f32{4, 8} 128 B (net.lua:7), ..."; without results, appends nothing. */
void plan_tenants_print(const struct plan *p, int32_t device, int32_t n, struct str *s);

#endif
