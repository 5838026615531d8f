/* kernels.c - speed of each kernel: time of a call, and bytes of operands and results per second.
 *
 *   bench-kernels [NAME [SAMPLE]]      prints lines that begin with operator and sample
 *
 * A sample states dtype, shape and range of values: "i64{5}<7" means below 7, "f32{4}>0.5" above 0.5. A call is
 * prepared once. Then it is repeated for some milliseconds, ten times; the best processor time of one thread is
 * printed. If a call fails, the benchmark fails.
 *
 *   bench-kernels -
 *
 * reads lines "operator<TAB>sample". It answers each line with the call's microseconds, the microseconds of a copy
 * of as many bytes, and the kernel's variant. bench/kernels.py uses this form, in turns with PyTorch. */
#include "bench/clock.h"
#include "kernels/exec/exec.h"
#include "kernels/op/base/table.h"
#include "kernels/exec/sample.h"
#include "runtime/base/denormal.h"
#include "runtime/device/device.h"
#include "runtime/base/error.h"
#include "sbp/infer.h"

#include <string.h>

static const char *const lines[][2] = {
    {"add", "f32{64,256} f32{64,256}"},
    {"add", "f32{16777216} f32{16777216}"},
    {"add", "f32{4096,4096} f32{4096}"},
    {"add", "bf16{16777216} bf16{16777216}"},
    {"add", "f32{1000000,3} f32{1000000,1}"},
    {"mul", "f32{64,256} #2.5"},
    {"clamp", "f32{64,256} #-0.5 #0.5"},
    {"relu", "f32{64,256}"},
    {"where", "bool{64,256} f32{64,256} f32{64,256}"},
    {"exp", "f32{1048576}"},
    {"tanh", "f32{1048576}"},
    {"gelu", "f32{1048576}"},
    {"gelu", "f32{1048576} approximate=tanh"},
    {"gelu_derivative", "f32{1048576}"},
    {"pow", "f32{1048576} #2"},
    {"cast", "f32{16777216} dtype=bf16"},
    {"add", "i64{1048576} i64{1048576}"},
    {"add", "f32{64,256} f32{256}"},
    {"cast", "f32{64,256} dtype=i64"},
    {"sum", "f32{64,256}"},
    {"sum", "f32{64,256} axis=0"},
    {"sum", "f32{64,256} axis=1"},
    {"max", "f32{64,256} axis=1"},
    {"max", "f32{65536}"},
    {"sum", "f32{16777216}"},
    {"square_sum", "f32{16777216}"},
    {"sum", "f32{4096,4096} axis=0"},
    {"sum", "f32{4096,4096} axis=1"},
    {"sum", "bf16{4096,4096} axis=0"},
    {"max", "f32{4096,4096} axis=1"},
    {"argmax", "f32{1024,1024} axis=1"},
    {"cumsum", "f32{1024,1024} axis=1"},
    {"logsumexp", "f32{1024,1024} axis=1"},
    {"dropout", "f32{1048576} #1 #1"},
    {"softmax", "f32{1024,1024}"},
    {"softmax", "f32{8,1000,1024} axis=1"},
    {"softmax", "f64{1024,1024}"},
    {"log_softmax", "bf16{1024,1024}"},
    {"softmax_grad", "f32{1024,1024} f32{1024,1024}"},
    {"logsumexp", "f32{8192,1000} axis=0"},
    {"cross_entropy_rows", "f32{256,50257} i64{256}<50257"},
    {"cross_entropy_rows", "f32{8,1000,1024} i64{8,1024}<1000"},
    {"cross_entropy_grad", "f32{256,50257} i64{256}<50257 f32{256}>9 f32{256}>1 f32{256}"},
    {"layer_norm", "f32{256,768} f32{768} f32{768}"},
    {"norm_grad", "f32{256,768} f32{256,768} f32{768}"},
    {"argmax", "bf16{8192,1000} axis=1"},
    {"cumsum", "bf16{1024,1024} axis=1"},
    {"cumsum", "i64{1024,1024} axis=0"},
    {"topk", "f32{20000} k=20000 largest=false"},
    {"topk", "f32{64,10000} k=10"},
    {"embedding", "i64{256}<50257 f32{50257,768}"},
    {"index_add", "f32{50257,768} i64{256}<50257 f32{256,768} axis=0"},
    {"index_select", "f32{50257,768} i64{256}<50257 axis=0"},
    {"gather", "f32{256,50257} i64{256,1}<50257 axis=1"},
    {"gather_grad", "f32{256,5000} i64{256,100}<5000 f32{256,100} axis=1"},
    {"matmul", "f32{512,1000} f32{1000,256}"},
    {"matmul", "f16{512,1000} f16{1000,256}"},
    {"matmul", "f64{512,1000} f64{1000,256}"},
    {"matmul", "i64{256,256} i64{256,256}"},
    {"matmul", "i32{256,256} i32{256,256}"},
    {"expert_matmul", "f32{1,512,1,512} f32{1,8,512,2048} i64{512,2}<8"},
    {"expert_matmul", "bf16{1,512,1,512} bf16{1,8,512,2048} i64{512,2}<8"},
    {"expert_matmul_grad", "f32{1,512,1,512} f32{1,512,2,2048} i64{512,2}<8 experts=8"},
    {"conv2d", "f64{8,16,32,32} f64{32,16,3,3} - padding=1"},
    {"exp", "f64{65536}"},
    {"tanh", "f64{65536}"},
    {"pow", "f32{65536}>0.1 #2.5"},
    {"pow", "f64{65536}>0.1 #2.5"},
    {"pow_derivative", "f32{65536}>0.1 #2.5"},
    {"softplus", "f32{65536}"},
    {"remainder", "f32{65536} #0.75"},
    {"silu", "f32{65536}"},
    {"floor_divide", "i64{65536}<1000 i64{65536}>1"},
    {"adamw", "f32{1048576} f32{1048576} f32{1048576}>0.1 f32{1048576} #0.001 #3"},
    {"transpose", "f32{2048,2048} axis0=0 axis1=1"},
    {"slice_grad", "f32{1024,1024} axis=1 start=0 size=2048"},
    {"position", "f32{1048576} axis=0"},
    {"max_pool2d", "f32{32,64,112,112} kernel_size=3 stride=2 padding=1"},
    {"avg_pool2d", "f32{32,64,112,112} kernel_size=3 stride=2 padding=1"},
    {"max_pool2d_grad", "f32{32,64,112,112} f32{32,64,56,56} kernel_size=3 stride=2 padding=1"},
    {"avg_pool2d_grad", "f32{32,64,56,56} kernel_size=3 stride=2 padding=1 size=112,112"},
    {"max_pool2d", "f64{8,64,112,112} kernel_size=3 stride=2 padding=1"},
    {"avg_pool2d", "f64{8,64,112,112} kernel_size=3 stride=2 padding=1"},
    {"max_pool2d", "f32{32,64,112,112} kernel_size=2"},
    {"avg_pool2d", "f32{32,64,112,112} kernel_size=2"},
    {"max_pool2d_grad", "f32{32,64,112,112} f32{32,64,56,56} kernel_size=2"},
    {"avg_pool2d_grad", "f32{32,64,56,56} kernel_size=2 size=112,112"},
    {"randn", "1048576"},
    {"rand", "1048576"},
    {"zeros", "1048576"},
    {"arange", "1048576"},
};

