/* ops.c - times large operators through the whole system, compared with oneDNN or a copy of memory, and with the
 * limit of the machine.
 *
 *   build/release/bench/ops [threads [name]]
 *
 * A row is an operator (or a program of two or more), called through rille.h with a cached plan. The peer is the
 * same work in oneDNN, called directly on dense memory, or a plain copy of as many bytes. Operator and peer run in
 * turns, and the least time of each counts.
 *
 * The limit is the larger of two times, both measured here on the same threads. The first is the time of the
 * operator's arithmetic at the rate of a packed 1024^3 product. The second is the time of reading and writing the
 * operator's bytes at the speed of memory (the faster of a streaming copy and an increment in place). */
#pragma GCC optimize("O3")
#include "bench/clock.h"
#include "bench/raw.h"
#include "kernels/cpu/base/team.h"
#include "rille.h"
#include "runtime/base/base.h"
#include "runtime/base/simd.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

enum { ROUNDS = 7, OPERANDS = 4, CHAIN = 10 };
/* minimum duration of a round, us: long enough that the data which the peer has left in the caches does not matter */
enum { AT_LEAST_US = 20000 };

static struct rille_session *session;
static int threads = 1;

static void
must(int status)
{
    if (!status) return;
    fprintf(stderr, "ops: %s\n", rille_error());
    exit(1);
}

/* ---- memory ---- */

/* Allocates huge pages, if the host has them, because Rille does so for its blocks. */
static void *
memory(size_t bytes)
{
    enum { HUGE_PAGE = 2 << 20 };
    size_t align = bytes < HUGE_PAGE ? 64 : HUGE_PAGE, size = (bytes + align - 1) / align * align;
    void *p = aligned_alloc(align, size);
#ifdef MADV_HUGEPAGE
    if (p && bytes >= HUGE_PAGE) madvise(p, size, MADV_HUGEPAGE);
#endif
    if (p) return p;
    fprintf(stderr, "ops: no memory\n");
    exit(1);
}

/* ---- copies ---- */

struct copy {
    char *from, *to;
    size_t bytes; /* bytes per buffer */
};

static struct copy
copy_open(size_t bytes)
{
    struct copy c = {memory(bytes), memory(bytes), bytes};
    memset(c.from, 1, bytes);
    memset(c.to, 1, bytes);
    return c;
}

static void
copy_close(struct copy *c)
{
    free(c->from);
    free(c->to);
}

/* Returns the offset in bytes, a multiple of 64, at which the part of thread i of n begins. */
static size_t
share(size_t bytes, int i, int n)
{
    return bytes / 64 * (size_t)i / (size_t)n * 64;
}

static void
copy_shares(void *arg, int64_t first, int64_t end)
{
    const struct copy *c = arg;
    size_t lo = share(c->bytes, (int)first, threads), hi = share(c->bytes, (int)end, threads);
    memcpy(c->to + lo, c->from + lo, hi - lo);
}

/* Copies the buffer; each thread copies its part. */
static void
copy_run(void *arg)
{
    team_run(threads, threads, 1, copy_shares, arg);
}

/* Copies with stores that bypass the cache: the fastest way to write memory. */
__attribute__((target("avx512f"))) static void
stream_shares(void *arg, int64_t first, int64_t end)
{
    const struct copy *c = arg;
    size_t hi = share(c->bytes, (int)end, threads);
    for (size_t at = share(c->bytes, (int)first, threads); at < hi; at += 64)
        _mm512_stream_si512((void *)(c->to + at), _mm512_load_si512(c->from + at));
    _mm_sfence();
}

static void
stream_run(void *arg)
{
    team_run(threads, threads, 1, __builtin_cpu_supports("avx512f") ? stream_shares : copy_shares, arg);
}

/* Reads and writes every byte of a buffer in place. */
VECTOR static void
touch_part(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] += 1;
}

static void
touch_shares(void *arg, int64_t first, int64_t end)
{
    const struct copy *c = arg;
    size_t lo = share(c->bytes, (int)first, threads), hi = share(c->bytes, (int)end, threads);
    touch_part((float *)(c->to + lo), (hi - lo) / sizeof(float));
}

static void
touch_run(void *arg)
{
    team_run(threads, threads, 1, touch_shares, arg);
}

