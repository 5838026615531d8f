/* path.c - tests that every candidate path of box_path makes the move correctly, and sends no rank more than the
 * direct exchange.
 *
 * On small meshes the test runs the hops of each candidate, compares the result with the combined addends, and adds
 * up the received bytes per rank. On up to three axes, also with uneven shards, a full search over all such paths
 * checks that the best candidate is the cheapest. On four axes box_path prunes layouts that cannot be on a cheapest
 * path; there the best candidate is compared with all paths over layouts in mesh order. Finally all hops on small
 * meshes show that axes of equal size may be exchanged. RILLE_LONG=1 draws twenty times as many pairs. */
#include "boxing/path.h"
#include "t/lib/moves.h"
#include "t/oracles/box_apply.h"

#include <math.h>
#include <time.h>

static struct arena arena;
static const struct box_cost cost = {.alpha_ns = 500, .beta_ns_per_byte = 10, .gamma_ns_per_byte = 3};

/* ---- values ---- */

/* Returns element e of the i-th addend. */
static int64_t
addend_value(int i, int64_t e)
{
    return (e * 31 + i * 17) % 100 - 40;
}

static int
addend_at(const struct layout *l, int pos, int *n)
{
    int32_t coord[MAX_AXIS];
    int i = 0;
    *n = 1;
    place_coord(l->place, pos, coord);
    for (int a = 0; a < l->place->naxis; a++) {
        if (l->sbp[a].kind != SBP_P) continue;
        i = i * l->place->axis[a] + coord[a];
        *n *= l->place->axis[a];
    }
    return i;
}

/* Makes the shards of all positions; each shard is a slice of its position's addend. */
static void **
sources_new(const struct layout *l, const struct type *t)
{
    void **part = parts_new(l, t, 0);
    int64_t *whole = calloc((size_t)type_numel(t) + 1, sizeof *whole);
    for (int pos = 0; pos < l->place->nrank; pos++) {
        struct box box, all = {{0}, {0}};
        struct type local = layout_shard(l, t, pos);
        int n, i = addend_at(l, pos, &n);
        for (int64_t e = 0; e < type_numel(t); e++) whole[e] = addend_value(i, e);
        memcpy(all.hi, t->dim, sizeof all.hi);
        layout_box(l, t, pos, &box);
        struct view from = box_slice(t, l, &all, whole, &box), to = view_dense(&local, part[pos]);
        view_copy(&to, &from);
    }
    free(whole);
    return part;
}

static int64_t
want(const struct layout *from, int64_t e)
{
    int n;
    addend_at(from, 0, &n);
    enum reduce r = n > 1 ? layout_partial(from) : RED_NONE;
    int64_t v = addend_value(0, e);
    for (int i = 1; i < n; i++) {
        int64_t x = addend_value(i, e);
        v = r == RED_MAX ? MAX(v, x) : r == RED_MIN ? MIN(v, x) : v + x;
    }
    return v;
}

/* Makes one more move. Returns the new shards and frees the old ones. */
static void **
moved(const struct type *t, const struct layout *from, void **part, const struct layout *to)
{
    struct box_plan *p;
    void **next = parts_new(to, t, 0);
    if (box_plan(&arena, t, from, to, &p)) diag("%s", err_text());
    box_apply(p, part, next);
    parts_free(part, from);
    return next;
}

static bool
values_are_right(const struct type *t, const struct layout *from, const struct box_candidate *c)
{
    const struct layout *one = layout(place(1, (int32_t[]){1}, (int32_t[]){0}), "B"), *at = from;
    void **part = sources_new(from, t);
    bool right = true;
    for (int k = 0; k < c->nhop; k++) {
        right &= c->hop[k].from == at;
        part = moved(t, at, part, c->hop[k].to);
        at = c->hop[k].to;
    }
    part = moved(t, at, part, one);
    for (int64_t e = 0; e < type_numel(t); e++) right &= ((int64_t *)part[0])[e] == want(from, e);
    parts_free(part, one);
    return right;
}

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

/* Prints a line per candidate: its hops with names, bytes and price. */
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
    type_print(t, &s);
    str_add(&s, " ");
    layout_print(from, &s);
    str_add(&s, " -> ");
    layout_print(to, &s);
    str_add(&s, "\n");
    print_path(p, &s);
    diag("%s: %s", what, str_text(&s));
    str_free(&s);
}

