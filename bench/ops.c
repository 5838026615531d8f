/* ops.c - times large operators through the whole system, compared with oneDNN or a copy of memory, and with the
 * limit of the machine.
 *
 *   build/release/bench/ops [threads [name]]
 *
 * A row is an operator (or a program of several), called through rille.h with a cached plan. The peer is the same
 * work in oneDNN, called directly on dense memory, or a plain copy of as many bytes. Operator and peer run in turns,
 * and the least time of each counts. The limit is the larger of two times, both measured here on the same threads.
 * The first is the time of the operator's arithmetic at the rate of a packed 1024^3 product. The second is the time
 * of the operator's bytes at the rate of memory (the faster of a streaming copy and an increment in place). */
#pragma GCC optimize("O3")
#include "bench/clock.h"
#include "rille.h"
#include "runtime/base/base.h"
#include "runtime/base/simd.h"

#include <dnnl.h>
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
/* minimum length of a round, us: so long that data left in caches by the peer does not matter */
enum { AT_LEAST_US = 20000 };

static struct rille_session *session;
static dnnl_engine_t engine;
static dnnl_stream_t stream;
static int threads = 1;

static void
must(int status)
{
    if (!status) return;
    fprintf(stderr, "ops: %s\n", rille_error());
    exit(1);
}

static void
check(dnnl_status_t status)
{
    if (status == dnnl_success) return;
    fprintf(stderr, "ops: oneDNN fails with status %d\n", (int)status);
    exit(1);
}

/* ---- memory ---- */

/* Allocates huge pages, if the host has them, as Rille does for its blocks. */
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

/* Returns the i-th operand value, from 0 to 1. Values vary, because zeros or equal numbers need less power and run
 * faster. */
static float
value(size_t i)
{
    return (float)(i * 2654435761u >> 8 & 0xffff) / 65536.0f;
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

/* Returns the offset at which share i of n begins, a multiple of 64 bytes. */
static size_t
share(size_t bytes, int i, int n)
{
    return bytes / 64 * (size_t)i / (size_t)n * 64;
}

/* Copies the buffer; each thread copies its share. */
static void
copy_run(void *arg)
{
    const struct copy *c = arg;
#pragma omp parallel for num_threads(threads)
    for (int i = 0; i < threads; i++) {
        size_t lo = share(c->bytes, i, threads), hi = share(c->bytes, i + 1, threads);
        memcpy(c->to + lo, c->from + lo, hi - lo);
    }
}

/* Copies with stores that bypass the cache: the fastest way to write memory. */
__attribute__((target("avx512f"))) static void
stream_part(const struct copy *c, size_t lo, size_t hi)
{
    for (size_t at = lo; at < hi; at += 64) _mm512_stream_si512((void *)(c->to + at), _mm512_load_si512(c->from + at));
    _mm_sfence();
}

static void
stream_run(void *arg)
{
    const struct copy *c = arg;
    if (!__builtin_cpu_supports("avx512f")) {
        copy_run(arg);
        return;
    }
#pragma omp parallel for num_threads(threads)
    for (int i = 0; i < threads; i++) stream_part(c, share(c->bytes, i, threads), share(c->bytes, i + 1, threads));
}

/* Reads and writes every byte in place. */
VECTOR static void
touch_part(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] += 1;
}

static void
touch_run(void *arg)
{
    const struct copy *c = arg;
#pragma omp parallel for num_threads(threads)
    for (int i = 0; i < threads; i++) {
        size_t lo = share(c->bytes, i, threads), hi = share(c->bytes, i + 1, threads);
        touch_part((float *)(c->to + lo), (hi - lo) / sizeof(float));
    }
}

/* ---- oneDNN ---- */

struct raw {
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t arg[OPERANDS];
    int narg;
};

static dnnl_memory_desc_t
dense(dnnl_data_type_t type, int ndim, const int64_t *dim)
{
    static const dnnl_format_tag_t tag[] = {dnnl_a, dnnl_ab, dnnl_abc, dnnl_abcd};
    dnnl_memory_desc_t d;
    dnnl_dims_t size;
    for (int i = 0; i < ndim; i++) size[i] = dim[i];
    check(dnnl_memory_desc_init_by_tag(&d, ndim, size, type, tag[ndim - 1]));
    return d;
}

