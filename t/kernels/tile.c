/* tile.c - compares every step of kernels/cpu/eltwise/tile.c with the operator's reference, bit for bit. The test
 * tries every compute type, every CPU level of this machine, each operand as the step's input value, and row lengths
 * up to two and a half tiles. The other operands are full, per row, per column, scalar or halves. */
#include "kernels/cpu/eltwise/tile.c"
#include "kernels/op/base/table.h"
#include "runtime/graph/op.h"
#include "t/lib/tap.h"

enum { UNTOUCHED = 12288 }; /* value of untouched memory; halves represent it exactly */
enum { LENGTH = 2 * TILE_LONGEST + 64, ROWS = 2, COUNT = LENGTH * ROWS, GUARD = 64 };

static const double special[] = {0,   -0.0,  1,      -1, 0.5,  -2.5,  3,     INFINITY, -INFINITY,
                                 NAN, 1e-40, -1e-40, 7,  1e30, -1e30, 1e-30, 0x1p-126};
static const int64_t whole[] = {0,     1,  -1,  2,         -7,           INT64_MIN, INT64_MAX, 3, 1000,
                                -1000, 10, -10, 1LL << 40, -(1LL << 40), INT32_MIN, 5,         6};
/* Operands and result, accessed by dtype. */
static _Alignas(64) char memory[3][(COUNT + GUARD) * sizeof(double)], result[(COUNT + GUARD) * sizeof(double)];

/* The floats in `memory`, rounded to halves. fill_halves() writes them. */
static uint16_t of_halves[3][COUNT + GUARD];

static const struct op *
op_with(int tile)
{
    for (int i = 0; i < op_count; i++)
        if (op_table[i]->eltwise.tile == tile) return op_table[i];
    return NULL;
}

/* Fills operands with the values of a table. Operand 0 changes its value with each element, operand 1 with each 17th
 * element, and operand 2 shifts slowly against operand 0, so that all pairs of values occur. */
static void
fill(enum dtype d)
{
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < COUNT + GUARD; i++) {
            int which = (i / (k == 1 ? 17 : 1) + k * i / 289) % 17;
            if (!dtype_is_float(d))
                elem_set_i(d, memory[k], i, whole[which]);
            else
                elem_set_f(d, memory[k], i, special[which]);
        }
}

static void
fill_halves(enum dtype d)
{
    fill(DT_F32);
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < COUNT + GUARD; i++) {
            elem_set_f(d, of_halves[k], i, elem_get_f(DT_F32, memory[k], i));
            elem_set_f(DT_F32, memory[k], i, elem_get_f(d, of_halves[k], i));
        }
}

struct trial {
    const struct op *op;
    enum compute type;
    int narg, value;
    int form[3]; /* by operand: how the tile reads its elements (TILE_STAYS, ...) */
    int64_t n;
    /* dtype in which the result is stored, and those operands that have a value per element: the compute type, or
     * a half */
    enum dtype dtype;
};

static bool
is_halves(const struct trial *t)
{
    return t->dtype != compute_dtype(t->type);
}

/* Computes element i of this row by the operator's reference function. */
static void
meant(const struct trial *t, int64_t row, int64_t i, void *y)
{
    enum dtype d = compute_dtype(t->type);
    double x[3];
    int64_t w[3];
    for (int k = 0; k < t->narg; k++) {
        const int64_t by_way[] = {
            [TILE_STAYS] = 0, [TILE_WALKS] = row * t->n + i, [TILE_BY_ROW] = row, [TILE_REPEATS] = i};
        int64_t at = by_way[t->form[k]];
        x[k] = elem_get_f(d, memory[k], at);
        w[k] = elem_get_i(d, memory[k], at);
    }
    struct type type[3] = {{.dtype = d}, {.dtype = d}, {.dtype = d}}; /* all operands are present */
    struct call call = {.op = t->op, .nin = t->narg, .in = type};
    if (!dtype_is_float(d))
        elem_set_i(d, y, 0, t->op->eltwise.i(&call, w));
    else if (t->op->eltwise.tile == TILE_RSQRT && d == DT_F32)
        elem_set_f(d, y, 0, 1 / sqrtf((float)x[0])); /* rsqrt in f32 rounds the root, and then the quotient */
    else
        elem_set_f(d, y, 0, t->op->eltwise.f(&call, x));
}

static bool
same(const struct trial *t, int64_t row, int64_t i)
{
    enum dtype d = t->dtype;
    _Alignas(8) char want[8];
    const char *got = result + (size_t)(row * t->n + i) * dtype_bytes(d);
    meant(t, row, i, want);
    if (is_halves(t)) elem_set_f(d, want, 0, elem_get_f(DT_F32, want, 0));
    double a = elem_get_f(d, got, 0), b = elem_get_f(d, want, 0);
    if ((a != a && b != b) || !memcmp(got, want, dtype_bytes(d))) return true;
    diag("n %lld, ways %d %d %d: element %lld of row %lld is %g, not %g", (long long)t->n, t->form[0], t->form[1],
         t->form[2], (long long)i, (long long)row, a, b);
    return false;
}

