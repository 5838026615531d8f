/* position.h - positions of bytes in a memory, as processes exchange them.
 *
 * A position is an offset in the memory that the processes of a host share. If the upper bits of a position hold the
 * number of a device heap, the lower bits are an offset in that heap instead. A device has a device heap if host
 * code cannot read its bytes (device.h). A memory with device heaps belongs to one worker. When the controller
 * requests bytes of a heap, the heap's worker allocates the bytes by take() of the device's kind (device_heap.h).
 * Pure functions of their arguments; any thread. */
#ifndef RILLE_CLUSTER_POSITION_H
#define RILLE_CLUSTER_POSITION_H

#include "actors/cluster/wire/devices.h"
#include "actors/plan/model/program.h"

/* number of the lowest bit of the heap number in a position; the bits below are the offset */
enum { HEAP_SHIFT = 44 };
static const uint64_t HEAP_BYTES = (uint64_t)1 << 38;
static const uint64_t POSITION_NONE = UINT64_MAX; /* position that stands for no bytes */

/* Returns the number of device heaps of a memory (host). Heaps are numbered from 1, in the order of the memory's
 * device ranges. */
int32_t position_heaps(const struct plan_map *map, int32_t memory);
/* Returns the number of the heap of a device of this memory (host); 0: the device has no heap of its own. */
int32_t position_heap(const struct plan_map *map, int32_t memory, int kind, int32_t device);
/* Finds the device to which a device heap belongs. Returns false if the heap does not exist. */
bool position_heap_device(const struct plan_map *map, int32_t memory, int32_t heap, int *kind, int32_t *device);
/* Returns true if one of these devices has a device heap. A worker with such a device cannot share its memory with
 * other processes. */
bool position_heaps_wanted(const struct device_counts *d);

#endif