/* Each operand and result begins at a page boundary, as PyTorch's large tensors do, plus a multiple of 64 bytes
 * that differs per buffer. Otherwise the speed would depend on chance, because a core is slower if the offsets of
 * two buffers within a page are close (kernels/cpu/eltwise/tile.c). */
enum { PAGE = 4096 };

/* Returns numbers in the sample's range. Floats are from `above` to above + 3; if `above` is 0, from -1 to 2.
 * Integers are from `above` to above + below - 1; if `below` is 0, from `above` to above + 60. */
static void *
fill(const struct type *t, int64_t below, double above)
{
    size_t bytes = (size_t)type_bytes(t);
    char *p = aligned_alloc(PAGE, (bytes + 64 + PAGE - 1) / PAGE * PAGE);
    bool real = dtype_is_float((enum dtype)t->dtype);
    for (int64_t i = 0; i < type_numel(t); i++) {
        double x = (double)(i % 61) / 20 + (above != 0 ? above : -1);
        int64_t n = (int64_t)above + i * 7919 % (below ? below : 61);
        if (real)
            elem_set_f((enum dtype)t->dtype, p, i, x);
        else
            elem_set_i((enum dtype)t->dtype, p, i, t->dtype == DT_BOOL ? n % 2 : n);
    }
    return p;
}

/* A prepared call that is timed. */
struct measured {
    struct exec *exec;
    void **data, *scratch;
    int nin;
};

static int
run_kernel(const struct measured *m)
{
    struct finding find = {0};
    return exec_enqueue(m->exec, m->data, m->data + m->nin, m->scratch, NULL, 0, &find);
}

static int
run_copy(const struct measured *m)
{
    memcpy(m->data[0], m->data[1], (size_t)m->nin);
    return 0;
}

static int
run_times(int (*run)(const struct measured *m), const struct measured *m, int64_t n, double *us)
{
    double start = own_us();
    for (int64_t i = 0; i < n; i++) TRY(run(m));
    *us = own_us() - start;
    return 0;
}

/* Sets *us to the time per call, us: the least of ten rounds, each of a millisecond or more. */
static int
measure(int (*run)(const struct measured *m), const struct measured *m, double *us)
{
    enum { ROUNDS = 10, ROUND_US = 1000 };
    double took = 0;
    int64_t n = 1;
    while (true) {
        TRY(run_times(run, m, n, &took));
        if (took >= ROUND_US) break;
        n *= 2;
    }
    *us = took / (double)n;
    for (int round = 1; round < ROUNDS; round++) {
        TRY(run_times(run, m, n, &took));
        *us = MIN(*us, took / (double)n);
    }
    return 0;
}

