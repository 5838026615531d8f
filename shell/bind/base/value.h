/* value.h - dtypes as Lua values. Only the thread that owns the Lua state calls these functions. */
#ifndef RILLE_SHELL_BIND_BASE_VALUE_H
#define RILLE_SHELL_BIND_BASE_VALUE_H

#include "shell/bind/base/shell.h"

struct value_kind {
    const char *name;
    int bytes;
    /* stores a number at `at`; returns 0, or -1 if the number does not fit */
    int (*store)(void *at, bool is_int, int64_t i, double f);
    double (*real)(const void *at);     /* reads an element; NULL unless the dtype is a float */
    int64_t (*integer)(const void *at); /* reads an element; NULL if the dtype is a float */
    int64_t low, high;                  /* range in which the dtype represents every integer */
};
const struct value_kind *value_kind(const char *dtype); /* returns NULL for an unknown dtype */
double value_real(double v); /* returns v; clears the sign bit of NaN, so that it prints as "nan" */
void value_push(lua_State *L, const struct value_kind *k, const void *at);

#endif
