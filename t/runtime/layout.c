/* layout.c - tests of placements and layouts: shards, interning, and text.
 *
 * Most tests enumerate the SBP entries, meshes and orders of small sizes. */
#include "runtime/device/device.h"
#include "runtime/base/error.h"
#include "runtime/tensor/atlas.h"
#include "t/lib/tap.h"

static struct atlas *atlas;

static const struct {
    int naxis;
    int32_t axis[3];
} meshes[] = {
    {1, {1}},    {1, {2}},    {1, {3}},    {1, {4}},       {2, {1, 2}},
    {2, {2, 1}}, {2, {2, 2}}, {2, {2, 3}}, {3, {2, 1, 2}}, {3, {2, 2, 2}},
};
static const int64_t sizes[] = {0, 1, 2, 3, 4, 5, 6, 7, 12};

/* Returns a placement whose device numbers are unsorted and have gaps. Code that uses a device number as a mesh
 * position then fails. */
static const struct place *
place_of(size_t mesh)
{
    int32_t rank[8], n = 1;
    const struct place *p = NULL;
    for (int i = 0; i < meshes[mesh].naxis; i++) n *= meshes[mesh].axis[i];
    for (int i = 0; i < n; i++) rank[i] = 3 * ((i + 1) % n) + 1;
    int status = place_new(atlas, DEV_CPU, meshes[mesh].naxis, meshes[mesh].axis, rank, &p);
    assert(status == 0);
    return p;
}

/* Returns the SBP entry number e of a mesh axis: S(0), S(1), S(0, unit 2), B or P. */
enum { NENTRY = 5 };
static struct sbp
entry(int e)
{
    static const struct sbp all[NENTRY] = {{.kind = SBP_S},
                                           {.kind = SBP_S, .axis = 1},
                                           {.kind = SBP_S, .unit = 2},
                                           {.kind = SBP_B},
                                           {.kind = SBP_P, .reduce = RED_SUM}};
    return all[e];
}

static const uint8_t orders[4][6][3] = {
    {{0}},
    {{0}},
    {{0, 1}, {1, 0}},
    {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}},
};
static const int norder[4] = {1, 1, 2, 6};

/* Calls `visit` with every layout of two-dimensional tensors, on every mesh and with every order of mesh axes. */
typedef void visit_fn(const struct layout *l, const struct sbp *sbp, const uint8_t *order);
static void
each_layout(visit_fn *visit)
{
    for (size_t m = 0; m < countof(meshes); m++) {
        const struct place *p = place_of(m);
        int n = p->naxis, combinations = n == 1 ? NENTRY : n == 2 ? NENTRY * NENTRY : NENTRY * NENTRY * NENTRY;
        for (int c = 0; c < combinations; c++) {
            struct sbp sbp[3] = {entry(c % NENTRY), entry(c / NENTRY % NENTRY), entry(c / NENTRY / NENTRY)};
            for (int o = 0; o < norder[n]; o++) {
                const struct layout *l;
                if (layout_new(atlas, p, sbp, orders[n][o], &l) == 0) visit(l, sbp, orders[n][o]);
            }
        }
    }
}

/* ---- shards ---- */

static void
test_range(void)
{
    int wrong = 0;
    for (int64_t n = 0; n < 40; n++)
        for (int32_t unit = 0; unit < 6; unit++)
            for (int64_t parts = 1; parts < 12; parts++) {
                int64_t end = 0, block = unit && n % unit == 0 ? unit : 1, blocks = n / block;
                for (int64_t i = 0; i < parts; i++) {
                    int64_t lo, hi;
                    shard_range(n, unit, parts, i, &lo, &hi);
                    wrong += lo != end || hi - lo != (blocks / parts + (i < blocks % parts)) * block;
                    end = hi;
                }
                wrong += end != n;
            }
    is_int(wrong, 0, "shards are balanced and contiguous and end at n; the first n mod p have one unit more");
}

/* Returns true if mesh position pos holds the element. Computes this without the code under test, by applying the
 * splits one after the other. */