/* ---- oneDNN ---- */

/* Creates the primitive of c[.., m, n] = a[.., m, k] b[.., k, n]. */
static struct raw
raw_product(dnnl_data_type_t type, int64_t batch, int64_t m, int64_t n, int64_t k, bool packed)
{
    struct prim_layout a = raw_matrix(type, m, k, false), b = raw_matrix(type, k, n, false),
                       c = raw_matrix(type, m, n, false);
    if (batch > 1) {
        a = (struct prim_layout){type, 3, {batch, m, k}, .tag = dnnl_abc};
        b = (struct prim_layout){type, 3, {batch, k, n}, .tag = dnnl_abc};
        c = (struct prim_layout){type, 3, {batch, m, n}, .tag = dnnl_abc};
    }
    return raw_matmul(&a, &b, &c, packed, threads, NULL);
}

/* ---- pooling: 32 images of 64 channels ---- */

enum { IMAGES = 32, CHANNELS = 64, SIDE = 112 };

static const struct pooling {
    const char *name, *op;
    bool max, back;
    int64_t kernel, padding; /* kernel and padding are the same in both directions; the stride is 2 */
} poolings[] = {
    {"pool max 3x3; memcpy", "max_pool2d", true, false, 3, 1},
    {"pool max 2x2; memcpy", "max_pool2d", true, false, 2, 0},
    {"pool mean 3x3", "avg_pool2d", false, false, 3, 1},
    {"pool mean 2x2", "avg_pool2d", false, false, 2, 0},
    {"pool max 3x3, backward; memcpy", "max_pool2d_grad", true, true, 3, 1},
    {"pool max 2x2, backward; memcpy", "max_pool2d_grad", true, true, 2, 0},
    {"pool mean 3x3, backward", "avg_pool2d_grad", false, true, 3, 1},
    {"pool mean 2x2, backward", "avg_pool2d_grad", false, true, 2, 0},
};

static int64_t
pooled(const struct pooling *p)
{
    return (SIDE + 2 * p->padding - p->kernel) / 2 + 1;
}

/* Creates the primitive for the means of windows (average pooling), or for their gradient. */
static struct raw
raw_means(const struct pooling *p)
{
    int64_t end = (pooled(p) - 1) * 2 + p->kernel - SIDE - p->padding;
    struct prim_op op = {.kind = PRIM_MEAN,
                         .src = {dnnl_f32, 4, {IMAGES, CHANNELS, SIDE, SIDE}, .tag = dnnl_nchw},
                         .dst = {dnnl_f32, 4, {IMAGES, CHANNELS, pooled(p), pooled(p)}, .tag = dnnl_nchw},
                         .stride = {2, 2},
                         .kernel = {p->kernel, p->kernel},
                         .padding = {p->padding, p->padding},
                         .padding_end = {end, end},
                         .count_padding = true};
    if (!p->back) return raw_open(&op, NULL, threads, 2, (int[]){DNNL_ARG_SRC, DNNL_ARG_DST}, NULL);
    struct prim_op gradient = op;
    gradient.kind = PRIM_MEAN_DATA;
    return raw_open(&gradient, &op, threads, 2, (int[]){DNNL_ARG_DIFF_SRC, DNNL_ARG_DIFF_DST}, NULL);
}

/* ---- Rille ---- */

static struct rille_tensor *
numbers(const char *dtype, int ndim, const int64_t *shape)
{
    struct rille_tensor *t;
    must(rille_create(session, rille_op_find("rand"), 0, NULL, ndim, shape, dtype, NULL, &t));
    must(rille_eval(session, 1, &t));
    return t;
}

struct ours {
    const char *op;
    int nin, nattr;
    struct rille_tensor *in[OPERANDS];
    struct rille_attr attr[OPERANDS];
};

static struct rille_tensor *
ours_call(const struct ours *o)
{
    struct rille_arg arg[OPERANDS];
    struct rille_tensor *result;
    for (int i = 0; i < o->nin; i++) arg[i] = (struct rille_arg){.kind = RILLE_ARG_TENSOR, .tensor = o->in[i]};
    must(rille_call(session, rille_op_find(o->op), o->nin, arg, o->nattr, o->attr, &result));
    return result;
}

