/* gemm.c - compares matrix products with the reference in every memory layout of operands. The fast variants must
 * accept each layout without copies.
 *
 * The test tries a share of all combinations of small and odd sizes, transposed operands, rows cut out of wider rows,
 * batches of one operand or both, interleaved heads, dtypes and threads. */
#include "kernels/cpu/base/dnnl.h"
#include "kernels/cpu/gemm/gemm.h"
#include "runtime/base/stop.h"
#include "t/lib/kernel/exec.h"
#include "sbp/infer.h"

#include <inttypes.h>

struct test_matrix {
    struct type type;
    struct view view;
    void *memory;
};

/* Memory layout of the last two dimensions. */
enum form { ROWS, TRANSPOSED, WIDE, WIDE_TRANSPOSED, ROW_REPEATED, ONE_REPEATED, NFORM };
static const char *const form_text[] = {
    "rows", "transposed", "wide rows", "wide and transposed", "one row repeated", "one number repeated"};

/* Operands with batch dimensions: none, one, or both. HEADS: both, with interleaved heads. */
enum group { NONE, ONE_A, ONE_B, BOTH, HEADS, NGROUP };
static const char *const group_text[] = {"no batch", "a batch of a", "a batch of b", "a batch of both", "heads"};

static void
matrix_make(struct test_matrix *o, enum dtype d, const int64_t *batch, int nbatch, int64_t rows, int64_t cols,
            enum form form, bool heads)
{
    o->type = (struct type){.dtype = (uint8_t)d, .ndim = (uint8_t)(nbatch + 2)};
    for (int i = 0; i < nbatch; i++) o->type.dim[i] = batch[i];
    o->type.dim[nbatch] = rows, o->type.dim[nbatch + 1] = cols;
    o->view = view_dense(&o->type, NULL);
    int64_t gap = form == WIDE || form == WIDE_TRANSPOSED ? 3 : 0, *stride = o->view.stride;
    bool transposed = form == TRANSPOSED || form == WIDE_TRANSPOSED;
    int64_t line = (transposed ? rows : cols) + gap, lines = transposed ? cols : rows;
    stride[nbatch + transposed] = line;
    stride[nbatch + !transposed] = 1;
    for (int i = nbatch - 1, step = (int)(line * lines); i >= 0; step *= (int)batch[i], i--) stride[i] = step;
    if (heads) { /* interleaved heads: dimensions {batch, head, row, col} are stored as {batch, row, head, col} */
        stride[1] = line;
        stride[2 + transposed] = line * batch[1];
    }
    if (form >= ROW_REPEATED) stride[nbatch] = 0;
    if (form == ONE_REPEATED) stride[nbatch + 1] = 0;
    int64_t n = 64 + line * lines;
    for (int i = 0; i < nbatch; i++) n *= batch[i];
    o->memory = must_alloc((size_t)n * dtype_bytes(d));
    for (int64_t i = 0; i < n; i++)
        if (dtype_is_float(d))
            elem_set_f(d, o->memory, i, (double)(i * 7 % 11) - 5);
        else
            /* multiplies by a large odd number, so that products of integers wrap around */
            elem_set_i(d, o->memory, i, (int64_t)((uint64_t)(i + 1) * 0x9e3779b97f4a7c15U));
    o->view.data = o->memory;
}

struct product {
    int64_t m, n, k;
    enum form a, b;
    enum group group;
    enum dtype dtype;
    int threads;
};

static bool
product_run(const struct product *p, struct call *c, const struct view *in, struct view *want, struct view *got,
            const char **variant)
{
    struct kcall k = {.call = c, .in = in, .out = want, .threads = p->threads};
    if (ref_run(&k)) return false;
    k.out = got;
    return !kcall_once(&k, (void *[]){in[0].data, in[1].data}, (void *[]){got->data}, variant);
}

/* Returns true if the variant is a fast one. If oneDNN's products of halves are missing or slow, the f32 variant
 * counts as fast for halves. */
static bool
is_fast(const char *variant, enum dtype d)
{
    if (!dtype_is_float(d)) return !strcmp(variant, "int");
    if (!prim_multiplies(d)) return !strcmp(variant, "f32") || !strcmp(variant, "few");
    return !strcmp(variant, "dnnl") || !strcmp(variant, "few") || !strcmp(variant, "turned");
}

