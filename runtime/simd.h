/* simd.h - loops that the compiler vectorises for the machine it finds itself on.
 *
 * The compiler makes a function marked VECTOR for several x86-64 levels, and the loader picks one (an ifunc), so one
 * build runs everywhere and is fast. Helpers that such loops call are INLINE, so that they get the level of their
 * caller. The loader picks before a sanitizer's run-time is ready: there is one version then.
 *
 * A file of such loops begins with #pragma GCC optimize("O3", "no-trapping-math"): gcc vectorises fully at O3, and only
 * when it may compare in lanes whose result nobody takes. clang does so by itself; before 19 it has one level, that of
 * its options (-march). Macros; any thread. */
#ifndef RILLE_RUNTIME_SIMD_H
#define RILLE_RUNTIME_SIMD_H

#include <stdint.h>
#include <string.h>

#if defined(__has_feature) /* clang: before 19 several levels of a function do not link */
#if __clang_major__ < 19 || __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define ONE_LEVEL
#endif
#endif
#if defined(__x86_64__) && defined(__GNUC__) && !defined(ONE_LEVEL) && !defined(__SANITIZE_ADDRESS__) &&               \
    !defined(__SANITIZE_THREAD__)
#define VECTOR __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define VECTOR
#endif
/* The turns of the loop that follows do not depend on each other, whatever its pointers may say. */
#ifdef __clang__
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif
#define INLINE static inline __attribute__((always_inline))

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

#endif