static bool
holds(const struct layout *l, const struct sbp *sbp, const uint8_t *order, const struct type *t, int pos, int64_t row,
      int64_t column)
{
    int64_t at[2] = {row, column}, size[2] = {t->dim[0], t->dim[1]};
    int32_t coord[MAX_AXIS];
    place_coord(l->place, pos, coord);
    for (int i = 0; i < l->place->naxis; i++) {
        int m = order[i], d = sbp[m].axis;
        if (sbp[m].kind != SBP_S) continue;
        int64_t unit = sbp[m].unit && size[d] % sbp[m].unit == 0 ? sbp[m].unit : 1;
        int64_t parts = l->place->axis[m], least = size[d] / unit / parts, longer = size[d] / unit % parts;
        int64_t first = 0, part = 0;
        while (part < coord[m]) first += (least + (part++ < longer)) * unit;
        size[d] = (least + (coord[m] < longer)) * unit;
        if (at[d] < first || at[d] >= first + size[d]) return false;
        at[d] -= first;
    }
    return true;
}

static int64_t boxes, wrong_boxes, wrong_shards, wrong_cover;

/* Compares each shard with holds(), element by element. Also checks that each element is stored once for each
 * coordinate of the mesh axes that do not split. */
static void
visit_shards_of(const struct layout *l, const struct sbp *sbp, const uint8_t *order, const struct type *t)
{
    int64_t copies = 1, held = 0;
    for (int i = 0; i < l->place->naxis; i++)
        if (sbp[i].kind != SBP_S) copies *= l->place->axis[i];
    for (int pos = 0; pos < l->place->nrank; pos++) {
        struct box box;
        struct type local = layout_shard(l, t, pos);
        layout_box(l, t, pos, &box);
        boxes++;
        held += box_numel(&box, 2);
        wrong_shards += type_numel(&local) != box_numel(&box, 2);
        for (int64_t i = 0; i < t->dim[0]; i++)
            for (int64_t j = 0; j < t->dim[1]; j++) {
                bool in_box = i >= box.lo[0] && i < box.hi[0] && j >= box.lo[1] && j < box.hi[1];
                wrong_boxes += in_box != holds(l, sbp, order, t, pos, i, j);
            }
    }
    wrong_cover += held != copies * type_numel(t);
}

static void
visit_shards(const struct layout *l, const struct sbp *sbp, const uint8_t *order)
{
    for (size_t i = 0; i < countof(sizes); i++)
        for (size_t j = i; j < MIN(i + 3, countof(sizes)); j++) {
            struct type t = type_of(DT_F32, 2, (int64_t[]){sizes[i], sizes[j]});
            visit_shards_of(l, sbp, order, &t);
        }
}

static void
test_shards(void)
{
    each_layout(visit_shards);
    diag("%lld boxes", (long long)boxes);
    is_int(wrong_boxes, 0, "a box has exactly the elements that remain after all splits, in every order");
    is_int(wrong_shards, 0, "a shard's type has the size of its box");
    is_int(wrong_cover, 0, "every element is stored once per coordinate of the axes that do not split");
}

/* ---- canonical form and interning ---- */

static int64_t wrong_same, wrong_order, layouts;

static bool
same_geometry(const struct layout *a, const struct layout *b)
{
    /* sizes for which different splits give different shards */
    struct type t = type_of(DT_F32, 2, (int64_t[]){11, 13});
    for (int pos = 0; pos < a->place->nrank; pos++) {
        struct box x, y;
        layout_box(a, &t, pos, &x);
        layout_box(b, &t, pos, &y);
        if (memcmp(&x, &y, sizeof x)) return false;
    }
    return true;
}

/* Returns true if `order` keeps the relative order of those axes of `given` that split the same dimension. */
static bool
keeps_cuts(const struct layout *l, const uint8_t *order, const uint8_t *given)
{
    int n = l->place->naxis, when[MAX_AXIS], was[MAX_AXIS];
    for (int i = 0; i < n; i++) when[order[i]] = i, was[given[i]] = i;
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++)
            if (l->sbp[a].kind == SBP_S && l->sbp[b].kind == SBP_S && l->sbp[a].axis == l->sbp[b].axis)
                if ((when[a] < when[b]) != (was[a] < was[b])) return false;
    return true;
}

static void
visit_canonical(const struct layout *l, const struct sbp *sbp, const uint8_t *order)
{
    int n = l->place->naxis;
    const uint8_t *least = NULL;
    /* tries the orders of n axes lexicographically, so the first one that fits is the least */
    for (int o = 0; o < norder[n]; o++) {
        const struct layout *other;
        bool keeps = keeps_cuts(l, orders[n][o], order);
        if (keeps && !least) least = orders[n][o];
        int status = layout_new(atlas, l->place, sbp, orders[n][o], &other);
        wrong_same += status != 0 || (other == l) != keeps;
        wrong_same += keeps && !same_geometry(other, l);
    }
    wrong_order += !least || memcmp(l->order, least, (size_t)n) != 0;
    layouts++;
}

