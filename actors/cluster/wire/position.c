/* position.c - numbers the device heaps of a memory from 1, in the order of the device ranges of the map. */
#include "actors/cluster/wire/position.h"

/* Returns true if each device of this kind has a device heap (position.h), because host code cannot read its
 * memory. */
static bool
kind_has_heap(int kind)
{
    return !(device_kind(kind)->flags & (HOST_READS | NO_BYTES));
}

static bool
range_has_heaps(const struct plan_range *r, int32_t memory)
{
    return r->memory == memory && kind_has_heap(r->kind);
}

int32_t
position_heaps(const struct plan_map *map, int32_t memory)
{
    int32_t n = 0;
    for (int32_t i = 0; i < map->nrange; i++)
        if (range_has_heaps(&map->range[i], memory)) n += map->range[i].n;
    return n;
}

int32_t
position_heap(const struct plan_map *map, int32_t memory, int kind, int32_t device)
{
    int32_t before = 1;
    for (int32_t i = 0; i < map->nrange; i++) {
        const struct plan_range *r = &map->range[i];
        if (!range_has_heaps(r, memory)) continue;
        if (r->kind == kind && device >= r->first && device - r->first < r->n) return before + device - r->first;
        before += r->n;
    }
    return 0;
}

bool
position_heap_device(const struct plan_map *map, int32_t memory, int32_t heap, int *kind, int32_t *device)
{
    int32_t before = 1;
    for (int32_t i = 0; i < map->nrange; i++) {
        const struct plan_range *r = &map->range[i];
        if (!range_has_heaps(r, memory)) continue;
        if (heap >= before && heap - before < r->n) {
            *kind = r->kind;
            *device = r->first + heap - before;
            return true;
        }
        before += r->n;
    }
    return false;
}

bool
position_heaps_wanted(const struct device_counts *d)
{
    for (int k = 0; k < NDEVICE_KIND; k++)
        if (d->n[k] && kind_has_heap(k)) return true;
    return false;
}
