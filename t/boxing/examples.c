/* examples.c - tests moves that can be checked by hand.
 *
 * The nine 2-D layouts of a 4 x 4 matrix on [[0, 1], [2, 3]]; a product split like MindSpore's strategy ((2, 1), (1,
 * 4)); two rearrangements; and a table of bytes and names. */
#include "t/lib/moves.h"
#include "t/oracles/box_apply.h"

static struct arena arena;

static const struct place *
line(int first, int n)
{
    int32_t rank[8], size = n;
    for (int i = 0; i < n; i++) rank[i] = first + i;
    return place(1, &size, rank);
}

static struct type
matrix(int64_t rows, int64_t columns)
{
    return type_of(DT_F32, 2, (int64_t[]){rows, columns});
}

static struct box_plan *
move(const struct type *t, const struct layout *from, const struct layout *to)
{
    struct box_plan *p = NULL;
    if (box_plan(&arena, t, from, to, &p)) diag("%s", err_text());
    return p;
}

/* Moves a matrix with values 0, 1, 2, ... from device 0 to the layout. Returns the first and the last element, and
 * the size, of the shard at mesh position pos. */
static void
part_of(const struct type *t, const struct layout *l, int pos, int *first, int *last, int *numel)
{
    struct box_plan *p = move(t, layout(line(0, 1), "B"), l);
    float *whole = calloc((size_t)type_numel(t), sizeof *whole);
    void *part[8];
    for (int64_t i = 0; i < type_numel(t); i++) whole[i] = (float)i;
    for (int i = 0; i < l->place->nrank; i++) part[i] = calloc((size_t)type_numel(t), sizeof(float));
    box_apply(p, (void *const[]){whole}, part);
    struct type local = layout_shard(l, t, pos);
    *numel = (int)type_numel(&local);
    *first = (int)((float *)part[pos])[0];
    *last = (int)((float *)part[pos])[*numel - 1];
    for (int i = 0; i < l->place->nrank; i++) free(part[i]);
    free(whole);
}

/* ---- the nine layouts of a 4 x 4 matrix ---- */

struct parts {
    const char *sbp;
    int8_t row[4][2], column[4][2]; /* index: device; half-open ranges of rows and columns */
};
static const struct parts nine[] = {
    {"(S(0), S(0))", {{0, 1}, {1, 2}, {2, 3}, {3, 4}}, {{0, 4}, {0, 4}, {0, 4}, {0, 4}}},
    {"(S(0), S(1))", {{0, 2}, {0, 2}, {2, 4}, {2, 4}}, {{0, 2}, {2, 4}, {0, 2}, {2, 4}}},
    {"(S(0), B)", {{0, 2}, {0, 2}, {2, 4}, {2, 4}}, {{0, 4}, {0, 4}, {0, 4}, {0, 4}}},
    {"(S(1), S(0))", {{0, 2}, {2, 4}, {0, 2}, {2, 4}}, {{0, 2}, {0, 2}, {2, 4}, {2, 4}}},
    {"(S(1), S(1))", {{0, 4}, {0, 4}, {0, 4}, {0, 4}}, {{0, 1}, {1, 2}, {2, 3}, {3, 4}}},
    {"(S(1), B)", {{0, 4}, {0, 4}, {0, 4}, {0, 4}}, {{0, 2}, {0, 2}, {2, 4}, {2, 4}}},
    {"(B, S(0))", {{0, 2}, {2, 4}, {0, 2}, {2, 4}}, {{0, 4}, {0, 4}, {0, 4}, {0, 4}}},
    {"(B, S(1))", {{0, 4}, {0, 4}, {0, 4}, {0, 4}}, {{0, 2}, {2, 4}, {0, 2}, {2, 4}}},
    {"(B, B)", {{0, 4}, {0, 4}, {0, 4}, {0, 4}}, {{0, 4}, {0, 4}, {0, 4}, {0, 4}}},
};

static void
nine_layouts(void)
{
    const struct place *p = place(2, (int32_t[]){2, 2}, (int32_t[]){0, 1, 2, 3});
    struct type t = matrix(4, 4);
    for (size_t k = 0; k < countof(nine); k++) {
        bool right = true;
        for (int d = 0; d < 4; d++) {
            const int8_t *r = nine[k].row[d], *c = nine[k].column[d];
            int first, last, numel;
            part_of(&t, layout(p, nine[k].sbp), d, &first, &last, &numel);
            right &=
                numel == (r[1] - r[0]) * (c[1] - c[0]) && first == 4 * r[0] + c[0] && last == 4 * (r[1] - 1) + c[1] - 1;
        }
        ok(right, "4 x 4 as %s on [[0, 1], [2, 3]]: each device holds its rows and columns", nine[k].sbp);
    }
}

