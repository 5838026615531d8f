/* stop.c - measures the time between two polls of the stop flag by a kernel (runtime/base/stop.h), on one core.
 *
 *   bench/stop [WORD]: only operators whose name contains WORD
 *   bench/stop NAME SAMPLE: only this call
 *
 * Runs calls that take from a tenth of a second to several seconds. Prints the longest time without a poll, the
 * time of the call, and the time of the same call if oneDNN's products and convolutions are not divided. The least
 * of three runs counts; a call that takes seconds runs once. */
#include "bench/clock.h"
#include "kernels/cpu/conv/conv.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/exec/exec.h"
#include "kernels/op/base/table.h"
#include "kernels/exec/sample.h"
#include "runtime/data/arena.h"
#include "runtime/device/device.h"
#include "runtime/base/error.h"
#include "runtime/base/stop.h"
#include "sbp/infer.h"

static const struct {
    const char *op, *sample;
} rows[] = {
    {"matmul", "f32{12288,12288} f32{12288,12288}"},
    {"matmul", "bf16{12288,12288} bf16{12288,12288}"},
    {"matmul", "f64{4000,4000} f64{4000,4000}"},
    {"matmul", "f32{64,1024,1024} f32{64,1024,1024}"},
    {"matmul", "f32{2,8000,8000} f32{2,8000,8000}"},
    {"matmul", "f32{2000,64,64} f32{2000,64,64}"},
    {"matmul", "f32{200,1000000} f32{1000000,200}"},
    {"matmul", "f32{1000000,200} f32{200}"},
    {"matmul", "f32{1,20000} f32{20000,20000}"},
    {"contract", "f32{1000000,200} f32{1000000,200}"},
    {"conv2d", "f32{1,64,1000,1000} f32{64,64,3,3} - padding=1"},
    {"conv2d", "f32{64,64,224,224} f32{64,64,3,3} - padding=1"},
    {"conv2d", "f32{1,3,2000,2000} f32{64,3,7,7} - padding=3 stride=2"},
    {"conv2d_grad_x", "f32{1,64,1000,1000} f32{64,64,3,3} padding=1 size=1000,1000"},
    {"conv2d_grad_w", "f32{1,64,1000,1000} f32{1,64,1000,1000} padding=1 size=3,3"},
    {"conv2d", "f32{1,128,400,400} f32{128,16,3,3} - padding=1 groups=8"},
    {"conv2d", "f32{1,512,400,400} f32{512,512,1,1}"},
    {"conv2d", "f32{1,512,400,400} f32{512,512,1,1} - stride=2"},
    {"conv2d_grad_x", "f32{1,512,200,200} f32{512,512,1,1} stride=2 size=400,400"},
    {"conv2d_grad_w", "f32{1,512,400,400} f32{1,512,200,200} stride=2 size=1,1"},
    {"conv2d", "f32{1,512,400,400} f32{512,512,1,1} - padding=1"},
    {"conv2d_grad_x", "f32{1,512,402,402} f32{512,512,1,1} padding=1 size=400,400"},
    {"conv2d_grad_w", "f32{1,512,400,400} f32{1,512,402,402} padding=1 size=1,1"},
    {"conv2d", "f32{1,1,1500,1500} f32{64,1,7,7} - padding=3"},
    {"conv2d_grad_x", "f32{1,64,1500,1500} f32{64,1,7,7} padding=3 size=1500,1500"},
    {"conv2d_grad_w", "f32{1,1,1500,1500} f32{1,64,1500,1500} padding=3 size=7,7"},
    {"conv2d", "f32{1,64,800,800} f32{64,64,3,3} - padding=4"},
    {"conv2d_grad_x", "f32{1,64,806,806} f32{64,64,3,3} padding=4 size=800,800"},
    {"conv2d_grad_w", "f32{1,64,800,800} f32{1,64,806,806} padding=4 size=3,3"},
    {"conv2d", "f32{1,1024,128,128} f32{1024,1024,3,3} - padding=1"},
    {"conv2d", "f32{1,512,300,300} f32{512,256,3,3} - padding=1 groups=2"},
    {"softmax", "f32{1,100000000}"},
    {"log_softmax", "f32{1,100000000}"},
    {"layer_norm", "f32{1,100000000} f32{100000000} f32{100000000}"},
    {"rms_norm", "f32{1,100000000} f32{100000000}"},
    {"layer_norm", "f64{1,50000000} f64{50000000} f64{50000000}"},
    {"norm_grad", "f64{1,50000000} f64{1,50000000} f64{50000000}"},
    {"logsumexp", "f32{1,100000000} axis=1"},
    {"softmax_grad", "f32{1,100000000} f32{1,100000000}"},
    {"cumsum", "f32{100000000} axis=0"},
    {"sum", "f32{100000000}"},
    {"argmax", "f32{100000000}"},
    {"topk", "f32{100000000} k=20"},
    {"add", "f32{100000000} f32{100000000}"},
    {"cast", "f32{100000000} dtype=bf16"},
    {"gather", "f32{10000,10000} i64{10000,10000}<10000 axis=1"},
    {"gather_grad", "f32{10000,10000} i64{10000,10000}<10000 f32{10000,10000} axis=1"},
    {"index_add", "f32{100000,1000} i64{50000}<100000 f32{50000,1000} axis=0"},
    {"embedding", "i64{100000}<50000 f32{50000,1000}"},
    {"slice_grad", "f32{10000,10000} axis=1 start=0 step=1 size=10000"},
    {"concat", "f32{50000,1000} f32{50000,1000}"},
    {"attention", "f32{1,1,32000,64} f32{1,1,32000,64} f32{1,1,32000,64} is_causal=true"},
    {"cross_entropy_rows", "f32{1,100000000} i64{1}<100000000"},
};

