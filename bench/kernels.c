/* kernels.c - how fast kernels are: time of a call, and bytes of operands and results a second.
 *
 * Lines are operator and sample, as in the records: bench-kernels [NAME [SAMPLE]].
 * A call is prepared once and run for a hundredth of a second, ten times; the best is
 * printed. */
#include "bench/clock.h"
#include "kernels/kernel.h"
#include "kernels/op/table.h"
#include "kernels/sample.h"
#include "runtime/device.h"
#include "runtime/error.h"
#include "sbp/rule.h"

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
    {"gelu_slope", "f32{1048576}"},
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
    {"sum", "f32{4096,4096} axis=0"},
    {"sum", "f32{4096,4096} axis=1"},
    {"sum", "bf16{4096,4096} axis=0"},
    {"max", "f32{4096,4096} axis=1"},
    {"argmax", "f32{1024,1024} axis=1"},
    {"cumsum", "f32{1024,1024} axis=1"},
    {"logsumexp", "f32{1024,1024} axis=1"},
    {"dropout", "f32{1048576} #1 #1"},
    {"transpose", "f32{2048,2048} axis0=0 axis1=1"},
    {"unslice", "f32{1024,1024} axis=1 start=0 size=2048"},
    {"position", "f32{1048576} axis=0"},
    {"max_pool2d", "f32{32,64,112,112} kernel_size=3 stride=2 padding=1"},
    {"avg_pool2d", "f32{32,64,112,112} kernel_size=3 stride=2 padding=1"},
    {"max_pool2d_grad", "f32{32,64,112,112} f32{32,64,56,56} kernel_size=3 stride=2 padding=1"},
    {"avg_pool2d_grad", "f32{32,64,56,56} kernel_size=3 stride=2 padding=1 size=112,112"},
    {"max_pool2d", "f32{32,64,112,112} kernel_size=2"},
    {"avg_pool2d", "f32{32,64,112,112} kernel_size=2"},
    {"max_pool2d_grad", "f32{32,64,112,112} f32{32,64,56,56} kernel_size=2"},
    {"avg_pool2d_grad", "f32{32,64,56,56} kernel_size=2 size=112,112"},
    {"randn", "1048576"},
    {"rand", "1048576"},
    {"zeros", "1048576"},
    {"arange", "1048576"},
};

static void *
fill(const struct type *t)
{
    size_t bytes = (size_t)type_bytes(t);
    char *p = aligned_alloc(64, (bytes + 127) / 64 * 64);
    for (int64_t i = 0; i < type_numel(t); i++) elem_set_f(t->dtype, p, i, (double)(i % 61) / 20 - 1);
    return p;
}

static void
measure(struct exec *e, void **data, int nin, double *seconds)
{
    char *scratch = aligned_alloc(64, (exec_scratch(e) + 127) / 64 * 64);
    *seconds = 1e9;
    for (int round = 0; round < 10; round++) {
        int64_t n = 0;
        double start = now_us(), end = start;
        for (; end - start < 1e4; n++) {
            if (exec_run(e, data, data + nin, scratch, 0)) break;
            end = now_us();
        }
        *seconds = MIN(*seconds, 1e-6 * (end - start) / (double)MAX(n, 1));
    }
    free(scratch);
}

/* A source has a number of elements for its sample. */
static bool
read_line(const char *name, const char *text, struct sample *s)
{
    const struct op *op = op_find(name);
    if (!(op->flags & OP_SOURCE)) return sample_read(op, text, s);
    bool good = sample_read(op, "", s);
    s->out[0] = type_of(DT_F32, 1, (int64_t[]){strtoll(text, NULL, 10)});
    for (int k = 0; k < s->call.nin; k++) s->in[k] = (struct type){.dtype = DT_I64, .weak = 1};
    return good;
}

static int
bench(const char *name, const char *text)
{
    struct arena a = {0};
    struct sample s;
    struct rule rule;
    struct view view[SAMPLE_IN + OP_OUT];
    void *data[SAMPLE_IN + OP_OUT];
    if (!read_line(name, text, &s)) return fail(E_ARG, "%s %s: bad sample", name, text);
    TRY(call_infer(&a, &s.call, &rule));
    int n = s.call.nin + s.call.nout;
    double bytes = 0, seconds;
    for (int i = 0; i < n; i++) {
        const struct type *t = i < s.call.nin ? &s.in[i] : &s.out[i - s.call.nin];
        view[i] = view_dense(t, NULL);
        data[i] = t->dtype ? fill(t) : NULL;
        if (t->weak) elem_set_f(t->dtype, data[i], 0, s.number[i]);
        bytes += (double)type_bytes(t);
    }
    struct kcall k = {.call = &s.call, .in = view, .out = view + s.call.nin, .threads = 1};
    struct exec *e;
    TRY(exec_new(&k, DEV_CPU, &e));
    measure(e, data, s.call.nin, &seconds);
    printf("%-10s %-32s %-8s %12.2f us %8.2f GB/s %8.3f ns/element\n", name, text, exec_row(e), seconds * 1e6,
           bytes / seconds * 1e-9, seconds * 1e9 / (double)MAX(view_numel(&view[0]), view_numel(&view[n - 1])));
    exec_free(&e);
    for (int i = 0; i < n; i++) free(data[i]);
    arena_fini(&a);
    return 0;
}

int
main(int argc, char **argv)
{
    for (size_t i = 0; i < (argc > 2 ? 1 : countof(lines)); i++) {
        const char *name = argc > 1 ? argv[1] : lines[i][0], *sample = argc > 2 ? argv[2] : lines[i][1];
        if (strcmp(name, lines[i][0]) && argc < 3) continue;
        if (bench(name, sample)) {
            fprintf(stderr, "%s\n", err_text());
            return 1;
        }
    }
    return 0;
}
