/* base.h - macros and small functions that all files may use. Any thread. */
#ifndef RILLE_RUNTIME_BASE_H
#define RILLE_RUNTIME_BASE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define countof(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b)  ((a) < (b) ? (a) : (b))
#define MAX(a, b)  ((a) > (b) ? (a) : (b))
#define UNUSED(x)  ((void)(x))

/* Returns `bytes` rounded up to a multiple of 64, the size of a cache line. */
static inline size_t
align_64(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Returns from the calling function with the error code of `expr`, if `expr` fails. The function called in `expr`
 * has already set the error text (error.h). */
#define TRY(expr)                                                                                                      \
    do {                                                                                                               \
        int try_status_ = (expr);                                                                                      \
        if (try_status_) return try_status_;                                                                           \
    } while (0)

/* Limits of shapes and meshes. Rille rejects anything larger with an error. */
enum {
    MAX_DIM = 8,  /* maximum number of dimensions of a tensor */
    MAX_AXIS = 6, /* maximum number of axes of a mesh */
};

#endif
