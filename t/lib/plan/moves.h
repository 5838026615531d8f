/* moves.h - meshes, layouts and types for tests of redistribution, enumerated or drawn at random. */
#ifndef RILLE_T_MOVES_H
#define RILLE_T_MOVES_H

#include "boxing/relay.h"
#include "runtime/base/error.h"
#include "t/lib/tap.h"
#include "runtime/tensor/atlas.h"

enum { MAX_MESH = 1024, MAX_LAYOUT = 4000 };

static struct atlas *atlas;
static uint64_t seed;

static inline const struct place *
place(int naxis, const int32_t *axis, const int32_t *rank)
{
    const struct place *p;
    int code = place_new(atlas, 0, naxis, axis, rank, &p);
    if (code) diag("%s", err_text());
    return p;
}

/* Makes a mesh of a x b x c devices, numbered 0, 1, ... */
static inline const struct place *
mesh(int a, int b, int c)
{
    int32_t axis[3] = {a, b, c}, rank[MAX_MESH];
    int naxis = c ? 3 : b ? 2 : 1;
    for (int i = 0; i < MAX_MESH; i++) rank[i] = i;
    return place(naxis, axis, rank);
}

static inline const struct layout *
layout(const struct place *p, const char *text)
{
    const struct layout *l = NULL;
    if (layout_parse(atlas, p, text, -1, &l)) diag("%s", err_text());
    return l;
}

/* Reports that a move failed a check. */
static inline void
diag_move(const char *what, const struct type *t, const struct layout *from, const struct layout *to)
{
    struct str s = {0};
    type_print(t, &s);
    str_add(&s, ": ");
    layout_print(from, &s);
    str_add(&s, " on ");
    place_print(from->place, &s);
    str_add(&s, " -> ");
    layout_print(to, &s);
    str_add(&s, " on ");
    place_print(to->place, &s);
    diag("%s: %s", what, str_text(&s));
    str_free(&s);
}

/* Allocates the shards of a value, filled with the byte `fill`. */
static inline void **
parts_new(const struct layout *l, const struct type *t, int fill)
{
    void **part = calloc((size_t)l->place->nrank, sizeof *part);
    for (int pos = 0; pos < l->place->nrank; pos++) {
        struct type local = layout_shard(l, t, pos);
        part[pos] = malloc((size_t)type_bytes(&local) + 1);
        memset(part[pos], fill, (size_t)type_bytes(&local) + 1);
    }
    return part;
}

static inline void
parts_free(void **part, const struct layout *l)
{
    for (int pos = 0; pos < l->place->nrank; pos++) free(part[pos]);
    free(part);
}

static const uint8_t orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

/* Returns entry k of a list of SBP entries: S of each of the ndim dimensions, then B, then P(r). */
static inline struct sbp
entry(int k, int ndim, enum reduce r)
{
    if (k < ndim) return (struct sbp){.kind = SBP_S, .axis = (uint8_t)k};
    if (k == ndim) return (struct sbp){.kind = SBP_B};
    return (struct sbp){.kind = SBP_P, .reduce = (uint8_t)r};
}

/* Lists all distinct layouts of tensors with ndim dimensions, with the first nkind kinds of P. */
static inline int
layouts_of(const struct place *p, int ndim, int nkind, const struct layout **out)
{
    int n = 0, choices = 1;
    for (int a = 0; a < p->naxis; a++) choices *= ndim + 2;
    for (int r = RED_SUM; r < RED_SUM + nkind; r++)
        for (int c = 0; c < choices; c++)
            for (int o = 0; o < 6; o++) {
                struct sbp sbp[3];
                uint8_t order[3];
                const struct layout *l;
                int rest = c, norder = 0;
                for (int a = 0; a < p->naxis; a++, rest /= ndim + 2)
                    sbp[a] = entry(rest % (ndim + 2), ndim, (enum reduce)r);
                for (int i = 0; i < 3; i++)
                    if (orders[o][i] < p->naxis) order[norder++] = orders[o][i];
                if (layout_new(atlas, p, sbp, order, &l)) diag("%s", err_text());
                bool known = false;
                for (int i = 0; i < n && !known; i++) known = out[i] == l;
                if (!known) out[n++] = l;
            }
    return n;
}

