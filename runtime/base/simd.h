/* simd.h - loops that the compiler vectorises for the machine it finds itself on.
 *
 * The compiler makes a function marked VECTOR for several x86-64 levels, and the loader picks one (an ifunc), so one
 * build runs everywhere and is fast. Helpers that such loops call are INLINE, so that they get the level of their
 * caller. The loader picks before a sanitizer's run-time is ready: there is one version then.
 *
 * clang 14 to 17 pick by single features alone: they have AVX-512 and the lowest level. They call the picked version
 * NAME.ifunc, and NAME.resolver, which picks, is seen by other files even where the function is static: so a function
 * that others call is followed by EXPORTED(name), and no two files have one of the same name (.ci/clang links them).
 * Other clangs before 19 have one level, that of their options (-march).
 *
 * A file of such loops begins with #pragma GCC optimize("O3", "no-trapping-math"): gcc vectorises fully at O3, and only
 * when it may compare in lanes whose result nobody takes. clang does so by itself. Macros; any thread. */
#ifndef RILLE_RUNTIME_SIMD_H
#define RILLE_RUNTIME_SIMD_H

#include <stdint.h>
#include <string.h>

#if defined(__clang__)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED /* a sanitizer looks at loads and stores */
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
/* The turns of the loop that follows do not depend on each other, whatever its pointers may say. */
#ifdef __clang__
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif
#define INLINE static inline __attribute__((always_inline))

/* Vector x is in a register from here on. What is used several times gcc would read anew for each use, as an operand in
 * memory, though a core may load fewer vectors than it multiplies. */
#if defined(__x86_64__)
#define IN_REGISTER(x) __asm__("" : "+v"(x))
#elif defined(__aarch64__)
#define IN_REGISTER(x) __asm__("" : "+w"(x))
#else
#define IN_REGISTER(x) UNUSED(x)
#endif

/* Loops whose vectors must have the width of the machine's registers are compiled for each level by themselves, and
 * pick one when they run. */
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

/* Does a core fetch far enough ahead of what it reads by itself? Asking it for more then costs more than it brings. */
INLINE int
machine_fetches_ahead(void)
{
#ifdef X86_LEVELS
    return __builtin_cpu_is("amd") != 0;
#else
    return 0;
#endif
}

/* Has it an instruction that rounds floats to bf16? */
INLINE int
machine_rounds_bf16(void)
{
#ifdef X86_LEVELS
    return machine_level() == LEVEL_V4 && __builtin_cpu_supports("avx512bf16");
#else
    return 0;
#endif
}

/* Does a core multiply twice as many bf16 as floats at a time? Those of AMD that have such products; Intel's as many.
 */
INLINE int
machine_doubles_bf16(void)
{
#ifdef X86_LEVELS
    return __builtin_cpu_is("amd") && __builtin_cpu_supports("avx512bf16");
#else
    return 0;
#endif
}

/* Does a core compute with vectors of 64 bytes as wholes? Zen 4, the only one of its family that has them, takes them
 * apart. */
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
