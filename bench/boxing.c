/* boxing.c - time of planning moves on large meshes: 8 x 16 x 8 ranks. Only planning is timed; no data moves.
 *
 * Prints for each move: the time to compute its price (box_bytes); the time to plan one rank's part, without and
 * with the rank's border; the memory of both plans. The border is the rank's reads from and by other ranks. Times
 * of a plan are the best of 5 trials, for the slowest of 64 ranks.
 *
 * Then prints the mean and the maximum time to compute a price, over all pairs of layouts of a matrix, on meshes
 * of up to 100,000 ranks. */
#include "bench/clock.h"
#include "boxing/plan.h"
#include "boxing/bytes.h"
#include "boxing/border.h"
#include "runtime/base/error.h"
#include "runtime/tensor/atlas.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const moves[][2] = {
    {"(S(0), S(1), B)", "(B, B, B)"},       {"(S(0), S(0), S(0))", "(S(1), S(1), S(1))"},
    {"(S(0), S(0), S(0))", "(B, B, B)"},    {"(P, P, P)", "(B, B, B)"},
    {"(P, S(0), S(1))", "(B, S(0), S(1))"}, {"(P, P, P)", "(S(0), S(0), S(0))"},
    {"(S(0), P, B)", "(B, S(1), S(0))"},    {"(B, B, B)", "(P, S(0), P)"},
    {"(S(0), S(1), P)", "(S(1), S(0), P)"}, {"(S(0), S(0), S(1))", "(S(0), S(0), S(1)) order (2, 1, 0)"},
    {"(P, B, S(0))", "(B, P, S(0))"},
};

static const struct place *
mesh(struct atlas *a, int naxis, const int32_t *axis, int stride)
{
    static int32_t rank[1024];
    const struct place *p;
    for (int i = 0; i < 1024; i++) rank[i] = i * stride % 1024 + (stride == 0);
    return place_new(a, 0, naxis, axis, rank, &p) ? NULL : p;
}

/* Plans one rank's part of a move; if `border`, also lists the reads between this rank and other ranks. Returns the
 * least time of 5 trials, us; the least counts, because other work on the machine only adds time. */
static double
plan_us(struct arena *a, const struct type *t, const struct layout *from, const struct layout *to, int rank,
        bool border)
{
    double best = 1e9;
    int32_t src = place_find(from->place, rank), dst = place_find(to->place, rank);
    struct box_ranks one = {src >= 0, dst >= 0, &src, &dst};
    for (int k = 0; k < 5; k++) {
        struct box_plan *plan;
        struct box_border out;
        arena_reset(a);
        double start = now_us();
        if (box_plan_part(a, t, from, to, &one, &plan)) printf("%s\n", err_text());
        if (border) box_border(a, plan, &one, NULL, &out);
        best = MIN(best, now_us() - start);
    }
    return best;
}

static void
measure(struct atlas *atlas, const char *what, const struct place *p, const struct place *q)
{
    struct type t = type_of(DT_F32, 2, (int64_t[]){8192, 50257});
    printf("%s\n  %-22s %-36s %10s %10s %10s %10s\n", what, "from", "to", "price us", "rank us", "+ border", "KiB");
    for (size_t i = 0; i < countof(moves); i++) {
        const struct layout *from, *to;
        struct arena a = {0};
        if (layout_parse(atlas, p, moves[i][0], 2, &from) || layout_parse(atlas, q, moves[i][1], 2, &to)) {
            printf("%s\n", err_text());
            return;
        }
        double start = now_us(), slowest[2] = {0, 0};
        for (int k = 0; k < 20; k++) box_bytes(&t, from, to);
        double price = (now_us() - start) / 20;
        size_t most = 0;
        for (int k = 0; k < 128; k++) {
            int rank = k / 2 * 16 + k / 2 % 16;
            slowest[k % 2] = MAX(slowest[k % 2], plan_us(&a, &t, from, to, rank, k % 2));
            most = MAX(most, a.used_bytes);
        }
        printf("  %-22s %-36s %10.1f %10.1f %10.1f %10zu\n", moves[i][0], moves[i][1], price, slowest[0], slowest[1],
               most / 1024);
        arena_fini(&a);
    }
}

enum { ENTRY = 4, MAX_PAIR = ENTRY * ENTRY * ENTRY };

/* Lists all layouts whose mesh axes have S(0), S(1), B or P; axes that split the same dimension do so in mesh
 * order. Returns their number. */
static int
all_layouts(struct atlas *atlas, const struct place *p, const struct layout **out)
{
    static const struct sbp entry[ENTRY] = {
        {.kind = SBP_S}, {.kind = SBP_S, .axis = 1}, {.kind = SBP_B}, {.kind = SBP_P, .reduce = RED_SUM}};
    int n = 1;
    for (int a = 0; a < p->naxis; a++) n *= ENTRY;
    for (int k = 0; k < n; k++) {
        struct sbp sbp[MAX_AXIS];
        for (int a = 0, rest = k; a < p->naxis; a++, rest /= ENTRY) sbp[a] = entry[rest % ENTRY];
        if (layout_new(atlas, p, sbp, NULL, &out[k])) printf("%s\n", err_text());
    }
    return n;
}

static void
measure_prices(struct atlas *atlas, const char *what, int naxis, const int32_t *axis)
{
    const struct layout *list[MAX_PAIR];
    const struct place *p;
    struct type t = type_of(DT_F32, 2, (int64_t[]){1000003, 50257});
    int32_t nrank = 1;
    for (int a = 0; a < naxis; a++) nrank *= axis[a];
    int32_t *rank = must_alloc(sizeof *rank * (size_t)nrank);
    for (int32_t i = 0; i < nrank; i++) rank[i] = i;
    if (place_new(atlas, 0, naxis, axis, rank, &p)) printf("%s\n", err_text());
    free(rank);
    int n = all_layouts(atlas, p, list);
    double all = 0, most = 0;
    for (int i = 0; i < n * n; i++) {
        double start = now_us();
        box_bytes(&t, list[i / n], list[i % n]);
        double took = now_us() - start;
        all += took;
        most = MAX(most, took);
    }
    printf("  %-22s %6d pairs %10.2f us a price %10.1f us the dearest\n", what, n * n, all / (n * n), most);
}

int
main(void)
{
    struct atlas *atlas = atlas_new();
    const struct place *p = mesh(atlas, 3, (int32_t[]){8, 16, 8}, 1);
    measure(atlas, "on one mesh 8 x 16 x 8", p, p);
    measure(atlas, "from 8 x 16 x 8 to 16 x 8 x 8", p, mesh(atlas, 3, (int32_t[]){16, 8, 8}, 1));
    measure(atlas, "from 8 x 16 x 8 to the same devices in another order", p, mesh(atlas, 3, (int32_t[]){8, 16, 8}, 5));
    printf("prices, f32{1000003, 50257}\n");
    measure_prices(atlas, "8", 1, (int32_t[]){8});
    measure_prices(atlas, "100000", 1, (int32_t[]){100000});
    measure_prices(atlas, "8 x 8", 2, (int32_t[]){8, 8});
    measure_prices(atlas, "12500 x 8", 2, (int32_t[]){12500, 8});
    measure_prices(atlas, "1024 x 96", 2, (int32_t[]){1024, 96});
    measure_prices(atlas, "8 x 16 x 8", 3, (int32_t[]){8, 16, 8});
    measure_prices(atlas, "64 x 48 x 32", 3, (int32_t[]){64, 48, 32});
    atlas_free(&atlas);
    return 0;
}