static void
ours_run(void *arg)
{
    struct rille_tensor *result = ours_call(arg);
    must(rille_eval(session, 1, &result));
    rille_tensor_free(&result);
}

static void
ours_close(struct ours *o)
{
    for (int i = 0; i < o->nin; i++) rille_tensor_free(&o->in[i]);
}

/* Computes x * a + b, five times. */
static void
chain_run(void *arg)
{
    const struct ours *o = arg;
    struct rille_tensor *t = rille_tensor_hold(o->in[0]);
    for (int i = 0; i < CHAIN; i++) {
        struct rille_arg in[2] = {{.kind = RILLE_ARG_TENSOR, .tensor = t}, {.kind = RILLE_ARG_FLOAT, .f = 0.9}};
        struct rille_tensor *next;
        must(rille_call(session, rille_op_find(i % 2 ? "add" : "mul"), 2, in, 0, NULL, &next));
        rille_tensor_free(&t);
        t = next;
    }
    must(rille_eval(session, 1, &t));
    rille_tensor_free(&t);
}

/* Computes attention and the gradients of all three operands, as in a training step. */
static void
attention_run(void *arg)
{
    struct ours *o = arg, weigh = {.op = "mul", .nin = 2, .in = {ours_call(o), rille_tensor_hold(o->in[3])}};
    struct ours sum = {.op = "sum", .nin = 1, .in = {ours_call(&weigh)}};
    struct rille_tensor *loss = ours_call(&sum), *want[4] = {loss};
    must(rille_tensor_backward(loss));
    for (int i = 0; i < 3; i++) want[1 + i] = rille_tensor_grad(o->in[i]);
    must(rille_eval(session, 4, want));
    for (int i = 0; i < 3; i++) must(rille_tensor_set_grad(o->in[i], NULL));
    for (int i = 0; i < 4; i++) rille_tensor_free(&want[i]);
    ours_close(&weigh);
    ours_close(&sum);
}

/* Computes the sum of a product's elements, and the gradients of both operands. The gradient of the result is one
 * number, repeated. */
static void
summed_run(void *arg)
{
    struct ours *o = arg, sum = {.op = "sum", .nin = 1, .in = {ours_call(o)}};
    struct rille_tensor *loss = ours_call(&sum), *want[3] = {loss};
    must(rille_tensor_backward(loss));
    for (int i = 0; i < 2; i++) want[1 + i] = rille_tensor_grad(o->in[i]);
    must(rille_eval(session, 3, want));
    for (int i = 0; i < 2; i++) must(rille_tensor_set_grad(o->in[i], NULL));
    for (int i = 0; i < 3; i++) rille_tensor_free(&want[i]);
    ours_close(&sum);
}

static void
adamw_run(void *arg)
{
    const struct ours *o = arg;
    struct rille_arg in[6] = {[4] = {.kind = RILLE_ARG_FLOAT, .f = 1e-3}, [5] = {.kind = RILLE_ARG_INT, .i = 1}};
    for (int i = 0; i < 4; i++) in[i] = (struct rille_arg){.kind = RILLE_ARG_TENSOR, .tensor = o->in[i]};
    must(rille_update(session, rille_op_find("adamw"), 6, in, 0, NULL));
    must(rille_step(session));
}

/* ---- rows ---- */

static const char *only;             /* prefix of the names of rows to run */
static double f32_flops, bf16_flops; /* rates of products, flop per microsecond */
static double bytes_rate;            /* bytes of memory read and written per microsecond */

static double
time_us(void (*run)(void *arg), void *arg, double at_least_us)
{
    int n = 0;
    double begin = now_us(), spent;
    do {
        run(arg);
        n++;
        spent = now_us() - begin;
    } while (spent < at_least_us);
    return spent / n;
}

static bool
wanted(const char *name)
{
    return !only || !strncmp(name, only, strlen(only));
}

