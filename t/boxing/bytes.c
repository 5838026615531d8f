/* bytes.c - tests that the price of a move equals the bytes that ranks receive, on large meshes.
 *
 * t/boxing/apply.c compares plans with the minimum on small meshes. This test prices and plans all pairs of layouts
 * on meshes of longer axes, with uneven shards. For pairs without P, on 100,000 ranks and on many axes, the price
 * must equal the bytes that the ranks lack. Counts that were cached for one move are used again for other moves, on
 * any mesh, and for the reverse move. */
#include "t/lib/plan/moves.h"
#include "boxing/bytes.h"
#include "boxing/plan.h"

static const struct layout *list[MAX_LAYOUT];
static struct arena arena;

static void
differs(const struct type *t, const struct layout *from, const struct layout *to, int64_t right)
{
    char what[80];
    snprintf(what, sizeof what, "%lld bytes, priced %lld", (long long)right, (long long)box_bytes(t, from, to));
    diag_move(what, t, from, to);
}

/* Checks box_renames(), which computes without a loop over the ranks whether all ranks keep their shards. Such a
 * move changes only the layout's name. */
static bool
tells_names(const struct type *t, const struct layout *from, const struct layout *to)
{
    return box_renames(t, from, to, box_bytes(t, from, to)) == layout_same_boxes(from, to, t);
}

/* ---- comparison with the plan ---- */

static struct arena counted; /* cache of counts, shared by all moves of the test; the caller resets it */
static struct hash_table known = {.arena = &counted};

static int
pairs_as_planned(const struct place *p, const struct type *t)
{
    int wrong = 0, n = layouts_of(p, t->ndim, 1, list);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            struct box_plan *plan;
            arena_reset(&arena);
            if (box_plan(&arena, t, list[i], list[j], &plan)) continue;
            if (plan->bytes == box_bytes(t, list[i], list[j]) &&
                plan->bytes == box_bytes_known(t, list[i], list[j], &known) && tells_names(t, list[i], list[j]))
                continue;
            if (wrong++ < 5) differs(t, list[i], list[j], plan->bytes);
        }
    return wrong;
}

static void
every_pair_as_planned(void)
{
    static const int meshes[][3] = {{17, 0, 0}, {5, 12, 0}, {12, 5, 0}, {2, 23, 0}, {31, 3, 0}, {2, 3, 5}, {4, 2, 3}};
    static const int64_t shapes[][3] = {{31, 0, 0}, {7, 0, 0}, {120, 0, 0}, {31, 45, 0}, {60, 13, 0}, {29, 7, 11}};
    for (size_t m = 0; m < countof(meshes); m++)
        for (size_t k = 0; k < countof(shapes); k++) {
            int ndim = 1 + (shapes[k][1] > 0) + (shapes[k][2] > 0);
            struct type t = type_of(DT_BF16, ndim, shapes[k]);
            /* skips three-dimensional tensors on three mesh axes (64,000 pairs of layouts), and cases of another share
             * of the test */
            if ((meshes[m][2] && ndim == 3) || !share_next()) continue;
            ok(pairs_as_planned(mesh(meshes[m][0], meshes[m][1], meshes[m][2]), &t) == 0,
               "every move of %d dimensions, the first of size %d, on a mesh of %d x %d x %d: the price is that of the "
               "plan",
               ndim, (int)shapes[k][0], meshes[m][0], MAX(1, meshes[m][1]), MAX(1, meshes[m][2]));
        }
}

/* ---- comparison with the bytes that each rank lacks ---- */

static int64_t
lacking(const struct type *t, const struct layout *from, const struct layout *to)
{
    int64_t numel = 0;
    for (int pos = 0; pos < to->place->nrank; pos++) {
        struct box a, b, both;
        layout_box(from, t, pos, &a);
        layout_box(to, t, pos, &b);
        numel += box_numel(&b, t->ndim);
        if (box_intersect(&a, &b, t->ndim, &both)) numel -= box_numel(&both, t->ndim);
    }
    return numel * (int64_t)dtype_bytes((enum dtype)t->dtype);
}