static int
way_of(const struct trial *t, int k)
{
    if (!is_halves(t) || t->form[k] == TILE_STAYS) return t->form[k];
    int form = t->form[k] == TILE_WALKS ? TILE_WALKS_BF16 : TILE_REPEATS_BF16;
    return t->dtype == DT_BF16 ? form : form + TILE_WALKS_F16 - TILE_WALKS_BF16;
}

/* Returns the number of operands that the tile step receives as scalars, not as memory; the input value does not
 * count. */
static int
numbers(const struct trial *t)
{
    bool all = t->narg == 2 || (t->op->eltwise.tile == TILE_CLAMP && t->value == 0);
    for (int k = 0; k < t->narg; k++)
        all = all && (k == t->value || t->form[k] == TILE_STAYS || t->form[k] == TILE_BY_ROW);
    return all ? t->narg - 1 : 0;
}

/* Builds the tile program of one operation. Returns the index of its last step, TILE_END. busy: true: loads the
 * input value twice, so that the operation is not the program's only step. */
static int
program(const struct trial *t, double number[][TILE_LONGEST], bool busy, int last, struct tile_step *s)
{
    int n = 0, at = 0;
    char *operand[3];
    for (int k = 0; k < t->narg; k++) {
        size_t bytes = compute_bytes(t->type);
        for (size_t i = 0; i < TILE_LONGEST; i++) memcpy((char *)number[k] + i * bytes, memory[k], bytes);
        operand[k] = t->form[k] == TILE_STAYS ? (char *)number[k] : is_halves(t) ? (char *)of_halves[k] : memory[k];
    }
    struct tile_step load = {TILE_LOAD, {way_of(t, t->value)}, {operand[t->value]}};
    if (busy) s[n++] = load;
    s[n++] = load;
    const int by[] = {0, TILE_NUMBER, TILE_NUMBERS};
    s[n] = (struct tile_step){.code = tile_code(t->op->eltwise.tile, t->value) + by[numbers(t)]};
    for (int k = 0; k < t->narg; k++) {
        if (k == t->value) continue;
        s[n].way[at] = way_of(t, k);
        s[n].memory[at++] = operand[k];
    }
    bool rounds = is_halves(t) && (busy || last == TILE_CUT);
    if (rounds) s[++n] = (struct tile_step){.code = t->dtype == DT_BF16 ? TILE_ROUND_BF16 : TILE_ROUND_F16};
    const int to[NDTYPE] = {[DT_BF16] = TILE_WALKS_BF16, [DT_F16] = TILE_WALKS_F16};
    s[++n] = (struct tile_step){last, {is_halves(t) ? to[t->dtype] : TILE_WALKS}, {result}};
    s[++n] = (struct tile_step){.code = TILE_END};
    return n;
}

/* Checks one operation. halves: true: processes the columns in two ranges, one after the other. */
static bool
right(const struct trial *t, const struct level *l, bool busy, int last, bool halves, int how)
{
    static _Alignas(64) double number[3][TILE_LONGEST];
    enum dtype d = t->dtype;
    struct tile_step s[8];
    program(t, number, busy, last, s);
    for (int i = 0; i < COUNT + GUARD; i++) elem_set_f(d, result, i, UNTOUCHED);
    bool alone = !busy && is_lone_step(s);
    int64_t size = (int64_t)compute_bytes(t->type), vector = l->width / size, part = t->n;
    if (halves) part = (t->n / 2 + vector) / vector * vector;
    for (int64_t at = 0; at < t->n; at += part) {
        int64_t some = MIN(part, t->n - at);
        loop_fn *run = alone && some * size >= l->width ? l->alone[t->type] : l->tiles[t->type];
        run(s, some, ROWS, at * size, t->n * size, how);
    }
    tile_fence();
    for (int64_t row = 0; row < ROWS; row++)
        for (int64_t i = 0; i < t->n; i++)
            if (!same(t, row, i)) return false;
    for (int64_t i = ROWS * t->n; i < COUNT + GUARD; i++)
        if (elem_get_f(d, result, i) != UNTOUCHED) return false;
    return true;
}

