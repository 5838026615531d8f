/* stop.c - tests that every kernel polls the stop flag between parts of its work, and ends soon after a "stop". A
 * part may move at most most_bytes, in every float dtype. Products and convolutions limit a part's floating-point
 * operations instead; this test makes their parts small. Each operator with its own kernel has a row in the table.
 * Element-wise operators are called with one long row each. */
#include "kernels/cpu/conv/conv.h"
#include "kernels/cpu/gemm/gemm.h"
#include "runtime/base/stop.h"
#include "t/lib/kernel/exec.h"
#include "sbp/infer.h"

#include <limits.h>

static const struct {
    const char *op, *sample;
} table[] = {
    {"abs", "f32{8000000}"},
    {"add", "f32{2000,1000} f32{1000}"},
    {"cast", "f32{8000000} dtype=bf16"},
    {"contiguous", "f32{8000000}"},
    {"gelu", "f64{4000000}"},
    {"pow", "f32{4000000} f32{4000000}"},
    {"where", "bool{90,80000} f32{90,80000} #0.5"},
    {"adamw", "f32{8000000} f32{8000000} f32{8000000} f32{8000000} #0.01 #3"},
    {"all", "bool{32000000}"},
    {"any", "bool{8000,4000} axis=1"},
    {"arange", "#0 #4000000"},
    {"argmax", "f32{2000,4000} axis=1"},
    {"argmin", "f32{80000,100} axis=0"},
    {"argmax", "f32{8000000}"},
    {"attention", "f32{2,4,1000,64} f32{2,4,1000,64} f32{2,4,1000,64} is_causal=true"},
    {"attention_grad", "f32{2,4,500,64} f32{2,4,500,64} f32{2,4,500,64} - - - f32{2,4,500,64} f32{2,4,500,64}"},
    {"attention_softmax", "f32{8,1000,1000} - scale=0.5"},
    {"avg_pool2d", "f32{16,16,200,200} kernel_size=2"},
    {"avg_pool2d", "f32{1,1,3000,3000} kernel_size=3"},
    {"avg_pool2d_grad", "f32{1,1,2000,2000} kernel_size=2 size=4000,4000"},
    {"concat", "f32{6000,1000} f32{2000,1000}"},
    {"contract", "f32{512,512} f32{512,512}"},
    {"conv2d", "f32{8,8,64,64} f32{8,8,3,3} - padding=1"},
    {"conv2d", "f32{1,32,40,40} f32{128,32,3,3} - padding=1"},
    {"conv2d_grad_x", "f32{1,64,40,40} f32{64,64,3,3} padding=1 size=40,40"},
    {"conv2d_grad_w", "f32{1,32,40,40} f32{1,128,40,40} padding=1 size=3,3"},
    {"conv2d_grad_w", "f32{8,8,64,64} f32{8,8,64,64} padding=1 size=3,3"},
    {"conv2d_grad_x", "f32{8,8,64,64} f32{8,8,3,3} padding=1 size=64,64"},
    {"conv2d", "f32{1,64,80,80} f32{64,64,1,1} - stride=2"},
    {"conv2d_grad_x", "f32{1,64,40,40} f32{64,64,1,1} stride=2 size=80,80"},
    {"conv2d_grad_w", "f32{1,64,40,40} f32{1,64,42,42} padding=1 size=1,1"},
    {"conv2d", "f32{1,1,100,100} f32{32,1,3,3} - padding=1"},
    {"conv2d_grad_w", "f32{1,32,40,40} f32{1,32,46,46} padding=4 size=3,3"},
    {"conv2d", "f32{1,64,40,40} f32{64,32,3,3} - padding=1 groups=2"},
    {"cross_entropy_grad", "f32{8000,1000} i64{8000}<1000 f32{8000} f32{8000} f32{8000}"},
    {"cross_entropy_parts", "f32{8000,1000} i64{8000}<1000 f32{8000}>2"},
    {"cross_entropy_parts_grad", "f32{8000,1000} i64{8000}<1000 f32{8000}>2 f32{8000} f32{8000}"},
    {"cross_entropy_rows", "f32{8000,1000} i64{8000}<1000"},
    {"cumsum", "f32{4000,4000} axis=1"},
    {"cumsum", "f32{8000000} axis=0 reverse=1"},
    {"cumsum", "f32{4000,2000} axis=0"},
    {"divisor", "i64{4000000}>1"},
    {"dropout", "f32{4000000} #1 #0"},
    {"embedding", "i64{4000}<500 f32{500,1000}"},
    {"empty", NULL}, /* operators that compute nothing */
    {"exp_sum", "f32{2000,4000} f32{2000,1} axis=1"},
    {"expert_blocks", "f32{1,2000,1,512} u8{1,8,512,16,34}<60 i64{2000,2}<8"},
    {"expert_matmul", "f32{1,2000,1,512} f32{1,8,512,512} i64{2000,2}<8"},
    {"expert_matmul_grad", "f32{1,2000,1,512} f32{1,2000,2,512} i64{2000,2}<8 experts=8"},
    {"eye", ""},
    {"flip", "f32{2000,4000} axes=1"},
    {"from_blocks", "u8{8000,30,34}<60"},
    {"full", "#2.5"},
    {"gather", "f32{2000,1000} i64{2000,500}<1000 axis=1"},
    {"gather_grad", "f32{2000,1000} i64{2000,500}<1000 f32{2000,500} axis=1"},
    {"index_add", "f32{16000,1000} i64{4000}<16000 f32{4000,1000} axis=0"},
    {"index_add_to", "f32{16000,1000} i64{4000}<16000 f32{4000,1000} axis=0"},
    {"index_select", "f32{5000,1000} i64{4000}<5000 axis=0"},
    {"layer_norm", "f32{4000,1000} f32{1000} f32{1000}"},
    {"layer_norm", "f32{1,8000000} f32{8000000} f32{8000000}"},
    {"line_sum", "f32{8000,1000} axis=1"},
    {"linear_blocks", "f32{64,1024} u8{1024,32,34}<60"},
    {"linear_blocks", "f32{1,4096} u8{4096,128,34}<60"},
    {"linear_int8", "f32{64,1024} u8{1024,1024} f32{1024}"},
    {"linspace", "#0 #1"},
    {"log_softmax", "f32{4000,1000}"},
    {"logsumexp", "f32{4000,1000} axis=1"},
    {"logsumexp", "f32{8000000} axis=0"},
    {"matmul", "f32{16000,1000} f32{1000}"},
    {"matmul", "f32{512,512} f32{512,512}"},
    {"matmul", "f32{64,100000} f32{100000,64}"},
    {"matmul", "bf16{300,1000} bf16{1000,300}"},
    {"matmul", "f32{64,64,64} f32{64,64,64}"},
    {"matmul", "f32{4,8,64,64} f32{4,8,64,64}"},
    {"matmul", "f64{512,512} f64{512,512}"},
    {"matmul", "i64{128,128} i64{128,128}"},
    {"max", "f32{8000000}"},
    {"min", "f32{2000,4000} axis=0"},
    {"min", "f32{2000000,4} axis=0"},
    {"prod", "f32{2000,4000} axis=1"},
    {"rescale", "f32{8000000} f32{}"},
    {"square_sum", "f32{8000000}"},
    {"sum", "f32{8000000}"},
    {"sum", "f32{2,4000000} axis=0"},
    {"max_pool2d", "f32{16,16,100,100} kernel_size=2"},
    {"max_pool2d", "f32{1,1,3000,3000} kernel_size=3"},
    {"max_pool2d_pick", "f32{1,1,2000,2000} f32{1,1,2000,2000} kernel_size=2"},
    {"max_pool2d_grad", "f32{1,1,2000,2000} f32{1,1,1000,1000} kernel_size=2"},
    {"norm_grad", "f32{4000,1000} f32{4000,1000} f32{1000}"},
    {"norm_grad", "f32{100000,64} f32{100000,64} -"},
    {"moments_joined", "u8{200000,4,9}"},
    {"moments_of", "f32{200000,4,2} u8{200000,4,9} u8{200000,4,7}"},
    {"moments_told", "f64{800000} f32{800000}>0.5"},
    {"norm_grad", "f32{1,8000000} f32{1,8000000} f32{8000000}"},
    {"one_hot", "i64{400000}<10 n=10"},
    {"ones", ""},
    {"pad", "f32{2000,4000} pad=1,2"},
    {"position", "f32{2000,1000} axis=1"},
    {"product_sum", "f32{8000,1000} f32{8000,1} f32{8000,1000} axis=1"},
    {"product_sum", "f32{8000,1000} f32{1,1000} - axis=0"},
    {"put", "f32{4,2000,500} i64{4,100}<2000 f32{4,100,500} axis=1"},
    {"rand", "#1 #0"},
    {"randint", "#3 #6 #1 #0"},
    {"randn", "#1 #0"},
    {"recurrence", "f32{512,60,512} f32{512,128} f32{512,128} f32{512,128} f32{512} -"},
    {"recurrence_grad", "f32{512,60,128} f32{512,60,128} f32{512,60,128} f32{512,60,128} f32{512,60,512} f32{512,128} "
                        "f32{512,128} f32{512,128} -"},
    {"rms_norm", "f32{4000,1000} f32{1000}"},
    {"sgd", "f32{8000000} f32{8000000} f32{8000000} #0.1 momentum=0.9"},
    {"slice_grad", "f32{4000,1000} axis=1 start=1 step=2 size=2000"},
    {"softmax", "f32{4000,1000}"},
    {"softmax", "f32{1,8000000}"},
    {"softmax", "f32{40,1000,100} axis=1"},
    {"softmax_grad", "f32{4000,1000} f32{4000,1000}"},
    {"softmax_grad", "f32{1,8000000} f32{1,8000000}"},
    {"to_blocks", "f32{2000,4000}"},
    {"topk", "f32{2000,1000} k=20"},
    {"topk", "f32{4000000} k=20"},
    {"topk", "f32{120000} k=120000"},
    {"tril", "f32{2000,2000}"},
    {"triu", "f32{2000,2000}"},
    {"zeros", ""},
};