static void
row(const char *name, void (*ours)(void *arg), void *our_arg, void (*peer)(void *arg), void *peer_arg, double limit_us)
{
    double ours_us = 1e12, peer_us = 1e12;
    ours(our_arg);
    peer(peer_arg);
    for (int i = 0; i < ROUNDS; i++) {
        ours_us = MIN(ours_us, time_us(ours, our_arg, AT_LEAST_US));
        peer_us = MIN(peer_us, time_us(peer, peer_arg, AT_LEAST_US));
    }
    printf("%-36s %11.1f %11.1f %7.0f%% %11.1f %7.0f%%\n", name, ours_us, peer_us, 100 * peer_us / ours_us, limit_us,
           100 * limit_us / ours_us);
    fflush(stdout);
}

static void
measure_limits(void)
{
    struct raw f32 = raw_product(dnnl_f32, 1, 1024, 1024, 1024, true);
    struct raw bf16 = raw_product(dnnl_bf16, 1, 1024, 1024, 1024, true);
    struct copy c = copy_open(256 << 20);
    for (int i = 0; i < 2 * ROUNDS; i++) {
        f32_flops = MAX(f32_flops, 2147483648.0 / time_us(raw_run, &f32, 1));
        bf16_flops = MAX(bf16_flops, 2147483648.0 / time_us(raw_run, &bf16, 1));
        bytes_rate = MAX(bytes_rate, 2.0 * (double)c.bytes / time_us(stream_run, &c, 1));
        bytes_rate = MAX(bytes_rate, 2.0 * (double)c.bytes / time_us(touch_run, &c, 1));
    }
    raw_close(&f32);
    raw_close(&bf16);
    copy_close(&c);
    printf("%d thread%s: at most %.0f Gflop/s in f32, %.0f in bf16; %.0f GB/s read and written\n\n", threads,
           threads > 1 ? "s" : "", f32_flops / 1e3, bf16_flops / 1e3, bytes_rate / 1e3);
}

static const struct product {
    const char *name, *dtype;
    int64_t batch, m, n, k;
} products[] = {
    {"matmul 1024^3", "f32", 1, 1024, 1024, 1024},
    {"matmul 256x2304x768", "f32", 1, 256, 2304, 768},
    {"matmul 256x768x768", "f32", 1, 256, 768, 768},
    {"matmul 256x3072x768", "f32", 1, 256, 3072, 768},
    {"matmul 256x768x3072", "f32", 1, 256, 768, 3072},
    {"matmul 256x50304x768", "f32", 1, 256, 50304, 768},
    {"matmul 64^3", "f32", 1, 64, 64, 64},
    {"matmul 1x3072x768", "f32", 1, 1, 3072, 768},
    {"matmul 48 of 64x1024x64", "f32", 48, 64, 1024, 64},
    {"matmul bf16 1024^3", "bf16", 1, 1024, 1024, 1024},
    {"matmul bf16 256x3072x768", "bf16", 1, 256, 3072, 768},
};

static void
product_row(const struct product *p)
{
    if (!wanted(p->name)) return;
    bool wide = !strcmp(p->dtype, "bf16");
    int ndim = p->batch > 1 ? 3 : 2, skip = p->batch > 1 ? 0 : 1;
    double flop = 2.0 * (double)(p->batch * p->m * p->n * p->k);
    double bytes = (wide ? 2.0 : 4.0) * (double)(p->batch * (p->m * p->k + p->k * p->n + p->m * p->n));
    struct raw r = raw_product(wide ? dnnl_bf16 : dnnl_f32, p->batch, p->m, p->n, p->k, false);
    struct ours o = {.op = "matmul", .nin = 2};
    o.in[0] = numbers(p->dtype, ndim, (int64_t[]){p->batch, p->m, p->k} + skip);
    o.in[1] = numbers(p->dtype, ndim, (int64_t[]){p->batch, p->k, p->n} + skip);
    /* 0 unless the operands have more than 64 MB, because smaller ones may stay in the cache */
    double memory_us = bytes > 64e6 ? bytes / bytes_rate : 0;
    row(p->name, ours_run, &o, raw_run, &r, MAX(flop / (wide ? bf16_flops : f32_flops), memory_us));
    ours_close(&o);
    raw_close(&r);
}

