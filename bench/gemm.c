/* gemm.c - times matrix products by Rille's matmul and by oneDNN called directly, and the limit of the core.
 *
 *   bench/gemm [threads]
 *
 * Each row computes one product by oneDNN's primitive (executed as its manual shows) and by Rille's operator
 * (through exec_enqueue(), as an actor calls it). Primitive and operator run in turns on the same memory, and the
 * least time of each is printed. The limit is oneDNN's best rate for a 1024^3 product with a packed operand. It is
 * measured again between the rows, because other work slows the machine at times. */
#include "bench/raw.h"
#include "kernels/exec/exec.h"
#include "kernels/op/base/table.h"
#include "runtime/base/clock.h"
#include "runtime/device/device.h"
#include "runtime/base/error.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 24 };

struct product {
    const char *what;
    int64_t m, n, k;
    bool ta, tb; /* ta: true if operand a is stored transposed; tb: the same for operand b */
    enum dtype dtype;
};

static const struct product products[] = {
    {"digits, layer 1", 64, 256, 64, false, true, DT_F32},
    {"digits, layer 2", 64, 256, 256, false, true, DT_F32},
    {"digits, layer 3", 64, 10, 256, false, true, DT_F32},
    {"digits, layer 3, dx", 64, 256, 10, false, false, DT_F32},
    {"digits, layer 3, dw", 10, 256, 64, true, false, DT_F32},
    {"digits, layer 2, dx", 64, 256, 256, false, false, DT_F32},
    {"digits, layer 2, dw", 256, 256, 64, true, false, DT_F32},
    {"digits, layer 1, dw", 256, 64, 64, true, false, DT_F32},
    {"16^3", 16, 16, 16, false, false, DT_F32},
    {"16 rows, layer 2", 16, 256, 256, false, true, DT_F32},
    {"16 rows, 1024", 16, 1024, 1024, false, true, DT_F32},
    {"64 rows, GPT-2, fc", 64, 3072, 768, false, true, DT_F32},
    {"GPT-2, qkv", 256, 2304, 768, false, true, DT_F32},
    {"GPT-2, proj", 256, 768, 768, false, true, DT_F32},
    {"GPT-2, fc", 256, 3072, 768, false, true, DT_F32},
    {"GPT-2, fcproj", 256, 768, 3072, false, true, DT_F32},
    {"GPT-2, fc, dx", 256, 768, 3072, false, false, DT_F32},
    {"GPT-2, fc, dw", 3072, 768, 256, true, false, DT_F32},
    {"GPT-2, logits", 256, 50304, 768, false, true, DT_F32},
    {"GPT-2, logits, dx", 256, 768, 50304, false, false, DT_F32},
    {"GPT-2, one token", 1, 3072, 768, false, true, DT_F32},
    {"GPT-2, fc, bf16", 256, 3072, 768, false, true, DT_BF16},
    {"GPT-2, proj, bf16", 256, 768, 768, false, true, DT_BF16},
    {"GPT-2, fcproj, bf16", 256, 768, 3072, false, true, DT_BF16},
    {"GPT-2, fc, dx, bf16", 256, 768, 3072, false, false, DT_BF16},
    {"GPT-2, fc, dw, bf16", 3072, 768, 256, true, false, DT_BF16},
    {"GPT-2, logits, bf16", 256, 50304, 768, false, true, DT_BF16},
    {"GPT-2, logits, dx, bf16", 256, 768, 50304, false, false, DT_BF16},
    {"GPT-2, logits, dw, bf16", 50304, 768, 256, true, false, DT_BF16},
    {"GPT-2, one token, bf16", 1, 3072, 768, false, true, DT_BF16},
};
enum { DIGITS = 8 };

/* The clock of the measurements. With one thread it returns processor time, so that other work on the machine does
 * not count. */
static int64_t (*clock_ns)(void) = computed_ns;

static void
must(bool done, const char *what)
{
    if (done) return;
    fprintf(stderr, "gemm: %s: %s\n", what, err_text());
    exit(1);
}

/* ---- oneDNN, directly ---- */

/* Creates oneDNN's primitive for a product. packed: operand b is in the layout that oneDNN prefers; the rate of
 * this product is the limit. */
static struct raw
raw_product(const struct product *p, int threads, void *const *data, bool packed)
{
    dnnl_data_type_t d = p->dtype == DT_F32 ? dnnl_f32 : dnnl_bf16;
    struct prim_layout a = raw_matrix(d, p->m, p->k, p->ta), b = raw_matrix(d, p->k, p->n, p->tb);
    struct prim_layout c = raw_matrix(d, p->m, p->n, false);
    return raw_matmul(&a, &b, &c, packed, threads, data);
}

/* ---- Rille's matmul ---- */

struct ours {
    struct exec *exec;
    void *const *data;
    void *scratch;
};

static struct view
ours_view(enum dtype d, int64_t rows, int64_t cols, bool transposed)
{
    struct type t = type_of(d, 2, (int64_t[]){rows, cols});
    struct view v = view_dense(&t, NULL);
    if (transposed) v.stride[0] = 1, v.stride[1] = rows;
    return v;
}

