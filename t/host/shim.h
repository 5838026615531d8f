/* shim.h - enough of CUDA C++ to run the texts of kernels/cuda on the host: blocks one after the other, a fiber a
 * thread.
 *
 * Between two barriers the threads of a block run one by one, in an order that is drawn from a seed; so a missing
 * barrier shows as results that depend on the seed, and sanitizers see every access. A barrier that not all threads
 * meet ends the program. What it cannot show: races that every order of whole threads hides. */
#ifndef RILLE_T_HOST_SHIM_H
#define RILLE_T_HOST_SHIM_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

#define __global__
#define __device__
#define __shared__ static /* one block runs at a time */
#define __launch_bounds__(n)
#define DEVICE static inline
#define METHOD
#define FLUSHED(x) shim::flushed(x)

struct dim3 {
    unsigned x, y, z;
};
static dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace shim
{
enum { MOST = 1024, STACK = 128 << 10 };
static ucontext_t scheduler, fiber[MOST];
static char *stacks;
static bool done[MOST];
static unsigned now;
static void (*kernel)(const void *words);
static const void *argument;

/* Numbers too small for full precision are zeros where the thread's mode says so: libm reads bits, and would see them.
 */
static inline float
flushed(float x)
{
    volatile float one = 1;
    return x * one;
}

static void
enter()
{
    kernel(argument);
    done[now] = true;
}

static void
barrier()
{
    unsigned me = now;
    swapcontext(&fiber[me], &scheduler);
    threadIdx.x = me;
}

static void
make(unsigned t)
{
    done[t] = false;
    getcontext(&fiber[t]);
    fiber[t].uc_stack.ss_sp = stacks + (size_t)t * STACK;
    fiber[t].uc_stack.ss_size = STACK;
    fiber[t].uc_link = &scheduler;
    makecontext(&fiber[t], enter, 0);
}

static uint64_t
draw(uint64_t *seed)
{
    *seed ^= *seed << 13, *seed ^= *seed >> 7, *seed ^= *seed << 17;
    return *seed;
}

/* Every thread to its next barrier, or to its end: all the same. Their number is a power of two, so that any odd step
 * meets all. */
static bool
round(unsigned threads, uint64_t *seed)
{
    unsigned ended = 0, at = (unsigned)(draw(seed) % threads), step = (unsigned)draw(seed) % threads | 1;
    for (unsigned i = 0; i < threads; i++, at = (at + step) % threads) {
        now = threadIdx.x = at;
        swapcontext(&scheduler, &fiber[at]);
        ended += done[at];
    }
    if (ended == 0 || ended == threads) return ended == 0;
    fprintf(stderr, "shim: %u of %u threads left before a barrier\n", ended, threads);
    abort();
}

static void
launch(void (*f)(const void *), const void *words, long blocks, unsigned threads, uint64_t seed)
{
    if (!stacks) stacks = (char *)malloc((size_t)MOST * STACK);
    kernel = f;
    argument = words;
    seed = seed * 2862933555777941757u + 3037000493u;
    blockDim = {threads, 1, 1};
    gridDim = {(unsigned)blocks, 1, 1};
    for (long b = 0; b < blocks; b++) {
        blockIdx = {(unsigned)b, 0, 0};
        for (unsigned t = 0; t < threads; t++) make(t);
        while (round(threads, &seed)) continue;
    }
}
} // namespace shim

static inline void
__syncthreads()
{
    shim::barrier();
}

/* Is it true of any thread of the block? */
static inline int
__syncthreads_or(int is)
{
    static int any;
    static unsigned left;
    any |= is != 0;
    shim::barrier();
    int all = any;
    if (++left == blockDim.x) any = 0, left = 0;
    shim::barrier();
    return all;
}

/* The entry of a kernel: run_<name>, which returns how many bytes its argument has. No words: that is all it does. */
#define SHIM_KERNEL(name)                                                                                              \
    static void call_##name(const void *words) { name##_::name(*(const name##_::argument *)words); }                   \
    extern "C" __attribute__((visibility("default"))) long run_##name(const void *words, long blocks, uint64_t seed)   \
    {                                                                                                                  \
        if (words) shim::launch(call_##name, words, blocks, 256, seed);                                                \
        return sizeof(name##_::argument);                                                                              \
    }

#endif