/* Compares operators that read and write each number once with a copy that moves as many bytes. */
static void
rows_of_copies(void)
{
    const int64_t scores[] = {12288, 1024}, hidden[] = {16384, 768}, width = 768, many = 1 << 24;
    struct ours o[] = {{.op = "softmax", .nin = 1, .nattr = 1, .attr[0] = {.name = "axis", .kind = RILLE_INT, .i = -1}},
                       {.op = "layer_norm", .nin = 3},
                       {.op = "gelu", .nin = 1}};
    static const char *const name[] = {"softmax 12288x1024; memcpy", "layer_norm 16384x768; memcpy",
                                       "gelu 16 M; memcpy"};
    const int64_t values[] = {scores[0] * scores[1], hidden[0] * hidden[1], many};
    o[0].in[0] = numbers("f32", 2, scores);
    o[1].in[0] = numbers("f32", 2, hidden);
    o[1].in[1] = numbers("f32", 1, &width);
    o[1].in[2] = numbers("f32", 1, &width);
    o[2].in[0] = numbers("f32", 1, &many);
    for (int i = 0; i < 3; i++) {
        struct copy c = copy_open((size_t)values[i] * sizeof(float));
        if (wanted(o[i].op)) row(name[i], ours_run, &o[i], copy_run, &c, 8.0 * (double)values[i] / bytes_rate);
        copy_close(&c);
        ours_close(&o[i]);
    }
}

static void
pooling_row(const struct pooling *p)
{
    static const int64_t size[] = {SIDE, SIDE};
    const int64_t x[] = {IMAGES, CHANNELS, SIDE, SIDE}, y[] = {IMAGES, CHANNELS, pooled(p), pooled(p)};
    if (!wanted(p->name)) return;
    struct ours o = {.op = p->op};
    o.attr[o.nattr++] = (struct rille_attr){.name = "kernel_size", .kind = RILLE_INT, .i = p->kernel};
    o.attr[o.nattr++] = (struct rille_attr){.name = "stride", .kind = RILLE_INT, .i = 2};
    o.attr[o.nattr++] = (struct rille_attr){.name = "padding", .kind = RILLE_INT, .i = p->padding};
    if (p->max || !p->back) o.in[o.nin++] = numbers("f32", 4, x);
    if (p->back) o.in[o.nin++] = numbers("f32", 4, y);
    if (p->back && !p->max)
        o.attr[o.nattr++] = (struct rille_attr){.name = "size", .kind = RILLE_INTS, .n = 2, .list = size};
    double image = 4.0 * IMAGES * CHANNELS * SIDE * SIDE, windows = image / (SIDE * SIDE) * (double)(y[2] * y[3]);
    double bytes = image * (p->max && p->back ? 2 : 1) + windows;
    if (p->max) {
        struct copy c = copy_open((size_t)bytes / 2);
        row(p->name, ours_run, &o, copy_run, &c, bytes / bytes_rate);
        copy_close(&c);
    } else {
        struct raw r = raw_means(p);
        row(p->name, ours_run, &o, raw_run, &r, bytes / bytes_rate);
        raw_close(&r);
    }
    ours_close(&o);
}

static void
raw_thrice(void *arg)
{
    for (int i = 0; i < 3; i++) raw_run(arg);
}

static void
summed_row(void)
{
    const int64_t shape[] = {1024, 1024};
    if (!wanted("sum of")) return;
    struct raw r = raw_product(dnnl_f32, 1, 1024, 1024, 1024, false);
    struct ours o = {.op = "matmul", .nin = 2, .in = {numbers("f32", 2, shape), numbers("f32", 2, shape)}};
    for (int i = 0; i < 2; i++) must(rille_tensor_set_requires_grad(o.in[i], true));
    row("sum of matmul 1024^3, both ways", summed_run, &o, raw_thrice, &r, 3 * 2147483648.0 / f32_flops);
    ours_close(&o);
    raw_close(&r);
}

static void
raw_attention(void *arg)
{
    /* a call of the peer runs six products, three of each of two shapes: scores, values, and their four gradients */
    struct raw *r = arg;
    for (int i = 0; i < 3; i++) {
        raw_run(&r[0]);
        raw_run(&r[1]);
    }
}

/* Compares causal attention, forward and backward, with its six matrix products alone. The products compute all
 * scores, although causal attention needs only half of them. */