static void
raw_add(struct raw *r, int arg, const dnnl_memory_desc_t *d)
{
    size_t bytes = dnnl_memory_desc_get_size(d);
    void *data = memory(bytes);
    if (d->data_type == dnnl_f32)
        for (size_t i = 0; i < bytes / sizeof(float); i++) ((float *)data)[i] = value(i);
    else if (d->data_type == dnnl_bf16)
        for (size_t i = 0; i < bytes / sizeof(uint16_t); i++)
            ((uint16_t *)data)[i] = (uint16_t)(bits_of(value(i)) >> 16);
    else
        memset(data, 0, bytes);
    r->arg[r->narg].arg = arg;
    check(dnnl_memory_create(&r->arg[r->narg++].memory, d, engine, data));
}

static struct raw
raw_open(const_dnnl_op_desc_t op, dnnl_primitive_desc_t *pd)
{
    struct raw r = {0};
    check(dnnl_primitive_desc_create(pd, op, NULL, engine, NULL));
    check(dnnl_primitive_create(&r.primitive, *pd));
    return r;
}

/* c[.., m, n] = a[.., m, k] b[.., k, n] */
static struct raw
raw_matmul(dnnl_data_type_t type, int64_t batch, int64_t m, int64_t n, int64_t k, bool packed)
{
    int ndim = batch > 1 ? 3 : 2, skip = batch > 1 ? 0 : 1;
    dnnl_memory_desc_t a = dense(type, ndim, (int64_t[]){batch, m, k} + skip);
    dnnl_memory_desc_t b = dense(type, ndim, (int64_t[]){batch, k, n} + skip);
    dnnl_memory_desc_t c = dense(type, ndim, (int64_t[]){batch, m, n} + skip);
    dnnl_matmul_desc_t op;
    dnnl_primitive_desc_t pd;
    if (packed) check(dnnl_memory_desc_init_by_tag(&b, ndim, b.dims, type, dnnl_format_tag_any));
    check(dnnl_matmul_desc_init(&op, &a, &b, NULL, &c));
    struct raw r = raw_open(&op, &pd);
    raw_add(&r, DNNL_ARG_SRC, &a);
    raw_add(&r, DNNL_ARG_WEIGHTS, dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0));
    raw_add(&r, DNNL_ARG_DST, &c);
    check(dnnl_primitive_desc_destroy(pd));
    return r;
}

static struct raw
raw_softmax(int64_t rows, int64_t columns)
{
    dnnl_memory_desc_t d = dense(dnnl_f32, 2, (int64_t[]){rows, columns});
    dnnl_softmax_desc_t op;
    dnnl_primitive_desc_t pd;
    check(dnnl_softmax_forward_desc_init(&op, dnnl_forward_inference, &d, 1));
    struct raw r = raw_open(&op, &pd);
    raw_add(&r, DNNL_ARG_SRC, &d);
    raw_add(&r, DNNL_ARG_DST, &d);
    check(dnnl_primitive_desc_destroy(pd));
    return r;
}

static struct raw
raw_layer_norm(int64_t rows, int64_t columns)
{
    dnnl_memory_desc_t d = dense(dnnl_f32, 2, (int64_t[]){rows, columns});
    dnnl_memory_desc_t weights = dense(dnnl_f32, 2, (int64_t[]){2, columns});
    dnnl_layer_normalization_desc_t op;
    dnnl_primitive_desc_t pd;
    check(
        dnnl_layer_normalization_forward_desc_init(&op, dnnl_forward_inference, &d, NULL, 1e-5f, dnnl_use_scaleshift));
    struct raw r = raw_open(&op, &pd);
    raw_add(&r, DNNL_ARG_SRC, &d);
    raw_add(&r, DNNL_ARG_DST, &d);
    raw_add(&r, DNNL_ARG_SCALE_SHIFT, &weights);
    check(dnnl_primitive_desc_destroy(pd));
    return r;
}

static struct raw
raw_gelu(int64_t n)
{
    dnnl_memory_desc_t d = dense(dnnl_f32, 1, &n);
    dnnl_eltwise_desc_t op;
    dnnl_primitive_desc_t pd;
    check(dnnl_eltwise_forward_desc_init(&op, dnnl_forward_inference, dnnl_eltwise_gelu_erf, &d, 0, 0));
    struct raw r = raw_open(&op, &pd);
    raw_add(&r, DNNL_ARG_SRC, &d);
    raw_add(&r, DNNL_ARG_DST, &d);
    check(dnnl_primitive_desc_destroy(pd));
    return r;
}

/* ---- pooling: 32 images of 64 channels ---- */

enum { IMAGES = 32, CHANNELS = 64, SIDE = 112 };

