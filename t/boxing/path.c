/* path.c - tests that every candidate path of box_path is a sequence of moves between the layouts, and sends no rank
 * more bytes than the direct exchange. (t/boxing/apply.c tests the values of each move.)
 *
 * On small meshes the test adds up the received bytes per rank. A full search over all such paths checks that the
 * best candidate is the cheapest, also with uneven shards. (On three and four axes the search takes paths over
 * layouts in mesh order. On four axes box_path prunes layouts that cannot be on a cheapest path.) Finally the test
 * swaps mesh axes of equal size in all hops on small meshes, which must not change the price. RILLE_LONG=1 draws
 * twenty times as many pairs. */
#include "boxing/path.h"
#include "boxing/plan.h"
#include "t/lib/plan/moves.h"

#include <time.h>

static struct arena arena;
static const struct box_cost cost = {.alpha_ns = 500, .beta_ns_per_byte = 10, .gamma_ns_per_byte = 3};

/* ---- bytes ---- */

enum { MAX_RANK = 16 };

static int64_t
count_received(const struct type *t, const struct layout *from, const struct layout *to, int64_t *received)
{
    struct box_plan *p;
    box_plan(&arena, t, from, to, &p);
    for (int i = 0; i < p->nrank; i++) received[p->rank[i]] += p->received[i];
    return p->bytes;
}

static bool
sends_nobody_more(const struct type *t, const struct layout *from, const struct layout *to,
                  const struct box_candidate *c)
{
    int64_t direct[MAX_RANK] = {0}, hops[MAX_RANK] = {0}, sum = 0;
    int64_t least = count_received(t, from, to, direct);
    for (int k = 0; k < c->nhop; k++) sum += count_received(t, c->hop[k].from, c->hop[k].to, hops);
    bool right = sum == c->bytes && sum == least;
    for (int r = 0; r < MAX_RANK; r++) right &= hops[r] <= direct[r];
    return right;
}

/* ---- pairs of layouts ---- */

static int nwrong, npair, ncandidate;

/* Prints one line per candidate path: the name, bytes and price of each hop. */
static void
print_path(const struct box_path *p, struct str *s)
{
    for (int i = 0; i < p->ncandidate; i++) {
        const struct box_candidate *c = &p->candidate[i];
        str_addf(s, "%10.1f us  %lld bytes  ", c->ns / 1e3, (long long)c->bytes);
        for (int k = 0; k < c->nhop; k++) {
            str_addf(s, "%s%s -> ", k ? ", " : "", c->hop[k].name);
            layout_print(c->hop[k].to, s);
        }
        if (c->staging > 0) str_addf(s, "  (%lld bytes between)", (long long)c->staging);
        str_add(s, "\n");
    }
}

static void
complain(const char *what, const struct type *t, const struct layout *from, const struct layout *to,
         const struct box_path *p)
{
    struct str s = {0};
    if (nwrong++ > 5) return;
    diag_move(what, t, from, to);
    print_path(p, &s);
    diag("%s", str_text(&s));
    str_free(&s);
}

/* Returns true if the hops form a path from layout `from` to layout `to`, and each hop is a possible move. */
static bool
is_joined(const struct type *t, const struct box_candidate *c, const struct layout *from, const struct layout *to)
{
    const struct layout *at = from;
    struct box_plan *p;
    bool right = c->nhop > 0;
    for (int k = 0; k < c->nhop; at = c->hop[k++].to)
        right = right && c->hop[k].from == at && !box_plan(&arena, t, at, c->hop[k].to, &p);
    return right && at == to;
}

