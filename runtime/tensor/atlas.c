/* atlas.c - interns the placements and layouts of a session.
 *
 * An arena owns the records. A hash table finds them by content; ids count from 0 in order of creation. A layout is
 * first converted to canonical form, so that equal layouts have the same pointer. */
#include "runtime/tensor/atlas.h"

#include "runtime/data/arena.h"
#include "runtime/base/device_kinds.h"
#include "runtime/base/error.h"
#include "runtime/data/hash.h"

#include <stdlib.h>
#include <string.h>

struct table {
    const void **record; /* interned records by id */
    int32_t n, capacity;
    struct hash_table by_hash;
};

struct atlas {
    struct arena arena;
    struct table places, layouts;
};

typedef bool same_fn(const void *record, const void *key);

struct atlas *
atlas_new(void)
{
    return must_alloc(sizeof(struct atlas));
}

static void
table_fini(struct table *t)
{
    free(t->record);
    hash_free(&t->by_hash);
}

void
atlas_free(struct atlas **a)
{
    if (!*a) return;
    table_fini(&(*a)->places);
    table_fini(&(*a)->layouts);
    arena_fini(&(*a)->arena);
    free(*a);
    *a = NULL;
}

/* ---- finding records by content ---- */

static const void *
table_find(const struct table *t, uint64_t hash, same_fn *same, const void *key)
{
    uint32_t at = 0;
    const void *found;
    while ((found = hash_next(&t->by_hash, hash, &at)) && !same(found, key)) continue;
    return found;
}

static void
table_add(struct table *t, uint64_t hash, void *record)
{
    GROW(t->record, t->n + 1, t->capacity);
    t->record[t->n++] = record;
    hash_add(&t->by_hash, hash, record);
}

/* ---- interning placements ---- */

static uint64_t
place_hash(const void *record)
{
    const struct place *p = record;
    uint64_t h = hash_bytes(p->kind, p->axis, p->naxis * sizeof p->axis[0]);
    return hash_bytes(h, p->rank, (size_t)p->nrank * sizeof p->rank[0]);
}

static bool
place_same(const void *record, const void *key)
{
    const struct place *p = record, *q = key;
    return p->kind == q->kind && p->naxis == q->naxis && p->nrank == q->nrank &&
           !memcmp(p->axis, q->axis, p->naxis * sizeof p->axis[0]) &&
           !memcmp(p->rank, q->rank, (size_t)p->nrank * sizeof p->rank[0]);
}

static bool
is_dense_place(const struct place *p)
{
    for (int32_t i = 1; i < p->nrank; i++)
        if (p->rank[i] != p->rank[0] + i) return false;
    return true;
}

static int
count_ranks(int naxis, const int32_t *axis, int32_t *nrank)
{
    int64_t n = 1;
    if (naxis < 1) return fail(E_PLACE, "a placement needs at least one mesh axis, found %d", naxis);
    if (naxis > MAX_AXIS) return fail(E_PLACE, "a mesh must have at most %d axes, found %d", MAX_AXIS, naxis);
    for (int i = 0; i < naxis; i++) {
        if (axis[i] < 1) return fail(E_PLACE, "the size of mesh axis %d must be at least 1, found %d", i, (int)axis[i]);
        n *= axis[i];
        if (n > INT32_MAX) return fail(E_PLACE, "a mesh must have less than 2^31 ranks");
    }
    *nrank = (int32_t)n;
    return 0;
}

struct ranked { /* one rank and its mesh position, for sorting */
    int32_t rank, pos;
};