static const double most_bytes = 128 << 20; /* limit of the bytes that a kernel moves between two polls */

static long asked, patience,
    /* asked: number of polls so far; patience: number of polls that the test answers by "go on"; most: maximum
     * number of polls after the first answer "stop" */
    most = 16;

static bool
wanted(void *arg)
{
    UNUSED(arg);
    return ++asked > patience;
}

/* Returns dense memory for an operand. An operand with a bound contains valid positions; any other operand contains
 * zeros. */
static void *
memory_of(const struct sample *s, int i)
{
    const struct view v = view_dense(i < s->call.nin ? &s->in[i] : &s->out[i - s->call.nin], NULL);
    if (v.dtype == DT_NONE) return NULL;
    char *data = calloc(1, (size_t)view_bytes(&v) + 64);
    for (int64_t k = 0; i < s->call.nin && s->below[i] && k < view_numel(&v); k++)
        elem_set_i(v.dtype, data, k, k % s->below[i]);
    for (int64_t k = 0; i < s->call.nin && s->above[i] && k < view_numel(&v); k++) elem_set_i(v.dtype, data, k, 2);
    if (i < s->call.nin && s->in[i].weak) elem_set_f(v.dtype, data, 0, s->number[i]);
    return data;
}

static struct exec *
exec_of(const struct sample *s, struct view *view)
{
    struct exec *e = NULL;
    for (int i = 0; i < s->call.nin + s->call.nout; i++)
        view[i] = view_dense(i < s->call.nin ? &s->in[i] : &s->out[i - s->call.nin], NULL);
    struct kcall k = {.call = &s->call, .in = view, .out = view + s->call.nin, .threads = 1};
    return exec_new(&k, DEV_CPU, &e) ? NULL : e;
}