static void
test_canonical(void)
{
    each_layout(visit_canonical);
    diag("%lld layouts", (long long)layouts);
    is_int(wrong_same, 0, "two orders give one layout exactly if axes that split the same dimension keep their order");
    is_int(wrong_order, 0, "the canonical order is the lexicographically first equivalent order");

    const struct place *p = place_of(1);
    const struct layout *a, *b;
    layout_new(atlas, p, &(struct sbp){.kind = SBP_B, .axis = 5, .reduce = RED_MAX, .unit = 3}, NULL, &a);
    ok(a == layout_broadcast(atlas, p), "fields that a kind does not use are cleared");
    layout_new(atlas, p, &(struct sbp){.kind = SBP_P, .reduce = RED_MAX}, NULL, &a);
    layout_new(atlas, p, &(struct sbp){.kind = SBP_P, .reduce = RED_MIN}, NULL, &b);
    ok(a != b && layout_partial(a) == RED_MAX && layout_has_partial(b), "P(max) and P(min) are different layouts");
}

/* ---- units that change nothing ---- */

static int64_t wrong_drop, wrong_kept, drops;

/* Drops the units of a layout for each size of the split dimension. The boxes must stay. A unit must go if the shards
 * of this axis and of the axes before it are equal. */
static void
visit_units(const struct layout *l, const struct sbp *sbp, const uint8_t *order)
{
    UNUSED(sbp);
    UNUSED(order);
    for (int64_t n = 0; n < 25; n++) {
        struct type t = type_of(DT_F32, 2, (int64_t[]){n, 5});
        struct sbp fewer[MAX_AXIS];
        const struct layout *plain;
        int64_t parts = 1;
        memcpy(fewer, l->sbp, sizeof fewer);
        layout_drop_units(l->place, &t, l->order, fewer);
        if (layout_new(atlas, l->place, fewer, l->order, &plain)) return;
        wrong_drop += plain != l && !layout_partial(l) && !layout_same_boxes(plain, l, &t);
        for (int i = 0; i < l->place->naxis; i++) {
            int a = l->order[i];
            if (l->sbp[a].kind != SBP_S || l->sbp[a].axis != 0) continue;
            parts *= l->place->axis[a];
            wrong_kept += n % (2 * parts) == 0 && fewer[a].unit;
            drops += l->sbp[a].unit && !fewer[a].unit;
        }
    }
}

static void
test_units(void)
{
    each_layout(visit_units);
    diag("%lld units dropped", (long long)drops);
    is_int(wrong_drop, 0, "without the units that change nothing, every device has the same box");
    is_int(wrong_kept, 0, "a unit that divides evenly is dropped");
}

/* ---- layouts of equal shards under two names ---- */

static void
test_merge(void)
{
    int wrong = 0;
    for (int32_t a = 1; a <= 4; a++)
        for (int32_t b = 1; b <= 4; b++)
            for (int64_t n = 0; n < 40; n++) {
                static const int32_t rank[16] = {9, 2, 4, 7, 0, 1, 3, 5, 6, 8, 10, 11, 12, 13, 14, 15};
                static const struct sbp split[2] = {{.kind = SBP_S}, {.kind = SBP_S}};
                const struct place *p, *q;
                const struct layout *two, *one;
                struct type t = type_of(DT_F32, 1, &n);
                int32_t ab = a * b;
                place_new(atlas, DEV_CPU, 2, (int32_t[]){a, b}, rank, &p);
                place_new(atlas, DEV_CPU, 1, &ab, rank, &q);
                layout_new(atlas, p, split, NULL, &two);
                layout_new(atlas, q, split, NULL, &one);
                bool rule = a == 1 || b == 1 || n % ab == 0 || n % ab == 1 || n % ab == ab - 1;
                wrong += layout_same_boxes(two, one, &t) != rule || layout_same_boxes(one, two, &t) != rule;
            }
    is_int(wrong, 0, "[a,b]:(S,S) is [ab]:S exactly when size mod ab is 0, 1 or ab-1, or an axis has size 1");
}

