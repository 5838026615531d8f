/* step.c - the least possible time of the digits step on one core: eight products in oneDNN and one pass of AdamW.
 *
 * A perceptron 64-256-256-10 on a batch of 64: three products forward, two for input gradients, three for weight
 * gradients; then an update of 85,002 values. The program does no other work, and all data is in cache. Prints
 * "name, layout, least, median" in microseconds, like bench/step.lua; bench/step.sh makes the table. Prints on
 * stderr the time that a cache line takes between two cores, because it determines the cost of sharing data between
 * four devices on two cores. */
#pragma GCC optimize("O3", "no-trapping-math")
#include "bench/clock.h"
#include "runtime/base/simd.h"
#include "runtime/base/base.h"

#include <dnnl.h>
#include <math.h>
#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 15, STEPS = 60, VALUES = 85002 };

/* c[m,n] = a[m,k] b[k,n]; a transposed operand is stored transposed. */
static const struct product {
    int m, n, k;
    bool ta, tb;
} products[] = {
    {64, 256, 64, false, true}, {64, 256, 256, false, true},  {64, 10, 256, false, true},  {64, 256, 10, false, false},
    {10, 256, 64, true, false}, {64, 256, 256, false, false}, {256, 256, 64, true, false}, {256, 64, 64, true, false},
};

struct gemm {
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t arg[3];
};

static dnnl_engine_t engine;
static dnnl_stream_t stream;

static void
must(dnnl_status_t status)
{
    if (status == dnnl_success) return;
    fprintf(stderr, "step: oneDNN fails with status %d\n", (int)status);
    exit(1);
}

static float *
numbers(int64_t n)
{
    float *p = malloc((size_t)n * sizeof *p);
    for (int64_t i = 0; i < n; i++) p[i] = (float)(i % 17) * 0.01f;
    return p;
}

static dnnl_memory_desc_t
matrix(int rows, int columns, bool transposed)
{
    dnnl_memory_desc_t d;
    must(dnnl_memory_desc_init_by_tag(&d, 2, (dnnl_dims_t){rows, columns}, dnnl_f32, transposed ? dnnl_ba : dnnl_ab));
    return d;
}

static void
gemm_open(struct gemm *g, const struct product *p)
{
    dnnl_memory_desc_t desc[3] = {matrix(p->m, p->k, p->ta), matrix(p->k, p->n, p->tb), matrix(p->m, p->n, false)};
    dnnl_matmul_desc_t op;
    dnnl_primitive_desc_t pd;
    must(dnnl_matmul_desc_init(&op, &desc[0], &desc[1], NULL, &desc[2]));
    must(dnnl_primitive_desc_create(&pd, &op, NULL, engine, NULL));
    must(dnnl_primitive_create(&g->primitive, pd));
    must(dnnl_primitive_desc_destroy(pd));
    int64_t size[3] = {p->m * p->k, p->k * p->n, p->m * p->n};
    for (int i = 0; i < 3; i++) {
        g->arg[i].arg = (int[]){DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST}[i];
        must(dnnl_memory_create(&g->arg[i].memory, &desc[i], engine, numbers(size[i])));
    }
}

static void
gemm_close(struct gemm *g)
{
    for (int i = 0; i < 3; i++) {
        void *data;
        must(dnnl_memory_get_data_handle(g->arg[i].memory, &data));
        must(dnnl_memory_destroy(g->arg[i].memory));
        free(data);
    }
    must(dnnl_primitive_destroy(g->primitive));
}

/* Updates the parameters with AdamW (Loshchilov & Hutter 2019); the step-dependent factors are constants. */
VECTOR static void
adamw(int64_t n, float *restrict p, float *restrict m, float *restrict v, const float *restrict g)
{
    for (int64_t i = 0; i < n; i++) {
        m[i] = 0.9f * m[i] + 0.1f * g[i];
        v[i] = 0.999f * v[i] + 0.001f * g[i] * g[i];
        p[i] = p[i] * 0.99999f - 1e-3f * m[i] / (sqrtf(v[i]) + 1e-8f);
    }
}

static void
measure(int threads, const char *name)
{
    double (*clock)(void) = threads > 1 ? now_us : own_us; /* one thread: processor time excludes other work */
    struct gemm gemm[countof(products)];
    float *state[4];
    double time_us[ROUNDS];
    omp_set_num_threads(threads);
    for (size_t i = 0; i < countof(products); i++) gemm_open(&gemm[i], &products[i]);
    for (int i = 0; i < 4; i++) state[i] = numbers(VALUES);
    for (int round = -1; round < ROUNDS; round++) {
        double begin = clock();
        for (int step = 0; step < STEPS; step++) {
            for (size_t i = 0; i < countof(products); i++)
                must(dnnl_primitive_execute(gemm[i].primitive, stream, 3, gemm[i].arg));
            adamw(VALUES, state[0], state[1], state[2], state[3]);
        }
        if (round >= 0) time_us[round] = (clock() - begin) / STEPS;
    }
    qsort(time_us, ROUNDS, sizeof *time_us, by_size);
    printf("%s\tone\t%.0f\t%.0f\n", name, time_us[0], time_us[ROUNDS / 2]);
    for (size_t i = 0; i < countof(products); i++) gemm_close(&gemm[i]);
    for (int i = 0; i < 4; i++) free(state[i]);
}

/* ---- core to core ---- */

enum { HOPS = 500, TRIES = 40 };
static _Alignas(64) atomic_int turn;

static void *
answer(void *arg)
{
    UNUSED(arg);
    for (int i = 0; i < TRIES * HOPS; i++) {
        while (atomic_load_explicit(&turn, memory_order_acquire) != 1) continue;
        atomic_store_explicit(&turn, 0, memory_order_release);
    }
    return NULL;
}

/* Returns the one-way time of a cache line between two cores, ns; the least of several tries, because other programs
 * may use the cores. */
static double
cache_line(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, answer, NULL);
    double least = 1e9;
    for (int try = 0; try < TRIES; try++) {
        double begin = now_us();
        for (int i = 0; i < HOPS; i++) {
            while (atomic_load_explicit(&turn, memory_order_acquire) != 0) continue;
            atomic_store_explicit(&turn, 1, memory_order_release);
        }
        least = MIN(least, now_us() - begin);
    }
    pthread_join(thread, NULL);
    return least * 1e3 / HOPS / 2;
}

int
main(void)
{
    fprintf(stderr, "a cache line takes %.0f ns from core to core\n", cache_line());
    must(dnnl_engine_create(&engine, dnnl_cpu, 0));
    must(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags));
    measure(1, "limit: 8 products, AdamW");
    measure(2, "the same, 2 threads");
    must(dnnl_stream_destroy(stream));
    must(dnnl_engine_destroy(engine));
    return 0;
}
