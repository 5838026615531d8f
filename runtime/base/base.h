/* base.h - the macros that all files may use. Any thread. */
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

/* Returns the error code of `expr`, if it fails. The called function has already set the error text (error.h). */
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
