/* position.c - counts banks through the device ranges of a memory. */
#include "actors/cluster/wire/position.h"

/* Returns true if devices of the kind have banks. */
static bool
bank_wanted(int kind)
{
    return !(device_kind(kind)->flags & (HOST_READS | NO_BYTES));
}

static bool
has_banks(const struct plan_range *r, int32_t memory)
{
    return r->memory == memory && bank_wanted(r->kind);
}

int32_t
banks_of(const struct plan_map *map, int32_t memory)
{
    int32_t n = 0;
    for (int32_t i = 0; i < map->nrange; i++)
        if (has_banks(&map->range[i], memory)) n += map->range[i].n;
    return n;
}

int32_t
bank_of(const struct plan_map *map, int32_t memory, int kind, int32_t device)
{
    int32_t before = 1;
    for (int32_t i = 0; i < map->nrange; i++) {
        const struct plan_range *r = &map->range[i];
        if (!has_banks(r, memory)) continue;
        if (r->kind == kind && device >= r->first && device - r->first < r->n) return before + device - r->first;
        before += r->n;
    }
    return 0;
}

bool
bank_device(const struct plan_map *map, int32_t memory, int32_t bank, int *kind, int32_t *device)
{
    int32_t before = 1;
    for (int32_t i = 0; i < map->nrange; i++) {
        const struct plan_range *r = &map->range[i];
        if (!has_banks(r, memory)) continue;
        if (bank >= before && bank - before < r->n) {
            *kind = r->kind;
            *device = r->first + bank - before;
            return true;
        }
        before += r->n;
    }
    return false;
}

bool
banks_wanted(const struct device_counts *d)
{
    for (int k = 0; k < NDEVICE_KIND; k++)
        if (d->n[k] && bank_wanted(k)) return true;
    return false;
}
