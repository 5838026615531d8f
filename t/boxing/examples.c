/* examples.c - tests the names and texts of moves, with numbers of bytes that can be checked by hand. (apply.c tests
 * values, and the least bytes of every move.) */
#include "t/lib/plan/moves.h"
#include "boxing/bytes.h"
#include "boxing/name.h"
#include "boxing/plan.h"

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

/* ---- bytes and names of moves ---- */

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
    {"S(0) -> B on 2 ranks: the other half to each", 12, 8, 0, 2, "S(0)", 0, 2, "B", 384, "all-gather"},
    {"S(0) -> S(1) on 2 ranks: half of each shard stays", 12, 8, 0, 2, "S(0)", 0, 2, "S(1)", 192, "all-to-all"},
    {"B -> S(0): nothing moves", 12, 8, 0, 2, "B", 0, 2, "S(0)", 0, "slice"},
    {"S(1) -> S(1)", 12, 8, 0, 2, "S(1)", 0, 2, "S(1)", 0, "none"},
    {"P -> B on 2 ranks: each value is sent twice", 12, 8, 0, 2, "P", 0, 2, "B", 768, "all-reduce"},
    {"P -> S(0) on 2 ranks: each value is sent once", 12, 8, 0, 2, "P", 0, 2, "S(0)", 384, "reduce-scatter"},
    {"B -> P: one rank keeps the value", 12, 8, 0, 2, "B", 0, 2, "P", 0, "slice"},
    {"S(0) -> P: each keeps its rows", 12, 8, 0, 2, "S(0)", 0, 2, "P", 0, "slice"},
    {"S(0) -> B on two other ranks: all to each", 12, 8, 0, 2, "S(0)", 2, 2, "B", 768, "exchange"},
    {"S(0) -> S(0) on other ranks: every shard moves once", 12, 8, 0, 2, "S(0)", 2, 2, "S(0)", 384, "permute"},
    {"B -> B on other ranks", 12, 8, 0, 2, "B", 2, 2, "B", 768, "broadcast"},
    {"S(0) from 2 ranks to 3: 2 rows to rank 1, 4 to rank 2", 12, 8, 0, 2, "S(0)", 0, 3, "S(0)", 192, "exchange"},
    {"P from 3 ranks to one of them", 12, 8, 0, 3, "P", 0, 1, "B", 768, "exchange"},
    {"nothing of an empty tensor", 0, 8, 0, 3, "P", 0, 3, "B", 0, "slice"},
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

/* Checks the names of moves on 2 x 2 ranks. An axis on which nothing is sent must not change the name. */
static void
names_on_two_axes(void)
{
    static const char *const row[][3] = {{"(B, S(0))", "(S(1), B)", "all-gather"},
                                         {"(S(0), B)", "(B, S(1))", "all-gather"},
                                         {"(B, P)", "(S(0), B)", "all-reduce"},
                                         {"(B, S(0))", "(S(0), S(0))", "exchange"}};
    const struct type t = matrix(12, 8);
    for (size_t k = 0; k < countof(row); k++)
        is_str(box_name(&t, layout(mesh(2, 2, 0), row[k][0]), layout(mesh(2, 2, 0), row[k][1])), row[k][2], row[k][1]);
}

/* ---- text ---- */

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
    str_free(&s);
}

int
main(void)
{
    atlas = atlas_new();
    bytes_and_names();
    names_on_two_axes();
    steps_as_text();
    arena_fini(&arena);
    atlas_free(&atlas);
    return done();
}