static void
attention_row(void)
{
    const int64_t shape[] = {1, 12, 1024, 64};
    if (!wanted("attention")) return;
    struct ours o = {.op = "scaled_dot_product_attention", .nin = 3, .nattr = 1};
    o.attr[0] = (struct rille_attr){.name = "is_causal", .kind = RILLE_BOOL, .i = 1};
    for (int i = 0; i < 4; i++) o.in[i] = numbers("f32", 4, shape); /* the fourth operand weights the result */
    for (int i = 0; i < 3; i++) must(rille_tensor_set_requires_grad(o.in[i], true));
    struct raw r[2] = {raw_product(dnnl_f32, 12, 1024, 1024, 64, false),
                       raw_product(dnnl_f32, 12, 1024, 64, 1024, false)};
    row("attention 12x1024x64, both ways", attention_run, &o, raw_attention, r,
        6 * 2.0 * 12 * 1024 * 1024 * 64 / 2 / f32_flops);
    ours_close(&o);
    rille_tensor_free(&o.in[3]);
    for (int i = 0; i < 2; i++) raw_close(&r[i]);
}

/* Compares attention in a window of a sixteenth of the keys, forward and backward, with full causal attention. The
 * limit is the time of the products in the window. */
static void
window_row(void)
{
    const int64_t shape[] = {1, 4, 8192, 64}, window[] = {511, 0};
    if (!wanted("window")) return;
    struct ours full = {.op = "scaled_dot_product_attention", .nin = 3, .nattr = 1};
    full.attr[0] = (struct rille_attr){.name = "is_causal", .kind = RILLE_BOOL, .i = 1};
    for (int i = 0; i < 4; i++) full.in[i] = numbers("f32", 4, shape);
    for (int i = 0; i < 3; i++) must(rille_tensor_set_requires_grad(full.in[i], true));
    struct ours part = full;
    part.nattr = 2;
    part.attr[1] = (struct rille_attr){.name = "window", .kind = RILLE_INTS, .n = 2, .list = window};
    row("window 512 of 4x8192x64; causal", attention_run, &part, attention_run, &full,
        6 * 2.0 * 4 * 8192 * 512 * 64 / f32_flops);
    ours_close(&full);
    rille_tensor_free(&full.in[3]);
}

static void
rows_of_memory(void)
{
    int64_t free_bytes = sysconf(_SC_AVPHYS_PAGES) * sysconf(_SC_PAGESIZE);
    int64_t chain = 1 << 24, values = free_bytes > INT64_C(6) << 30 ? 124439808 : 32 << 20;
    struct copy c = copy_open((size_t)chain * 4);
    if (wanted("chain")) {
        struct ours o = {.nin = 1, .in = {numbers("f32", 1, &chain)}};
        row("chain of 10 on 16 M; memcpy", chain_run, &o, copy_run, &c, 8.0 * (double)chain / bytes_rate);
        ours_close(&o);
    }
    copy_close(&c);
    if (!wanted("adamw")) return;
    char name[40];
    snprintf(name, sizeof name, "adamw on %lld M; memcpy", (long long)values / 1000000);
    struct ours o = {.nin = 4};
    for (int i = 0; i < 4; i++) o.in[i] = numbers("f32", 1, &values);
    /* 4 arrays are read and 3 are written: 28 bytes per value; the copy reads half of these bytes and writes half */
    c = copy_open((size_t)values * 14);
    row(name, adamw_run, &o, copy_run, &c, 28.0 * (double)values / bytes_rate);
    copy_close(&c);
    ours_close(&o);
}

int
main(int argc, char **argv)
{
    if (argc > 1) threads = MAX(1, atoi(argv[1]));
    if (argc > 2) only = argv[2];
    must(rille_open(&(struct rille_options){.devices = "cpu:1", .threads = threads}, &session));
    omp_set_num_threads(threads);
    measure_limits();
    printf("%-36s %11s %11s %8s %11s %8s\n", "microseconds, the least", "Rille", "peer", "of peer", "limit",
           "of limit");
    for (size_t i = 0; i < countof(products); i++) product_row(&products[i]);
    summed_row();
    rows_of_copies();
    for (size_t i = 0; i < countof(poolings); i++) pooling_row(&poolings[i]);
    attention_row();
    window_row();
    rows_of_memory();
    rille_close(&session);
    return 0;
}
