/* threads.c - tests that the number of threads does not change a kernel's result: one, two, three and seven threads
 * must give the same bits, and the reference's values within rounding. Shapes are large enough to be split, and
 * split unevenly. */
#include "kernels/cpu/base/dnnl.h"
#include "kernels/exec/kernel.h"
#include "kernels/op/lib/table.h"
#include "kernels/exec/sample.h"
#include "runtime/device/device.h"
#include "runtime/base/error.h"
#include "sbp/rule.h"
#include "t/lib/tap.h"

static const struct {
    const char *op, *sample;
    /* allowed difference between numbers of threads, relative to the largest value; 0: the same bits */
    double rounding;
} table[] = {
    {"sum", "f32{300001}", 0},
    {"sum", "f32{16383}", 0},
    {"sum", "f32{16384}", 0},
    {"sum", "f32{5,16449} axis=1", 0},
    {"sum", "bf16{200000}", 0},
    {"sum", "i64{200003}", 0},
    {"sum", "f32{3,70001}", 0},
    {"sum", "f32{3,70001} axis=1", 0},
    {"sum", "f32{70001,3} axis=0", 0},
    {"sum", "f32{70001,3} axis=1", 0},
    {"max", "f32{70001,3} axis=0", 0},
    {"min", "f32{70001,3} axis=1", 0},
    {"sum", "f32{5000,63} axis=1", 0},
    {"sum", "bf16{100,5000} axis=0", 0},
    {"square_sum", "f32{200003}", 0},
    {"sum", "f32{5,4099,9} axis=1", 0},
    {"sum", "f32{16,2000,7} axis=0,2", 0},
    {"sum", "f32{200,5000} axis=0", 0},
    {"sum", "f32{2,100000} axis=0", 0},
    {"max", "f32{300001}", 0},
    {"min", "f64{150,3000} axis=0", 0},
    {"prod", "f32{140000}", 0},
    {"argmax", "f32{40,1300} axis=0", 0},
    {"argmin", "f32{3,70,530} axis=1", 0},
    {"any", "bool{200000}", 0},
    {"all", "bool{77,3000} axis=1", 0},
    {"add", "f32{200003} f32{200003}", 0},
    {"add", "f32{701,300} f32{300}", 0},
    {"mul", "f32{40001,5} f32{40001,1}", 0},
    {"add", "f32{40001,10} f32{10}", 0},
    {"add", "f32{7001,63} f32{63}", 0},
    {"where", "bool{90,2000} f32{90,2000} #0.5", 0},
    {"gelu", "f32{100001}", 0},
    {"cast", "f32{100003} dtype=bf16", 0},
    {"cumsum", "f32{301,777} axis=1", 0},
    {"cumsum", "f32{301,777} axis=1 reverse=true", 0},
    {"cumsum", "f64{31,500,3} axis=1 reverse=true", 0},
    {"cumsum", "bf16{70,300,9} axis=1", 0},
    {"softmax", "f32{301,777}", 0},
    {"softmax", "f32{30,500,9} axis=1", 0},
    {"softmax_grad", "f32{301,777} f32{301,777}", 0},
    {"log_softmax", "f32{301,777}", 0},
    {"layer_norm", "f32{301,777} f32{777} f32{777}", 0},
    {"norm_grad", "f32{301,777} f32{301,777} f32{777}", 0},
    {"norm_grad", "bf16{5000,60} bf16{5000,60} -", 0},
    {"norm_grad", "f64{301,777} f64{301,777} f64{777}", 0},
    {"cross_entropy_parts", "f32{3000,100} i64{3000}<100 f32{3000}>2", 0},
    {"cross_entropy_parts_grad", "f32{3000,100} i64{3000}<100 f32{3000}>2 f32{3000} f32{3000}", 0},
    {"cross_entropy_rows", "f32{3000,100} i64{3000}<100", 0},
    {"cross_entropy_grad", "f32{3000,100} i64{3000}<100 f32{3000} f32{3000} f32{3000}", 0},
    {"concat", "f32{300,301} f32{300,77} f32{300,5} axis=1", 0},
    {"slice_grad", "f32{300,301} axis=1 start=7 size=400", 0},
    {"flip", "f32{300,301} axes=0,1", 0},
    {"pad", "f32{300,301} pad=1,2,3,-4", 0},
    {"put", "f32{2,5000,40} i64{2,3}<5000 f32{2,3,40} axis=1", 0},
    {"index_select", "f32{5000,40} i64{3000}<5000 axis=0", 0},
    {"embedding", "i64{3000}<500 f32{500,77}", 0},
    {"adamw", "f32{100003} f32{100003} f32{100003}>0.01 f32{100003} #0.01 #3", 0},
    {"sgd", "f32{100003} f32{100003} f32{100003} #0.01", 0},
    {"max_pool2d", "f32{5,7,30,31} kernel_size=3 stride=2 padding=1", 0},
    {"avg_pool2d", "f32{5,7,60,61} kernel_size=3 stride=2 padding=1", 0},
    {"matmul", "f32{301,200} f32{200,170}", 1e-5},
    {"matmul", "f32{12,65,64} f32{12,64,33}", 1e-5},
    {"matmul", "f32{12,65,64} f32{12,64,80}", 0},
    {"matmul", "f32{130,64} f32{64,208}", 0},
    {"matmul", "f32{5,130,64} f32{5,64,496}", 0},
    {"expert_matmul", "f32{1,700,1,96} f32{1,3,96,1100} i64{700,2}<3", 0},
    {"expert_matmul", "bf16{1,300,2,96} bf16{1,7,96,600} i64{300,2}<7", 0},
    {"expert_matmul", "f32{1,3,1,96} f32{1,7,96,1100} i64{3,2}<7", 0},
    {"expert_matmul_grad", "f32{1,700,1,96} f32{1,700,2,1024} i64{700,2}<3 experts=3", 0},
    {"expert_matmul_grad", "bf16{1,300,2,96} bf16{1,300,2,600} i64{300,2}<7 experts=7", 0},
    {"conv2d", "f32{4,8,30,30} f32{16,8,3,3} - padding=1", 1e-5},
};