static void
test_same_boxes(void)
{
    const struct place *p, *rotated, *other, *flat;
    const struct layout *a, *b;
    struct type t = type_of(DT_F32, 2, (int64_t[]){4, 6}), none = type_of(DT_F32, 2, (int64_t[]){0, 6});
    place_new(atlas, DEV_CPU, 2, (int32_t[]){2, 2}, (int32_t[]){0, 1, 2, 3}, &p);
    place_new(atlas, DEV_CPU, 2, (int32_t[]){2, 2}, (int32_t[]){0, 2, 1, 3}, &rotated);
    place_new(atlas, DEV_CPU, 2, (int32_t[]){2, 2}, (int32_t[]){0, 1, 2, 4}, &other);
    place_new(atlas, DEV_META, 2, (int32_t[]){2, 2}, (int32_t[]){0, 1, 2, 3}, &flat);

    layout_parse(atlas, p, "(S(0), S(1))", 2, &a);
    layout_parse(atlas, rotated, "(S(1), S(0))", 2, &b);
    ok(layout_same_boxes(a, b, &t), "a transposed mesh with a transposed layout has the same boxes");
    layout_parse(atlas, rotated, "(S(0), S(1))", 2, &b);
    ok(!layout_same_boxes(a, b, &t), "a transposed mesh with the same layout has other boxes");
    ok(layout_same_boxes(a, b, &none), "empty boxes are equal");
    ok(layout_same_boxes(layout_broadcast(atlas, p), layout_broadcast(atlas, rotated), &t),
       "the order of the mesh does not matter for B");
    ok(!layout_same_boxes(layout_broadcast(atlas, p), layout_broadcast(atlas, other), &t),
       "B on other devices has other boxes");
    ok(!layout_same_boxes(layout_broadcast(atlas, p), layout_broadcast(atlas, flat), &t),
       "B on devices of another kind has other boxes");
    layout_parse(atlas, p, "(P, B)", 2, &a);
    layout_parse(atlas, rotated, "(B, P)", 2, &b);
    ok(layout_same_boxes(a, a, &t) && !layout_same_boxes(a, b, &t),
       "partial layouts have equal boxes only if the layouts are equal");
}

/* ---- text ---- */

static int64_t wrong_trip, texts;

static void
visit_text(const struct layout *l, const struct sbp *sbp, const uint8_t *order)
{
    struct str s = {0};
    const struct layout *back = NULL;
    UNUSED(sbp);
    UNUSED(order);
    layout_print(l, &s);
    int status = layout_parse(atlas, l->place, str_text(&s), 2, &back);
    if (status || back != l) diag("\"%s\" came back as %s", str_text(&s), status ? err_text() : "another");
    wrong_trip += status || back != l;
    texts++;
    str_free(&s);
}

/* Parses a text on mesh m for a tensor of two dimensions. Returns the printed layout, or "error". */
static const char *
reprint(size_t mesh, const char *text)
{
    static struct str s;
    const struct layout *l;
    str_clear(&s);
    err_clear();
    if (layout_parse(atlas, place_of(mesh), text, 2, &l) == 0)
        layout_print(l, &s);
    else
        str_add(&s, err_last() == E_SBP && strstr(err_text(), text) ? "error" : err_text());
    return str_text(&s);
}