static int
compare_ranks(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* Sorts mesh positions by ascending rank, for place_find(). Rejects a repeated rank. */
static int
sort_ranks(struct place *p)
{
    int status = 0;
    struct ranked *r = must_alloc((size_t)p->nrank * sizeof *r);
    for (int32_t i = 0; i < p->nrank; i++) r[i] = (struct ranked){p->rank[i], i};
    qsort(r, (size_t)p->nrank, sizeof *r, compare_ranks);
    for (int32_t i = 0; i < p->nrank && !status; i++) {
        p->by_rank[i] = r[i].pos;
        if (r[i].rank < 0)
            status = fail(E_PLACE, "a rank must be at least 0, found %d", (int)r[i].rank);
        else if (i > 0 && r[i].rank == r[i - 1].rank)
            status = fail(E_PLACE, "placement: rank %d occurs twice", (int)r[i].rank);
    }
    free(r);
    return status;
}

int
place_new(struct atlas *a, int kind, int naxis, const int32_t *axis, const int32_t *rank, const struct place **out)
{
    struct place key = {.kind = (uint8_t)kind, .naxis = (uint8_t)naxis};
    assert(kind >= 0 && kind < NDEVICE_KIND);
    TRY(count_ranks(naxis, axis, &key.nrank));
    memcpy(key.axis, axis, (size_t)naxis * sizeof *axis);
    key.rank = (int32_t *)(uintptr_t)rank; /* the cast removes const; the lookup does not write the ranks */
    *out = table_find(&a->places, place_hash(&key), place_same, &key);
    if (*out) return 0;

    struct place *p = arena_dup(&a->arena, &key, sizeof key);
    p->rank = arena_dup(&a->arena, rank, (size_t)p->nrank * sizeof *rank);
    p->by_rank = ARENA_ARRAY(&a->arena, int32_t, p->nrank);
    TRY(sort_ranks(p));
    p->dense = is_dense_place(p);
    p->id = a->places.n;
    table_add(&a->places, place_hash(p), p);
    *out = p;
    return 0;
}

int
place_find(const struct place *p, int rank)
{
    int32_t lo = 0, hi = p->nrank;
    if (p->dense) return rank >= p->rank[0] && rank - p->rank[0] < hi ? rank - p->rank[0] : -1;
    while (lo < hi) {
        int32_t mid = lo + (hi - lo) / 2;
        if (p->rank[p->by_rank[mid]] < rank)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < p->nrank && p->rank[p->by_rank[lo]] == rank ? p->by_rank[lo] : -1;
}

void
place_coord(const struct place *p, int pos, int32_t *coord)
{
    assert(pos >= 0 && pos < p->nrank);
    for (int i = 0; i < p->naxis; i++) coord[i] = 0;
    for (int i = p->naxis - 1; pos > 0; i--) {
        coord[i] = pos % p->axis[i];
        pos /= p->axis[i];
    }
}

/* ---- interning layouts ---- */

static uint64_t
layout_hash(const void *record)
{
    const struct layout *l = record;
    uint64_t h = hash_bytes(0, &l->place->id, sizeof l->place->id);
    h = hash_bytes(h, l->sbp, l->place->naxis * sizeof l->sbp[0]);
    return hash_bytes(h, l->order, l->place->naxis * sizeof l->order[0]);
}

static bool
layout_same(const void *record, const void *key)
{
    const struct layout *l = record, *k = key;
    return l->place == k->place && !memcmp(l->sbp, k->sbp, sizeof l->sbp) &&
           !memcmp(l->order, k->order, sizeof l->order);
}

static int
check_axis_order(const struct place *p, const uint8_t *order)
{
    unsigned seen = 0;
    for (int i = 0; i < p->naxis; i++) {
        if (order[i] >= p->naxis)
            return fail(E_SBP, "order names mesh axis %d, but the mesh has %d axes; list each of 0 to %d once",
                        order[i], p->naxis, p->naxis - 1);
        if (seen & 1u << order[i]) return fail(E_SBP, "order names mesh axis %d twice", order[i]);
        seen |= 1u << order[i];
    }
    return 0;
}

static int
check_partials(const struct place *p, const struct sbp *sbp)
{
    int first = -1;
    for (int i = 0; i < p->naxis; i++) {
        if (sbp[i].kind != SBP_P) continue;
        if (first < 0) first = i;
        if (sbp[i].reduce != sbp[first].reduce)
            return fail(E_SBP, "a layout must have one kind of partial, found P(%s) and P(%s)",
                        reduce_text(sbp[first].reduce), reduce_text(sbp[i].reduce));
    }
    return 0;
}

/* Clears the fields of an SBP entry that entries of its kind do not use, and a unit without effect. parts: size of
 * the mesh axis. */
static struct sbp
sbp_canonical(struct sbp s, int32_t parts)
{
    bool splits = s.kind == SBP_S;
    return (struct sbp){.kind = s.kind,
                        .axis = splits ? s.axis : 0,
                        .reduce = s.kind == SBP_P ? s.reduce : 0,
                        .unit = splits && s.unit > 1 && parts > 1 ? s.unit : 0};
}

/* Finds the canonical order of splitting. The order of two mesh axes matters only if they split the same dimension.
 * Repeatedly takes the lowest mesh axis that no remaining axis must precede. */
static void
order_canonical(const struct place *p, const struct sbp *sbp, const uint8_t *order, uint8_t *out)
{
    uint8_t when[MAX_AXIS];
    unsigned taken = 0;
    for (int i = 0; i < p->naxis; i++) when[order[i]] = (uint8_t)i;
    for (int n = 0; n < p->naxis; n++) {
        int next = -1;
        for (int m = 0; m < p->naxis && next < 0; m++) {
            bool free = !(taken & 1u << m);
            for (int k = 0; k < p->naxis && free; k++)
                free = taken & 1u << k || when[k] >= when[m] || sbp[m].kind != SBP_S || sbp[k].kind != SBP_S ||
                       sbp[k].axis != sbp[m].axis;
            if (free) next = m;
        }
        assert(next >= 0); /* one of the remaining axes is always possible */
        taken |= 1u << next;
        out[n] = (uint8_t)next;
    }
}

int
layout_new(struct atlas *a, const struct place *p, const struct sbp *sbp, const uint8_t *order,
           const struct layout **out)
{
    static const uint8_t mesh_order[MAX_AXIS] = {0, 1, 2, 3, 4, 5};
    struct layout key = {.place = p};

    TRY(check_partials(p, sbp));
    if (order) TRY(check_axis_order(p, order));
    for (int i = 0; i < p->naxis; i++) key.sbp[i] = sbp_canonical(sbp[i], p->axis[i]);
    order_canonical(p, key.sbp, order ? order : mesh_order, key.order);
    *out = table_find(&a->layouts, layout_hash(&key), layout_same, &key);
    if (*out) return 0;

    struct layout *l = arena_dup(&a->arena, &key, sizeof key);
    l->id = a->layouts.n;
    table_add(&a->layouts, layout_hash(l), l);
    *out = l;
    return 0;
}

int
layout_settle(struct atlas *a, const struct type *t, const struct layout **l)
{
    struct sbp sbp[MAX_AXIS];
    bool units = false;
    TRY(layout_fits(*l, t));
    for (int i = 0; i < (*l)->place->naxis; i++) units = units || (*l)->sbp[i].unit;
    if (!units) return 0;
    memcpy(sbp, (*l)->sbp, sizeof sbp);
    layout_drop_units((*l)->place, t, (*l)->order, sbp);
    return layout_new(a, (*l)->place, sbp, (*l)->order, l);
}

const struct layout *
layout_broadcast(struct atlas *a, const struct place *p)
{
    struct sbp sbp[MAX_AXIS];
    const struct layout *l = NULL;
    for (int i = 0; i < MAX_AXIS; i++) sbp[i] = (struct sbp){.kind = SBP_B};
    int status = layout_new(a, p, sbp, NULL, &l);
    assert(status == 0);
    UNUSED(status);
    return l;
}

bool
atlas_has_place(const struct atlas *a, const struct place *p)
{
    return p->id >= 0 && p->id < a->places.n && a->places.record[p->id] == p;
}

bool
atlas_has_layout(const struct atlas *a, const struct layout *l)
{
    return l->id >= 0 && l->id < a->layouts.n && a->layouts.record[l->id] == l;
}