struct tensors {
    int nin, nout;
    struct view view[SAMPLE_IN + OP_OUT];
    void *data[SAMPLE_IN + OP_OUT];
};

static size_t
bytes_of(const struct view *v)
{
    return (size_t)view_numel(v) * dtype_bytes(v->dtype);
}

static void
fill(const struct sample *s, struct tensors *t, int i)
{
    enum dtype d = t->view[i].dtype;
    for (int64_t k = 0; k < view_numel(&t->view[i]); k++) {
        int64_t draw = (k * 7919 + i * 13 + k / 31) % 1013;
        if (s->below[i])
            elem_set_i(d, t->data[i], k, draw % s->below[i]);
        else if (s->above[i] || d == DT_BOOL)
            elem_set_f(d, t->data[i], k, d == DT_BOOL ? (double)(draw % 2) : s->above[i] + (double)draw / 1000);
        else
            elem_set_f(d, t->data[i], k, dtype_is_float(d) ? (double)(draw - 506) / 500 : (double)(draw % 9));
    }
    if (s->in[i].weak) elem_set_f(d, t->data[i], 0, s->number[i]);
}

static void
tensors_open(struct tensors *t, const struct sample *s)
{
    t->nin = s->call.nin;
    t->nout = s->call.nout;
    for (int i = 0; i < t->nin + t->nout; i++) {
        const struct type *type = i < t->nin ? &s->in[i] : &s->out[i - t->nin];
        t->view[i] = view_dense(type, NULL);
        t->data[i] = type->dtype ? calloc(1, bytes_of(&t->view[i]) + 64) : NULL;
        if (i < t->nin && type->dtype) fill(s, t, i);
    }
}

static void
tensors_close(struct tensors *t)
{
    for (int i = 0; i < t->nin + t->nout; i++) free(t->data[i]);
}

/* Runs the kernel; threads = 0 runs the reference. */
static int
run(const struct sample *s, struct tensors *t, int threads)
{
    tensors_open(t, s);
    struct kcall k = {.call = &s->call, .in = t->view, .out = t->view + t->nin, .threads = threads};
    if (threads == 0) {
        for (int i = 0; i < t->nin + t->nout; i++) t->view[i].data = t->data[i];
        return ref_run(&k);
    }
    struct exec *e;
    TRY(exec_new(&k, DEV_CPU, &e));
    char *scratch = aligned_alloc(64, (exec_scratch(e) + 127) / 64 * 64);
    int status = exec_run(e, t->data, t->data + t->nin, scratch, 0);
    free(scratch);
    exec_free(&e);
    return status;
}

