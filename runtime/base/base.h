/* base.h - the few macros that everyone may use. Any thread. */
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

/* Passes a failure on: the callee has already said what happened (error.h). */
#define TRY(expr)                                                                                                      \
    do {                                                                                                               \
        int try_status_ = (expr);                                                                                      \
        if (try_status_) return try_status_;                                                                           \
    } while (0)

/* Limits of what a value may be; Rille refuses anything larger with an error. */
enum {
    MAX_DIM = 8,  /* dimensions of a tensor */
    MAX_AXIS = 6, /* axes of a mesh */
};

#endif