/* ---- a product on the device matrix (2, 1, 4) ---- */

static void
split_product(void)
{
    const struct place *p = place(3, (int32_t[]){2, 1, 4}, (int32_t[]){0, 1, 2, 3, 4, 5, 6, 7});
    const struct layout *x = layout(p, "(S(0), S(1), B)"), *w = layout(p, "(B, S(0), S(1))");
    struct type xt = matrix(4, 6), wt = matrix(6, 8);
    bool x_right = true, w_right = true;
    for (int d = 0; d < 8; d++) {
        int first, last, numel;
        part_of(&xt, x, d, &first, &last, &numel);
        x_right &= numel == 12 && first == (d < 4 ? 0 : 12);
        part_of(&wt, w, d, &first, &last, &numel);
        w_right &= numel == 12 && first == 2 * (d % 4) && last == 40 + 2 * (d % 4) + 1;
    }
    ok(x_right, "X in 2 rows on (2, 1, 4): devices 0-3 hold X_0, 4-7 hold X_1");
    ok(w_right, "W in 4 columns: devices 0 and 4 hold W_0, 1 and 5 W_1, 2 and 6 W_2, 3 and 7 W_3");
}

/* ---- bytes and names ---- */

struct row {
    const char *what;
    int64_t rows, columns;
    int from_first, from_n;
    const char *from;
    int to_first, to_n;
    const char *to;
    int64_t bytes;
    const char *name;
};
static const struct row table[] = {
    {"rows to replicated on 8 devices", 8, 16, 0, 8, "S(0)", 0, 8, "B", 7 * 512, "all-gather"},
    {"rows to columns on 8 devices", 8, 16, 0, 8, "S(0)", 0, 8, "S(1)", 7 * 64, "all-to-all"},
    {"S(0) -> B on 2 ranks: the other half to each", 12, 8, 0, 2, "S(0)", 0, 2, "B", 384, "all-gather"},
    {"S(0) -> B on 3 ranks: two thirds to each", 12, 8, 0, 3, "S(0)", 0, 3, "B", 768, "all-gather"},
    {"S(0) -> S(1) on 2 ranks: half of each shard stays", 12, 8, 0, 2, "S(0)", 0, 2, "S(1)", 192, "all-to-all"},
    {"B -> S(0): nothing moves", 12, 8, 0, 2, "B", 0, 2, "S(0)", 0, "slice"},
    {"S(1) -> S(1)", 12, 8, 0, 2, "S(1)", 0, 2, "S(1)", 0, "none"},
    {"P -> B on 2 ranks: each value is sent twice", 12, 8, 0, 2, "P", 0, 2, "B", 768, "all-reduce"},
    {"P -> B on 3 ranks: each value is sent four times", 12, 8, 0, 3, "P", 0, 3, "B", 1536, "all-reduce"},
    {"P -> S(0) on 2 ranks: each value is sent once", 12, 8, 0, 2, "P", 0, 2, "S(0)", 384, "reduce-scatter"},
    {"P -> S(0) on 3 ranks: each value is sent twice", 12, 8, 0, 3, "P", 0, 3, "S(0)", 768, "reduce-scatter"},
    {"B -> P: one rank keeps the value", 12, 8, 0, 2, "B", 0, 2, "P", 0, "slice"},
    {"S(0) -> P: each keeps its rows", 12, 8, 0, 2, "S(0)", 0, 2, "P", 0, "slice"},
    {"P -> P: nothing moves", 12, 8, 0, 3, "P", 0, 3, "P", 0, "none"},
    {"S(0) -> B on two other ranks: all to each", 12, 8, 0, 2, "S(0)", 2, 2, "B", 768, "exchange"},
    {"S(0) -> S(0) on other ranks: every shard moves once", 12, 8, 0, 2, "S(0)", 2, 2, "S(0)", 384, "permute"},
    {"B -> B on other ranks", 12, 8, 0, 2, "B", 2, 2, "B", 768, "broadcast"},
    {"one rank to another", 12, 8, 0, 1, "B", 1, 1, "B", 384, "permute"},
    {"S(0) from 2 ranks to 3: 2 rows to rank 1, 4 to rank 2", 12, 8, 0, 2, "S(0)", 0, 3, "S(0)", 192, "exchange"},
    {"B from 2 ranks to 3: only the new one receives", 12, 8, 0, 2, "B", 0, 3, "B", 384, "broadcast"},
    {"P(max) -> B on 2 ranks", 12, 8, 0, 2, "P(max)", 0, 2, "B", 768, "all-reduce"},
    {"P from 3 ranks to one of them", 12, 8, 0, 3, "P", 0, 1, "B", 768, "exchange"},
    {"nothing of an empty tensor", 0, 8, 0, 3, "P", 0, 3, "B", 0, "slice"},
    {"S(0) -> B of 1024 x 4096 on two other ranks", 1024, 4096, 0, 2, "S(0)", 2, 2, "B", 32 << 20, "exchange"},
};