static double
bytes_of(const struct view *v, int n)
{
    double bytes = 0;
    for (int i = 0; i < n; i++) bytes += v[i].dtype == DT_NONE ? 0 : (double)view_bytes(&v[i]);
    return bytes;
}

/* Runs a kernel. Its first `noes` polls are answered by "go on", all later ones by "stop". Returns the number of
 * polls. */
static long
questions(const struct exec *e, int nin, void *const *data, void *scratch, long noes)
{
    asked = 0;
    patience = noes;
    exec_run(e, data, data + nin, scratch, 0);
    return asked;
}

static void
try_call(const char *name, const char *text, const struct sample *s)
{
    struct view view[SAMPLE_IN + OP_OUT];
    void *data[SAMPLE_IN + OP_OUT];
    struct exec *e = exec_of(s, view);
    int n = s->call.nin + s->call.nout;
    if (!ok(e != NULL, "%s %s can be computed", name, text)) return;
    for (int i = 0; i < n; i++) data[i] = memory_of(s, i);
    char *scratch = aligned_alloc(64, (exec_scratch(e) + 127) / 64 * 64);
    long all = questions(e, s->call.nin, data, scratch, LONG_MAX);
    double part = bytes_of(view, n) / ((double)all + 1);
    ok(all > 0 && part <= most_bytes, "%s %s, %s, asks whether to stop every %.3g bytes", name, text, exec_variant(e),
       part);
    long noes = all > 1, few = questions(e, s->call.nin, data, scratch, noes);
    ok(few > noes && few <= noes + 1 + most, "the kernel leaves soon after the answer to stop: %ld more questions",
       few - noes - 1);
    for (int i = 0; i < n; i++) free(data[i]);
    free(scratch);
    exec_free(&e);
}

