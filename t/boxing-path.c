/* boxing-path.c - every candidate of box_path is a right way to make the move, and none sends a rank more.
 *
 * On small meshes the hops of each candidate are carried out one after the
 * other and the whole is compared with the combined addends. Received bytes are
 * added up rank by rank. RILLE_LONG=1 draws twenty times as many pairs. */
#include "boxing/path.h"
#include "runtime/error.h"
#include "t/tap.h"

static struct atlas *atlas;
static struct arena arena;
static uint64_t seed;
static const struct box_cost cost = {.alpha_ns = 500, .beta_ns_per_byte = 10, .gamma_ns_per_byte = 3};

static const struct place *
place(int naxis, const int32_t *axis, const int32_t *rank)
{
    const struct place *p;
    if (place_new(atlas, 0, naxis, axis, rank, &p)) diag("%s", err_text());
    return p;
}

static const struct layout *
layout(const struct place *p, const char *text)
{
    const struct layout *l;
    if (layout_parse(atlas, p, text, -1, &l)) diag("%s", err_text());
    return l;
}

/* ---- values ---- */

/* Element e of addend i. */
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

static void **
parts_new(const struct layout *l, const struct type *t)
{
    void **part = calloc((size_t)l->place->nrank, sizeof *part);
    for (int pos = 0; pos < l->place->nrank; pos++) {
        struct type local = layout_shard(l, t, pos);
        part[pos] = calloc(1, (size_t)type_bytes(&local) + 1);
    }
    return part;
}

static void
parts_free(void **part, const struct layout *l)
{
    for (int pos = 0; pos < l->place->nrank; pos++) free(part[pos]);
    free(part);
}

/* Each position its slice of its addend. */
static void **
sources_new(const struct layout *l, const struct type *t)
{
    void **part = parts_new(l, t);
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

/* Parts after one more move. Frees those before. */
static void **
moved(const struct type *t, const struct layout *from, void **part, const struct layout *to)
{
    struct box_plan *p;
    void **next = parts_new(to, t);
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

/* ---- pairs ---- */

static int nwrong, npair, ncandidate;

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
    box_path_print(p, &s);
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

/* The dimensions, then B, then P. */
static struct sbp
entry(int k, int ndim, enum reduce r)
{
    if (k < ndim) return (struct sbp){.kind = SBP_S, .axis = (uint8_t)k};
    if (k == ndim) return (struct sbp){.kind = SBP_B};
    return (struct sbp){.kind = SBP_P, .reduce = (uint8_t)r};
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

enum { MAX_LAYOUT = 20, RANKS = 6 };

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

static int64_t received[MAX_LAYOUT][MAX_LAYOUT][RANKS];

/* The most that a rank receives on the way from i to j over x and y; -1 when the way sends more than the least. */
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

/* Over all sequences of three moves (or fewer: a move to the same layout is none) that send no more in total. */
static void
no_sequence_is_kinder(const struct place *p, const char *what)
{
    const struct layout *l[MAX_LAYOUT];
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
            for (int way = 0; way < n * n; way++) {
                int64_t most = busiest(i, way / n, way % n, j);
                nway += most >= 0;
                worse += most >= 0 && most < busiest(i, j, j, j);
            }
    is_int(worse, 0, what);
    diag("%d layouts, %d sequences", n, nway);
}

/* ---- what wins ---- */

static const struct box_candidate *
best(const struct type *t, const struct layout *from, const struct layout *to, const struct box_cost *c)
{
    struct box_path *p;
    if (box_path(&arena, atlas, t, from, to, c, &p)) diag("%s", err_text());
    return &p->candidate[0];
}

static void
what_wins(void)
{
    const struct place *p =
        place(2, (int32_t[]){4, 4}, (int32_t[]){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15});
    struct type t = type_of(DT_F32, 2, (int64_t[]){64, 64});
    struct box_cost c = {.alpha_ns = 1000, .beta_ns_per_byte = 0.1};
    const struct box_candidate *b = best(&t, layout(p, "(S(0), S(1))"), layout(p, "(B, B)"), &c);
    ok(b->nhop == 2 && !strcmp(b->hop[0].name, "all-gather"),
       "where messages are dear, 4 x 4 ranks gather axis by axis");
    ok(b->ns == 6000 + 0.1 * 15 * 1024, "at the price of 3 + 3 messages and 15 sixteenths of the bytes");
    c.staging_bytes = 2048;
    b = best(&t, layout(p, "(S(0), S(1))"), layout(p, "(B, B)"), &c);
    ok(b->nhop == 1, "a staging limit below a gathered row leaves the direct exchange");
    c.alpha_ns = 0;
    b = best(&t, layout(p, "(S(0), S(1))"), layout(p, "(B, B)"), &c);
    ok(b->nhop == 1, "where messages are free, one hop does it");
    b = best(&t, layout(p, "(S(0), S(1))"), layout(p, "(S(1), S(0))"), &cost);
    ok(b->nhop == 1 && !strcmp(b->hop[0].name, "all-to-all"), "a cyclic swap is never gathered");
    struct box_path *refused;
    is_int(box_path(&arena, atlas, &t, layout(p, "(P, B)"), layout(p, "(P(max), B)"), &cost, &refused), E_SBP,
           "P -> P(max) is refused here too");
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
    draw_pairs(line, line, 300 * n, "on 4 ranks");
    draw_pairs(square, square, 500 * n, "on 2 x 2");
    draw_pairs(six, six, 500 * n, "on 2 x 3");
    draw_pairs(cube, cube, 500 * n, "on 2 x 2 x 2");
    draw_pairs(line, place(1, (int32_t[]){4}, up + 4), 300 * n, "from 4 ranks to 4 others");
    draw_pairs(square, place(2, (int32_t[]){2, 2}, up + 2), 300 * n, "from 2 x 2 to 2 x 2 that overlap");
    draw_pairs(six, place(1, (int32_t[]){4}, up + 1), 300 * n, "from 2 x 3 to 4 of them");
    draw_pairs(line, square, 300 * n, "from 4 to 2 x 2 of the same");
    no_sequence_is_kinder(line, "on 4 ranks no sequence that sends as little is kinder to its busiest rank");
    no_sequence_is_kinder(square, "nor on 2 x 2");
    no_sequence_is_kinder(six, "nor on 2 x 3");
    what_wins();
    arena_fini(&arena);
    atlas_free(&atlas);
    return done();
}