static void
bytes_and_names(void)
{
    for (size_t k = 0; k < countof(table); k++) {
        const struct row *r = &table[k];
        struct type t = matrix(r->rows, r->columns);
        const struct layout *from = layout(line(r->from_first, r->from_n), r->from);
        const struct layout *to = layout(line(r->to_first, r->to_n), r->to);
        struct box_plan *p = move(&t, from, to);
        bool right = p->bytes == r->bytes && p->bound == r->bytes && box_bytes(&t, from, to) == r->bytes;
        if (!ok(right && !strcmp(p->name, r->name), "%s: %lld bytes, %s", r->what, (long long)r->bytes, r->name))
            diag("got %lld bytes, bound %lld, %s", (long long)p->bytes, (long long)p->bound, p->name);
    }
}

/* ---- 2-D moves for which greedy rules send more ---- */

static void
cyclic_swap(void)
{
    const struct place *p = place(2, (int32_t[]){2, 4}, (int32_t[]){0, 1, 2, 3, 4, 5, 6, 7});
    struct type t = matrix(8, 8);
    const struct layout *from = layout(p, "(S(0), S(1))"), *to = layout(p, "(S(1), S(0))");
    struct box_plan *plan = move(&t, from, to);
    int64_t most = 0;
    for (int i = 0; i < plan->nrank; i++) most = MAX(most, plan->received[i]);
    is_int(most, 32, "(S(0), S(1)) -> (S(1), S(0)) on 2 x 4: no rank receives more than an eighth of the tensor");
    from = layout(p, "(S(0), S(0))");
    to = layout(p, "(S(0), S(0)) order (1, 0)");
    plan = move(&t, from, to);
    is_int(plan->bytes, 6 * 32, "another order of the splits on 2 x 4 moves 6 of the 8 shards");
    is_str(plan->name, "permute", "another order of the splits is called permute");
}

/* ---- text, hops, refused moves ---- */

static void
steps_as_text(void)
{
    struct type t = matrix(4, 2);
    struct str s = {0};
    box_print(move(&t, layout(line(0, 2), "S(0)"), layout(line(2, 2), "B")), &s);
    is_str(str_text(&s), "2, 3: copy [0:2, 0:2] from 0; copy [2:4, 0:2] from 1\n", "equal ranks share a line");
    str_clear(&s);
    struct box_plan *p = move(&t, layout(line(0, 2), "P"), layout(line(0, 2), "B"));
    box_print(p, &s);
    is_str(str_text(&s), "0, 1: sum [0:4, 0:2] from 0, 1\n",
           "an all-reduce of two ranks takes one hop: each rank adds by itself");
    is_int(p->nstage, 0, "an all-reduce of two ranks needs no staging");
    str_clear(&s);
    box_print(move(&t, layout(line(0, 4), "P"), layout(line(0, 2), "S(0)")), &s);
    diag("%s", str_text(&s));
    str_free(&s);
}

static void
other_partial(void)
{
    struct type t = matrix(4, 2);
    struct box_plan *p;
    int code = box_plan(&arena, &t, layout(line(0, 2), "P"), layout(line(0, 2), "P(max)"), &p);
    ok(code == E_SBP && strstr(err_text(), "P on cpu[0, 1]") && strstr(err_text(), "P(max) on cpu[0, 1]"),
       "P -> P(max) is refused, naming both");
    diag("%s", err_text());
}

int
main(void)
{
    atlas = atlas_new();
    nine_layouts();
    split_product();
    bytes_and_names();
    cyclic_swap();
    steps_as_text();
    other_partial();
    arena_fini(&arena);
    atlas_free(&atlas);
    return done();
}