/* Returns the layout with units on some of its splits, at random. A unit that does not divide counts as 1. */
static inline const struct layout *
draw_units(const struct layout *l)
{
    struct sbp sbp[MAX_AXIS];
    memcpy(sbp, l->sbp, sizeof sbp);
    for (int a = 0; a < l->place->naxis; a++)
        if (sbp[a].kind == SBP_S && next_random(&seed) % 3 == 0) sbp[a].unit = 2 + (int32_t)(next_random(&seed) % 3);
    if (layout_new(atlas, l->place, sbp, l->order, &l)) diag("%s", err_text());
    return l;
}

/* Draws a layout whose mesh axes split dimensions in random order. r: kind of P; RED_NONE: no P. */
static inline const struct layout *
draw_layout(const struct place *p, int ndim, enum reduce r)
{
    struct sbp sbp[MAX_AXIS];
    uint8_t order[MAX_AXIS];
    const struct layout *l;
    for (int a = 0; a < p->naxis; a++) {
        int other = (int)(next_random(&seed) % (uint64_t)(a + 1));
        sbp[a] = entry((int)(next_random(&seed) % (uint64_t)(ndim + 1 + (r != RED_NONE))), ndim, r);
        order[a] = order[other];
        order[other] = (uint8_t)a;
    }
    if (layout_new(atlas, p, sbp, next_random(&seed) % 2 ? order : NULL, &l)) diag("%s", err_text());
    return draw_units(l);
}

static const int64_t sizes[] = {1, 2, 3, 4, 5, 6, 7, 12, 0};
enum { NSIZE = 8 }; /* number of nonzero sizes in the table, from which enumerated dimensions take their sizes */
static const enum dtype dtypes[] = {DT_I64, DT_F32, DT_I32, DT_BF16, DT_F64};

/* Draws a hierarchical reduction: the boundaries of its segments, and its number of chunks. Returns false if the
 * move reduces no addends, or its destination is partial. */
static inline bool
draw_relay(struct arena *a, const struct type *t, const struct layout *from, const struct layout *to,
           struct box_relay *out)
{
    struct grid g = grid_of(from, t), h = grid_of(to, t);
    if (g.naddend == 1 || h.naddend > 1) return false;
    int32_t *first = ARENA_ARRAY(a, int32_t, g.naddend + 1), n = 1;
    for (int32_t i = 1; i < g.naddend; i++)
        if (next_random(&seed) % 2 || (n == 1 && i == g.naddend - 1)) first[n++] = i;
    first[n] = g.naddend;
    *out = (struct box_relay){.nleg = n, .first = first, .nchunk = 1 + (int32_t)(next_random(&seed) % 3)};
    out->back = relay_may_go_back(from, to) && next_random(&seed) % 2;
    return true;
}

static inline struct type
nth_type(int ndim, int n)
{
    int64_t dim[3];
    for (int d = 0; d < ndim; d++, n /= NSIZE) dim[d] = sizes[n % NSIZE];
    return type_of(dtypes[(unsigned)n % countof(dtypes)], ndim, dim);
}

static inline struct type
draw_type(int ndim, int64_t most)
{
    int64_t dim[3];
    do {
        for (int d = 0; d < ndim; d++) dim[d] = sizes[next_random(&seed) % countof(sizes)];
    } while ((ndim > 0 ? dim[0] : 1) * (ndim > 1 ? dim[1] : 1) * (ndim > 2 ? dim[2] : 1) > most);
    return type_of(dtypes[next_random(&seed) % countof(dtypes)], ndim, dim);
}

static const struct layout *from_list[MAX_LAYOUT], *to_list[MAX_LAYOUT];

