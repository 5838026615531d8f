/* mine.c - ranges of devices, sorted; the positions of each placement, found once. */
#include "actors/plan/mine.h"

#include "runtime/device.h"

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

static struct mine *
find_mine(struct mines *m, const struct place *p)
{
    struct mine *mine = ARENA_NEW(m->arena, struct mine);
    *mine = (struct mine){.place = p, .pos = ARENA_ARRAY(m->arena, int32_t, p->nrank)};
    for (int32_t pos = 0; pos < p->nrank; pos++)
        if (mines_memory(m, p->kind, p->rank[pos]) == mines_own(m)) mine->pos[mine->n++] = pos;
    mine->all = mine->n == p->nrank;
    return mine;
}

static struct mine **
slot_of(const struct mines *m, const struct place *p)
{
    uint32_t at = ((uint32_t)p->id * 0x9e3779b1u) & (uint32_t)(m->capacity - 1);
    while (m->slot[at] && m->slot[at]->place != p) at = (at + 1) & (uint32_t)(m->capacity - 1);
    return &m->slot[at];
}

static void
grow(struct mines *m)
{
    int32_t was = m->capacity;
    struct mine **old = m->slot;
    m->capacity = was ? 2 * was : 16;
    m->slot = ARENA_ARRAY(m->arena, struct mine *, m->capacity);
    for (int32_t i = 0; i < was; i++)
        if (old[i]) *slot_of(m, old[i]->place) = old[i];
}

const struct mine *
mine_of(struct mines *m, const struct place *p)
{
    if (2 * m->n >= m->capacity) grow(m);
    struct mine **slot = slot_of(m, p);
    if (!*slot) {
        *slot = find_mine(m, p);
        m->n++;
    }
    return *slot;
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