static void
check_pair(const struct type *t, const struct layout *from, const struct layout *to)
{
    struct box_path *p;
    bool direct = false;
    arena_reset(&arena);
    if (box_path(&arena, atlas, t, from, to, &cost, &p)) {
        complain(err_text(), t, from, to, p);
        return;
    }
    npair++;
    for (int i = 0; i < p->ncandidate; i++) {
        const struct box_candidate *c = &p->candidate[i];
        ncandidate++;
        direct |= c->nhop == 1;
        if (!is_joined(t, c, from, to)) complain("hops", t, from, to, p);
        if (!sends_nobody_more(t, from, to, c)) complain("bytes", t, from, to, p);
        if (i > 0 && c->ns < c[-1].ns) complain("order", t, from, to, p);
    }
    if (!direct) complain("no direct exchange", t, from, to, p);
}

static void
draw_pairs(const struct place *p, const struct place *q, int n, const char *what)
{
    int before = nwrong;
    npair = ncandidate = 0;
    for (int k = 0; k < n; k++) {
        int ndim = 1 + (int)(next_random(&seed) % 3);
        int64_t dim[3];
        for (int d = 0; d < ndim; d++) dim[d] = (int64_t)(next_random(&seed) % 9);
        struct type t = type_of(DT_I64, ndim, dim);
        enum reduce r = (enum reduce)(RED_SUM + next_random(&seed) % 3);
        check_pair(&t, draw_layout(p, ndim, r), draw_layout(q, ndim, r));
    }
    ok(nwrong == before, "%s (%d pairs, %d candidates)", what, npair, ncandidate);
}

/* ---- bytes that the busiest rank receives ---- */

enum { MOST = 20, RANKS = 6 };

static int
every_layout(const struct place *p, const struct layout **out)
{
    int n = 0, choices = p->naxis == 1 ? 4 : 16;
    for (int c = 0; c < 2 * choices; c++) {
        struct sbp sbp[2] = {entry(c % 4, 2, RED_SUM), entry(c / 4 % 4, 2, RED_SUM)};
        const struct layout *l;
        bool known = false;
        if (layout_new(atlas, p, sbp, c < choices ? NULL : (uint8_t[]){(uint8_t)(p->naxis - 1), 0}, &l)) continue;
        for (int i = 0; i < n; i++) known |= out[i] == l;
        if (!known) out[n++] = l;
    }
    return n;
}

static int64_t received[MOST][MOST][RANKS];

/* Returns the most bytes that any rank receives on the path through layouts i, x, y, j; -1 if the ranks together
 * send more than the minimum. */
static int64_t
busiest(int i, int x, int y, int j)
{
    int64_t most = 0, sum = 0, least = 0;
    for (int r = 0; r < RANKS; r++) {
        int64_t its = received[i][x][r] + received[x][y][r] + received[y][j][r];
        most = MAX(most, its);
        sum += its;
        least += received[i][j][r];
    }
    return sum > least ? -1 : most;
}

/* Checks that no sequence of up to three moves sends fewer bytes to the busiest rank than the direct move. Tries
 * all sequences in which the ranks together send only the minimum of bytes. (In a sequence, a move to the same
 * layout counts as no move.) */
static void
no_sequence_is_kinder(const struct place *p, const char *what)
{
    const struct layout *l[MOST];
    struct type t = type_of(DT_U8, 2, (int64_t[]){48, 48});
    int n = every_layout(p, l), worse = 0, nway = 0;
    memset(received, 0, sizeof received);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            arena_reset(&arena);
            count_received(&t, l[i], l[j], received[i][j]);
        }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            for (int route = 0; route < n * n; route++) {
                int64_t most = busiest(i, route / n, route % n, j);
                nway += most >= 0;
                worse += most >= 0 && most < busiest(i, j, j, j);
            }
    is_int(worse, 0, what);
    diag("%d layouts, %d sequences", n, nway);
}

/* ---- cheapest path, by full search ---- */

enum { MANY = 81, WIDEST = 16 };
static struct hop {
    double ns; /* price of the hop, ns; INFINITY: not allowed, because the hop would make a value partial */
    int64_t bytes, received[WIDEST];
} hops[MANY][MANY];