/* Reads the sample of an operator. For an operator without operands (OP_SOURCE), the text is the number of elements
 * of the f32 result. */
static bool
read_line(const char *name, const char *text, struct sample *s)
{
    const struct op *op = op_find(name);
    if (!op) return false;
    if (!(op->flags & OP_SOURCE)) return sample_read(op, text, s);
    bool good = sample_read(op, "", s);
    s->out[0] = type_of(DT_F32, 1, (int64_t[]){strtoll(text, NULL, 10)});
    for (int k = 0; k < s->call.nin; k++) s->in[k] = (struct type){.dtype = DT_I64, .weak = 1};
    return good;
}

/* Times for one line of the output. bytes: total of all operands and results. */
struct result {
    double us, bytes, elements;
    const char *variant;
};

static int
bench(const char *name, const char *text, struct result *r)
{
    struct arena a = {0};
    struct sample s;
    struct rule rule;
    struct view view[SAMPLE_IN + OP_OUT];
    void *data[SAMPLE_IN + OP_OUT];
    if (!read_line(name, text, &s)) return fail(E_ARG, "%s %s: no such operator, or a bad sample", name, text);
    TRY(call_infer(&a, &s.call, &rule));
    int n = s.call.nin + s.call.nout;
    *r = (struct result){0};
    for (int i = 0; i < n; i++) {
        const struct type *t = i < s.call.nin ? &s.in[i] : &s.out[i - s.call.nin];
        view[i] = view_dense(t, NULL);
        /* true for a result of an update, because an update writes its results to its operands */
        bool in = i < s.call.nin, over = !in && i - s.call.nin < s.call.op->ninplace;
        data[i] = over ? data[i - s.call.nin] : t->dtype ? fill(t, in ? s.below[i] : 0, in ? s.above[i] : 0) : NULL;
        if (t->weak) elem_set_f(t->dtype, data[i], 0, s.number[i]);
        r->bytes += (double)type_bytes(t);
    }
    r->elements = (double)MAX(view_numel(&view[0]), view_numel(&view[n - 1]));
    struct kcall k = {.call = &s.call, .in = view, .out = view + s.call.nin, .threads = 1};
    struct measured m = {.data = data, .nin = s.call.nin};
    TRY(exec_new(&k, DEV_CPU, &m.exec));
    m.scratch = aligned_alloc(64, (exec_scratch(m.exec) + 127) / 64 * 64);
    int status = measure(run_kernel, &m, &r->us);
    r->variant = exec_variant(m.exec);
    exec_free(&m.exec);
    for (int i = 0; i < n; i++)
        if (i < s.call.nin || i - s.call.nin >= s.call.op->ninplace) free(data[i]);
    free(m.scratch);
    arena_fini(&a);
    return status;
}

static double
copy_us(double bytes)
{
    size_t half = ((size_t)bytes / 2 + 64) / 64 * 64;
    void *data[] = {aligned_alloc(64, half), aligned_alloc(64, half)};
    double us;
    memset(data[0], 1, half);
    memset(data[1], 2, half);
    measure(run_copy, &(struct measured){.data = data, .nin = (int)MIN(half, (size_t)INT32_MAX)}, &us);
    free(data[0]);
    free(data[1]);
    return us;
}

static int
answer(void)
{
    char line[512];
    while (fgets(line, sizeof line, stdin)) {
        char *name = strtok(line, "\t\n"), *sample = strtok(NULL, "\t\n");
        struct result r;
        TRY(bench(name ? name : "", sample ? sample : "", &r));
        printf("%.4f\t%.4f\t%s\n", r.us, copy_us(r.bytes), r.variant);
        fflush(stdout);
    }
    return 0;
}

static int
table(const char *only, const char *one)
{
    for (size_t i = 0; i < (one ? 1 : countof(lines)); i++) {
        const char *name = only ? only : lines[i][0], *sample = one ? one : lines[i][1];
        struct result r;
        if (strcmp(name, lines[i][0]) && !one) continue;
        TRY(bench(name, sample, &r));
        printf("%-10s %-32s %-8s %12.2f us %8.2f GB/s %8.3f ns/element\n", name, sample, r.variant, r.us,
               r.bytes / r.us * 1e-3, r.us * 1e3 / r.elements);
    }
    return 0;
}

int
main(int argc, char **argv)
{
    const char *only = argc > 1 ? argv[1] : NULL;
    denormals_flush(); /* denormals are flushed as on device threads */
    int status = only && !strcmp(only, "-") ? answer() : table(only, argc > 2 ? argv[2] : NULL);
    if (status) fprintf(stderr, "%s\n", err_text());
    return status != 0;
}
