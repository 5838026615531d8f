/* devices.h - the devices that a program names, sorted, each once.
 *
 * Pure. Owner: who asked; devices_free() when done. Any thread. */
#ifndef RILLE_PLAN_DEVICES_H
#define RILLE_PLAN_DEVICES_H

#include "actors/plan/program.h"

struct device_name {
    int32_t kind, rank; /* enum device kind (runtime/device.h), number */
};

struct devices {
    struct device_name *device; /* by kind, then number */
    int32_t n, capacity;
};

void devices_of(const struct program *p, struct devices *out);
void devices_free(struct devices *s);

#endif