/* Compares results exactly. Values are integers, so sums are exact in f32, and rounded once in bf16. Integer results
 * wrap around. */
static bool
same(const struct view *want, const struct view *got)
{
    if (!dtype_is_float((enum dtype)want->dtype)) return !memcmp(want->data, got->data, (size_t)view_bytes(want));
    for (int64_t i = 0; i < view_numel(want); i++)
        if (elem_get_f(want->dtype, want->data, i) != elem_get_f(got->dtype, got->data, i)) return false;
    return true;
}

static struct call
product_of(const char *name, const struct type *in, struct type *out)
{
    static struct attr attr[OP_ATTR];
    const struct op *op = op_find(name);
    op_attr_defaults(op, attr);
    return (struct call){.op = op, .nin = 2, .nout = 1, .in = in, .out = out, .attr = attr};
}

/* Checks one product. method: receives the name of the chosen variant; may be NULL. */
static bool
product_by(const struct product *p, const char **method)
{
    static const int64_t batch[] = {2, 3};
    struct arena arena = {0};
    struct rule rule;
    struct test_matrix a, b;
    struct type out;
    bool heads = p->group == HEADS;
    int na = p->group == ONE_A || p->group >= BOTH ? 2 : 0, nb = p->group == ONE_B || p->group >= BOTH ? 2 : 0;
    matrix_make(&a, p->dtype, batch, na, p->m, p->k, p->a, heads);
    matrix_make(&b, p->dtype, batch, nb, p->k, p->n, p->b, heads);
    struct type in_type[] = {a.type, b.type};
    struct call c = product_of("matmul", in_type, &out);
    bool pass = !call_infer(&arena, &c, &rule);
    struct view in[] = {a.view, b.view}, want = view_dense(&out, NULL), got = want;
    want.data = must_alloc((size_t)type_bytes(&out) + 1);
    got.data = must_alloc((size_t)type_bytes(&out) + 1);
    const char *variant = "none";
    pass = pass && product_run(p, &c, in, &want, &got, &variant) && same(&want, &got);
    bool empty = p->m == 0 || p->n == 0 || p->k == 0;
    pass = pass && (empty || is_fast(variant, p->dtype));
    if (method) *method = variant;
    if (!pass)
        diag("%lldx%lldx%lld, a %s, b %s, %s, %s, %d threads: %s", (long long)p->m, (long long)p->n, (long long)p->k,
             form_text[p->a], form_text[p->b], group_text[p->group], dtype_text(p->dtype), p->threads, variant);
    free(a.memory), free(b.memory), free(want.data), free(got.data);
    arena_fini(&arena);
    return pass;
}

static bool
product_try(const struct product *p)
{
    return product_by(p, NULL);
}

/* Tries this run's share of all sizes with the first forms_a memory layouts of a and the first forms_b of b,
 * alternately on one and two threads. group: operands that have batch dimensions; MIXED: both operands in every fifth
 * product, none in the others. */
enum { MIXED = NGROUP };
static void
try_sizes(const int64_t (*size)[3], size_t n, int forms_a, int forms_b, int group, enum dtype d)
{
    int i = 0, tried = 0, right = 0;
    for (size_t s = 0; s < n; s++)
        for (int a = ROWS; a < forms_a; a++)
            for (int b = ROWS; b < forms_b; b++, i++) {
                if (!share_next()) continue;
                enum group g = group < MIXED ? (enum group)group : i % 5 ? NONE : BOTH;
                tried++;
                right += product_try(
                    &(struct product){size[s][0], size[s][1], size[s][2], (enum form)a, (enum form)b, g, d, 1 + i % 2});
            }
    if (!tried) return;
    ok(right == tried, "%d products of %lld to %lld rows with %s in %s are right", tried, (long long)size[0][0],
       (long long)size[n - 1][0], group < MIXED ? group_text[group] : "some batches", dtype_text(d));
}

static void
try_group(enum group group, enum dtype d)
{
    static const int64_t sizes[][3] = {{1, 1, 1},   {1, 5, 3},  {5, 1, 3}, {5, 3, 1}, {4, 17, 9}, {2, 9, 35},
                                       {3, 85, 20}, {7, 3, 33}, {0, 3, 2}, {3, 0, 2}, {3, 2, 0}};
    try_sizes(sizes, countof(sizes), NFORM, NFORM, (int)group, d);
}