/* Tries rows of 1 to LENGTH elements, with every combination of ways in which the tile can read the operands. */
static void
try_operation(const struct op *op, enum compute type, int value, int level, enum dtype d)
{
    struct trial t = {.op = op, .type = type, .narg = op_noperand(op), .value = value, .dtype = d};
    int second = d == DT_BF16 ? TILE_CUT : TILE_STREAM;
    /* number of combinations of TILE_BACK, TILE_OVER and TILE_ROUNDS */
    int nhow = level == LEVEL_V4 && machine_rounds_bf16() ? 8 : 4;
    int ways = t.narg == 1 ? 4 : t.narg == 2 ? 16 : 64, wrong = 0, tried = 0;
    for (int w = 0; w < ways; w++) {
        /* some: true: an operand has one value per row; by_row: true: that operand cannot be passed as a scalar,
         * because it is the input value or a half */
        bool by_row = false, some = false;
        for (int k = 0; k < t.narg; k++) {
            t.form[k] = w >> 2 * k & 3;
            by_row |= t.form[k] == TILE_BY_ROW && (k == value || is_halves(&t));
            some |= t.form[k] == TILE_BY_ROW;
        }
        if (by_row || (some && !numbers(&t))) continue;
        for (t.n = 1; t.n <= LENGTH; t.n += t.n < 40 ? 1 : 8 - t.n % 8 + (t.n / 8 % 3 == 0)) {
            int how = (w + tried / 2) % nhow;
            wrong += !right(&t, &levels[level], false, TILE_STORE, t.n % 8 == 0, how);
            wrong += !right(&t, &levels[level], true, t.n % 2 && d != DT_F16 ? second : TILE_STORE, t.n % 3 == 0,
                            how ^ TILE_BACK);
            tried += 2;
        }
    }
    ok(wrong == 0 && tried > 100, "%s of %s, value %d, level %d: %d programs are right", op->name, dtype_text(d), value,
       level, tried);
}

static void
try_type(enum compute type, enum dtype d)
{
    if (d == compute_dtype(type))
        fill(d);
    else
        fill_halves(d);
    for (int tile = TILE_NONE + 1; tile < NTILE_OP; tile++) {
        const struct op *op = op_with(tile);
        if (!ok(op != NULL, "tile operation %d has an operator", tile)) continue;
        /* skips integers that are computed as floats */
        if (!dtype_is_float(compute_dtype(type)) && !op->eltwise.i) continue;
        for (int level = LEVEL_ANY; level <= machine_level(); level++)
            for (int value = 0; value < op_noperand(op); value++)
                if (share_next()) try_operation(op, type, value, level, d);
    }
}

/* Checks results that begin 64 to 512 bytes after an operand, in addresses modulo the page size. Kernels write such
 * results from the end to the beginning. */
static void
meets(void)
{
    static char base[5 * 4096];
    int wrong = 0;
    for (int behind = -1024; behind <= 1024; behind += 64)
        for (int64_t page = 1; page <= 3; page++) {
            const struct tile_step steps[] = {
                {TILE_LOAD, {TILE_WALKS}, {base + page * 4096}},
                {TILE_CODE(TILE_ADD, 0), {TILE_REPEATS}, {base + page * 4096 + behind - 64}},
                {TILE_STORE, {TILE_WALKS}, {base + 4096 + behind}},
                {.code = TILE_END},
            };
            wrong += meets_stores(steps) != (behind > 0 && behind <= 512);
        }
    is_int(wrong, 0, "a result right after an operand, modulo pages, is written from its end");
}

/* Checks when a program may process some elements twice. This is allowed only if the second pass reads the same
 * values as the first. */
static void
repeats_itself(void)
{
    char *a = memory[0], *b = memory[1];
    const struct tile_step load_a = {TILE_LOAD, {TILE_WALKS}, {a}}, end = {.code = TILE_END};
    const struct tile_step add_a = {TILE_CODE(TILE_ADD, 0), {TILE_WALKS}, {a}},
                           add_b = {TILE_CODE(TILE_ADD, 0), {TILE_WALKS}, {b}};
    const struct tile_step put_a = {TILE_STORE, {TILE_WALKS}, {a}}, put = {TILE_STORE, {TILE_WALKS}, {result}};
    const struct tile_step stream_a = {TILE_STREAM, {TILE_WALKS}, {a}};
    ok(may_repeat_step((const struct tile_step[]){load_a, add_b, put, end}),
       "repeating is allowed with a separate result");
    ok(!may_repeat_step((const struct tile_step[]){load_a, add_b, put_a, end}),
       "repeating is refused if the result overwrites the first operand");
    ok(!may_repeat_step((const struct tile_step[]){load_a, add_a, add_b, stream_a, end}),
       "repeating is refused if a streamed result overwrites the first operand");
    ok(!may_repeat_step((const struct tile_step[]){add_b, add_a, put, add_b, put_a, end}),
       "repeating is refused if a result overwrites a later operand");
    ok(may_repeat_step((const struct tile_step[]){add_b, put_a, add_a, put, end}),
       "repeating is allowed if a written value is read later");
}

int
main(void)
{
    for (enum compute type = 0; type < NCOMPUTE; type++) try_type(type, compute_dtype(type));
    try_type(COMP_F32, DT_BF16);
    try_type(COMP_F32, DT_F16);
    meets();
    repeats_itself();
    return done();
}
