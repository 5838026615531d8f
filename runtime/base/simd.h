/* simd.h - macros for loops that the compiler vectorises for the processor that runs them.
 *
 * The compiler makes a function marked VECTOR in several versions, one per x86-64 level, and the loader chooses one
 * (an ifunc). So one build runs on all processors and is fast. Helper functions of such loops are INLINE, so that
 * each is compiled for the level of its caller. Sanitizer builds have one version, because the loader chooses before
 * the sanitizer's run-time is ready.
 *
 * clang 14 to 17 can choose only by single features, so they make two versions: AVX-512 and the lowest level. Other
 * files call the chosen version as NAME.ifunc. The resolver, the function NAME.resolver that chooses the version at
 * load time, is a global symbol even if the function is static. A function that other files call is therefore followed
 * by EXPORTED(name), and function names are unique over all files (.ci/clang links them). Other clangs before 19, and
 * systems with musl, and macOS, get one version, for the level that the compiler's options choose (-march).
 *
 * A file of such loops begins with #pragma GCC optimize("O3", "no-trapping-math"): gcc vectorises fully at O3 only,
 * and only if it may compute comparisons whose result is not used. clang needs no pragma. Macros; any thread. */
#ifndef RILLE_RUNTIME_SIMD_H
#define RILLE_RUNTIME_SIMD_H

#include <stdint.h>
#include <string.h>

#if (defined(__linux__) && !defined(__GLIBC__)) || defined(__APPLE__)
#define ONE_LEVEL /* the loaders of musl and macOS cannot choose a version of a function at load time */
#endif
#if defined(__clang__)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED /* true if a sanitizer checks loads and stores */
#endif
#if (__clang_major__ < 14 || __clang_major__ == 18) && !defined(ONE_LEVEL)
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
/* Declares that the iterations of the next loop are independent, even if its pointers could overlap. */
#ifdef __clang__
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif
#define INLINE static inline __attribute__((always_inline))

/* Keeps vector x in a register. Without this macro, gcc would load a repeatedly used vector from memory again for
 * each use. Loading is slower, because a core can load fewer vectors per cycle than it can multiply. */
#if defined(__x86_64__)
#define IN_REGISTER(x) __asm__("" : "+v"(x))
#elif defined(__aarch64__)
#define IN_REGISTER(x) __asm__("" : "+w"(x))
#else
#define IN_REGISTER(x) UNUSED(x)
#endif

/* Marks a function whose vectors must be as wide as the machine's registers. Such a function is compiled once per
 * x86-64 level, and the program chooses one version at run time. */
#if defined(__x86_64__) && defined(__GNUC__)
#define X86_LEVELS
#define X86_V3 __attribute__((target("arch=x86-64-v3")))
#define X86_V4 __attribute__((target("arch=x86-64-v4")))
/* v4 with instructions for bf16. Only intrinsics generate them, and run only if machine_rounds_bf16() returns 1. */
#define X86_V4_BF16 __attribute__((target("arch=x86-64-v4,avx512bf16")))
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

/* Returns 1 if the core prefetches far enough ahead by itself, so that software prefetching costs more than it
 * saves. */
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

/* Returns 1 if a core multiplies twice as many bf16 numbers as floats per cycle, as AMD's cores with AVX512_BF16
 * do. Intel's cores multiply as many bf16 numbers as floats. */
INLINE int
machine_doubles_bf16(void)
{
#ifdef X86_LEVELS
    return __builtin_cpu_is("amd") && __builtin_cpu_supports("avx512bf16");
#else
    return 0;
#endif
}

/* Returns 1 if a core processes a 64-byte vector in one operation. Zen 4 processes it as two halves. */
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
