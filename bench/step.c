/* step.c - measures the least possible time of the digits training step on one core: eight products in oneDNN and
 * one pass of AdamW.
 *
 * The model is a perceptron 64-256-256-10 on a batch of 64. The step has three products in forward, two for input
 * gradients and three for weight gradients, and then updates 85,002 values. The program does no other work, and
 * all data is in cache. Prints "name, layout, least, median" in microseconds, like bench/step.lua; bench/step.sh
 * makes the table.
 *
 * Prints on stderr the time that a cache line takes between two cores, because it determines the cost of sharing
 * data between four devices on two cores. */
#pragma GCC optimize("O3", "no-trapping-math")
#include "bench/clock.h"
#include "bench/raw.h"
#include "runtime/base/simd.h"
#include "runtime/base/base.h"

#include <math.h>
#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 15, STEPS = 60, VALUES = 85002 };

/* A product c[m,n] = a[m,k] b[k,n]. ta, tb: true if operand a (b) is stored transposed. */
static const struct product {
    int m, n, k;
    bool ta, tb;
} products[] = {
    {64, 256, 64, false, true}, {64, 256, 256, false, true},  {64, 10, 256, false, true},  {64, 256, 10, false, false},
    {10, 256, 64, true, false}, {64, 256, 256, false, false}, {256, 256, 64, true, false}, {256, 64, 64, true, false},
};

static float *
numbers(int64_t n)
{
    float *p = malloc((size_t)n * sizeof *p);
    for (int64_t i = 0; i < n; i++) p[i] = (float)(i % 17) * 0.01f;
    return p;
}

static struct raw
product_open(const struct product *p)
{
    struct prim_layout a = raw_matrix(dnnl_f32, p->m, p->k, p->ta), b = raw_matrix(dnnl_f32, p->k, p->n, p->tb);
    struct prim_layout c = raw_matrix(dnnl_f32, p->m, p->n, false);
    return raw_matmul(&a, &b, &c, false, omp_get_max_threads(), NULL);
}

/* Updates the parameters with AdamW (Loshchilov & Hutter 2019). The factors that depend on the step are constants
 * here. */
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
    /* With one thread, times are processor time, which excludes other work. */
    double (*clock)(void) = threads > 1 ? now_us : own_us;
    struct raw gemm[countof(products)];
    float *state[4];
    double time_us[ROUNDS];
    omp_set_num_threads(threads);
    for (size_t i = 0; i < countof(products); i++) gemm[i] = product_open(&products[i]);
    for (int i = 0; i < 4; i++) state[i] = numbers(VALUES);
    for (int round = -1; round < ROUNDS; round++) {
        double begin = clock();
        for (int step = 0; step < STEPS; step++) {
            for (size_t i = 0; i < countof(products); i++) raw_run(&gemm[i]);
            adamw(VALUES, state[0], state[1], state[2], state[3]);
        }
        if (round >= 0) time_us[round] = (clock() - begin) / STEPS;
    }
    qsort(time_us, ROUNDS, sizeof *time_us, by_size);
    printf("%s\tone\t%.0f\t%.0f\n", name, time_us[0], time_us[ROUNDS / 2]);
    for (size_t i = 0; i < countof(products); i++) raw_close(&gemm[i]);
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

/* Returns the one-way time of a cache line between two cores, ns. Repeats the measurement and returns the least,
 * because other programs may use the cores. */
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
    measure(1, "limit: 8 products, AdamW");
    measure(2, "the same, 2 threads");
    return 0;
}