/* State of the search, shared by all paths. */
struct ends {
    const struct layout *const *l;
    int n, nrank, to;
    double best;
};

static bool
changes_one(const struct layout *x, const struct layout *y)
{
    int n = 0;
    for (int a = 0; a < x->place->naxis; a++) n += x->sbp[a].kind != y->sbp[a].kind || x->sbp[a].axis != y->sbp[a].axis;
    return n == 1;
}

/* Searches all paths from layout `at` to the target that send the minimum of bytes in total. ns, bytes: time so
 * far, and bytes that may still be sent; left: bytes that each rank may still receive. */
static void
go_through(struct ends *e, int at, int nhop, double ns, int64_t bytes, const int64_t *left)
{
    for (int j = 0; j < e->n; j++) {
        const struct hop *hop = &hops[at][j];
        int64_t rest[WIDEST];
        bool fair = true;
        if (ns + hop->ns >= e->best || hop->bytes + hops[j][e->to].bytes > bytes) continue;
        if (j != e->to && (nhop == 1 || !changes_one(e->l[at], e->l[j]))) continue;
        for (int r = 0; r < e->nrank; r++) fair &= (rest[r] = left[r] - hop->received[r]) >= 0;
        if (!fair) continue;
        if (j == e->to)
            e->best = ns + hop->ns;
        else
            go_through(e, j, nhop - 1, ns + hop->ns, bytes - hop->bytes, rest);
    }
}

static bool is_hop(const struct layout *from, const struct layout *to);
static double hop_ns(const struct type *t, const struct layout *from, const struct layout *to,
                     const struct box_cost *c);

static void
fill_hops(const struct type *t, const struct layout *const *l, int n, const struct box_cost *c)
{
    memset(hops, 0, sizeof hops);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            hops[i][j].ns = INFINITY;
            if (!is_hop(l[i], l[j])) continue;
            hops[i][j].ns = hop_ns(t, l[i], l[j], c);
            hops[i][j].bytes = count_received(t, l[i], l[j], hops[i][j].received);
        }
}

/* Checks that the best candidate costs no more than the best path over the layouts of a list. Tries even and
 * uneven shards, and every step-th pair of layouts; a share of the shapes and costs. On four axes, tensors have one
 * dimension. */
static void
none_is_passed_over(const struct place *p, const struct layout *const *l, int n, int step, const char *what)
{
    static const int64_t shape[][2] = {{4, 4}, {3, 5}, {10, 3}, {1, 7}, {1, 1}, {2, 6}, {5, 12}, {16, 3}, {64}, {50}};
    static const struct box_cost costs[] = {{.alpha_ns = 150, .beta_ns_per_byte = 0.06, .hop_ns = 600},
                                            {.alpha_ns = 50, .beta_ns_per_byte = 1, .gamma_ns_per_byte = 1},
                                            {.alpha_ns = 1e6, .beta_ns_per_byte = 0.1},
                                            {.beta_ns_per_byte = 1, .copy_ns_per_byte = 1, .hop_ns = 1}};
    int before = nwrong, compared = 0;
    for (size_t k = 0; k < countof(shape) * countof(costs); k++) {
        const int64_t *dim = shape[k / countof(costs)];
        struct type t = type_of(DT_F32, dim[1] ? 2 : 1, dim);
        const struct box_cost *c = &costs[k % countof(costs)];
        if ((t.ndim == 1) != (p->naxis == 4) || !share_next()) continue;
        fill_hops(&t, l, n, c);
        for (int pair = (int)k % step; pair < n * n; pair += step) {
            int i = pair / n, j = pair % n;
            struct ends e = {l, n, p->nrank, j, INFINITY};
            struct box_path *found;
            if (hops[i][j].ns == INFINITY || (p->naxis == 3 && layout_has_partial(l[j]))) continue;
            arena_reset(&arena);
            go_through(&e, i, 2 * p->naxis, 0, hops[i][j].bytes, hops[i][j].received);
            if (box_path(&arena, atlas, &t, l[i], l[j], c, &found)) diag("%s", err_text());
            compared++;
            if (found->candidate[0].ns > e.best * (1 + 1e-9)) complain("a cheaper path", &t, l[i], l[j], found);
        }
    }
    ok(nwrong == before && covered(compared > 0), "%s (%d pairs)", what, compared);
}