/* Products of few rows and a large operand b. For these sizes the kernel variant selects another implementation of
 * oneDNN. */
static const int64_t large[][3] = {{1, 1100, 700}, {3, 1100, 700}, {5, 1100, 700}};

/* Large products of halves, which are converted to f32 if oneDNN's products of halves are missing or slow
 * (is_fast). */
static const int64_t halves[][3] = {{64, 64, 64},  {17, 300, 70},  {300, 17, 70},  {257, 513, 21},
                                    {31, 45, 769}, {260, 40, 385}, {70, 600, 800}, {16, 16, 2000}};

/* Integer products. The numbers of rows, columns and terms (k) are one block or several, the last of them shorter.
 * Some products have few rows or few columns. */
static const int64_t whole[][3] = {{64, 64, 64},  {17, 300, 70}, {257, 520, 300}, {31, 45, 769},  {1, 1200, 40},
                                   {1200, 2, 33}, {3, 600, 270}, {2, 1, 3000},    {130, 33, 257}, {4, 4, 4}};

/* Tries an operand a of few rows with a large, column-major b. The kernel must multiply the transposed matrices
 * (variant "turned") if this keeps 16 lanes busy and transposing costs less than reading b. */
static bool
turned_try(int64_t m, int64_t n, int64_t k, enum form a, int i, bool lanes, int *transposed)
{
    const char *method = NULL;
    struct product p = {m, n, k, a, i % 4 < 2 ? TRANSPOSED : WIDE_TRANSPOSED, NONE, DT_F32, 1 + i % 2};
    bool wanted = lanes && 2 * n * k >= 3 * m * (n + k);
    *transposed += wanted;
    return product_by(&p, &method) && !strcmp(method, "turned") == wanted;
}

static void
try_turned(void)
{
    static const int64_t rows[] = {7, 8, 13, 16, 17, 48}, sizes[] = {20, 75, 150};
    int n = 0, tried = 0, right = 0, transposed = 0;
    for (size_t i = 0; i < countof(rows); i++)
        for (size_t j = 0; j < countof(sizes); j++)
            for (size_t l = 0; l < countof(sizes); l++)
                for (enum form a = ROWS; a <= WIDE; a++, n++) {
                    if (!share_next()) continue;
                    bool lanes = (rows[i] >= 8 && rows[i] <= 16) || rows[i] % 16 == 0;
                    tried++;
                    right += turned_try(rows[i], sizes[j], sizes[l], a, n, lanes, &transposed);
                }
    ok(right == tried && covered(transposed > 20), "%d products by a column-major matrix are right, %d by transposes",
       tried, transposed);
}

/* Runs an accumulating product for micro-batches 0, 1 and 2 with the same operands. The accumulated result must be
 * three times the product. */
static bool
adds_up(const char *op, const char *const *text, enum dtype d, int threads)
{
    struct arena arena = {0};
    struct rule rule;
    struct test_matrix x[2];
    struct type out, in[2];
    struct exec *e = NULL;
    int64_t dim[2][3];
    for (int i = 0; i < 2; i++) {
        int n = sscanf(text[i], "%" SCNd64 ",%" SCNd64 ",%" SCNd64, &dim[i][0], &dim[i][1], &dim[i][2]);
        matrix_make(&x[i], d, dim[i], n - 2, dim[i][n - 2], dim[i][n - 1], ROWS, false);
        in[i] = x[i].type;
    }
    struct call c = product_of(op, in, &out);
    bool pass = !call_infer(&arena, &c, &rule);
    out.dtype = DT_F32;
    struct view v[] = {x[0].view, x[1].view}, want = view_dense(&out, must_alloc((size_t)type_bytes(&out) + 1)),
                to = want;
    float *got = must_alloc((size_t)type_bytes(&out) + 1);
    struct kcall k = {.call = &c, .in = v, .out = &want, .threads = threads, .adds = true};
    pass = pass && !ref_run(&k);
    to.data = NULL;
    k.out = &to;
    pass = pass && !exec_new(&k, DEV_CPU, &e);
    char *scratch = pass ? aligned_alloc(64, (exec_scratch(e) + 127) / 64 * 64) : NULL;
    for (uint64_t piece = 0; piece < 3 && pass; piece++)
        pass = !exec_run(e, (void *[]){x[0].memory, x[1].memory}, (void *[]){got}, scratch, piece);
    for (int64_t i = 0; i < view_numel(&want) && pass; i++) pass = got[i] == 3 * ((const float *)want.data)[i];
    free(scratch), free(got), free(want.data);
    for (int i = 0; i < 2; i++) free(x[i].memory);
    exec_free(&e);
    arena_fini(&arena);
    return pass;
}