enum { MESH_2 = 1, MESH_22 = 6, MESH_222 = 9 };
static const struct {
    size_t mesh;
    const char *text, *want;
} spellings[] = {
    {MESH_2, "S(0)", "S(0)"},
    {MESH_2, "S(-1)", "S(1)"},
    {MESH_2, " S ( 1 ) ", "S(1)"},
    {MESH_2, "S(0, unit 64)", "S(0, unit 64)"},
    {MESH_2, "S( -1 ,unit 3 )", "S(1, unit 3)"},
    {MESH_2, "S(0, unit 1)", "S(0)"},
    {MESH_22, "(S(0, unit 2), S(0)) order (1, 0)", "(S(0, unit 2), S(0)) order (1, 0)"},
    {MESH_2, "S(0, unit 0)", "error"},
    {MESH_2, "S(0, unit -2)", "error"},
    {MESH_2, "S(0, unit)", "error"},
    {MESH_2, "S(0, 2)", "error"},
    {MESH_2, "S(0,)", "error"},
    {MESH_2, "B", "B"},
    {MESH_2, "P", "P"},
    {MESH_2, "P(sum)", "P"},
    {MESH_2, "P(max)", "P(max)"},
    {MESH_2, "(P(min))", "P(min)"},
    {MESH_22, "(B, S(0))", "(B, S(0))"},
    {MESH_22, "(B,S(-2))", "(B, S(0))"},
    {MESH_22, "(S(0), S(0)) order (0, 1)", "(S(0), S(0))"},
    {MESH_22, "(S(0), S(0)) order (1, 0)", "(S(0), S(0)) order (1, 0)"},
    {MESH_22, "(S(0), S(1)) order (1, 0)", "(S(0), S(1))"},
    {MESH_222, "(S(0), B, S(0)) order (2, 1, 0)", "(S(0), B, S(0)) order (1, 2, 0)"},
    {MESH_2, "X", "error"},
    {MESH_2, "S", "error"},
    {MESH_2, "S(", "error"},
    {MESH_2, "S()", "error"},
    {MESH_2, "S(a)", "error"},
    {MESH_2, "S(0", "error"},
    {MESH_2, "S(0.5)", "error"},
    {MESH_2, "S(2)", "error"},
    {MESH_2, "S(-3)", "error"},
    {MESH_2, "S(99999999999)", "error"},
    {MESH_2, "P(mean)", "error"},
    {MESH_2, "P(", "error"},
    {MESH_2, "P(maximum)", "error"},
    {MESH_2, "", "error"},
    {MESH_2, "()", "error"},
    {MESH_2, "BB", "error"},
    {MESH_2, "S(0)S(1)", "error"},
    {MESH_2, "(B, S(0))", "error"},
    {MESH_2, "B order (1)", "error"},
    {MESH_22, "B", "(B, B)"},
    {MESH_22, "S(0)", "error"},
    {MESH_22, "B, B", "error"},
    {MESH_22, "(B)", "error"},
    {MESH_22, "(B, B, B)", "error"},
    {MESH_22, "(B, B", "error"},
    {MESH_22, "(B, S(9))", "error"},
    {MESH_22, "(B, B) order", "error"},
    {MESH_22, "(B, B) order (0)", "error"},
    {MESH_22, "(B, B) order (0, 2)", "error"},
    {MESH_22, "(B, B) order (0, 1) x", "error"},
};

static void
test_text(void)
{
    each_layout(visit_text);
    diag("%lld texts", (long long)texts);
    is_int(wrong_trip, 0, "every layout is read back from its own text");

    int wrong = 0;
    for (size_t i = 0; i < countof(spellings); i++) {
        const char *got = reprint(spellings[i].mesh, spellings[i].text);
        if (!strcmp(got, spellings[i].want)) continue;
        diag("\"%s\" gave %s, want %s", spellings[i].text, got, spellings[i].want);
        wrong++;
    }
    is_int(wrong, 0, "other spellings are accepted; an invalid layout is refused, and the message quotes it");

    const struct layout *l;
    struct sbp s;
    ok(layout_parse(atlas, place_of(MESH_22), "(B, B) order (0, 0)", 2, &l) == E_SBP,
       "an order that names an axis twice is refused");
    ok(layout_parse(atlas, place_of(MESH_22), "(P, P(max))", 2, &l) == E_SBP,
       "a layout with two kinds of partial is refused");
    ok(sbp_parse("S(3)", -1, &s) == 0 && s.axis == 3, "without a tensor any dimension may be named");
    ok(sbp_parse("S(-1)", -1, &s) == E_SBP && sbp_parse("S(8)", -1, &s) == E_SBP,
       "without a tensor a dimension counted from the end is refused");
    ok(sbp_parse("(B)", 2, &s) == E_SBP && sbp_parse("B B", 2, &s) == E_SBP, "sbp_parse accepts exactly one entry");
    layout_parse(atlas, place_of(MESH_2), "S(1)", -1, &l);
    struct type flat = type_of(DT_F32, 1, (int64_t[]){4}), deep = type_of(DT_F32, 2, (int64_t[]){4, 4});
    ok(layout_fits(l, &flat) == E_SBP && layout_fits(l, &deep) == 0,
       "a layout fits a tensor that has the dimensions that the layout splits");
    layout_parse(atlas, place_of(MESH_2), "S(1, unit 3)", -1, &l);
    struct type divides = type_of(DT_F32, 2, (int64_t[]){4, 6});
    ok(layout_fits(l, &divides) == 0 && layout_fits(l, &deep) == E_SBP, "a unit must divide the dimension");
    is_str(err_text(), "S(1, unit 3): the unit must divide axis 1 of shape {4, 4}, expected a divisor of 4",
           "the message names layout, axis and shape");
}