static void
ours_open(struct ours *o, const struct product *p, void *const *data, int threads)
{
    struct type in[] = {type_of(p->dtype, 2, (int64_t[]){p->m, p->k}), type_of(p->dtype, 2, (int64_t[]){p->k, p->n})};
    struct type out = type_of(p->dtype, 2, (int64_t[]){p->m, p->n});
    struct attr attr[OP_ATTR];
    const struct op *op = op_find("matmul");
    op_attr_defaults(op, attr);
    struct call c = {.op = op, .nin = 2, .nout = 1, .in = in, .out = &out, .attr = attr};
    struct view view[] = {ours_view(p->dtype, p->m, p->k, p->ta), ours_view(p->dtype, p->k, p->n, p->tb)};
    struct view result = ours_view(p->dtype, p->m, p->n, false);
    struct kcall k = {.call = &c, .in = view, .out = &result, .threads = threads};
    must(!exec_new(&k, DEV_CPU, &o->exec), "exec_new");
    o->data = data;
    o->scratch = aligned_alloc(64, exec_scratch(o->exec) / 64 * 64 + 64);
}

static void
ours_run(void *arg)
{
    const struct ours *o = arg;
    struct finding find = {0};
    must(!exec_enqueue(o->exec, o->data, o->data + 2, o->scratch, NULL, 0, &find), "exec_enqueue");
}

static void
ours_close(struct ours *o)
{
    exec_free(&o->exec);
    free(o->scratch);
}

/* ---- timing ---- */

/* Returns the mean seconds per call: repeats the call until one or two milliseconds have passed. */
static double
time_of(void (*run)(void *arg), void *arg, double guess)
{
    int n = (int)MAX(1, 2e-3 / guess);
    int64_t start = clock_ns();
    for (int i = 0; i < n; i++) run(arg);
    return 1e-9 * (double)(clock_ns() - start) / n;
}

static void *
numbers(enum dtype d, int64_t n)
{
    size_t bytes = (size_t)n * dtype_bytes(d);
    void *p = aligned_alloc(64, bytes / 64 * 64 + 64);
    for (int64_t i = 0; i < n; i++) elem_set_f(d, p, i, (double)(i % 17 - 8) / 8);
    return p;
}

static double
flop(const struct product *p)
{
    return 2.0 * (double)p->m * (double)p->n * (double)p->k;
}

/* Measures the limit again. Keeps the greatest rate so far, flop/s. */
static void
try_limit(enum dtype d, int threads, double *most)
{
    struct product p = {"", 1024, 1024, 1024, false, false, d};
    void *data[] = {numbers(d, 1 << 20), numbers(d, 1 << 21), numbers(d, 1 << 20)};
    struct raw raw = raw_product(&p, threads, data, true);
    for (int i = 0; i < 4; i++) *most = MAX(*most, flop(&p) / time_of(raw_run, &raw, 1));
    raw_close(&raw);
    for (int i = 0; i < 3; i++) free(data[i]);
}

static void
measure(const struct product *p, int threads, double *raw_s, double *ours_s)
{
    void *data[] = {numbers(p->dtype, p->m * p->k), numbers(p->dtype, p->k * p->n), numbers(p->dtype, p->m * p->n)};
    struct raw raw = raw_product(p, threads, data, false);
    struct ours ours;
    ours_open(&ours, p, data, threads);
    double guess = flop(p) / 100e9 + 1e-7;
    *raw_s = *ours_s = 1;
    for (int i = 0; i < ROUNDS; i++) {
        *raw_s = MIN(*raw_s, time_of(raw_run, &raw, guess));
        *ours_s = MIN(*ours_s, time_of(ours_run, &ours, guess));
    }
    raw_close(&raw);
    ours_close(&ours);
    for (int i = 0; i < 3; i++) free(data[i]);
}

int
main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 1;
    if (threads > 1) clock_ns = now_ns;
    omp_set_num_threads(threads);
    double f32 = 0, bf16 = 0, raw[countof(products)], ours[countof(products)], digits[2] = {0, 0};
    for (size_t i = 0; i < countof(products); i++) {
        measure(&products[i], threads, &raw[i], &ours[i]);
        try_limit(DT_F32, threads, &f32);
        try_limit(DT_BF16, threads, &bf16);
    }
    printf("%d thread%s; at most %.0f Gflop/s in f32, %.0f in bf16\n\n", threads, threads > 1 ? "s" : "", f32 / 1e9,
           bf16 / 1e9);
    printf("%-24s %5s %5s %5s  %9s %9s %9s %9s\n", "product", "m", "n", "k", "oneDNN us", "Rille us", "of oneDNN",
           "of limit");
    for (size_t i = 0; i < countof(products); i++) {
        const struct product *p = &products[i];
        printf("%-24s %5d %5d %5d  %9.2f %9.2f %8.0f%% %8.0f%%\n", p->what, (int)p->m, (int)p->n, (int)p->k,
               raw[i] * 1e6, ours[i] * 1e6, 100 * raw[i] / ours[i],
               100 * flop(p) / ours[i] / (p->dtype == DT_BF16 ? bf16 : f32));
        if (i < DIGITS) digits[0] += raw[i], digits[1] += ours[i];
    }
    printf("\nthe eight of a digits step: oneDNN %.1f us, Rille %.1f us\n", digits[0] * 1e6, digits[1] * 1e6);
    return 0;
}
