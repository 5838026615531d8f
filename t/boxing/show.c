/* show.c - tests pictures of layouts. A few are compared with the expected text, and all are checked for
 * well-formedness.
 *
 * Every layout of small meshes is drawn. The text must name each rank that holds something, and the SVG must be
 * balanced XML with finite numbers. */
#include "boxing/draw/show.h"
#include "boxing/draw/show_svg.h"
#include "t/lib/plan/moves.h"

/* Returns a mesh on the devices first, first + 1, ... */
static const struct place *
mesh_at(int naxis, const int32_t *axis, int first)
{
    int32_t rank[MAX_MESH];
    for (int i = 0; i < MAX_MESH; i++) rank[i] = first + i;
    return place(naxis, axis, rank);
}

/* ---- pictures that are compared with the expected text ---- */

static void
a_stack_of_tiles(void)
{
    struct type t = type_of(DT_F32, 2, (int64_t[]){4, 4});
    struct str s = {0};
    box_show_text(&t, layout(mesh_at(2, (int32_t[]){2, 2}, 0), "(B, S(0))"), 110, false, &s);
    is_str(str_text(&s),
           "(B, S(0)) on cpu[[0, 1], [2, 3]]\n"
           "f32{4, 4}, axis 0 down, axis 1 across\n"
           "         ┌────────────────────────┐\n"
           "     0 ┌────────────────────────┐ │\n"
           "       │          0, 2          │ │\n"
           "       │                        │─┤\n"
           "     2 ├────────────────────────┤ │\n"
           "       │          1, 3          │ │\n"
           "       │                        │─┘\n"
           "     4 └────────────────────────┘\n"
           "       0                        4\n",
           "a broadcast axis stacks sheets, a split axis divides them");
    str_free(&s);
}

static void
a_move_of_a_partial(void)
{
    struct type t = type_of(DT_F32, 1, (int64_t[]){7});
    const struct place *p = mesh_at(1, (int32_t[]){2}, 0);
    struct str s = {0};
    box_show_move_text(&t, layout(p, "P(max)"), layout(p, "S(0)"), 110, false, &s);
    is_str(
        str_text(&s),
        "reduce-scatter: 28 B in total, the least possible\n"
        "P(max) on cpu[0, 1]                                                      S(0) on cpu[0, 1]\n"
        "f32{7}, axis 0 across                                                    f32{7}, axis 0 across\n"
        "       ┌────────────────────────┐     ┌────────────────────────┐                ┌─────────────┬──────────┐\n"
        "       │           0            │ max │           1            │   ==>          │      0      │    1     │\n"
        "       └────────────────────────┘     └────────────────────────┘                └─────────────┴──────────┘\n"
        "       0                        7                                               0             4          7\n"
        "  rank 0: [0:4] of 0 + 1\n"
        "  rank 1: [4:7] of 0 + 1\n"
        "  rank 0 receives 16 B\n"
        "  rank 1 receives 12 B\n",
        "a partial axis shows addends side by side");
    str_clear(&s);
    box_show_text(&t, layout(p, "S(0)"), 110, true, &s);
    ok(strstr(str_text(&s), "\033[30;48;5;117m"), "in colour mode a shard has the colour of its rank");
    str_free(&s);
}

/* Returns the width of the longest line, in characters. */
static int
width_of(const char *text)
{
    int most = 0, now = 0;
    for (const char *p = text; *p; p++) {
        now = *p == '\n' ? 0 : now + ((*p & 0xc0) != 0x80);
        most = now > most ? now : most;
    }
    return most;
}

static void
pictures_fit(void)
{
    struct type t = type_of(DT_F32, 2, (int64_t[]){8, 8});
    const struct place *p = mesh_at(1, (int32_t[]){4}, 0);
    static const int columns[] = {40, 60, 80, 120};
    static const char *const layouts[] = {"P", "S(0)", "S(1)", "B"};
    struct str s = {0};
    for (size_t c = 0; c < countof(columns); c++)
        for (size_t i = 0; i < countof(layouts); i++) {
            int most = 0;
            for (size_t k = 0; k < countof(layouts); k++) {
                str_clear(&s);
                box_show_move_text(&t, layout(p, layouts[i]), layout(p, layouts[k]), columns[c], false, &s);
                most = MAX(most, width_of(str_text(&s)));
            }
            ok(most <= columns[c], "pictures of moves from %s fit into %d columns (%d)", layouts[i], columns[c], most);
        }
    str_free(&s);
}

/* ---- pictures that are checked for well-formedness ---- */

