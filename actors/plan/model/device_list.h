/* device_list.h - lists the devices that a program names, sorted, without duplicates.
 *
 * The functions are pure and may run on any thread. The caller owns the result and frees it with devices_free(). */
#ifndef RILLE_PLAN_DEVICE_LIST_H
#define RILLE_PLAN_DEVICE_LIST_H

#include "actors/plan/model/program.h"

struct device_name {
    int32_t kind, rank; /* enum device kind (runtime/device/device.h); number of the device among its kind */
};

struct devices {
    struct device_name *device; /* sorted by kind, then by rank */
    int32_t n, capacity;
};

void devices_of(const struct program *p, struct devices *out);
void devices_free(struct devices *s);

#endif
