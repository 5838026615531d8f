/* collective.c - tests moves that a library can do by one collective.
 *
 * The test runs each such move as a collective on host memory and compares the result with that of box_plan().
 * collective_of() must find every move that a library can do. The test enumerates layouts of small meshes. */
#include "boxing/collective.h"
#include "boxing/plan.h"
#include "boxing/reduce.h"
#include "t/lib/plan/moves.h"
#include "t/oracles/box_apply.h"

static struct arena arena;
static long nfound[4], npacked, nunpacked, npair, nwrong;

static void
complain(const char *what, const struct type *t, const struct layout *from, const struct layout *to)
{
    if (nwrong++ <= 10) diag_move(what, t, from, to);
}

/* ---- shards of a value ---- */

static size_t
part_bytes(const struct layout *l, const struct type *t, int pos)
{
    struct type local = layout_shard(l, t, pos);
    return (size_t)type_bytes(&local);
}

static void **
room_for_parts(const struct layout *l, const struct type *t)
{
    void **part = ARENA_ARRAY(&arena, void *, l->place->nrank);
    for (int pos = 0; pos < l->place->nrank; pos++) part[pos] = arena_alloc(&arena, part_bytes(l, t, pos) + 1);
    return part;
}

/* Fills shards with small integers; positions that hold the same shard get equal values. */
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

/* ---- reference collectives on contiguous blocks ---- */

struct blocks {
    const struct collective *c;
    const struct type *t;
    const struct layout *from, *to;
    int64_t n; /* number of elements per block */
};

/* Returns the view of block i in the shard `part` of mesh position pos. came: true: `part` is a shard of the
 * result; false: `part` is a shard of the source. */
static struct view
window(const struct blocks *b, bool came, void *part, int32_t pos, int32_t i)
{
    const struct layout *l = came ? b->to : b->from;
    struct box whole, block;
    layout_box(l, b->t, pos, &whole);
    (came ? collective_came : collective_sent)(b->c, b->t, b->from, b->to, pos, i, &block);
    return box_slice(b->t, l, &whole, part, &block);
}

/* Returns the view of block i in the dense buffer at address `at`, with the shape of `like`. */
static struct view
dense(const struct blocks *b, const struct view *like, void *at, int32_t i)
{
    struct type t = type_of((enum dtype)b->c->dtype, like->ndim, like->dim);
    return view_dense(&t, (char *)at + (size_t)(b->n * i) * dtype_bytes((enum dtype)b->c->dtype));
}

static void *
room(const struct blocks *b, int32_t nblock)
{
    return arena_alloc(&arena, (size_t)(b->n * nblock) * dtype_bytes((enum dtype)b->c->dtype) + 1);
}

/* Returns the data that a position sends: the shard itself, or a packed copy of the shard's blocks if the collective
 * packs. */
static void *
sent(const struct blocks *b, void *part, int32_t pos)
{
    if (!b->c->packs) return part;
    void *all = room(b, b->c->nsent);
    for (int32_t i = 0; i < b->c->nsent && b->n; i++) {
        struct view from = window(b, false, part, pos, i), to = dense(b, &from, all, i);
        box_reduce(RED_SUM, &to, 1, &from);
    }
    return all;
}

static void
received(const struct blocks *b, const void *all, void *part, int32_t pos)
{
    for (int32_t i = 0; i < b->c->ncame && b->n; i++) {
        struct view to = window(b, true, part, pos, i), from = dense(b, &to, (void *)(uintptr_t)all, i);
        box_reduce(RED_SUM, &to, 1, &from);
    }
}

static int64_t
reduced(const struct blocks *b, void *const *sent_by, int32_t first, int64_t i)
{
    enum dtype d = (enum dtype)b->c->dtype;
    const struct place *p = b->from->place;
    int64_t v = elem_get_i(d, sent_by[collective_pos(b->c, p, first, 0)], i);
    for (int32_t s = 1; s < b->c->size; s++)
        v = add((enum reduce)b->c->reduce, v, elem_get_i(d, sent_by[collective_pos(b->c, p, first, s)], i));
    return v;
}

static void
collect(const struct blocks *b, void *const *sent_by, void *all, int32_t pos)
{
    enum dtype d = (enum dtype)b->c->dtype;
    const struct place *p = b->from->place;
    int32_t first, comm_rank = collective_comm_rank(b->c, p, pos, &first);
    bool cut = b->c->verb == COLLECT_SCATTER || b->c->verb == COLLECT_EXCHANGE;
    int64_t skip = cut ? b->n * comm_rank : 0;
    for (int64_t i = 0; i < b->n * b->c->ncame; i++) {
        int32_t giver = collective_pos(b->c, p, first, (int32_t)(i / b->n));
        elem_set_i(d, all, i,
                   b->c->reduce == RED_NONE ? elem_get_i(d, sent_by[giver], skip + i % b->n)
                                            : reduced(b, sent_by, first, skip + i));
    }
}

static void
carry_out(const struct blocks *b, void *const *src, void **dst)
{
    int n = b->from->place->nrank;
    void **sent_by = ARENA_ARRAY(&arena, void *, n);
    for (int pos = 0; pos < n; pos++) {
        struct blocks own = *b;
        own.n = collective_numel(b->c, b->t, b->from, b->to, pos);
        sent_by[pos] = sent(&own, src[pos], pos);
    }
    for (int pos = 0; pos < n; pos++) {
        struct blocks own = *b;
        own.n = collective_numel(b->c, b->t, b->from, b->to, pos);
        void *all = b->c->unpacks ? room(&own, b->c->ncame) : dst[pos];
        collect(&own, sent_by, all, pos);
        if (b->c->unpacks) received(&own, all, dst[pos], pos);
    }
}

/* ---- comparison with box_plan ---- */

