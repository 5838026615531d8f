/* boxing-collective.c - moves that are one collective of a library: carried out as one, on plain memory, they give what
 * box_plan() gives, and what a library could do is found. Layouts of small meshes are enumerated. */
#include "boxing/collective.h"
#include "boxing/grid.h"
#include "t/moves.h"

static struct arena arena;
static long nfound[3], npair, nwrong;

static void
complain(const char *what, const struct type *t, const struct layout *from, const struct layout *to)
{
    struct str s = {0};
    if (nwrong++ > 10) return;
    type_print(t, &s);
    str_add(&s, " on ");
    place_print(from->place, &s);
    str_add(&s, ": ");
    layout_print(from, &s);
    str_add(&s, " -> ");
    layout_print(to, &s);
    diag("%s: %s", what, str_text(&s));
    str_free(&s);
}

/* ---- parts of a value ---- */

static size_t
part_bytes(const struct layout *l, const struct type *t, int pos)
{
    struct type local = layout_shard(l, t, pos);
    return (size_t)type_bytes(&local);
}

static void **
parts_new(const struct layout *l, const struct type *t)
{
    void **part = ARENA_ARRAY(&arena, void *, l->place->nrank);
    for (int pos = 0; pos < l->place->nrank; pos++) part[pos] = arena_alloc(&arena, part_bytes(l, t, pos) + 1);
    return part;
}

/* Small whole numbers, the same at positions that hold the same. */
static void
fill(void **part, const struct layout *l, const struct type *t)
{
    for (int pos = 0; pos < l->place->nrank; pos++) {
        struct type local = layout_shard(l, t, pos);
        int origin = layout_origin(l, pos);
        for (int64_t i = 0; i < type_numel(&local) && origin == pos; i++)
            elem_set_i((enum dtype)local.dtype, part[pos], i, (int64_t)(next_random(&seed) % 13));
        if (origin != pos) memcpy(part[pos], part[origin], part_bytes(l, t, pos));
    }
}

static int64_t
add(enum reduce r, int64_t a, int64_t b)
{
    return r == RED_MAX ? MAX(a, b) : r == RED_MIN ? MIN(a, b) : r == RED_PROD ? a * b : a + b;
}

/* ---- a collective, as its verb says it ---- */

static int64_t
element(const struct collective *c, const struct place *p, void *const *src, int32_t first, int32_t seat, int64_t i)
{
    return elem_get_i((enum dtype)c->dtype, src[collective_pos(c, p, first, seat)], i);
}

static int64_t
reduced(const struct collective *c, const struct place *p, void *const *src, int32_t first, int64_t i)
{
    int64_t v = element(c, p, src, first, 0, i);
    for (int32_t s = 1; s < c->size; s++) v = add((enum reduce)c->reduce, v, element(c, p, src, first, s, i));
    return v;
}

static void
collect(const struct collective *c, const struct place *p, int64_t n, void *const *src, void **dst, int32_t pos)
{
    int32_t first, seat = collective_seat(c, p, pos, &first);
    int64_t skip = c->verb == COLLECT_SCATTER ? n * seat : 0;
    for (int64_t i = 0; i < (c->verb == COLLECT_GATHER ? n * c->size : n); i++)
        elem_set_i((enum dtype)c->dtype, dst[pos], i,
                   c->verb == COLLECT_GATHER ? element(c, p, src, first, (int32_t)(i / n), i % n)
                                             : reduced(c, p, src, first, skip + i));
}

/* ---- beside box_plan ---- */

static void **
boxed(const struct type *t, const struct layout *from, const struct layout *to, void *const *src)
{
    struct box_plan *b;
    void **dst = parts_new(to, t);
    if (box_plan(&arena, t, from, to, &b)) return NULL;
    if (b->alias) return (void **)src;
    box_apply(b, src, dst);
    return dst;
}

static bool
same_parts(const struct type *t, const struct layout *l, void *const *a, void *const *b)
{
    for (int pos = 0; pos < l->place->nrank; pos++)
        if (memcmp(a[pos], b[pos], part_bytes(l, t, pos))) return false;
    return true;
}

/* Where addends of other axes stay apart each is moved by itself, which box_plan need not do: their sums are equal. */
static bool
same_value(const struct type *t, const struct layout *l, void *const *a, void *const *b)
{
    const struct layout *whole = layout_broadcast(atlas, l->place);
    if (!layout_has_partial(l)) return same_parts(t, l, a, b);
    return same_parts(t, whole, boxed(t, l, whole, a), boxed(t, l, whole, b));
}

/* What a library must be asked for: one axis changes, which cuts the first dimension, and nothing else does. */
static bool
must_be_found(const struct type *t, const struct layout *from, const struct layout *to)
{
    const struct place *p = from->place;
    if (p->naxis != 1 || type_numel(t) == 0 || p->nrank == 1 || dtype_is_half((enum dtype)t->dtype)) return false;
    struct sbp x = from->sbp[0], y = to->sbp[0];
    bool sums = x.kind == SBP_P && (x.reduce == RED_SUM || !dtype_is_float((enum dtype)t->dtype));
    bool cuts = t->ndim && t->dim[0] % p->nrank == 0;
    if (y.kind == SBP_B && sums) return true;
    if (y.kind == SBP_S && sums) return cuts && y.axis == 0;
    return x.kind == SBP_S && y.kind == SBP_B && cuts && x.axis == 0;
}