static void
try_sums(void)
{
    static const char *const text[][3] = {
        {"matmul", "7,33", "33,20"},     {"matmul", "1,33", "33,20"},      {"matmul", "3,7,33", "3,33,20"},
        {"matmul", "64,256", "256,64"},  {"matmul", "5,1,33", "33,20"},    {"contract", "33,7", "33,20"},
        {"contract", "4,9,7", "4,9,20"}, {"contract", "600,40", "600,90"}, {"contract", "1,40", "1,90"},
    };
    for (size_t i = 0; i < countof(text); i++)
        for (int threads = 1; threads <= 2; threads++) {
            ok(adds_up(text[i][0], text[i] + 1, DT_F32, threads), "%s of %s and %s accumulates, %d threads", text[i][0],
               text[i][1], text[i][2], threads);
            ok(adds_up(text[i][0], text[i] + 1, DT_BF16, threads), "the product of halves accumulates, too");
        }
}

static size_t
scratch_of(enum form form_a, enum form form_b)
{
    struct arena arena = {0};
    struct rule rule;
    struct test_matrix a, b;
    struct type out;
    struct exec *e;
    matrix_make(&a, DT_F32, NULL, 0, 32, 48, form_a, false);
    matrix_make(&b, DT_F32, NULL, 0, 48, 64, form_b, false);
    struct type in_type[] = {a.type, b.type};
    struct call c = product_of("matmul", in_type, &out);
    size_t bytes = 0;
    if (!call_infer(&arena, &c, &rule)) {
        struct view in[] = {a.view, b.view}, to = view_dense(&out, NULL);
        in[0].data = in[1].data = NULL;
        if (!exec_new(&(struct kcall){.call = &c, .in = in, .out = &to, .threads = 1}, DEV_CPU, &e)) {
            bytes = exec_scratch(e);
            exec_free(&e);
        }
    }
    free(a.memory), free(b.memory);
    arena_fini(&arena);
    return bytes;
}

/* Tries operands like those of the gradient of a sum: operand a repeats one number, operand b is transposed. */
static void
test_copies(void)
{
    const size_t a = 32 * 48 * sizeof(float), b = 48 * 64 * sizeof(float);
    is_int((long)scratch_of(ONE_REPEATED, TRANSPOSED), (long)(scratch_of(ROWS, TRANSPOSED) + a),
           "a repeated number is copied, a transposed matrix beside it is not");
    is_int((long)scratch_of(TRANSPOSED, ROW_REPEATED), (long)(scratch_of(TRANSPOSED, ROWS) + b),
           "a transposed matrix beside a repeated row is not copied");
}

static bool
counted(void *n)
{
    ++*(int *)n;
    return false;
}

/* Returns the number of parts in which a product of row-major operands is computed, counted by the kernel's polls
 * of the stop flag; 0 if the product is wrong. */
static int
parts_of(int64_t m, int64_t n, int64_t k, enum dtype d, enum dtype to)
{
    struct arena arena = {0};
    struct rule rule;
    struct test_matrix a, b;
    struct type out;
    int questions = 0;
    matrix_make(&a, d, NULL, 0, m, k, ROWS, false);
    matrix_make(&b, d, NULL, 0, k, n, ROWS, false);
    struct type in[] = {a.type, b.type};
    struct call c = product_of("matmul", in, &out);
    bool pass = !call_infer(&arena, &c, &rule);
    out.dtype = (uint8_t)to;
    struct view v[] = {a.view, b.view}, want = view_dense(&out, must_alloc((size_t)type_bytes(&out))),
                got = view_dense(&out, must_alloc((size_t)type_bytes(&out))), not_yet = got;
    not_yet.data = NULL;
    pass = pass && !ref_run(&(struct kcall){.call = &c, .in = v, .out = &want, .threads = 1});
    stop_ask(counted, &questions);
    pass = pass && !kcall_once(&(struct kcall){.call = &c, .in = v, .out = &not_yet, .threads = 1},
                               (void *[]){a.memory, b.memory}, (void *[]){got.data}, NULL);
    stop_ask(NULL, NULL);
    pass = pass && same(&want, &got);
    free(want.data), free(got.data), free(a.memory), free(b.memory);
    arena_fini(&arena);
    return pass ? questions + 1 : 0;
}