/* ---- placements ---- */

static void
test_places(void)
{
    const struct place *p, *q;
    struct str s = {0};
    int32_t coord[MAX_AXIS];
    place_new(atlas, DEV_CPU, 2, (int32_t[]){2, 3}, (int32_t[]){5, 3, 1, 0, 2, 4}, &p);
    place_new(atlas, DEV_CPU, 2, (int32_t[]){2, 3}, (int32_t[]){5, 3, 1, 0, 2, 4}, &q);
    ok(p == q, "equal placements are one record");
    place_new(atlas, DEV_META, 2, (int32_t[]){2, 3}, (int32_t[]){5, 3, 1, 0, 2, 4}, &q);
    ok(p != q && p->id != q->id, "placements of different kinds are different records");
    place_new(atlas, DEV_CPU, 2, (int32_t[]){3, 2}, (int32_t[]){5, 3, 1, 0, 2, 4}, &q);
    ok(p != q, "placements with different meshes are different records");
    place_print(p, &s);
    is_str(str_text(&s), "cpu[[5, 3, 1], [0, 2, 4]]", "a placement prints its kind and its ranks in mesh order");
    str_free(&s);
    place_coord(p, 5, coord);
    ok(coord[0] == 1 && coord[1] == 2, "positions are row-major");
    int wrong = 0;
    for (int i = 0; i < p->nrank; i++) wrong += place_find(p, p->rank[i]) != i;
    ok(!wrong && place_find(p, 6) == -1 && place_find(p, -1) == -1,
       "a device is found at its position, and other devices are not found");

    ok(place_new(atlas, DEV_CPU, 1, (int32_t[]){2}, (int32_t[]){1, 1}, &q) == E_PLACE, "a repeated rank is refused");
    ok(place_new(atlas, DEV_CPU, 1, (int32_t[]){2}, (int32_t[]){1, -1}, &q) == E_PLACE, "a negative rank is refused");
    ok(place_new(atlas, DEV_CPU, 1, (int32_t[]){0}, (int32_t[]){0}, &q) == E_PLACE, "a mesh axis of size 0 is refused");
    ok(place_new(atlas, DEV_CPU, 0, NULL, NULL, &q) == E_PLACE, "a mesh without axes is refused");
    ok(place_new(atlas, DEV_CPU, 7, (int32_t[]){1, 1, 1, 1, 1, 1, 1}, (int32_t[]){0}, &q) == E_PLACE,
       "a mesh of seven axes is refused");
    ok(place_new(atlas, DEV_CPU, 2, (int32_t[]){1 << 20, 1 << 20}, (int32_t[]){0}, &q) == E_PLACE,
       "a mesh of 2^40 ranks is refused");
}

static void
test_many(void)
{
    enum { MANY = 500 };
    const struct place *p[MANY], *q;
    int wrong = 0;
    for (int32_t i = 0; i < MANY; i++) place_new(atlas, DEV_META, 1, (int32_t[]){1}, &i, &p[i]);
    for (int32_t i = 0; i < MANY; i++) {
        place_new(atlas, DEV_META, 1, (int32_t[]){1}, &i, &q);
        wrong += q != p[i] || place_find(q, i) != 0;
    }
    is_int(wrong, 0, "records keep their addresses while the table grows");
}

static void
test_boxes(void)
{
    struct box a = {{0, 2}, {4, 6}}, b = {{3, 0}, {5, 3}}, c = {{4, 0}, {5, 3}}, got;
    ok(box_intersect(&a, &b, 2, &got) && got.lo[0] == 3 && got.hi[0] == 4 && got.lo[1] == 2 && got.hi[1] == 3,
       "the intersection of boxes is a box");
    ok(!box_intersect(&a, &c, 2, &got), "boxes that only touch do not intersect");
    is_int(box_numel(&a, 2), 16, "a box counts its elements");
    is_int(box_numel(&a, 0), 1, "a box without dimensions has one element");
    ok(box_intersect(&a, &c, 0, &got), "boxes without dimensions intersect");
}

int
main(void)
{
    atlas = atlas_new();
    test_range();
    test_shards();
    test_canonical();
    test_units();
    test_merge();
    test_same_boxes();
    test_text();
    test_places();
    test_many();
    test_boxes();
    atlas_free(&atlas);
    return done();
}
