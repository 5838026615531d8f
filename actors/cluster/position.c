/* position.c - windows counted through the ranges of a memory. */
#include "actors/cluster/position.h"

bool
window_wanted(int kind)
{
    return !(device_kind(kind)->flags & (HOST_READS | NO_BYTES));
}

static bool
has_windows(const struct plan_range *r, int32_t memory)
{
    return r->memory == memory && window_wanted(r->kind);
}

int32_t
windows_of(const struct plan_map *map, int32_t memory)
{
    int32_t n = 0;
    for (int32_t i = 0; i < map->nrange; i++)
        if (has_windows(&map->range[i], memory)) n += map->range[i].n;
    return n;
}

int32_t
window_of(const struct plan_map *map, int32_t memory, int kind, int32_t device)
{
    int32_t before = 1;
    for (int32_t i = 0; i < map->nrange; i++) {
        const struct plan_range *r = &map->range[i];
        if (!has_windows(r, memory)) continue;
        if (r->kind == kind && device >= r->first && device - r->first < r->n) return before + device - r->first;
        before += r->n;
    }
    return 0;
}

bool
window_device(const struct plan_map *map, int32_t memory, int32_t window, int *kind, int32_t *device)
{
    int32_t before = 1;
    for (int32_t i = 0; i < map->nrange; i++) {
        const struct plan_range *r = &map->range[i];
        if (!has_windows(r, memory)) continue;
        if (window >= before && window - before < r->n) {
            *kind = r->kind;
            *device = r->first + window - before;
            return true;
        }
        before += r->n;
    }
    return false;
}

bool
windows_wanted(const struct device_counts *d)
{
    for (int k = 0; k < NDEVICE_KIND; k++)
        if (d->n[k] && window_wanted(k)) return true;
    return false;
}