static void
try_pair(const struct type *t, const struct layout *from, const struct layout *to)
{
    struct collective c;
    npair++;
    if (!collective_of(t, from, to, &c)) {
        if (must_be_found(t, from, to)) complain("not found", t, from, to);
        return;
    }
    nfound[c.verb]++;
    void **src = parts_new(from, t), **dst = parts_new(to, t);
    fill(src, from, t);
    for (int pos = 0; pos < from->place->nrank; pos++) {
        int64_t n = collective_numel(&c, t, from, to, pos), all = c.verb == COLLECT_GATHER ? n * c.size : n;
        if ((size_t)all * dtype_bytes((enum dtype)c.dtype) != part_bytes(to, t, pos)) {
            complain("another length", t, from, to);
            return;
        }
        collect(&c, from->place, n, src, dst, pos);
    }
    if (!same_value(t, to, dst, boxed(t, from, to, src))) complain("another value", t, from, to);
}

static void
try_mesh(const struct place *p, int ndim)
{
    static const struct layout *layout[MAX_LAYOUT];
    static const int64_t size[] = {1, 2, 4, 6, 3};
    static const enum dtype dtype[] = {DT_I32, DT_F32, DT_I64, DT_U8, DT_F64, DT_BF16, DT_F16};
    int n = layouts_of(p, ndim, 3, layout), ntype = ndim == 0 ? 1 : ndim == 1 ? 5 : 25, turn = 0;
    for (int k = 0; k < ntype; k++)
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) {
                int64_t dim[2] = {size[k % 5], size[k / 5]};
                struct type t = type_of(dtype[(unsigned)turn++ % countof(dtype)], ndim, dim);
                try_pair(&t, layout[i], layout[j]);
                if (turn % 64 == 0) arena_fini(&arena);
            }
}

static void
try_meshes(void)
{
    const struct place *p[] = {mesh(1, 0, 0), mesh(2, 0, 0), mesh(3, 0, 0),
                               mesh(4, 0, 0), mesh(2, 2, 0), mesh(3, 2, 0)};
    for (size_t i = 0; i < countof(p); i++)
        for (int ndim = 0; ndim <= 2; ndim++) try_mesh(p[i], ndim);
    ok(nwrong == 0, "of %ld moves %ld all-reduces, %ld reduce-scatters and %ld all-gathers are what boxing gives",
       npair, nfound[COLLECT_REDUCE], nfound[COLLECT_SCATTER], nfound[COLLECT_GATHER]);
    ok(nfound[COLLECT_REDUCE] > 100 && nfound[COLLECT_SCATTER] > 100 && nfound[COLLECT_GATHER] > 100,
       "there are some of each");
}

/* ---- what a library is not asked for ---- */

static bool
is_one(const char *from, const char *to, enum dtype d, int64_t rows, int64_t cols)
{
    const struct layout *a, *b;
    const struct place *p = mesh(2, 0, 0);
    struct type t = type_of(d, 2, (int64_t[]){rows, cols});
    struct collective c;
    if (layout_parse(atlas, p, from, 2, &a) || layout_parse(atlas, p, to, 2, &b)) diag("%s", err_text());
    return collective_of(&t, a, b, &c);
}

static void
try_others(void)
{
    ok(is_one("P", "B", DT_F32, 4, 4) && is_one("S(0)", "B", DT_BOOL, 4, 4), "sums of floats; truths as bytes");
    ok(!is_one("P", "B", DT_BF16, 4, 4), "a sum of halves, which is rounded when it is whole, is none");
    ok(is_one("S(0)", "B", DT_BF16, 4, 4), "halves that are gathered are");
    ok(!is_one("P(max)", "B", DT_F32, 4, 4) && is_one("P(max)", "B", DT_I32, 4, 4),
       "a greatest float, as of NaN, is none");
    ok(!is_one("P", "B", DT_BOOL, 4, 4), "nor is a sum of truths");
    ok(!is_one("S(0)", "B", DT_F32, 5, 4) && !is_one("P", "S(0)", DT_F32, 5, 4), "parts of two lengths are none");
    ok(!is_one("S(1)", "B", DT_F32, 4, 4) && is_one("S(1)", "B", DT_F32, 1, 4), "nor are blocks between others'");
    ok(!is_one("S(0)", "S(1)", DT_F32, 4, 4) && !is_one("B", "S(0)", DT_F32, 4, 4) && !is_one("B", "P", DT_F32, 4, 4),
       "nor are an all-to-all, and what sends nothing");
    ok(!is_one("P", "B", DT_F32, 0, 4), "nor is a move of nothing");
}

int
main(void)
{
    seed = seed_of(16);
    atlas = atlas_new();
    try_meshes();
    try_others();
    arena_fini(&arena);
    atlas_free(&atlas);
    return done();
}
