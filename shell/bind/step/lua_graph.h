/* lua_graph.h - a compiled step as a Lua object: lua_graph.c creates and inspects the object, lua_graph_call.c calls
 * it. The object owns its traces. Only the session's thread uses the object. */
#ifndef RILLE_SHELL_LUA_GRAPH_H
#define RILLE_SHELL_LUA_GRAPH_H

#include "shell/bind/base/shell.h"

enum { MAX_TENSORS = 64, MAX_TRACES = 64 };

/* User values of the object:
 *   1                     the function
 *   2                     a list with {args =, results =, conditions =} for each trace
 *   3 (GRAPH_CONDITIONS)  the last trace's conditions
 *   4 (GRAPH_BUCKETS)     the option buckets as lua/step/buckets.lua reads it, or nil */
enum { GRAPH_BUCKETS = 4 };
struct graph {
    struct rille_graph_options options;
    struct rille_chart_costs costs;
    char schedule[16], mode[16];
    struct rille_graph *trace[MAX_TRACES];
    int ntrace, last; /* last: index of the trace that ran last; -1: none */
    bool check;       /* option check = "trace": some calls are traced again and compared */
    int64_t ncall;    /* number of calls, counted if `check` */
    struct line line; /* user's line that created the graph */
};

/* Raises unless the value at i is a compiled step. */
struct graph *graph_check(lua_State *L, int i);

void graph_open(lua_State *L);

#endif