static void **
boxed(const struct type *t, const struct layout *from, const struct layout *to, void *const *src)
{
    struct box_plan *b;
    void **dst = room_for_parts(to, t);
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

/* Compares the values of two results. Partial results are compared by their sums, because a collective may
 * distribute addends differently from box_plan(). */
static bool
same_value(const struct type *t, const struct layout *l, void *const *a, void *const *b)
{
    const struct layout *whole = layout_broadcast(atlas, l->place);
    if (!layout_has_partial(l)) return same_parts(t, l, a, b);
    return same_parts(t, whole, boxed(t, l, whole, a), boxed(t, l, whole, b));
}

/* Returns true if collective_of() must find a collective for the move: the move changes one mesh axis, and blocks
 * have equal sizes at all positions. */
static bool
must_be_found(const struct type *t, const struct layout *from, const struct layout *to)
{
    const struct place *p = from->place;
    if (p->naxis != 1 || type_numel(t) == 0 || p->nrank == 1) return false;
    struct sbp x = from->sbp[0], y = to->sbp[0];
    bool sums = x.kind == SBP_P && (x.reduce == RED_SUM || !dtype_is_float((enum dtype)t->dtype));
    bool even =
        (x.kind != SBP_S || t->dim[x.axis] % p->nrank == 0) && (y.kind != SBP_S || t->dim[y.axis] % p->nrank == 0);
    if (y.kind == SBP_B && sums) return true;
    return even && ((y.kind == SBP_S && sums) ||
                    (x.kind == SBP_S && (y.kind == SBP_B || (y.kind == SBP_S && y.axis != x.axis))));
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
    npacked += c.packs;
    nunpacked += c.unpacks;
    void **src = room_for_parts(from, t), **dst = room_for_parts(to, t);
    fill(src, from, t);
    carry_out(&(struct blocks){.c = &c, .t = t, .from = from, .to = to}, src, dst);
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
    ok(nwrong == 0,
       "of %ld moves, %ld all-reduces, %ld reduce-scatters, %ld all-gathers and %ld all-to-alls give the result of "
       "boxing",
       npair, nfound[COLLECT_REDUCE], nfound[COLLECT_SCATTER], nfound[COLLECT_GATHER], nfound[COLLECT_EXCHANGE]);
    bool each = true;
    for (size_t i = 0; i < countof(nfound); i++) each = each && nfound[i] > 100;
    ok(each && npacked > 100 && nunpacked > 100, "each kind occurs; %ld moves pack blocks, %ld unpack", npacked,
       nunpacked);
}

/* ---- moves that are no library collectives ---- */

static bool
find(const char *from, const char *to, enum dtype d, int64_t rows, int64_t cols, struct collective *c)
{
    const struct layout *a, *b;
    const struct place *p = mesh(2, 0, 0);
    struct type t = type_of(d, 2, (int64_t[]){rows, cols});
    if (layout_parse(atlas, p, from, 2, &a) || layout_parse(atlas, p, to, 2, &b)) diag("%s", err_text());
    return collective_of(&t, a, b, c);
}

static bool
is_one(const char *from, const char *to, enum dtype d, int64_t rows, int64_t cols)
{
    struct collective c;
    return find(from, to, d, rows, cols, &c);
}

/* Returns true if the move is a collective that reads and writes blocks in place, without packed copies. */
static bool
is_plain(const char *from, const char *to, int64_t rows, int64_t cols)
{
    struct collective c;
    return find(from, to, DT_F32, rows, cols, &c) && !c.packs && !c.unpacks;
}

static bool
rearranges(const char *from, const char *to, enum dtype d, bool packs, bool unpacks)
{
    struct collective c;
    return find(from, to, d, 4, 4, &c) && c.packs == packs && c.unpacks == unpacks;
}

static void
try_others(void)
{
    struct collective c;
    ok(is_plain("P", "B", 4, 4) && is_plain("P", "S(0)", 4, 4) && is_plain("S(0)", "B", 4, 4) &&
           is_plain("S(1)", "B", 1, 4),
       "splits by rows are read and written in place");
    ok(rearranges("P", "S(1)", DT_F32, true, false) && rearranges("S(1)", "B", DT_F32, false, true),
       "splits by columns are packed or unpacked");
    ok(rearranges("S(0)", "S(1)", DT_F32, true, false) && rearranges("S(1)", "S(0)", DT_F32, false, true),
       "an all-to-all packs or unpacks on the side of the columns");
    ok(find("P", "B", DT_BF16, 4, 4, &c) && c.dtype == DT_F32 && c.gives == DT_BF16 && !c.packs && c.unpacks,
       "a sum of 16-bit floats is computed in f32 and rounded at the end");
    ok(is_one("S(0)", "B", DT_BOOL, 4, 4) && rearranges("S(0)", "B", DT_BF16, false, false),
       "bool is gathered, and 16-bit floats without conversion");
    ok(!is_one("P(max)", "B", DT_F32, 4, 4) && is_one("P(max)", "B", DT_I32, 4, 4),
       "a maximum of floats is no library collective, because of NaN");
    ok(!is_one("P", "B", DT_BOOL, 4, 4), "a sum of bool is no library collective");
    ok(!is_one("S(0)", "B", DT_F32, 5, 4) && !is_one("P", "S(0)", DT_F32, 5, 4) &&
           !is_one("S(0)", "S(1)", DT_F32, 4, 5) && !is_one("S(1)", "S(0)", DT_F32, 4, 5),
       "uneven shards are no library collective");
    ok(!is_one("B", "S(0)", DT_F32, 4, 4) && !is_one("B", "P", DT_F32, 4, 4),
       "a move that sends nothing is no library collective");
    ok(!is_one("P", "B", DT_F32, 0, 4), "a move of an empty tensor is no library collective");
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