/* Lists the layouts of a tensor of ndim dimensions in which mesh axes that split the same dimension do so in mesh
 * order. Returns their number. */
static int
in_mesh_order(const struct place *p, int ndim, const struct layout **out)
{
    int n = 1, entries = ndim + 2;
    for (int a = 0; a < p->naxis; a++) n *= entries;
    for (int k = 0; k < n; k++) {
        struct sbp sbp[MAX_AXIS];
        for (int a = 0, rest = k; a < p->naxis; a++, rest /= entries) sbp[a] = entry(rest % entries, ndim, RED_SUM);
        if (layout_new(atlas, p, sbp, NULL, &out[k])) diag("%s", err_text());
    }
    return n;
}

static void
no_way_is_passed_over(const struct place *square, const struct place *six, const struct place *cube,
                      const struct place *four)
{
    const struct layout *l[MANY];
    bool all = getenv("RILLE_LONG");
    none_is_passed_over(square, l, every_layout(square, l), 1, "2 x 2: no path that sends no rank more is cheaper");
    none_is_passed_over(six, l, every_layout(six, l), 1, "2 x 3: no path that sends no rank more is cheaper");
    none_is_passed_over(cube, l, in_mesh_order(cube, 2, l), all ? 1 : 13,
                        "2 x 2 x 2: no path over layouts in mesh order, to a layout without P, is cheaper");
    none_is_passed_over(four, l, in_mesh_order(four, 1, l), all ? 11 : 79,
                        "2 x 2 x 2 x 2: no path over layouts in mesh order is cheaper");
}

/* ---- swapping mesh axes of equal size ---- */

static const struct box_candidate *
best(const struct type *t, const struct layout *from, const struct layout *to, const struct box_cost *c)
{
    struct box_path *p;
    if (box_path(&arena, atlas, t, from, to, c, &p)) diag("%s", err_text());
    return &p->candidate[0];
}

/* Returns the layout on a mesh whose axes are permuted by `swap`. */
static const struct layout *
swapped(const struct layout *l, const int *swap)
{
    struct sbp sbp[MAX_AXIS];
    uint8_t order[MAX_AXIS];
    const struct layout *out;
    for (int i = 0; i < l->place->naxis; i++) {
        sbp[swap[i]] = l->sbp[i];
        order[i] = (uint8_t)swap[l->order[i]];
    }
    if (layout_new(atlas, l->place, sbp, order, &out)) diag("%s", err_text());
    return out;
}

/* Returns true if the hop makes no value partial. box_path may use no other hops. */
static bool
is_hop(const struct layout *from, const struct layout *to)
{
    for (int a = 0; a < to->place->naxis; a++)
        if (to->sbp[a].kind == SBP_P && from->sbp[a].kind != SBP_P) return false;
    return from != to;
}

static double
hop_ns(const struct type *t, const struct layout *from, const struct layout *to, const struct box_cost *c)
{
    struct box_cost alone = *c;
    alone.staging_bytes = 1;
    arena_reset(&arena);
    return best(t, from, to, &alone)->ns;
}

