/* memory.c - how fast cores read memory: the limit of whatever reads all its weights once an id.
 *
 *   memory [threads]       prints GB/s, the best of some rounds and of 1 to 8 streams a thread
 *
 * Each thread sums a part of 512 MB as several streams, one after the other in memory, as fast as it comes. Time is the
 * slowest thread's own processor time, so that others who use the machine count less. */
#pragma GCC optimize("O3")
#include "bench/clock.h"
#include "runtime/simd.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { ROUNDS = 7, MOST = 256, LANES = 16, STREAMS = 8 };
typedef float floats __attribute__((vector_size(LANES * 4)));
static const size_t BYTES = (size_t)512 << 20;

struct part {
    const float *from;
    size_t n; /* floats */
    int streams;
    float sum;
    double seconds;
};

INLINE float
sum_streams(const float *from, size_t each, int streams)
{
    floats sum[STREAMS] = {{0}}, x;
    float total = 0;
    for (size_t i = 0; i + LANES <= each; i += LANES)
        for (int s = 0; s < streams; s++) {
            memcpy(&x, from + (size_t)s * each + i, sizeof x);
            sum[s] += x;
        }
    for (int s = 0; s < streams; s++)
        for (int i = 0; i < LANES; i++) total += sum[s][i];
    return total;
}

VECTOR static float
read_part(const float *from, size_t n, int streams)
{
    switch (streams) {
    case 1: return sum_streams(from, n, 1);
    case 2: return sum_streams(from, n / 2, 2);
    case 4: return sum_streams(from, n / 4, 4);
    default: return sum_streams(from, n / STREAMS, STREAMS);
    }
}

static void *
run(void *arg)
{
    struct part *p = arg;
    double start = own_us();
    p->sum = read_part(p->from, p->n, p->streams);
    p->seconds = 1e-6 * (own_us() - start);
    return NULL;
}

/* Seconds of the slowest of n threads. */
static double
read_all(const float *memory, int n, int streams)
{
    struct part part[MOST];
    pthread_t thread[MOST];
    double slowest = 0;
    size_t each = BYTES / sizeof *memory / (size_t)n;
    for (int i = 0; i < n; i++) {
        part[i] = (struct part){.from = memory + (size_t)i * each, .n = each, .streams = streams};
        if (pthread_create(&thread[i], NULL, run, &part[i])) exit(1);
    }
    for (int i = 0; i < n; i++) {
        pthread_join(thread[i], NULL);
        if (part[i].seconds > slowest) slowest = part[i].seconds;
    }
    return slowest;
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
    for (int round = 0; round < ROUNDS; round++)
        for (int streams = 1; streams <= STREAMS; streams *= 2) {
            double seconds = read_all(memory, threads, streams);
            if (seconds < best) best = seconds;
        }
    printf("%.2f\n", (double)BYTES / best / 1e9);
    return 0;
}
