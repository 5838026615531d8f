/* moves.c - the least time of a move on this machine: the limit in bench/moves.sh.
 *
 * The threads, one per core, share all memory and do only the necessary work: each thread adds its part of the
 * result, or copies the gathered or exchanged data. The threads then meet at a barrier, where they spin. Prints
 * "move, devices, bytes, column, microseconds", the least of many rounds. */
#pragma GCC optimize("O3")
#include "bench/clock.h"
#include "runtime/base/simd.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 2, MOST = 64 << 20, DEVICES = 4 };

static const struct {
    const char *name;
    int sums;
} moves[] = {{"all-reduce", 1}, {"all-gather", 0}, {"reduce-scatter", 1}, {"P -> S(1)", 1}, {"all-to-all", 0}};

static float *addend[DEVICES], *result;
static struct {
    int sums, devices, rounds;
    int64_t n;
    double best;
} job;
static _Atomic int arrived, round_now;

static void
meet(void)
{
    int now = round_now;
    if (atomic_fetch_add(&arrived, 1) == THREADS - 1) {
        arrived = 0;
        round_now = now + 1;
    } else
        while (round_now == now) continue;
}

static VECTOR void
add(float *restrict out, const float *restrict a, const float *restrict b, int64_t n)
{
    for (int64_t i = 0; i < n; i++) out[i] = a[i] + b[i];
}

static VECTOR void
add_to(float *restrict out, const float *restrict a, int64_t n)
{
    for (int64_t i = 0; i < n; i++) out[i] += a[i];
}

/* Adds all addends in the range from `from` to `to`; copies a single addend. */
static void
work(int64_t from, int64_t to)
{
    enum { BLOCK = 2048 };
    if (!job.sums) {
        memcpy(result + from, addend[0] + from, sizeof(float) * (size_t)(to - from));
        return;
    }
    for (int64_t at = from; at < to; at += BLOCK) {
        int64_t n = at + BLOCK < to ? BLOCK : to - at;
        float *out = result + at;
        add(out, addend[0] + at, addend[1] + at, n);
        for (int d = 2; d < job.devices; d++) add_to(out, addend[d] + at, n);
    }
}

static void *
thread(void *arg)
{
    int64_t id = *(int *)arg, from = job.n * id / THREADS, to = job.n * (id + 1) / THREADS;
    for (int i = 0; i < job.rounds; i++) {
        meet();
        double begin = now_us();
        work(from, to);
        meet();
        double took = now_us() - begin;
        if (id == 0 && took < job.best) job.best = took;
    }
    return NULL;
}

static double
least(int sums, int devices, int64_t bytes)
{
    pthread_t other;
    int id[THREADS] = {0, 1};
    job.sums = sums;
    job.devices = devices;
    job.n = bytes / 4;
    job.rounds = bytes < 1 << 20 ? 5000 : 60;
    job.best = 1e9;
    pthread_create(&other, NULL, thread, &id[1]);
    thread(&id[0]);
    pthread_join(other, NULL);
    return job.best;
}

int
main(void)
{
    static const int64_t size[] = {8, 4096, 262144, 2097152, 16777216, 67108864};
    for (int d = 0; d < DEVICES; d++) memset(addend[d] = aligned_alloc(64, MOST), 0, MOST);
    memset(result = aligned_alloc(64, MOST), 0, MOST);
    for (int devices = 2; devices <= DEVICES; devices += 2)
        for (size_t m = 0; m < sizeof moves / sizeof *moves; m++)
            for (size_t s = 0; s < sizeof size / sizeof *size; s++)
                printf("%s\t%d\t%lld\tlimit\t%.2f\n", moves[m].name, devices, (long long)size[s],
                       least(moves[m].sums, devices, size[s]));
    for (int d = 0; d < DEVICES; d++) free(addend[d]);
    free(result);
    return 0;
}
