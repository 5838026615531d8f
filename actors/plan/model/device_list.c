/* device_list.c - lists the devices of a program's placements; reads each placement once. */
#include "actors/plan/model/device_list.h"

#include "runtime/data/hash.h"

#include <stdlib.h>

struct lister {
    struct devices *s;
    struct hash_table seen; /* placements already read */
    const struct place *last;
    int32_t sorted; /* length of the list at the latest sort */
};

static int
compare_listed_devices(const void *a, const void *b)
{
    const struct device_name *x = a, *y = b;
    return x->kind != y->kind ? x->kind - y->kind : x->rank - y->rank;
}

/* Sorts the list and removes duplicates. */
static void
sort_listed_devices(struct devices *s)
{
    int32_t n = 0;
    if (s->n) qsort(s->device, (size_t)s->n, sizeof *s->device, compare_listed_devices);
    for (int32_t i = 0; i < s->n; i++)
        if (n == 0 || compare_listed_devices(&s->device[n - 1], &s->device[i])) s->device[n++] = s->device[i];
    s->n = n;
}

static bool
is_seen(struct lister *l, const struct place *p)
{
    uint64_t hash = hash_number(0, (uint64_t)p->id);
    uint32_t at = 0;
    for (const void *found; (found = hash_next(&l->seen, hash, &at));)
        if (found == p) return true;
    hash_add(&l->seen, hash, (void *)(uintptr_t)p);
    return false;
}

/* Adds the devices of a placement. Sorts the list and removes duplicates each time the list has doubled in length. */
static void
list_place(struct lister *l, const struct place *p)
{
    struct devices *s = l->s;
    if (p == l->last || is_seen(l, p)) return;
    l->last = p;
    GROW(s->device, s->n + p->nrank, s->capacity);
    for (int32_t i = 0; i < p->nrank; i++) s->device[s->n++] = (struct device_name){p->kind, p->rank[i]};
    if (s->n < 2 * l->sorted + 4096) return;
    sort_listed_devices(s);
    l->sorted = s->n;
}

void
devices_of(const struct program *p, struct devices *out)
{
    struct lister l = {.s = out};
    *out = (struct devices){0};
    for (int32_t i = 0; i < p->nleaf; i++) list_place(&l, p->leaf[i].layout->place);
    for (int32_t i = 0; i < p->nnode; i++)
        for (int32_t k = 0; k < p->node[i].nout; k++) list_place(&l, p->node[i].layout[k]->place);
    sort_listed_devices(out);
    hash_free(&l.seen);
}

void
devices_free(struct devices *s)
{
    free(s->device);
    *s = (struct devices){0};
}