/* Checks prices on meshes with many axes, all with a single cache. Axes of equal size may share cache entries; axes
 * of different sizes must not. */
static void
many_axes(void)
{
    static const int32_t meshes[][MAX_AXIS] = {{2, 2, 2, 2, 2, 2}, {3, 3, 3, 3, 3}, {2, 3, 2, 3, 2}, {2, 3, 5, 7},
                                               {7, 5, 3, 2},       {4, 2, 2, 4},    {1, 3, 1, 3, 4}, {5, 5, 5}};
    static const int64_t shapes[][3] = {{64, 27, 0}, {7, 100, 0}, {31, 45, 6}, {210, 1, 8}, {5, 0, 3}};
    int32_t rank[MAX_MESH];
    int n = share_of(getenv("RILLE_LONG") ? 20000 : 1000, &seed);
    for (int i = 0; i < MAX_MESH; i++) rank[i] = i;
    for (size_t m = 0; m < countof(meshes); m++) {
        int naxis = 0, wrong = 0;
        while (naxis < MAX_AXIS && meshes[m][naxis]) naxis++;
        const struct place *p = place(naxis, meshes[m], rank);
        for (int k = 0; k < n; k++) {
            const int64_t *shape = shapes[next_random(&seed) % countof(shapes)];
            struct type t = type_of(DT_F32, 2 + (shape[2] > 0), shape);
            const struct layout *from = draw_layout(p, t.ndim, RED_NONE), *to = draw_layout(p, t.ndim, RED_NONE);
            int64_t right = lacking(&t, from, to);
            bool same = right == box_bytes(&t, from, to) && right == box_bytes_known(&t, from, to, &known) &&
                        tells_names(&t, from, to);
            if (!same && wrong++ < 5) differs(&t, from, to, right);
        }
        ok(wrong == 0,
           "moves on %d axes, the first of size %d and %d: the price is the bytes that ranks lack, cached or not",
           naxis, (int)meshes[m][0], (int)meshes[m][1]);
    }
    diag("%d groups cached", (int)known.n);
}

static void
large_meshes(void)
{
    static const int32_t meshes[][3] = {{100000, 0, 0}, {500, 200, 0}, {12500, 8, 0}, {4, 25000, 0}, {10, 100, 100}};
    int32_t *rank = must_alloc(sizeof *rank * 100000);
    for (int32_t i = 0; i < 100000; i++) rank[i] = i;
    for (size_t m = 0; m < countof(meshes); m++) {
        int naxis = 1 + (meshes[m][1] > 0) + (meshes[m][2] > 0), wrong = 0, pairs = 0;
        const struct place *p = place(naxis, meshes[m], rank);
        struct type t = type_of(DT_F32, 2, (int64_t[]){1000003, 50257});
        int n = layouts_of(p, t.ndim, 1, list);
        for (int k = 0; k < (naxis == 1 ? 9 : 60); k++) {
            const struct layout *from = list[next_random(&seed) % (uint64_t)n],
                                *to = list[next_random(&seed) % (uint64_t)n];
            if (layout_has_partial(from) || layout_has_partial(to)) continue;
            int64_t right = lacking(&t, from, to);
            pairs++;
            if (right == box_bytes(&t, from, to) && tells_names(&t, from, to)) continue;
            if (wrong++ < 5) differs(&t, from, to, right);
        }
        ok(wrong == 0, "moves on %d x %d x %d ranks: the price is the bytes that ranks lack", (int)meshes[m][0],
           (int)MAX(1, meshes[m][1]), (int)MAX(1, meshes[m][2]));
        diag("%d pairs", pairs);
    }
    free(rank);
}

int
main(void)
{
    seed = seed_of(15);
    atlas = atlas_new();
    every_pair_as_planned();
    many_axes();
    large_meshes();
    arena_fini(&arena);
    arena_fini(&counted);
    atlas_free(&atlas);
    return done();
}
