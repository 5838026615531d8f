/* local_set.c - keeps device ranges sorted, and computes the local positions of each placement once. */
#include "actors/plan/model/local_set.h"

#include "runtime/device/device.h"

#include <stdlib.h>

static int
compare_local_devices(const void *a, const void *b)
{
    const struct plan_range *x = *(const struct plan_range *const *)a, *y = *(const struct plan_range *const *)b;
    return x->kind != y->kind ? x->kind - y->kind : (x->first > y->first) - (x->first < y->first);
}

void
local_set_init(struct local_set *m, const struct plan_map *map, struct arena *a)
{
    *m = (struct local_set){.arena = a, .map = map};
    if (!map) return;
    m->range = ARENA_ARRAY(a, const struct plan_range *, map->nrange + 1);
    for (int i = 0; i < map->nrange; i++) m->range[i] = &map->range[i];
    qsort(m->range, (size_t)map->nrange, sizeof(*m->range), compare_local_devices);
}

const struct plan_range *
local_set_range(const struct local_set *m, int kind, int32_t rank)
{
    int32_t lo = 0, hi = m->map ? m->map->nrange : 0;
    while (lo < hi) {
        int32_t mid = lo + (hi - lo) / 2;
        const struct plan_range *h = m->range[mid];
        if (h->kind < kind || (h->kind == kind && h->first <= rank))
            lo = mid + 1;
        else
            hi = mid;
    }
    const struct plan_range *h = lo > 0 ? m->range[lo - 1] : NULL;
    return h && h->kind == kind && rank - h->first < h->n ? h : NULL;
}

int32_t
local_set_memory(const struct local_set *m, int kind, int32_t rank)
{
    if (!m->map || kind == DEV_META) return local_set_own(m);
    const struct plan_range *h = local_set_range(m, kind, rank);
    return h ? h->memory : -1;
}

/* Returns the cpu device that sends and receives data for another device. The host's first range of cpu devices
 * serves all other devices in turn (round-robin). */
int32_t
local_set_host(const struct local_set *m, int kind, int32_t rank)
{
    const struct plan_range *own = local_set_range(m, kind, rank);
    for (int i = 0; own && i < m->map->nrange; i++)
        if (m->range[i]->kind == DEV_CPU && m->range[i]->memory == local_set_own(m))
            return m->range[i]->first + (rank - own->first) % m->range[i]->n;
    return -1;
}

static struct local_positions *
find_mine(struct local_set *m, const struct place *p)
{
    struct local_positions *mine = ARENA_NEW(m->arena, struct local_positions);
    *mine = (struct local_positions){.place = p, .pos = ARENA_ARRAY(m->arena, int32_t, p->nrank)};
    for (int32_t pos = 0; pos < (m->first ? 1 : p->nrank); pos++)
        if (m->first || local_set_memory(m, p->kind, p->rank[pos]) == local_set_own(m)) mine->pos[mine->n++] = pos;
    mine->all = mine->n == p->nrank;
    return mine;
}

const struct local_positions *
local_positions_of(struct local_set *m, const struct place *p)
{
    if (m->last && m->last->place == p) return m->last;
    uint64_t hash = hash_number(0, (uint64_t)p->id);
    uint32_t at = 0;
    struct local_positions *mine;
    while ((mine = hash_next(&m->found, hash, &at)) && mine->place != p) continue;
    if (!mine) {
        mine = find_mine(m, p);
        m->found.arena = m->arena;
        hash_add(&m->found, hash, mine);
    }
    return m->last = mine;
}

int32_t
local_set_find(const struct local_positions *m, int32_t pos)
{
    int32_t lo = 0, hi = m->n;
    if (m->all) return pos;
    while (lo < hi) {
        int32_t mid = lo + (hi - lo) / 2;
        if (m->pos[mid] < pos)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < m->n && m->pos[lo] == pos ? lo : -1;
}