/* Checks that the price of a hop stays the same if two mesh axes of equal size are swapped in both of its layouts. */
static void
equal_axes(int naxis, const int32_t *axis, const int64_t *shape)
{
    static const struct layout *list[1296];
    static const struct box_cost costs[] = {
        {.alpha_ns = 1}, {.beta_ns_per_byte = 1}, {.gamma_ns_per_byte = 1}, {.copy_ns_per_byte = 1}};
    int32_t rank[64];
    int ncompared = 0, differ = 0;
    for (int i = 0; i < 64; i++) rank[i] = i;
    const struct place *p = place(naxis, axis, rank);
    struct type t = type_of(DT_F32, 2, shape);
    int n = in_mesh_order(p, 2, list), step = getenv("RILLE_LONG") ? 1 : naxis == 4 ? 97 : 3;
    for (int k = 0; k < n * n; k += step)
        for (int a = 0; a < naxis; a++)
            for (int b = 0; b < a; b++) {
                const struct layout *from = list[k / n], *to = list[k % n];
                int swap[MAX_AXIS] = {0, 1, 2, 3, 4, 5};
                if (axis[a] != axis[b] || !is_hop(from, to)) continue;
                swap[a] = b;
                swap[b] = a;
                ncompared++;
                for (size_t c = 0; c < countof(costs); c++)
                    if (hop_ns(&t, from, to, &costs[c]) !=
                        hop_ns(&t, swapped(from, swap), swapped(to, swap), &costs[c]))
                        differ++;
            }
    ok(differ == 0 && covered(ncompared > 0),
       "on %d axes, the first of %d, a hop of %d x %d costs the same when equal axes are swapped (%d)", naxis,
       (int)axis[0], (int)shape[0], (int)shape[1], ncompared);
}

/* ---- paths that beat the direct exchange ---- */

static void
what_wins(void)
{
    const struct place *p =
        place(2, (int32_t[]){4, 4}, (int32_t[]){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15});
    struct type t = type_of(DT_F32, 2, (int64_t[]){64, 64});
    struct box_cost c = {.alpha_ns = 1000, .beta_ns_per_byte = 0.1};
    const struct box_candidate *b = best(&t, layout(p, "(S(0), S(1))"), layout(p, "(B, B)"), &c);
    ok(b->nhop == 2 && !strcmp(b->hop[0].name, "all-gather"),
       "with expensive messages, 4 x 4 ranks gather axis by axis");
    ok(b->ns == 6000 + 0.1 * 15 * 1024, "the price is that of 3 + 3 messages and 15/16 of the bytes");
    c.staging_bytes = 2048;
    b = best(&t, layout(p, "(S(0), S(1))"), layout(p, "(B, B)"), &c);
    ok(b->nhop == 1, "a staging limit below a gathered row leaves the direct exchange");
    c.alpha_ns = 0;
    b = best(&t, layout(p, "(S(0), S(1))"), layout(p, "(B, B)"), &c);
    ok(b->nhop == 1, "with free messages, the direct exchange is chosen");
    b = best(&t, layout(p, "(S(0), S(1))"), layout(p, "(S(1), S(0))"), &cost);
    ok(b->nhop == 1 && !strcmp(b->hop[0].name, "all-to-all"), "a cyclic swap is never gathered");
    int32_t rank[64];
    for (int i = 0; i < 64; i++) rank[i] = i;
    const struct place *six = place(6, (int32_t[]){2, 2, 2, 2, 2, 2}, rank);
    t = type_of(DT_F32, 2, (int64_t[]){4096, 1024});
    c = (struct box_cost){.alpha_ns = 150, .beta_ns_per_byte = 0.06, .gamma_ns_per_byte = 0.1, .hop_ns = 600};
    clock_t begin = clock();
    b = best(&t, layout(six, "(P, P, P, P, P, P)"), layout(six, "(B, B, B, B, B, B)"), &c);
    ok(b->nhop == 1 && clock() - begin < 10 * CLOCKS_PER_SEC,
       "an all-reduce over six axes is one hop, found without visiting the 25,000 layouts on paths of equal bytes");
    t = type_of(DT_F32, 2, (int64_t[]){64, 64});
    begin = clock();
    b = best(&t, layout(six, "(P, P, P, P, P, P)"), layout(six, "(B, B, B, B, B, B)"), &c);
    ok(b->nhop == 9 && fabs(b->ns - 12862.16) < 1e-6 && clock() - begin < 2 * CLOCKS_PER_SEC,
       "for a small sum nine hops are cheapest, found without visiting all 25,000 layouts");
    static const int64_t uneven[][2] = {{10, 3}, {2, 3}, {12, 11}, {67, 10}, {1, 64}, {64, 65}};
    begin = clock();
    for (size_t k = 0; k < countof(uneven); k++) {
        t = type_of(DT_F32, 2, uneven[k]);
        b = best(&t, layout(six, "(P, P, P, P, P, P)"), layout(six, "(B, B, B, B, B, B)"), &c);
        ok(b->nhop == (k < 4 ? 1 : 9), "%d x %d: %s", (int)uneven[k][0], (int)uneven[k][1],
           k < 4 ? "several hops would send some rank more" : "nine hops split the dimension that divides evenly");
    }
    ok(clock() - begin < 3 * CLOCKS_PER_SEC, "uneven shapes are searched without following all paths to their end");
    struct box_path *refused;
    is_int(box_path(&arena, atlas, &t, layout(p, "(P, B)"), layout(p, "(P(max), B)"), &cost, &refused), E_SBP,
           "P -> P(max) is refused");
}