/* Calls check() for n random moves from mesh p to mesh q, with the first nkind kinds of P. Of ten moves, d + 1
 * have d dimensions (d = 0 to 3). */
static inline void
draw_moves(const struct place *p, const struct place *q, int nkind, long n,
           void (*check)(const struct type *t, const struct layout *from, const struct layout *to))
{
    for (int ndim = 0; ndim <= 3; ndim++) {
        int a = layouts_of(p, ndim, nkind, from_list), b = layouts_of(q, ndim, nkind, to_list);
        for (long k = 0; k < n * (ndim + 1) / 10; k++) {
            struct type t = draw_type(ndim, 150);
            const struct layout *from = from_list[next_random(&seed) % (uint64_t)a];
            check(&t, draw_units(from), draw_units(to_list[next_random(&seed) % (uint64_t)b]));
        }
    }
}

struct two {
    const char *what;
    int na, nb;
    int32_t axis[2][3];
    int32_t rank[2][8];
};
static const struct two twos[] = {
    {"from 2 ranks to 2 others", 1, 1, {{2}, {2}}, {{0, 1}, {2, 3}}},
    {"from 3 ranks to 3 that overlap", 1, 1, {{3}, {3}}, {{0, 1, 2}, {1, 2, 3}}},
    {"from 4 ranks to 2 of them", 1, 1, {{4}, {2}}, {{0, 1, 2, 3}, {1, 2}}},
    {"from 2 ranks to these and 2 more", 1, 1, {{2}, {4}}, {{0, 1}, {3, 1, 0, 2}}},
    {"from 1 rank to 3", 1, 1, {{1}, {3}}, {{4}, {3, 4, 5}}},
    {"from 3 ranks to 1", 1, 1, {{3}, {1}}, {{3, 4, 5}, {5}}},
    {"from 4 ranks to 3 that overlap", 1, 1, {{4}, {3}}, {{0, 1, 2, 3}, {2, 3, 4}}},
    {"from 2 x 2 to 4", 2, 1, {{2, 2}, {4}}, {{0, 1, 2, 3}, {0, 1, 2, 3}}},
    {"from 4 to 2 x 2 in another order", 1, 2, {{4}, {2, 2}}, {{0, 1, 2, 3}, {3, 1, 0, 2}}},
    {"from 2 x 2 to the same devices in another order", 2, 2, {{2, 2}, {2, 2}}, {{0, 1, 2, 3}, {2, 0, 1, 3}}},
    {"from 2 x 2 to 2 x 2 elsewhere", 2, 2, {{2, 2}, {2, 2}}, {{0, 1, 2, 3}, {5, 4, 7, 6}}},
    {"from 2 x 2 to 2 x 3", 2, 2, {{2, 2}, {2, 3}}, {{0, 1, 2, 3}, {0, 1, 4, 2, 3, 5}}},
    {"from 2 x 3 to 3 x 2", 2, 2, {{2, 3}, {3, 2}}, {{0, 1, 2, 3, 4, 5}, {0, 1, 2, 3, 4, 5}}},
    {"from 2 x 3 to 2 x 2 that overlap", 2, 2, {{2, 3}, {2, 2}}, {{0, 1, 2, 3, 4, 5}, {4, 6, 5, 7}}},
    {"from 2 x 2 x 2 to 4 x 2", 3, 2, {{2, 2, 2}, {4, 2}}, {{0, 1, 2, 3, 4, 5, 6, 7}, {0, 1, 2, 3, 4, 5, 6, 7}}},
    {"from 2 x 2 to 2 x 2 x 2", 2, 3, {{2, 2}, {2, 2, 2}}, {{7, 1, 3, 5}, {0, 1, 2, 3, 4, 5, 6, 7}}},
    {"from 1 x 3 to 3 x 1", 2, 2, {{1, 3}, {3, 1}}, {{0, 1, 2}, {0, 1, 2}}},
};

#endif
