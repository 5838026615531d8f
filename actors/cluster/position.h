/* position.h - where bytes of a memory lie, as processes tell each other: an offset in what the host's processes share,
 * or, with a bank's number above it, an offset in what one device has for itself.
 *
 * Devices whose bytes host code does not read (device.h) have a bank each; the memory is then one worker's alone,
 * which takes what lies there of the device's kind as the controller asks for it (held.h). Values; any thread. */
#ifndef RILLE_CLUSTER_POSITION_H
#define RILLE_CLUSTER_POSITION_H

#include "actors/cluster/devices.h"
#include "actors/plan/program.h"

enum { BANK_SHIFT = 44 }; /* of a position; below it the offset */
static const uint64_t BANK_BYTES = (uint64_t)1 << 38;
static const uint64_t POSITION_NONE = UINT64_MAX; /* of what has no bytes */

/* Has the kind banks? */
bool bank_wanted(int kind);
/* How many banks a memory has, of the devices of its ranges in their order; they count from 1. */
int32_t banks_of(const struct plan_map *map, int32_t memory);
/* The bank of a device of that memory; 0: it has none. */
int32_t bank_of(const struct plan_map *map, int32_t memory, int kind, int32_t device);
/* The device of a bank; false: there is no such bank. */
bool bank_device(const struct plan_map *map, int32_t memory, int32_t bank, int *kind, int32_t *device);
/* Do devices of such counts want a memory that no other process has? */
bool banks_wanted(const struct device_counts *d);

#endif