int
main(void)
{
    int n = getenv("RILLE_LONG") ? 20 : 1;
    int32_t up[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    seed = seed_of(54);
    atlas = atlas_new();
    const struct place *line = place(1, (int32_t[]){4}, up), *square = place(2, (int32_t[]){2, 2}, up);
    const struct place *six = place(2, (int32_t[]){2, 3}, up), *cube = place(3, (int32_t[]){2, 2, 2}, up);
    const struct place *four = place(4, (int32_t[]){2, 2, 2, 2}, up);
    if (share_next()) draw_pairs(line, line, 300 * n, "on 4 ranks");
    if (share_next()) draw_pairs(square, square, 500 * n, "on 2 x 2");
    if (share_next()) draw_pairs(six, six, 500 * n, "on 2 x 3");
    if (share_next()) draw_pairs(cube, cube, 500 * n, "on 2 x 2 x 2");
    if (share_next()) draw_pairs(four, four, 50 * n, "on 2 x 2 x 2 x 2");
    if (share_next()) draw_pairs(line, place(1, (int32_t[]){4}, up + 4), 300 * n, "from 4 ranks to 4 other ranks");
    if (share_next())
        draw_pairs(square, place(2, (int32_t[]){2, 2}, up + 2), 300 * n, "from 2 x 2 to 2 x 2 that overlap");
    if (share_next()) draw_pairs(six, place(1, (int32_t[]){4}, up + 1), 300 * n, "from 2 x 3 to 4 of its ranks");
    if (share_next()) draw_pairs(line, square, 300 * n, "from 4 to 2 x 2 on the same ranks");
    if (share_next())
        no_sequence_is_kinder(line, "4 ranks: no sequence with as few bytes sends less to its busiest rank");
    if (share_next())
        no_sequence_is_kinder(square, "2 x 2: no sequence with as few bytes sends less to its busiest rank");
    if (share_next()) no_sequence_is_kinder(six, "2 x 3: no sequence with as few bytes sends less to its busiest rank");
    no_way_is_passed_over(square, six, cube, four);
    if (share_next()) equal_axes(2, (int32_t[]){3, 3}, (int64_t[]){9, 18});
    if (share_next()) equal_axes(3, (int32_t[]){2, 2, 2}, (int64_t[]){16, 8});
    if (share_next()) equal_axes(3, (int32_t[]){2, 3, 2}, (int64_t[]){12, 24});
    if (share_next()) equal_axes(4, (int32_t[]){2, 2, 2, 2}, (int64_t[]){16, 32});
    what_wins();
    arena_fini(&arena);
    atlas_free(&atlas);
    return done();
}
