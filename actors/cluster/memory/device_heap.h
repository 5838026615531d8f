/* device_heap.h - a worker's allocations in the heaps of its devices, by position (position.h).
 *
 * The controller decides which bytes of a device heap are allocated and freed. The worker allocates and frees these
 * bytes by take() and give() of the device's kind. Only one thread at a time may use a heap. */
#ifndef RILLE_CLUSTER_DEVICE_HEAP_H
#define RILLE_CLUSTER_DEVICE_HEAP_H

#include "runtime/device/device.h"

struct holding {
    uint64_t at;
    size_t bytes;
    int kind, device;
    char *data;
};
struct device_heap {
    struct holding *list; /* allocations, sorted by position; they do not overlap */
    int32_t n, capacity;
};

/* Allocates bytes on the device, and records the allocation at a position. A repeated request returns 0. E_MEMORY,
 * E_KERNEL; E_BUS: the range overlaps another allocation. */
int device_heap_take(struct device_heap *h, int kind, int device, uint64_t at, size_t bytes);
/* Frees the allocation that begins at this position. Does nothing if there is no such allocation. */
void device_heap_give(struct device_heap *h, uint64_t at);
/* Returns the allocation that contains the whole range of bytes; NULL: none. */
const struct holding *device_heap_find(const struct device_heap *h, uint64_t at, size_t bytes);
void device_heap_free(struct device_heap *h);

#endif