static bool
ends_meet(const struct box_candidate *c, const struct layout *from, const struct layout *to)
{
    return c->hop[0].from == from && c->hop[c->nhop - 1].to == to;
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
        if (!ends_meet(c, from, to) || !values_are_right(t, from, c)) complain("values", t, from, to, p);
        if (!sends_nobody_more(t, from, to, c)) complain("bytes", t, from, to, p);
        if (i > 0 && c->ns < c[-1].ns) complain("order", t, from, to, p);
    }
    if (!direct) complain("no direct exchange", t, from, to, p);
}

static const struct layout *
draw_layout(const struct place *p, int ndim, enum reduce r)
{
    struct sbp sbp[MAX_AXIS];
    const struct layout *l;
    for (int a = 0; a < p->naxis; a++) sbp[a] = entry((int)(next_random(&seed) % (uint64_t)(ndim + 2)), ndim, r);
    if (layout_new(atlas, p, sbp, NULL, &l)) diag("%s", err_text());
    return l;
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

/* ---- the busiest rank ---- */

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

/* Returns the most bytes that a rank receives on the path i, x, y, j of layouts; -1 if the path sends more than the
 * minimum in total. */
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

/* Tries all sequences of up to three moves that send the minimum of bytes in total. (A move to the same layout is no
 * move.) */
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

/* ---- cheapest path on few axes, by full search ---- */

enum { MANY = 64, EIGHT = 8 };
static struct hop {
    double ns; /* price of the hop, ns; INFINITY: the hop makes something partial */
    int64_t bytes, received[EIGHT];
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

/* Searches all paths from layout `at` that send the minimum of bytes. left: bytes that each rank may still receive. */
static void
go_through(struct ends *e, int at, int nhop, double ns, int64_t bytes, const int64_t *left)
{
    for (int j = 0; j < e->n; j++) {
        const struct hop *hop = &hops[at][j];
        int64_t rest[EIGHT];
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

/* Checks, for shapes with uneven shards, that the best candidate costs no more than the best path over the layouts
 * of a list. Tries every step-th pair. */
static void
none_is_passed_over(const struct place *p, const struct layout *const *l, int n, int step, const char *what)
{
    static const int64_t shape[][2] = {{4, 4}, {3, 5}, {10, 3}, {1, 7}, {1, 1}, {2, 6}, {5, 12}, {16, 3}};
    static const struct box_cost costs[] = {{.alpha_ns = 150, .beta_ns_per_byte = 0.06, .hop_ns = 600},
                                            {.alpha_ns = 50, .beta_ns_per_byte = 1, .gamma_ns_per_byte = 1}};
    int before = nwrong, compared = 0;
    for (size_t k = 0; k < countof(shape) * countof(costs); k++) {
        struct type t = type_of(DT_F32, 2, shape[k / countof(costs)]);
        const struct box_cost *c = &costs[k % countof(costs)];
        fill_hops(&t, l, n, c);
        for (int pair = (int)k % step; pair < n * n; pair += step) {
            int i = pair / n, j = pair % n;
            struct ends e = {l, n, p->nrank, j, INFINITY};
            struct box_path *found;
            if (hops[i][j].ns == INFINITY || (p->naxis > 2 && layout_has_partial(l[j]))) continue;
            arena_reset(&arena);
            go_through(&e, i, 2 * p->naxis, 0, hops[i][j].bytes, hops[i][j].received);
            if (box_path(&arena, atlas, &t, l[i], l[j], c, &found)) diag("%s", err_text());
            compared++;
            if (found->candidate[0].ns > e.best * (1 + 1e-9)) complain("a cheaper path", &t, l[i], l[j], found);
        }
    }
    ok(nwrong == before && covered(compared > 0), "%s (%d pairs)", what, compared);
}

static void
no_way_is_passed_over(const struct place *square, const struct place *six, const struct place *cube)
{
    const struct layout *l[MANY];
    none_is_passed_over(square, l, every_layout(square, l), 1, "2 x 2: no path that sends no rank more is cheaper");
    none_is_passed_over(six, l, every_layout(six, l), 1, "2 x 3: no path that sends no rank more is cheaper");
    for (int k = 0; k < MANY; k++) {
        struct sbp sbp[MAX_AXIS] = {entry(k % 4, 2, RED_SUM), entry(k / 4 % 4, 2, RED_SUM), entry(k / 16, 2, RED_SUM)};
        if (layout_new(atlas, cube, sbp, NULL, &l[k])) diag("%s", err_text());
    }
    none_is_passed_over(cube, l, MANY, getenv("RILLE_LONG") ? 1 : 7,
                        "2 x 2 x 2: no path over layouts in mesh order, to a layout without P, is cheaper");
}

/* ---- cheapest path on many axes ---- */

/* Layouts of a one-dimensional tensor on a mesh 2 x 2 x 2 x 2. The digits of k in base ENTRIES are the SBP entries
 * of layout k. */
enum { AXES = 4, ENTRIES = 3, ALL = 81, HOPS = 8 };
static const struct layout *all[ALL];
static double direct[ALL][ALL]; /* price of the direct exchange, ns; 0: not computed yet */

struct route {
    double ns;
    int before; /* layout before the last hop */
};

/* Returns the layout with one entry changed to S(0) or B; -1 if the entry already has this value. */
static int
changed(int k, int axis, int to)
{
    static const int power[AXES] = {1, 3, 9, 27};
    int was = k / power[axis] % ENTRIES;
    return was == to ? -1 : k + (to - was) * power[axis];
}

/* Returns the price of the direct exchange. Excludes other paths by a staging limit of one byte. */
static double
direct_ns(const struct type *t, const struct box_cost *c, int i, int j)
{
    struct box_cost alone = *c;
    struct box_path *p;
    if (direct[i][j] > 0) return direct[i][j];
    alone.staging_bytes = 1;
    if (box_path(&arena, atlas, t, all[i], all[j], &alone, &p)) diag("%s", err_text());
    return direct[i][j] = p->candidate[0].ns;
}

/* Adds a hop from i to j, if j lies on a path with the minimum of bytes. */
static void
relax(const struct type *t, const struct box_cost *c, int from, int to, int i, int j, const struct route *at,
      struct route *next)
{
    int64_t bytes = box_bytes(t, all[from], all[i]) + box_bytes(t, all[i], all[j]) + box_bytes(t, all[j], all[to]);
    if (i == j || bytes > box_bytes(t, all[from], all[to])) return;
    double ns = at[i].ns + direct_ns(t, c, i, j);
    if (ns < next[j].ns) next[j] = (struct route){ns, i};
}

/* Returns the cheapest path of at most HOPS hops, in which every hop except the last changes one entry of the layout.
 */
static struct box_candidate
cheapest(const struct type *t, const struct box_cost *c, int from, int to)
{
    static struct route at[HOPS + 1][ALL];
    int last = 1;
    for (int k = 0; k <= HOPS; k++)
        for (int i = 0; i < ALL; i++) at[k][i] = (struct route){INFINITY, -1};
    at[0][from].ns = 0;
    for (int k = 0; k < HOPS; k++)
        for (int i = 0; i < ALL; i++) {
            if (at[k][i].ns == INFINITY || i == to) continue;
            for (int axis = 0; axis < AXES; axis++)
                for (int e = 0; e < 2; e++)
                    if (changed(i, axis, e) >= 0) relax(t, c, from, to, i, changed(i, axis, e), at[k], at[k + 1]);
            relax(t, c, from, to, i, to, at[k], at[k + 1]);
        }
    for (int k = 1; k <= HOPS; k++)
        if (at[k][to].ns < at[last][to].ns) last = k;
    struct box_candidate route = {.nhop = last, .ns = at[last][to].ns, .bytes = box_bytes(t, all[from], all[to])};
    route.hop = ARENA_ARRAY(&arena, struct box_hop, last);
    for (int k = last, i = to; k > 0; i = at[k--][i].before)
        route.hop[k - 1] = (struct box_hop){.from = all[at[k][i].before], .to = all[i]};
    return route;
}

static void
nothing_is_cheaper(int n)
{
    static const struct box_cost costs[] = {{.alpha_ns = 500, .beta_ns_per_byte = 10, .gamma_ns_per_byte = 3},
                                            {.alpha_ns = 1e6, .beta_ns_per_byte = 0.1},
                                            {.alpha_ns = 100, .beta_ns_per_byte = 1, .hop_ns = 300},
                                            {.beta_ns_per_byte = 1, .copy_ns_per_byte = 1, .hop_ns = 1}};
    int32_t rank[16];
    for (int i = 0; i < 16; i++) rank[i] = i;
    const struct place *p = place(AXES, (int32_t[]){2, 2, 2, 2}, rank);
    for (int k = 0; k < ALL; k++) {
        struct sbp sbp[MAX_AXIS];
        for (int a = 0, rest = k; a < AXES; a++, rest /= ENTRIES) sbp[a] = entry(rest % ENTRIES, 1, RED_SUM);
        if (layout_new(atlas, p, sbp, NULL, &all[k])) diag("%s", err_text());
    }
    for (size_t k = 0; k < countof(costs); k++) {
        struct type t = type_of(DT_F32, 1, (int64_t[]){k % 2 ? 50 : 64});
        int before = nwrong, compared = 0, longest = 0;
        memset(direct, 0, sizeof direct);
        for (int i = 0; i < n; i++) {
            int from = (int)(next_random(&seed) % ALL), to = (int)(next_random(&seed) % ALL);
            struct box_path *found;
            arena_reset(&arena);
            if (from == to) continue;
            struct box_candidate route = cheapest(&t, &costs[k], from, to);
            if (!sends_nobody_more(&t, all[from], all[to], &route)) continue;
            if (box_path(&arena, atlas, &t, all[from], all[to], &costs[k], &found)) diag("%s", err_text());
            compared++;
            longest = MAX(longest, route.nhop);
            if (found->candidate[0].ns > route.ns * (1 + 1e-9))
                complain("a cheaper path", &t, all[from], all[to], found);
        }
        ok(nwrong == before && compared > n / 4,
           "2 x 2 x 2 x 2: no path is cheaper (costs %d: %d pairs, up to %d hops)", (int)k, compared, longest);
    }
}

/* ---- axes of one size ---- */

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

/* Returns true if box_path may use the hop: it makes nothing partial. */
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

/* Swaps two mesh axes of equal size in all hops, and checks that the price stays the same if the shards do. */
static void
equal_axes(int naxis, const int32_t *axis, const int64_t *shape)
{
    static const struct layout *list[1296];
    static const struct box_cost costs[] = {
        {.alpha_ns = 1}, {.beta_ns_per_byte = 1}, {.gamma_ns_per_byte = 1}, {.copy_ns_per_byte = 1}};
    int32_t rank[64];
    int n = 0, ncompared = 0, differ = 0;
    for (int i = 0; i < 64; i++) rank[i] = i;
    const struct place *p = place(naxis, axis, rank);
    struct type t = type_of(DT_F32, 2, shape);
    int nlayout = 1 << 2 * naxis, step = getenv("RILLE_LONG") ? 1 : naxis == 4 ? 97 : 3;
    for (int k = 0; k < nlayout; k++) {
        struct sbp sbp[MAX_AXIS];
        for (int a = 0; a < naxis; a++) sbp[a] = entry(k >> 2 * a & 3, 2, RED_SUM);
        if (layout_new(atlas, p, sbp, NULL, &list[n++])) diag("%s", err_text());
    }
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
    if (share_next()) draw_pairs(line, line, 300 * n, "on 4 ranks");
    if (share_next()) draw_pairs(square, square, 500 * n, "on 2 x 2");
    if (share_next()) draw_pairs(six, six, 500 * n, "on 2 x 3");
    if (share_next()) draw_pairs(cube, cube, 500 * n, "on 2 x 2 x 2");
    if (share_next())
        draw_pairs(place(4, (int32_t[]){2, 2, 2, 2}, up), place(4, (int32_t[]){2, 2, 2, 2}, up), 50 * n,
                   "on 2 x 2 x 2 x 2");
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
    no_way_is_passed_over(square, six, cube);
    nothing_is_cheaper(60 * n);
    if (share_next()) equal_axes(2, (int32_t[]){3, 3}, (int64_t[]){9, 18});
    if (share_next()) equal_axes(3, (int32_t[]){2, 2, 2}, (int64_t[]){16, 8});
    if (share_next()) equal_axes(3, (int32_t[]){2, 3, 2}, (int64_t[]){12, 24});
    if (share_next()) equal_axes(4, (int32_t[]){2, 2, 2, 2}, (int64_t[]){16, 32});
    what_wins();
    arena_fini(&arena);
    atlas_free(&atlas);
    return done();
}
