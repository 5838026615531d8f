/* simd.h - marks for loops that the compiler vectorises for the machine that runs them.
 *
 * The compiler makes a function marked VECTOR for several x86-64 levels, and the loader picks one (an ifunc), so one
 * build runs everywhere and is fast. Helpers of such loops are INLINE, so that each helper gets the level of its
 * caller. Under a sanitizer there is one version, because the loader picks before the sanitizer's run-time is ready.
 *
 * clang 14 to 17 pick by single features, so they make two versions: AVX-512 and the lowest level. Other files call
 * the picked version as NAME.ifunc, and the function NAME.resolver that picks is global even if the function is
 * static. A function that other files call is therefore followed by EXPORTED(name), and function names are unique
 * over all files (.ci/clang links them). Other clangs before 19 make one version, by their options (-march).
 *
 * A file of such loops begins with #pragma GCC optimize("O3", "no-trapping-math"): gcc vectorises fully at O3 only,
 * and only if it may compute comparisons whose result is not used. clang needs no pragma. Macros; any thread. */
#ifndef RILLE_RUNTIME_SIMD_H
#define RILLE_RUNTIME_SIMD_H

#include <stdint.h>
#include <string.h>

#if defined(__clang__)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED /* a sanitizer checks loads and stores */
#endif
#if __clang_major__ < 14 || __clang_major__ == 18
#define ONE_LEVEL
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED
#endif
#if !defined(__x86_64__) || !defined(__GNUC__) || defined(ONE_LEVEL) || defined(SANITIZED)
#define VECTOR
#define EXPORTED(name)
#elif defined(__clang__) && __clang_major__ < 18
#define VECTOR         __attribute__((target_clones("avx512bw", "default")))
#define EXPORTED(name) __asm__(".globl " #name "\n.hidden " #name "\n.set " #name ", " #name ".ifunc");
#else
#define VECTOR __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#define EXPORTED(name)
#endif
/* The iterations of the next loop are independent, whatever its pointers may suggest. */
#ifdef __clang__
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif
#define INLINE static inline __attribute__((always_inline))

/* Keeps vector x in a register. gcc would load a vector with several uses again for each use, as a memory operand,
 * although a core loads fewer vectors per cycle than it multiplies. */
#if defined(__x86_64__)
#define IN_REGISTER(x) __asm__("" : "+v"(x))
#elif defined(__aarch64__)
#define IN_REGISTER(x) __asm__("" : "+w"(x))
#else
#define IN_REGISTER(x) UNUSED(x)
#endif

/* A loop whose vectors must be as wide as the machine's registers is compiled once per level, and chosen when it
 * runs. */
#if defined(__x86_64__) && defined(__GNUC__)
#define X86_LEVELS
#define X86_V3      __attribute__((target("arch=x86-64-v3")))
#define X86_V4      __attribute__((target("arch=x86-64-v4")))
#define X86_V4_BF16 __attribute__((target("arch=x86-64-v4,avx512bf16"))) /* where machine_rounds_bf16() */
#endif
enum { LEVEL_ANY, LEVEL_V3, LEVEL_V4 };
INLINE int
machine_level(void)
{
#ifdef X86_LEVELS
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi2"))
        return LEVEL_ANY;
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return LEVEL_V4;
    return LEVEL_V3;
#else
    return LEVEL_ANY;
#endif
}

/* Returns 1 if the core prefetches far enough ahead by itself. More prefetching by software would then cost more
 * than it saves. */
INLINE int
machine_fetches_ahead(void)
{
#ifdef X86_LEVELS
    return __builtin_cpu_is("amd") != 0;
#else
    return 0;
#endif
}

/* Returns 1 if the processor has an instruction that rounds floats to bf16. */
INLINE int
machine_rounds_bf16(void)
{
#ifdef X86_LEVELS
    return machine_level() == LEVEL_V4 && __builtin_cpu_supports("avx512bf16");
#else
    return 0;
#endif
}

/* Returns 1 if a core multiplies twice as many bf16 as floats per cycle: AMD's with AVX512_BF16. Intel's multiply as
 * many. */
INLINE int
machine_doubles_bf16(void)
{
#ifdef X86_LEVELS
    return __builtin_cpu_is("amd") && __builtin_cpu_supports("avx512bf16");
#else
    return 0;
#endif
}

/* Returns 1 if a core computes 64-byte vectors in one piece. Zen 4 splits them in two. */
INLINE int
machine_takes_wide(void)
{
#ifdef X86_LEVELS
    return machine_level() == LEVEL_V4 && !__builtin_cpu_is("amdfam19h");
#else
    return 0;
#endif
}

INLINE uint32_t
bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}
INLINE float
float_of(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}
INLINE uint64_t
bits_of_double(double d)
{
    uint64_t u;
    memcpy(&u, &d, sizeof u);
    return u;
}
INLINE double
double_of(uint64_t u)
{
    double d;
    memcpy(&d, &u, sizeof d);
    return d;
}

#endif
