/* local_set.c - sorted device ranges; local positions by placement, computed once. */
#include "actors/plan/model/local_set.h"

#include "runtime/device/device.h"

#include <stdlib.h>

static int
by_device(const void *a, const void *b)
{
    const struct plan_range *x = *(const struct plan_range *const *)a, *y = *(const struct plan_range *const *)b;
    return x->kind != y->kind ? x->kind - y->kind : (x->first > y->first) - (x->first < y->first);
}

void
mines_init(struct mines *m, const struct plan_map *map, struct arena *a)
{
    *m = (struct mines){.arena = a, .map = map};
    if (!map) return;
    m->range = ARENA_ARRAY(a, const struct plan_range *, map->nrange + 1);
    for (int i = 0; i < map->nrange; i++) m->range[i] = &map->range[i];
    qsort(m->range, (size_t)map->nrange, sizeof(*m->range), by_device);
}

const struct plan_range *
mines_range(const struct mines *m, int kind, int32_t rank)
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
mines_memory(const struct mines *m, int kind, int32_t rank)
{
    if (!m->map || kind == DEV_META) return mines_own(m);
    const struct plan_range *h = mines_range(m, kind, rank);
    return h ? h->memory : -1;
}

/* Deals devices round-robin to the cpu devices of the host's first cpu range. */
int32_t
mines_host(const struct mines *m, int kind, int32_t rank)
{
    const struct plan_range *own = mines_range(m, kind, rank);
    for (int i = 0; own && i < m->map->nrange; i++)
        if (m->range[i]->kind == DEV_CPU && m->range[i]->memory == mines_own(m))
            return m->range[i]->first + (rank - own->first) % m->range[i]->n;
    return -1;
}

static struct mine *
find_mine(struct mines *m, const struct place *p)
{
    struct mine *mine = ARENA_NEW(m->arena, struct mine);
    *mine = (struct mine){.place = p, .pos = ARENA_ARRAY(m->arena, int32_t, p->nrank)};
    for (int32_t pos = 0; pos < (m->first ? 1 : p->nrank); pos++)
        if (m->first || mines_memory(m, p->kind, p->rank[pos]) == mines_own(m)) mine->pos[mine->n++] = pos;
    mine->all = mine->n == p->nrank;
    return mine;
}

const struct mine *
mine_of(struct mines *m, const struct place *p)
{
    if (m->last && m->last->place == p) return m->last;
    uint64_t hash = hash_number(0, (uint64_t)p->id);
    uint32_t at = 0;
    struct mine *mine;
    while ((mine = hash_next(&m->found, hash, &at)) && mine->place != p) continue;
    if (!mine) {
        mine = find_mine(m, p);
        m->found.arena = m->arena;
        hash_add(&m->found, hash, mine);
    }
    return m->last = mine;
}

int32_t
mine_find(const struct mine *m, int32_t pos)
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