static double last, longest;
static long asked;

static bool
look(void *arg)
{
    double t = own_us() / 1e3;
    UNUSED(arg);
    longest = MAX(longest, t - last);
    last = t;
    asked++;
    return false;
}

static void *
filled(const struct sample *s, int i)
{
    const struct type *t = i < s->call.nin ? &s->in[i] : &s->out[i - s->call.nin];
    if (t->dtype == DT_NONE) return NULL;
    char *data = must_alloc((size_t)type_bytes(t) + 64);
    if (i >= s->call.nin || !dtype_is_float(t->dtype)) memset(data, 0, (size_t)type_bytes(t));
    if (i >= s->call.nin) return data;
    for (int64_t k = 0; k < type_numel(t); k++)
        if (dtype_is_float(t->dtype))
            elem_set_f(t->dtype, data, k, (double)(k % 251) / 251);
        else
            elem_set_i(t->dtype, data, k, s->below[i] ? k * 7919 % s->below[i] : 1);
    return data;
}

/* Times the call as users run it, and then with undivided products and convolutions. */
static int
exec_both(const struct kcall *k, struct exec *e[2])
{
    const struct conv_part part = conv_part;
    const struct gemm_panel panel = gemm_panel;
    TRY(exec_new(k, DEV_CPU, &e[0]));
    conv_part.flops = gemm_panel.flops = 1e18;
    conv_part.pass.bytes = conv_part.weights.bytes = INT64_MAX;
    int status = exec_new(k, DEV_CPU, &e[1]);
    conv_part = part;
    gemm_panel = panel;
    return status;
}

static int
measure(const char *name, const char *text, const struct sample *s)
{
    struct view view[SAMPLE_IN + OP_OUT];
    void *data[SAMPLE_IN + OP_OUT];
    int n = s->call.nin + s->call.nout;
    struct exec *e[2] = {NULL, NULL};
    for (int i = 0; i < n; i++) view[i] = view_dense(i < s->call.nin ? &s->in[i] : &s->out[i - s->call.nin], NULL);
    struct kcall k = {.call = &s->call, .in = view, .out = view + s->call.nin, .threads = 1};
    TRY(exec_both(&k, e));
    for (int i = 0; i < n; i++) data[i] = filled(s, i);
    char *scratch = must_alloc(MAX(exec_scratch(e[0]), exec_scratch(e[1])) + 64);
    double ms[2] = {1e30, 1e30}, gap = 1e30;
    long looks = 0;
    for (int round = 0; round < (ms[0] > 2000 ? 2 : 6); round++) {
        double start = last = own_us() / 1e3;
        longest = 0, asked = 0;
        TRY(exec_run(e[round % 2], data, data + s->call.nin, scratch, 0));
        look(NULL);
        ms[round % 2] = MIN(ms[round % 2], last - start);
        if (round % 2 == 0) gap = MIN(gap, longest), looks = asked - 1;
    }
    printf("%-18s %-70s %-10s %8.0f %8.2f %8.1f %8ld\n", name, text, exec_variant(e[0]), ms[0], ms[0] / ms[1], gap,
           looks);
    fflush(stdout);
    for (int i = 0; i < n; i++) free(data[i]);
    free(scratch);
    for (int i = 0; i < 2; i++) exec_free(&e[i]);
    return 0;
}

static void
row(const char *name, const char *text)
{
    struct arena arena = {0};
    struct sample s;
    struct rule rule;
    const struct op *op = op_find(name);
    if (!op || !sample_read(op, text, &s) || call_infer(&arena, &s.call, &rule) || measure(name, text, &s))
        printf("%s %s: %s\n", name, text, err_text());
    arena_fini(&arena);
}

int
main(int argc, char **argv)
{
    printf("%-18s %-70s %-10s %8s %8s %8s %8s\n", "", "milliseconds of one core", "kernel", "all", "of whole",
           "longest", "looks");
    stop_ask(look, NULL);
    if (argc > 2) row(argv[1], argv[2]);
    for (size_t i = 0; i < countof(rows) && argc < 3; i++)
        if (argc == 1 || strstr(rows[i].op, argv[1])) row(rows[i].op, rows[i].sample);
    return 0;
}
