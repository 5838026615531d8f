/* memory.c - how fast cores read memory. This is the limit of text generation, which reads all weights once per
 * id.
 *
 *   memory [threads]       prints GB/s, the best of some rounds, of 1 to 8 streams per thread, with prefetch and
 * without
 *
 * Each thread sums its part of 512 MB, which it reads as 1 to 8 adjacent streams. Then it repeats this with
 * non-temporal prefetch, so that outer caches keep no copy. With one thread, time is processor time, to exclude
 * other programs. With more threads, time is wall-clock time from the first start to the last end. */
#pragma GCC optimize("O3")
#include "bench/clock.h"
#include "runtime/base/simd.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { ROUNDS = 7, MOST = 256, LANES = 16, STREAMS = 8 };
typedef float floats __attribute__((vector_size(LANES * 4)));
static const size_t BYTES = (size_t)512 << 20;

struct part {
    const float *from;
    size_t n; /* number of floats */
    int streams;
    bool once;
    float sum;
    double begin, end; /* times of start and end, us: processor time if there is one thread, else wall-clock time */
    pthread_barrier_t *all;
};

INLINE float
sum_streams(const float *from, size_t each, int streams, bool once)
{
    floats sum[STREAMS] = {{0}}, x;
    float total = 0;
    for (size_t i = 0; i + LANES <= each; i += LANES)
        for (int s = 0; s < streams; s++) {
            const float *at = from + (size_t)s * each + i;
            if (once) __builtin_prefetch(at + LANES, 0, 0);
            memcpy(&x, at, sizeof x);
            sum[s] += x;
        }
    for (int s = 0; s < streams; s++)
        for (int i = 0; i < LANES; i++) total += sum[s][i];
    return total;
}

INLINE float
sum_part(const float *from, size_t n, int streams, bool once)
{
    switch (streams) {
    case 1: return sum_streams(from, n, 1, once);
    case 2: return sum_streams(from, n / 2, 2, once);
    case 4: return sum_streams(from, n / 4, 4, once);
    default: return sum_streams(from, n / STREAMS, STREAMS, once);
    }
}

VECTOR static float
read_part(const float *from, size_t n, int streams, bool once)
{
    return once ? sum_part(from, n, streams, true) : sum_part(from, n, streams, false);
}

static void *
run(void *arg)
{
    struct part *p = arg;
    if (p->all) pthread_barrier_wait(p->all);
    p->begin = p->all ? now_us() : own_us();
    p->sum = read_part(p->from, p->n, p->streams, p->once);
    p->end = p->all ? now_us() : own_us();
    return NULL;
}

/* Returns the time, in seconds, that n threads take to read the array once. */
static double
read_all(const float *memory, int n, int streams, bool once)
{
    struct part part[MOST];
    pthread_t thread[MOST];
    pthread_barrier_t all;
    size_t each = BYTES / sizeof *memory / (size_t)n;
    pthread_barrier_init(&all, NULL, (unsigned)n);
    for (int i = 0; i < n; i++) {
        part[i] = (struct part){.from = memory + (size_t)i * each, .n = each, .streams = streams, .once = once};
        part[i].all = n > 1 ? &all : NULL;
        if (pthread_create(&thread[i], NULL, run, &part[i])) exit(1);
    }
    for (int i = 0; i < n; i++) {
        pthread_join(thread[i], NULL);
        if (part[i].begin < part[0].begin) part[0].begin = part[i].begin;
        if (part[i].end > part[0].end) part[0].end = part[i].end;
    }
    pthread_barrier_destroy(&all);
    return 1e-6 * (part[0].end - part[0].begin);
}

int
main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 1;
    float *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || threads < 1 || threads > MOST) return 1;
    madvise(memory, BYTES, MADV_HUGEPAGE);
    memset(memory, 1, BYTES);
    double best = 1e9;
    for (int round = 0; round < 2 * ROUNDS; round++)
        for (int streams = 1; streams <= STREAMS; streams *= 2) {
            double seconds = read_all(memory, threads, streams, round % 2);
            if (seconds < best) best = seconds;
        }
    printf("%.2f\n", (double)BYTES / best / 1e9);
    return 0;
}
