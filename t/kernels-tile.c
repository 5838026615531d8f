/* kernels-tile.c - every step of tile.c gives the bits that the operator's record means, on every level of machine that
 * this one has, for every operand that the value may be, whether the others walk, repeat with rows or are numbers, and
 * for every length of a row up to two and a half tiles. */
#include "kernels/cpu/tile.c"
#include "runtime/op.h"
#include "t/tap.h"

enum { LENGTH = 2 * TILE_LONGEST + 64, ROWS = 2, COUNT = LENGTH * ROWS, GUARD = 64 };

static const float special[] = {0,   -0.0f,  1,       -1, 0.5f,  -2.5f,  3,      INFINITY, -INFINITY,
                                NAN, 1e-40f, -1e-40f, 7,  1e30f, -1e30f, 1e-30f, 0x1p-126f};
static float memory[3][COUNT + GUARD], result[COUNT + GUARD];

static const struct op *
op_with(int tile)
{
    for (int i = 0; i < op_count; i++)
        if (op_table[i]->eltwise.tile == tile) return op_table[i];
    return NULL;
}

/* Lengths of the cycles have no common divisor, so that all values meet. */
static void
fill(void)
{
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < COUNT + GUARD; i++) memory[k][i] = special[(i / (k == 1 ? 17 : 1) + k * i / 289) % 17];
}

struct trial {
    const struct op *op;
    int narg, value;
    int way[3]; /* of each operand */
    int64_t n;
};

static float
wanted(const struct trial *t, int64_t row, int64_t i)
{
    double x[3];
    for (int k = 0; k < t->narg; k++)
        x[k] = memory[k][t->way[k] == TILE_WALKS ? row * t->n + i : t->way[k] == TILE_REPEATS ? i : 0];
    return (float)t->op->eltwise.f(NULL, x);
}

static bool
same(float a, float b)
{
    return (a != a && b != b) || !memcmp(&a, &b, sizeof a);
}

/* The program of one operation; `busy`: with a second load, which keeps it from being done alone. */
static int
program(const struct trial *t, float number[][TILE_LONGEST], bool busy, int last, struct tile_step *s)
{
    int n = 0, at = 0;
    char *operand[3];
    for (int k = 0; k < t->narg; k++) {
        for (int i = 0; i < TILE_LONGEST; i++) number[k][i] = memory[k][0];
        operand[k] = (char *)(t->way[k] == TILE_STAYS ? number[k] : memory[k]);
    }
    struct tile_step load = {TILE_LOAD, {t->way[t->value]}, {operand[t->value]}};
    if (busy) s[n++] = load;
    s[n++] = load;
    bool by_number = t->narg == 2 && t->way[1 - t->value] == TILE_STAYS;
    s[n] = (struct tile_step){.code = TILE_CODE(t->op->eltwise.tile, t->value) + (by_number ? TILE_NUMBER : 0)};
    for (int k = 0; k < t->narg; k++) {
        if (k == t->value) continue;
        s[n].way[at] = t->way[k];
        s[n].memory[at++] = operand[k];
    }
    s[++n] = (struct tile_step){last, {TILE_WALKS}, {(char *)result}};
    s[++n] = (struct tile_step){.code = TILE_END};
    return n;
}

static bool
right(const struct trial *t, const struct level *l, bool busy, int last)
{
    static _Alignas(64) float number[3][TILE_LONGEST];
    struct tile_step s[8];
    program(t, number, busy, last, s);
    for (int i = 0; i < COUNT + GUARD; i++) result[i] = 12345;
    if (!busy && t->n % l->vector == 0 && is_alone(s))
        l->alone(s, t->n, ROWS);
    else
        l->tiles(s, t->n, ROWS);
    tile_fence();
    for (int64_t row = 0; row < ROWS; row++)
        for (int64_t i = 0; i < t->n; i++)
            if (!same(result[row * t->n + i], wanted(t, row, i))) {
                diag("n %lld, ways %d %d %d: element %lld of row %lld is %g, not %g", (long long)t->n, t->way[0],
                     t->way[1], t->way[2], (long long)i, (long long)row, (double)result[row * t->n + i],
                     (double)wanted(t, row, i));
                return false;
            }
    for (int64_t i = ROWS * t->n; i < COUNT + GUARD; i++)
        if (result[i] != 12345) return false;
    return true;
}

/* Lengths 1 to LENGTH; all ways of the operands. */
static void
try_operation(const struct op *op, int value, int level)
{
    struct trial t = {.op = op, .narg = op_noperand(op), .value = value};
    int ways = t.narg == 1 ? 3 : t.narg == 2 ? 9 : 27, wrong = 0, tried = 0;
    for (int w = 0; w < ways; w++) {
        t.way[0] = w % 3;
        t.way[1] = w / 3 % 3;
        t.way[2] = w / 9 % 3;
        for (t.n = 1; t.n <= LENGTH; t.n += t.n < 40 ? 1 : 8 - t.n % 8 + (t.n / 8 % 3 == 0)) {
            wrong += !right(&t, &levels[level], false, TILE_STORE);
            wrong += !right(&t, &levels[level], true, t.n % 2 ? TILE_STREAM : TILE_STORE);
            tried += 2;
        }
    }
    ok(wrong == 0 && tried > 100, "%s, value %d, level %d: %d programs", op->name, value, level, tried);
}

int
main(void)
{
    fill();
    int first = (int)(this_machine() - levels);
    for (int tile = TILE_NONE + 1; tile < NTILE_OP; tile++) {
        const struct op *op = op_with(tile);
        if (!ok(op != NULL, "operation %d is an operator's", tile)) continue;
        for (int level = first; level < (int)countof(levels); level++)
            for (int value = 0; value < op_noperand(op); value++) try_operation(op, value, level);
    }
    return done();
}