/* Checks splits along k. A sum in f32 must be split into k / AT_ONCE parts (rounded to an integer); a sum of
 * halves must not be split. */
static void
try_parts(void)
{
    enum { SIDE = 256, AT_ONCE = 256 };
    static const struct {
        enum dtype d, to;
    } of[] = {{DT_F32, DT_F32}, {DT_BF16, DT_F32}, {DT_BF16, DT_BF16}};
    const struct gemm_panel panel = gemm_panel;
    gemm_panel = (struct gemm_panel){.flops = 2.0 * SIDE * SIDE * AT_ONCE, .side = SIDE, .step = 16};
    for (size_t i = 0; i < countof(of); i++) {
        int tried = 0, right = 0;
        /* skips dtypes that oneDNN does not multiply, because another variant computes them in f32 */
        if (!prim_multiplies(of[i].d)) continue;
        for (int64_t k = 3 * AT_ONCE / 4; k <= 4 * AT_ONCE; k += 24) {
            if (!share_next()) continue;
            tried++;
            int want = of[i].to == DT_F32 ? (int)MAX(1, (2 * k + AT_ONCE) / (2 * AT_ONCE)) : 1;
            int got = parts_of(SIDE, SIDE, k, of[i].d, of[i].to);
            right += got == want;
            if (got != want) diag("k %d: %d parts, %d are nearest", (int)k, got, want);
        }
        if (tried)
            ok(right == tried, "%d products of %s to %s are computed in %s", tried, dtype_text(of[i].d),
               dtype_text(of[i].to), of[i].to == DT_F32 ? "the expected number of parts of k" : "one part");
    }
    gemm_panel = panel;
}

/* Checks prim_isa_has_amx() on oneDNN's masks of instruction sets. It must return true for the AMX mask with any
 * further bit, and false for the AMX mask without any one of its bits. */
static void
try_isa(void)
{
    const unsigned amx = dnnl_cpu_isa_avx512_core_amx;
    bool above = true, below = false;
    for (unsigned bit = 1; bit; bit <<= 1) {
        above &= prim_isa_has_amx(amx | bit);
        if (amx & bit) below |= prim_isa_has_amx(amx & ~bit);
    }
    ok(above, "an instruction set above AMX has AMX");
    ok(!below, "an instruction set without one bit of AMX has no AMX");
}

int
main(void)
{
    static const enum dtype dtypes[] = {DT_F32, DT_BF16}, ints[] = {DT_I64, DT_I32, DT_U8};
    try_isa();
    test_copies();
    for (size_t d = 0; d < countof(dtypes); d++) try_sizes(large, countof(large), NFORM, NFORM, NONE, dtypes[d]);
    for (enum group g = NONE; g < NGROUP; g++)
        for (size_t d = 0; d < countof(dtypes); d++) try_group(g, dtypes[d]);
    for (size_t d = 0; d < countof(ints); d++) {
        for (enum group g = NONE; g < NGROUP; g++) try_group(g, ints[d]);
        try_sizes(whole, countof(whole), NFORM, NFORM, MIXED, ints[d]);
    }
    try_turned();
    try_sizes(halves, countof(halves), WIDE_TRANSPOSED + 1, WIDE_TRANSPOSED + 1, MIXED, DT_F16);
    try_sizes(halves, countof(halves), WIDE_TRANSPOSED + 1, WIDE_TRANSPOSED + 1, MIXED, DT_BF16);
    try_sums();
    try_parts();
    for (double flops = 1; flops < 1e6; flops *= 8) {
        diag("the same in panels and in parts of a batch of %.0f flops", flops);
        gemm_panel = (struct gemm_panel){.flops = flops, .side = 2, .step = 1};
        if (flops > 1e5) try_sums();
        for (enum group g = NONE; g < NGROUP; g++)
            for (size_t d = 0; d < countof(dtypes); d++) try_group(g, dtypes[d]);
    }
    return done();
}