static void
try_row(const char *name, const char *text, bool must)
{
    static const struct type square = {.dtype = DT_F32, .ndim = 2, .dim = {2000, 2000}};
    static const struct type line = {.dtype = DT_F32, .ndim = 1, .dim = {4000000}};
    struct arena arena = {0};
    struct sample s;
    struct rule rule;
    const struct op *op = op_find(name);
    if (!ok(op && sample_read(op, text, &s), "%s %s can be read", name, text)) return;
    if (op->flags & OP_SOURCE) s.out[0] = op == op_find("arange") || op == op_find("linspace") ? line : square;
    if (call_infer(&arena, &s.call, &rule)) {
        if (must) ok(false, "%s %s: %s", name, text, err_text());
    } else
        try_call(name, text, &s);
    arena_fini(&arena);
}

/* Tries the table's row in its dtype, and in all other float dtypes that the operator accepts. */
static void
try_dtypes(const char *name, const char *text)
{
    static const char *const dtypes[] = {"f32", "f64", "bf16", "f16"};
    for (size_t d = 0; d < countof(dtypes); d++) {
        struct str s = {0};
        for (const char *at = text, *next; *at; at = next) {
            next = strstr(at, "f32{");
            str_addf(&s, "%.*s%s", next ? (int)(next - at) : (int)strlen(at), at, next ? dtypes[d] : "");
            next = next ? next + 3 : at + strlen(at);
        }
        if (d == 0 || strcmp(str_text(&s), text)) try_row(name, str_text(&s), d == 0);
        str_free(&s);
    }
}

/* Tries a sample of an element-wise operator with long rows. */
static void
try_long(const struct op *op)
{
    struct str s = {0};
    for (const char *at = op->sample[0]; *at; at++) {
        str_addf(&s, "%c", *at);
        if (*at != '{') continue;
        str_addf(&s, "4000000");
        at += strcspn(at, "}") - 1;
    }
    try_dtypes(op->name, str_text(&s));
    str_free(&s);
}

static bool
has_row(const char *name)
{
    for (size_t i = 0; i < countof(table); i++)
        if (!strcmp(table[i].op, name)) return true;
    return false;
}

int
main(void)
{
    conv_part = (struct conv_part){.flops = 1e6, .rows = 1, .channels = 16};
    mean_part_bytes = 4 << 20;
    gemm_panel.flops = 1e6;
    gemm_panel.side = 64;
    for (const struct op *const *op = op_table; *op; op++)
        if ((*op)->host.kernel) ok(has_row((*op)->name), "%s has a row", (*op)->name);
    stop_ask(wanted, NULL);
    for (const struct op *const *op = op_table; *op; op++)
        if (!has_row((*op)->name) && (*op)->shape.rule && !((*op)->flags & OP_VIEW) && share_next()) try_long(*op);
    for (size_t i = 0; i < countof(table); i++)
        if (table[i].sample && share_next()) try_dtypes(table[i].op, table[i].sample);
    stop_ask(NULL, NULL);
    return done();
}