/* Returns the largest difference between two results, relative to the largest value. */
static double
difference(const struct tensors *a, const struct tensors *b)
{
    double largest = 1e-30, worst = 0;
    for (int i = a->nin; i < a->nin + a->nout; i++) {
        enum dtype d = a->view[i].dtype;
        for (int64_t k = 0; k < view_numel(&a->view[i]); k++) {
            double x = elem_get_f(d, a->data[i], k), y = elem_get_f(d, b->data[i], k);
            largest = fmax(largest, fabs(y));
            worst = fmax(worst, isnan(x - y) ? INFINITY : fabs(x - y));
        }
    }
    return worst / largest;
}

static bool
same_bits(const struct tensors *a, const struct tensors *b)
{
    bool same = true;
    for (int i = a->nin; i < a->nin + a->nout; i++) same &= !memcmp(a->data[i], b->data[i], bytes_of(&a->view[i]));
    return same;
}

static void
try_row(const char *name, const char *text, double between)
{
    struct arena arena = {0};
    struct sample s;
    struct rule rule;
    if (!ok(op_find(name) && sample_read(op_find(name), text, &s) && !call_infer(&arena, &s.call, &rule),
            "%s %s can be called", name, text)) {
        diag("%s", err_text());
        return;
    }
    struct tensors want, one, many;
    bool low = s.out[0].dtype == DT_BF16;
    int status = run(&s, &want, 0) | run(&s, &one, 1);
    double apart = status ? INFINITY : difference(&one, &want);
    if (!ok(apart <= (low ? 1e-2 : 2e-5), "%s %s: equals the reference", name, text))
        diag("%g apart; %s", apart, status ? err_text() : "");
    for (int threads = 2; threads <= 7; threads += threads == 3 ? 4 : 1) {
        status = run(&s, &many, threads);
        bool good = !status && (between > 0 ? difference(&many, &one) <= between : same_bits(&many, &one));
        ok(good, "%s %s: %d threads give the result of one", name, text, threads);
        tensors_close(&many);
    }
    tensors_close(&want);
    tensors_close(&one);
    arena_fini(&arena);
}

int
main(void)
{
    for (size_t i = 0; i < countof(table); i++) try_row(table[i].op, table[i].sample, table[i].rounding);
    diag("convolutions in parts of some images");
    try_row("conv2d_grad_w", "bf16{5,4,6,5} bf16{5,6,3,3} padding=1 stride=2 groups=2 size=3,3", 1e-2);
    conv_part = (struct conv_part){1, 1, 16};
    try_row("conv2d", "f32{11,8,30,30} f32{16,8,3,3} - padding=1", 1e-5);
    try_row("conv2d", "f32{5,8,12,12} f32{16,4,3,3} - padding=1 groups=2", 1e-5);
    try_row("conv2d", "f32{2,5,9,8} f32{40,5,3,2} - padding=1 stride=2", 1e-5);
    try_row("conv2d", "bf16{1,20,7,7} bf16{33,20,3,3} - dilation=2", 2e-2);
    try_row("conv2d_grad_x", "f32{2,10,9,9} f32{10,40,3,3} padding=1 size=9,9", 1e-5);
    try_row("conv2d_grad_x", "f32{1,10,5,5} f32{10,17,3,3} stride=2 size=11,11", 1e-5);
    try_row("conv2d_grad_w", "f32{3,5,9,9} f32{3,40,9,9} padding=1 size=3,3", 1e-5);
    try_row("conv2d_grad_w", "bf16{1,5,9,9} bf16{1,33,9,9} padding=1 size=3,3", 2e-2);
    try_row("conv2d_grad_x", "f32{11,4,3,5} f32{4,3,3,2} size=5,6", 1e-5);
    try_row("conv2d_grad_w", "f32{11,3,5,6} f32{11,4,3,5} size=3,2", 1e-5);
    try_row("conv2d_grad_w", "bf16{5,4,6,5} bf16{5,6,3,3} padding=1 stride=2 groups=2 size=3,3", 1e-2);
    mean_part_bytes = 1 << 17;
    try_row("avg_pool2d", "f32{11,16,30,31} kernel_size=3 stride=2 padding=1", 0);
    try_row("avg_pool2d_grad", "f32{11,16,15,16} kernel_size=3 stride=2 padding=1 size=30,31", 0);
    return done();
}