static const struct pooling {
    const char *name, *op;
    bool max, back;
    int64_t kernel, padding; /* kernel and padding are equal in both directions; the stride is 2 */
} poolings[] = {
    {"pool max 3x3", "max_pool2d", true, false, 3, 1},
    {"pool max 2x2", "max_pool2d", true, false, 2, 0},
    {"pool mean 3x3", "avg_pool2d", false, false, 3, 1},
    {"pool mean 2x2", "avg_pool2d", false, false, 2, 0},
    {"pool max 3x3, backward", "max_pool2d_grad", true, true, 3, 1},
    {"pool max 2x2, backward", "max_pool2d_grad", true, true, 2, 0},
    {"pool mean 3x3, backward", "avg_pool2d_grad", false, true, 3, 1},
    {"pool mean 2x2, backward", "avg_pool2d_grad", false, true, 2, 0},
};

static int64_t
pooled(const struct pooling *p)
{
    return (SIDE + 2 * p->padding - p->kernel) / 2 + 1;
}

/* Makes the gradient of pooling. The inputs of the gradient include the positions of the maxima, which the forward
 * pass stores. */
static struct raw
raw_pooling(const struct pooling *p)
{
    dnnl_alg_kind_t kind = p->max ? dnnl_pooling_max : dnnl_pooling_avg_include_padding;
    dnnl_memory_desc_t x = dense(dnnl_f32, 4, (int64_t[]){IMAGES, CHANNELS, SIDE, SIDE});
    dnnl_memory_desc_t y = dense(dnnl_f32, 4, (int64_t[]){IMAGES, CHANNELS, pooled(p), pooled(p)});
    dnnl_dims_t kernel = {p->kernel, p->kernel}, stride = {2, 2}, dilation = {0}, padding = {p->padding, p->padding};
    int64_t end = (pooled(p) - 1) * 2 + p->kernel - SIDE - p->padding;
    dnnl_dims_t padding_end = {end, end};
    dnnl_pooling_v2_desc_t op;
    dnnl_primitive_desc_t pd, back;
    check(dnnl_pooling_v2_forward_desc_init(&op, p->back ? dnnl_forward_training : dnnl_forward_inference, kind, &x, &y,
                                            stride, kernel, dilation, padding, padding_end));
    struct raw r = raw_open(&op, &pd);
    if (p->back) {
        check(dnnl_primitive_destroy(r.primitive));
        check(dnnl_pooling_v2_backward_desc_init(&op, kind, &x, &y, stride, kernel, dilation, padding, padding_end));
        check(dnnl_primitive_desc_create(&back, &op, NULL, engine, pd));
        check(dnnl_primitive_create(&r.primitive, back));
        check(dnnl_primitive_desc_destroy(back));
    }
    raw_add(&r, p->back ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, &x);
    raw_add(&r, p->back ? DNNL_ARG_DIFF_DST : DNNL_ARG_DST, &y);
    if (p->back && p->max)
        raw_add(&r, DNNL_ARG_WORKSPACE, dnnl_primitive_desc_query_md(pd, dnnl_query_workspace_md, 0));
    check(dnnl_primitive_desc_destroy(pd));
    return r;
}

static void
raw_run(void *arg)
{
    const struct raw *r = arg;
    check(dnnl_primitive_execute(r->primitive, stream, r->narg, r->arg));
}

static void
raw_close(struct raw *r)
{
    for (int i = 0; i < r->narg; i++) {
        void *data;
        check(dnnl_memory_get_data_handle(r->arg[i].memory, &data));
        check(dnnl_memory_destroy(r->arg[i].memory));
        free(data);
    }
    check(dnnl_primitive_destroy(r->primitive));
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

/* Computes a product's sum and the gradients of both operands; the incoming gradient is one number, repeated. */
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
static double f32_flops, bf16_flops; /* flop per microsecond */
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
    struct raw f32 = raw_matmul(dnnl_f32, 1, 1024, 1024, 1024, true);
    struct raw bf16 = raw_matmul(dnnl_bf16, 1, 1024, 1024, 1024, true);
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
    struct raw r = raw_matmul(wide ? dnnl_bf16 : dnnl_f32, p->batch, p->m, p->n, p->k, false);
    struct ours o = {.op = "matmul", .nin = 2};
    o.in[0] = numbers(p->dtype, ndim, (int64_t[]){p->batch, p->m, p->k} + skip);
    o.in[1] = numbers(p->dtype, ndim, (int64_t[]){p->batch, p->k, p->n} + skip);
    double memory_us = bytes > 64e6 ? bytes / bytes_rate : 0; /* operands up to 64 MB may stay in the cache */
    row(p->name, ours_run, &o, raw_run, &r, MAX(flop / (wide ? bf16_flops : f32_flops), memory_us));
    ours_close(&o);
    raw_close(&r);
}