/* Returns true if tags open and close in order, every & begins an entity, and no number is nan or inf. */
static bool
is_sound_xml(const char *s)
{
    int depth = 0;
    for (const char *p = s; *p; p++) {
        if (*p == '&' && !strstr("#8943;#8942;", (char[]){p[1], p[2], p[3], p[4], p[5], p[6], 0})) return false;
        if (*p != '<') continue;
        const char *end = strchr(p, '>');
        if (!end) return false;
        depth += p[1] == '/' ? -1 : end[-1] == '/' ? 0 : 1;
        if (depth < 0) return false;
        p = end;
    }
    return depth == 0 && !strstr(s, "nan") && !strstr(s, "inf'");
}

/* Returns true if the picture names the rank: as a separate number below its two title lines. */
static bool
names(const char *text, int rank)
{
    char number[16];
    size_t n = (size_t)snprintf(number, sizeof number, "%d", rank);
    for (const char *p = strchr(strchr(text, '\n') + 1, '\n'); (p = strstr(p, number)); p++)
        if ((p[-1] == ' ') && (p[n] == ' ' || p[n] == ',' || p[n] == '\n')) return true;
    return false;
}

/* Checks the pictures of all layouts. Ranks are numbered from 20, so that no tick mark of a picture is also a
 * rank. */
static void
every_layout(const struct place *p, const struct type *t, const char *what)
{
    int choices = 1, named = 0, unnamed = 0, unsound = 0;
    const struct layout *before = layout_broadcast(atlas, p);
    struct str s = {0};
    for (int a = 0; a < p->naxis; a++) choices *= t->ndim + 2;
    for (int c = 0; c < choices; c++) {
        struct sbp sbp[MAX_AXIS];
        const struct layout *l;
        int rest = c;
        for (int a = 0; a < p->naxis; a++, rest /= t->ndim + 2) sbp[a] = entry(rest % (t->ndim + 2), t->ndim, RED_SUM);
        if (layout_new(atlas, p, sbp, NULL, &l)) diag("%s", err_text());
        str_clear(&s);
        box_show_text(t, l, 110, false, &s);
        for (int pos = 0; pos < p->nrank; pos++) {
            struct type local = layout_shard(l, t, pos);
            /* skips pictures that are abbreviated, because they have more than six ranks or four addends */
            if (strstr(str_text(&s), "...")) continue;
            named++;
            unnamed += type_numel(&local) > 0 && !names(str_text(&s), p->rank[pos]);
        }
        str_clear(&s);
        box_show_move_text(t, before, l, 110, true, &s);
        str_clear(&s);
        box_show_svg(t, l, &s);
        unsound += !is_sound_xml(str_text(&s));
        str_clear(&s);
        box_show_move_svg(t, before, l, &s);
        unsound += !is_sound_xml(str_text(&s));
        before = l;
    }
    is_int(unnamed, 0, what);
    is_int(unsound, 0, "the SVG of each layout is well-formed");
    diag("%d layouts, %d shards checked", choices, named);
    str_free(&s);
}

int
main(void)
{
    atlas = atlas_new();
    a_stack_of_tiles();
    a_move_of_a_partial();
    pictures_fit();
    struct type none = type_of(DT_F32, 2, (int64_t[]){0, 3}), one = type_of(DT_F32, 0, NULL);
    struct type line = type_of(DT_F32, 1, (int64_t[]){7}), square = type_of(DT_F32, 2, (int64_t[]){5, 3});
    struct type block = type_of(DT_F32, 4, (int64_t[]){2, 3, 4, 5});
    const struct place *four = mesh_at(1, (int32_t[]){4}, 20), *six = mesh_at(2, (int32_t[]){2, 3}, 20);
    const struct place *eight = mesh_at(3, (int32_t[]){2, 2, 2}, 20);
    every_layout(four, &one, "ranks are named: one element on 4");
    every_layout(four, &line, "ranks are named: a vector on 4");
    every_layout(six, &square, "ranks are named: a matrix on 2 x 3");
    every_layout(six, &none, "an empty matrix names no rank");
    every_layout(mesh_at(2, (int32_t[]){2, 2}, 20), &block, "ranks are named: four dimensions on 2 x 2");
    every_layout(eight, &line, "ranks are named: a vector on 2 x 2 x 2");
    struct str s = {0};
    struct type large = type_of(DT_BF16, 3, (int64_t[]){64, 8192, 50257});
    const struct place *many = mesh_at(3, (int32_t[]){8, 16, 8}, 0);
    box_show_move_svg(&large, layout(many, "(S(0), S(1), P)"), layout(many, "(S(2), B, S(1))"), &s);
    ok(is_sound_xml(str_text(&s)) && s.len < 100000, "the SVG of a mesh of 1,024 ranks leaves out the middle");
    str_clear(&s);
    box_show_move_text(&large, layout(many, "(S(0), S(1), P)"), layout(many, "(S(2), B, S(1))"), 110, false, &s);
    ok(s.len < 20000, "the text of a mesh of 1,024 ranks is short, too");
    str_free(&s);
    atlas_free(&atlas);
    return done();
}
