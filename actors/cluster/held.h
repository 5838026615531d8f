/* held.h - what a worker has taken of its devices' own memory, by position (position.h).
 *
 * The controller says which bytes of which bank it wants, and gives them back; the worker takes them of the device's
 * kind. One owner; one thread at a time. */
#ifndef RILLE_CLUSTER_HELD_H
#define RILLE_CLUSTER_HELD_H

#include "runtime/device.h"

struct holding {
    uint64_t at;
    size_t bytes;
    int kind, device;
    char *data;
};
struct held {
    struct holding *list; /* by position; no two overlap */
    int32_t n, capacity;
};

/* Takes bytes of the device for a position. E_MEMORY, E_KERNEL; E_BUS: something lies there. */
int held_take(struct held *h, int kind, int device, uint64_t at, size_t bytes);
/* Gives back what was taken for this position, if anything was. */
void held_give(struct held *h, uint64_t at);
/* What holds all these bytes; NULL: nothing does. */
const struct holding *held_find(const struct held *h, uint64_t at, size_t bytes);
void held_free(struct held *h);

#endif