static void
rows_of_oneDNN(void)
{
    const int64_t scores[] = {12288, 1024}, hidden[] = {16384, 768}, width = 768, many = 1 << 24;
    struct ours softmax = {
        .op = "softmax", .nin = 1, .nattr = 1, .attr[0] = {.name = "axis", .kind = RILLE_INT, .i = -1}};
    struct ours norm = {.op = "layer_norm", .nin = 3}, gelu = {.op = "gelu", .nin = 1};
    struct raw peer[3] = {raw_softmax(scores[0], scores[1]), raw_layer_norm(hidden[0], hidden[1]), raw_gelu(many)};
    softmax.in[0] = numbers("f32", 2, scores);
    norm.in[0] = numbers("f32", 2, hidden);
    norm.in[1] = numbers("f32", 1, &width);
    norm.in[2] = numbers("f32", 1, &width);
    gelu.in[0] = numbers("f32", 1, &many);
    if (wanted("softmax"))
        row("softmax 12288x1024", ours_run, &softmax, raw_run, &peer[0], 8.0 * 12288 * 1024 / bytes_rate);
    if (wanted("layer_norm"))
        row("layer_norm 16384x768", ours_run, &norm, raw_run, &peer[1], 8.0 * 16384 * 768 / bytes_rate);
    if (wanted("gelu")) row("gelu 16 M", ours_run, &gelu, raw_run, &peer[2], 8.0 * (double)many / bytes_rate);
    ours_close(&softmax);
    ours_close(&norm);
    ours_close(&gelu);
    for (int i = 0; i < 3; i++) raw_close(&peer[i]);
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
    struct raw r = raw_pooling(p);
    double image = 4.0 * IMAGES * CHANNELS * SIDE * SIDE, windows = image / (SIDE * SIDE) * (double)(y[2] * y[3]);
    row(p->name, ours_run, &o, raw_run, &r, (image * (p->max && p->back ? 2 : 1) + windows) / bytes_rate);
    ours_close(&o);
    raw_close(&r);
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
    struct raw r = raw_matmul(dnnl_f32, 1, 1024, 1024, 1024, false);
    struct ours o = {.op = "matmul", .nin = 2, .in = {numbers("f32", 2, shape), numbers("f32", 2, shape)}};
    for (int i = 0; i < 2; i++) must(rille_tensor_set_requires_grad(o.in[i], true));
    row("sum of matmul 1024^3, both ways", summed_run, &o, raw_thrice, &r, 3 * 2147483648.0 / f32_flops);
    ours_close(&o);
    raw_close(&r);
}

static void
raw_attention(void *arg)
{
    struct raw *r = arg; /* scores, values, and their four gradients: three products of each of two shapes */
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
    struct raw r[2] = {raw_matmul(dnnl_f32, 12, 1024, 1024, 64, false),
                       raw_matmul(dnnl_f32, 12, 1024, 64, 1024, false)};
    row("attention 12x1024x64, both ways", attention_run, &o, raw_attention, r,
        6 * 2.0 * 12 * 1024 * 1024 * 64 / 2 / f32_flops);
    ours_close(&o);
    rille_tensor_free(&o.in[3]);
    for (int i = 0; i < 2; i++) raw_close(&r[i]);
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
    /* 4 arrays are read and 3 written: 28 bytes per value; the copy reads half of them and writes half */
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
    check(dnnl_engine_create(&engine, dnnl_cpu, 0));
    check(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags));
    omp_set_num_threads(threads);
    measure_limits();
    printf("%-36s %11s %11s %8s %11s %8s\n", "microseconds, the least", "Rille", "peer", "of peer", "limit",
           "of limit");
    for (size_t i = 0; i < countof(products); i++) product_row(&products[i]);
    summed_row();
    rows_of_oneDNN();
    for (size_t i = 0; i < countof(poolings); i++) pooling_row(&poolings[i]);
    attention_row();
    rows_of_memory();
    check(dnnl_stream_destroy(stream));
    check(dnnl_engine_destroy(engine));
    rille_close(&session);
    return 0;
}
