/* position.h - positions of bytes in a memory, as processes exchange them: an offset in the memory that the host's
 * processes share, or, with a heap number above it, an offset in the device heap of one device.
 *
 * Each device whose bytes host code does not read (device.h) has a device heap. Its memory belongs to one worker, which
 * allocates bytes of a device heap from the device's kind when the controller requests them (device_heap.h). Values;
 * any thread. */
#ifndef RILLE_CLUSTER_POSITION_H
#define RILLE_CLUSTER_POSITION_H

#include "actors/cluster/wire/devices.h"
#include "actors/plan/model/program.h"

enum { HEAP_SHIFT = 44 }; /* of the heap number in a position; offset in the bits below */
static const uint64_t HEAP_BYTES = (uint64_t)1 << 38;
static const uint64_t POSITION_NONE = UINT64_MAX; /* no bytes */

/* Returns the number of device heaps of a memory. Heaps count from 1, in the order of the memory's device ranges. */
int32_t position_heaps(const struct plan_map *map, int32_t memory);
/* Returns the device heap of a device of that memory; 0: none. */
int32_t position_heap(const struct plan_map *map, int32_t memory, int kind, int32_t device);
/* Finds the device of a device heap; false: no such device heap. */
bool position_heap_device(const struct plan_map *map, int32_t memory, int32_t heap, int *kind, int32_t *device);
/* Returns true if a device of these counts has a device heap, so that the memory cannot be shared with another process.
 */
bool position_heaps_wanted(const struct device_counts *d);

#endif
