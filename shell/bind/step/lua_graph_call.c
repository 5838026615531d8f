/* lua_graph_call.c - calls a compiled step.
 *
 * A graph object keeps the traces made so far. A call looks for a trace that fits: the core compares types and
 * layouts of the tensors, the variables and their gradients; this file compares the other arguments; and
 * lua_conditions.c compares the values that the function read besides its arguments. If no trace fits, the function
 * is called once with the micro-batch tensors that the core provides, and its calls are recorded. Results that are
 * not tensors keep the values that they had during the trace.
 *
 * If a trace does not fit only because numbers have changed, the function is traced with live numbers in place of
 * these numbers. If the new trace, evaluated with the former numbers, records the same program as the former trace,
 * the new trace replaces the former one. From then on, changed numbers cause no further trace. */
#include "shell/bind/step/lua_graph_call.h"
#include "shell/bind/base/field.h"
#include "shell/bind/base/lua_error.h"
#include "shell/bind/step/lua_conditions.h"
#include "shell/bind/tensor/lua_tensor.h"
#include "shell/bind/step/lua_graph.h"

#include <stdlib.h>
#include <string.h>

/* Collects the tensors among the values from first to last; returns their number. */
static int
list_graph_tensors(lua_State *L, int first, int last, struct rille_tensor **out)
{
    int n = 0;
    for (int i = first; i <= last; i++) {
        struct rille_tensor *t = tensor_test(L, i);
        if (!t) continue;
        if (n == MAX_TENSORS)
            complain(L, "graph: a step can have at most %d tensors as arguments or results", MAX_TENSORS);
        out[n++] = t;
    }
    return n;
}

/* Returns true if a value from first to last is a table without a metatable. */
static bool
has_table(lua_State *L, int first, int last)
{
    for (int i = first; i <= last; i++) {
        if (!lua_istable(L, i)) continue;
        if (!lua_getmetatable(L, i)) return true;
        lua_pop(L, 1);
    }
    return false;
}

/* ---- finding a trace ---- */

/* A call in progress. Stack indices: the arguments are at 2 to `args`. If some arguments are tables with tensors
 * (lua/step/nested.lua), these tensors are at args + 1 to `last`. The call's pattern, a table of its values with
 * a marker in place of each tensor and each number, is at `pattern`. in: all tensors, in the order of their indices.
 * nresult: number of the function's results if they include tables with tensors, else -1. */
struct step_call {
    struct graph *g;
    struct rille_tensor *in[MAX_TENSORS];
    int nin, args, last, pattern, nresult;
    bool returned; /* the last trace of the function has returned, so that a later error is one of the plan */
};

/* Pushes the pattern of some values: a table of the values from first to last, with a marker in place of each tensor.
 */
static void
push_pattern(lua_State *L, int first, int last)
{
    lua_createtable(L, last - first + 1, 1);
    for (int i = first; i <= last; i++) {
        if (tensor_test(L, i))
            lua_pushlightuserdata(L, (void *)&shell_of(L)->meta[KIND_TENSOR]);
        else
            lua_pushvalue(L, i);
        lua_rawseti(L, -2, i - first + 1);
    }
    field_integer(L, "n", last - first + 1);
}

static const char number_key; /* its address stands for a number in the pattern of a call */

/* Replaces each number in the pattern of a call by a marker, and stores the number in the table `numbers` of the
 * traces. There lua/step/trace.lua follows it like a number that the function reads. */
static void
set_numbers(lua_State *L, const struct step_call *c)
{
    lua_getiuservalue(L, 1, 2);
    if (lua_getfield(L, -1, "numbers") == LUA_TNIL) {
        lua_newtable(L);
        lua_pushvalue(L, -1);
        lua_setfield(L, c->pattern + 1, "numbers");
        lua_replace(L, -2);
    }
    for (int i = 2; i <= c->args; i++) {
        bool number = lua_type(L, i) == LUA_TNUMBER;
        if (number) {
            lua_pushlightuserdata(L, (void *)&number_key);
            lua_rawseti(L, c->pattern, i - 1);
        }
        lua_pushnil(L);
        if (number) lua_copy(L, i, -1);
        lua_rawseti(L, -2, i - 1);
    }
    lua_settop(L, c->pattern);
}

/* The function and its arguments are above the pattern. Puts live numbers in place of arguments that are numbers, if
 * lua/step/trace.lua has put them into the table `numbers`. */
static void
get_numbers(lua_State *L, const struct step_call *c)
{
    lua_getiuservalue(L, 1, 2);
    lua_getfield(L, -1, "numbers");
    for (int i = 2; i <= c->args; i++) {
        if (lua_type(L, i) != LUA_TNUMBER) continue;
        lua_rawgeti(L, -1, i - 1);
        lua_replace(L, c->pattern + i);
    }
    lua_pop(L, 2);
}

/* Returns true if the two patterns at the top of the stack are equal, that is, two calls differ only in their
 * tensors. */
static bool
same_pattern(lua_State *L)
{
    lua_getfield(L, -1, "n");
    lua_getfield(L, -3, "n");
    lua_Integer n = lua_tointeger(L, -1);
    bool same = n == lua_tointeger(L, -2);
    lua_pop(L, 2);
    for (lua_Integer k = 1; same && k <= n; k++) {
        lua_rawgeti(L, -1, k);
        lua_rawgeti(L, -3, k);
        same = conditions_same(L);
        lua_pop(L, 2);
    }
    return same;
}

/* Returns the index of the trace that fits the call; -1: none. Sets *near to a trace for which only values that
 * the function read have changed; -1: none. */
static int
find_trace(lua_State *L, const struct step_call *c, int *near)
{
    const struct graph *g = c->g;
    int first = g->last >= 0 ? g->last : 0, found = -1;
    *near = -1;
    lua_getiuservalue(L, 1, 2);
    for (int i = 0; i < g->ntrace && found < 0; i++) {
        int k = (first + i) % g->ntrace;
        if (!rille_graph_fits(g->trace[k], c->nin, c->in)) continue;
        lua_rawgeti(L, -1, k + 1);
        lua_getfield(L, -1, "args");
        lua_pushvalue(L, c->pattern);
        bool same = same_pattern(L);
        lua_pop(L, 2);
        if (same && conditions_hold(L))
            found = k;
        else if (same && *near < 0)
            *near = k;
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return found;
}

/* ---- tracing ---- */

/* Frees the oldest trace to make room. */
static void
forget_trace(lua_State *L, struct graph *g)
{
    rille_graph_free(&g->trace[0]);
    memmove(g->trace, g->trace + 1, (size_t)--g->ntrace * sizeof *g->trace);
    if (g->last >= 0) g->last--; /* last becomes -1 if the freed trace is the one that ran last */
    lua_getiuservalue(L, 1, 2);
    lua_getglobal(L, "table");
    lua_getfield(L, -1, "remove");
    lua_pushvalue(L, -3);
    lua_pushinteger(L, 1);
    lua_call(L, 2, 0);
    lua_pop(L, 2);
}

/* Calls a function of lua/step/nested.lua with the list of traces and the n values at the top of the stack. Returns
 * Lua's status code. */
static int
call_nested(lua_State *L, const char *name, int n, int nresult)
{
    push_hook(L, name);
    lua_getiuservalue(L, 1, 2);
    lua_rotate(L, -n - 2, 2);
    return lua_pcall(L, n + 1, nresult, 0);
}

/* Begins a trace. Pushes the function and the arguments of the call, with micro-batch tensors in place of the
 * tensors. */
static void
push_call(lua_State *L, const struct step_call *c)
{
    struct rille_tensor *piece[MAX_TENSORS], **slot[MAX_TENSORS];
    int n = 0;
    lua_getiuservalue(L, 1, 1);
    for (int i = 2; i <= c->last; i++) {
        if (tensor_test(L, i))
            slot[n++] = tensor_slot(L);
        else
            lua_pushvalue(L, i);
    }
    at_line(L);
    check(L, rille_trace_begin(shell_of(L)->session, &c->g->options, c->nin, c->in, piece));
    for (int k = 0; k < c->nin; k++) *slot[k] = piece[k];
    if (c->last > c->args && call_nested(L, "fill", c->last - c->args, 0)) lua_error(L);
}

/* Calls the function that push_call() pushed. Returns Lua's status code. */
static int
call_function(lua_State *L, const struct step_call *c, int nresult)
{
    int failed = lua_pcall(L, c->args - 1, nresult, 0);
    if (c->last > c->args && call_nested(L, "drain", 0, 0)) lua_pop(L, 1);
    return failed;
}

/* If RILLE_TRACE=run.json is set, writes a timeline of the first run of each trace. The first trace is written to
 * run.json, the next ones to run-2.json, run-3.json, ... */
static void
trace_by_environment(lua_State *L, struct rille_graph *g)
{
    struct shell *sh = shell_of(L);
    if (!sh->trace) return;
    const char *dot = strrchr(sh->trace, '.');
    int stem = dot ? (int)(dot - sh->trace) : (int)strlen(sh->trace);
    char path[4200];
    if (sh->ntrace++ == 0)
        snprintf(path, sizeof path, "%s", sh->trace);
    else
        snprintf(path, sizeof path, "%.*s-%d%s", stem, sh->trace, sh->ntrace, dot ? dot : "");
    check(L, rille_graph_timeline(g, path));
}

static int
raise_now(lua_State *L)
{
    return raise_core(L, NULL);
}

/* Calls the function once with the whole batch, to learn its calls, and the numbers that it computes from the batch's
 * size. The tensor operations that it calls are discarded. Returns Lua's status code; after an error, pushes the
 * error's message. */
static int
find_batch_numbers(lua_State *L, const struct step_call *c)
{
    const struct rille_graph_options options = c->g->options;
    int64_t interrupts = shell_of(L)->ninterrupt;
    if (options.micro_batches < 2) return 0;
    luaL_checkstack(L, c->last + 8, "graph");
    int top = lua_gettop(L);
    c->g->options = (struct rille_graph_options){.size = sizeof c->g->options, .whole = true};
    push_call(L, c);
    c->g->options = options;
    int failed = call_function(L, c, 0);
    failed = conditions_leave_whole(L, failed);
    if (!failed) rille_trace_returned(shell_of(L)->session);
    rille_trace_abort(shell_of(L)->session);
    if (failed && interrupts != shell_of(L)->ninterrupt) lua_error(L);
    if (failed) {
        luaL_tolstring(L, -1, NULL);
        lua_replace(L, top + 1);
    }
    lua_settop(L, top + (failed != 0));
    return failed;
}

/* The function's results are on the stack, above the pattern. Replaces each result that is a table with tensors
 * by a template (the table with a marker in place of each tensor), and appends the table's tensors. Returns Lua's
 * status code. */
static int
gather_results(lua_State *L, struct step_call *c)
{
    int n = lua_gettop(L) - c->pattern;
    c->nresult = -1;
    if (!has_table(L, c->pattern + 1, c->pattern + n)) return 0;
    luaL_checkstack(L, n + 8, "graph");
    c->nresult = n;
    return call_nested(L, "gather", n, LUA_MULTRET);
}

/* Traces the function; the caller has begun the list of conditions. Sets *made to the trace, or to NULL after an
 * error. Leaves the function's results on the stack, above the pattern. Returns 0, or non-zero with an error at
 * the top of the stack. */
static int
trace_once(lua_State *L, struct step_call *c, struct rille_graph **made)
{
    struct rille_session *s = shell_of(L)->session;
    struct rille_tensor *out[MAX_TENSORS];
    *made = NULL;
    c->returned = false;
    lua_settop(L, c->pattern);
    push_call(L, c);
    int failed = conditions_enter(L);
    if (!failed) get_numbers(L, c);
    shell_of(L)->tracing = c->g;
    if (!failed) failed = call_function(L, c, LUA_MULTRET);
    shell_of(L)->tracing = NULL;
    failed = conditions_end(L, failed);
    if (!failed) failed = gather_results(L, c);
    int results = lua_gettop(L);
    if (failed || results - c->pattern > MAX_TENSORS) {
        rille_trace_abort(s);
        return failed ? failed
                      : complain(L, "graph: a step can have at most %d tensors as arguments or results", MAX_TENSORS);
    }
    c->returned = true;
    int nout = list_graph_tensors(L, c->pattern + 1, results, out);
    at_line(L);
    int code = rille_trace_end(s, nout, out, made);
    if (code && rille_tracing(s)) rille_trace_abort(s);
    if (!code) return 0;
    lua_pushcfunction(L, raise_now);
    return lua_pcall(L, 0, 0, 0);
}

/* Raises an error: the function accepts one micro-batch, but not the whole batch. The error for the whole batch is at
 * the top of the stack. */
static int
refuse_batch(lua_State *L, const struct step_call *c)
{
    return complain(
        L,
        "graph: with micro_batches = %d, the function accepts the rows of one micro-batch, but not those of "
        "the whole batch; compute numbers of rows from x.shape[1], or make the call in "
        "rille.per_micro_batch(fn). The error for the whole batch: %s",
        (int)c->g->options.micro_batches, lua_tostring(L, -1));
}

/* Raises the error at the top of the stack: the function accepts the whole batch, but not one micro-batch. Errors of
 * calls that combine rows of the batch name micro_batches already. */
static int
refuse_micro_batch(lua_State *L, const struct step_call *c)
{
    const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
    if (text && !strstr(text, "micro_batch"))
        lua_pushfstring(
            L,
            "%s (with micro_batches = %d, the function sees the rows of one micro-batch; it accepts the whole batch)",
            text, (int)c->g->options.micro_batches);
    return lua_error(L);
}

/* Traces the function for a call. If the function fails, raises its error. */
static struct rille_graph *
trace_call(lua_State *L, struct step_call *c)
{
    struct rille_graph *made;
    luaL_checkstack(L, c->last + 8, "graph");
    /* traces again, because the first call of the function may fill a cache and so record additional operations */
    for (bool again = false;; again = true) {
        lua_settop(L, c->pattern);
        conditions_begin(L, c->pattern);
        int failed = find_batch_numbers(L, c);
        if (failed && again) refuse_batch(L, c);
        if (!trace_once(L, c, &made)) {
            if (!failed) return made;
            rille_graph_free(&made);
        } else if (again || !rille_trace_differs(shell_of(L)->session)) {
            if (c->g->options.micro_batches > 1 && !failed && !c->returned) refuse_micro_batch(L, c);
            lua_error(L);
        }
    }
}

/* Pushes {args =, results =, conditions =} for a trace whose results are above the pattern. */
static void
push_record(lua_State *L, const struct step_call *c)
{
    int results = lua_gettop(L);
    lua_createtable(L, 0, 3);
    lua_pushvalue(L, c->pattern);
    lua_setfield(L, -2, "args");
    push_pattern(L, c->pattern + 1, results);
    lua_setfield(L, -2, "results");
    if (c->nresult >= 0) {
        field_integer(L, "nresult", c->nresult);
    }
    conditions_give(L);
}

/* Creates a trace for the call; returns its index. */
static int
make_trace(lua_State *L, struct step_call *c)
{
    struct graph *g = c->g;
    if (g->ntrace == MAX_TRACES) forget_trace(L, g);
    luaL_checkstack(L, c->last + 8, "graph");
    conditions_sizes(L, c->args, c->last);
    struct rille_graph *made = g->trace[g->ntrace] = trace_call(L, c);
    push_record(L, c);
    lua_getiuservalue(L, 1, 2);
    lua_insert(L, -2);
    lua_rawseti(L, -2, g->ntrace + 1);
    lua_settop(L, c->pattern);
    /* collects garbage, because unreachable handles from the trace would keep the first run from overwriting
     * variables */
    lua_gc(L, LUA_GCCOLLECT);
    trace_by_environment(L, made);
    g->ntrace++;
    /* frees old traces that no later call can use */
    while (g->ntrace > 1 && rille_graph_is_stale(g->trace[0])) forget_trace(L, g);
    return g->ntrace - 1;
}

/* ---- live numbers ---- */

/* Returns true if the new trace computes the same as trace k when its live numbers have the values that trace k
 * read. The record of the new trace is at the top of the stack. */
static bool
is_generalised(lua_State *L, const struct step_call *c, int k, struct rille_graph *made)
{
    char *how = NULL;
    int record = lua_gettop(L);
    lua_getiuservalue(L, 1, 2);
    lua_rawgeti(L, -1, k + 1);
    lua_getfield(L, -1, "results");
    lua_getfield(L, record, "results");
    bool same = same_pattern(L);
    lua_settop(L, record);
    if (!same) return false;
    conditions_numbers(L, true);
    same = !rille_graph_compare(c->g->trace[k], made, &how) && !how;
    conditions_numbers(L, false);
    free(how);
    return same;
}

/* Begins a trace with live numbers in place of the numbers that have changed since trace k, and of those that are live
 * in trace k. Returns false if there are no such numbers, or another value has changed. */
static bool
begin_live(lua_State *L, struct step_call *c, int k)
{
    luaL_checkstack(L, c->last + 8, "graph");
    lua_settop(L, c->pattern);
    lua_getiuservalue(L, 1, 2);
    lua_rawgeti(L, -1, k + 1);
    lua_getfield(L, -1, "conditions");
    lua_replace(L, c->pattern + 1);
    lua_settop(L, c->pattern + 1);
    if (!conditions_begin_live(L, c->pattern)) return false;
    if (find_batch_numbers(L, c)) lua_pop(L, 1);
    return true;
}

/* Replaces trace k by a trace with live numbers, if only numbers have changed since trace k. Returns false if the
 * step must instead be traced with the present numbers as constants. */
static bool
replace_trace(lua_State *L, struct step_call *c, int k)
{
    struct rille_graph *made = NULL;
    int64_t interrupts = shell_of(L)->ninterrupt;
    if (!begin_live(L, c, k)) return false;
    if (trace_once(L, c, &made) && interrupts != shell_of(L)->ninterrupt) lua_error(L);
    bool good = made;
    if (good) push_record(L, c);
    if (good) good = is_generalised(L, c, k, made);
    if (good) lua_copy(L, -1, c->pattern + 1); /* without results the record is at this index already */
    lua_settop(L, c->pattern + good);
    lua_gc(L, LUA_GCCOLLECT);
    if (!conditions_end_live(L, good)) {
        rille_graph_free(&made);
        return false;
    }
    lua_getiuservalue(L, 1, 2);
    lua_pushvalue(L, c->pattern + 1);
    lua_rawseti(L, -2, k + 1);
    lua_settop(L, c->pattern);
    rille_graph_free(&c->g->trace[k]);
    c->g->trace[k] = made;
    return true;
}

/* ---- option check = "trace" ---- */

/* Traces the function again, with the live numbers of trace k, because an operator may record another program for a
 * constant: x ^ 2 records a square. If the function fails with live numbers, it has come to code that needs constants;
 * then traces it with these. */
static struct rille_graph *
trace_like(lua_State *L, struct step_call *c, int k)
{
    struct rille_graph *made = NULL;
    int64_t interrupts = shell_of(L)->ninterrupt;
    if (begin_live(L, c, k)) {
        conditions_repeat(L);
        if (!trace_once(L, c, &made)) return made;
        if (interrupts != shell_of(L)->ninterrupt) lua_error(L);
    }
    conditions_none(L);
    if (find_batch_numbers(L, c)) lua_pop(L, 1);
    if (trace_once(L, c, &made)) lua_error(L);
    return made;
}

/* In calls 1, 2, 4, 8, ... traces the function again, and raises an error if the recorded program differs from the
 * program of trace k. */
static void
check_trace(lua_State *L, struct step_call *c, int k)
{
    char *how = NULL;
    int64_t n = ++c->g->ncall;
    if (n & (n - 1)) return;
    struct rille_graph *made = trace_like(L, c, k);
    int code = rille_graph_compare(c->g->trace[k], made, &how);
    rille_graph_free(&made);
    check(L, code);
    lua_settop(L, c->pattern);
    if (how) lua_pushstring(L, how);
    free(how);
    if (lua_gettop(L) > c->pattern)
        complain(L,
                 "graph: the step's function computed something else when traced again: %s; pass the values that it "
                 "depends on as arguments",
                 lua_tostring(L, -1));
}

/* ---- running ---- */

/* The `count` values at the top of the stack are the results of a run. If the traced function returned tables
 * with tensors, their templates are among the results, and the results' pattern is at index `results`, above the
 * trace's record. Converts the templates back to tables with tensors. Returns the number of results. */
static int
made_tables(lua_State *L, int results, int count)
{
    bool tables = lua_getfield(L, results - 1, "nresult") == LUA_TNUMBER;
    if (!tables) {
        lua_pop(L, 1);
        return count;
    }
    push_hook(L, "rebuild");
    lua_insert(L, -2);
    lua_rotate(L, -count - 2, 2);
    lua_call(L, count + 1, LUA_MULTRET);
    return lua_gettop(L) - results;
}

/* Runs trace k, pushes its results as the traced function returned them, and returns their number. */
static int
run_trace(lua_State *L, const struct step_call *c, int k)
{
    struct rille_tensor *out[MAX_TENSORS] = {NULL}, **slot[MAX_TENSORS];
    int n = 0;
    lua_getiuservalue(L, 1, 2);
    lua_rawgeti(L, -1, k + 1);
    lua_getfield(L, -1, "results");
    int results = lua_gettop(L);
    lua_getfield(L, results, "n");
    int count = (int)lua_tointeger(L, -1);
    lua_pop(L, 1);
    luaL_checkstack(L, count + 8, "graph");
    for (int i = 1; i <= count; i++) {
        if (lua_rawgeti(L, results, i) != LUA_TLIGHTUSERDATA) continue;
        lua_pop(L, 1);
        slot[n++] = tensor_slot(L);
    }
    at_line(L);
    c->g->last = k;
    check(L, rille_graph_run(c->g->trace[k], c->nin, c->in, out));
    for (int i = 0; i < n; i++) *slot[i] = out[i];
    collect_if_due(L);
    return made_tables(L, results, count);
}

int
graph_run(lua_State *L)
{
    struct step_call c = {.g = graph_check(L, 1), .args = lua_gettop(L), .nresult = -1};
    int near;
    if (rille_tracing(shell_of(L)->session)) return complain(L, "graph: a step must not be called inside another step");
    if (has_table(L, 2, c.args) && call_nested(L, "spread", c.args - 1, LUA_MULTRET)) return lua_error(L);
    c.last = lua_gettop(L);
    c.nin = list_graph_tensors(L, 2, c.last, c.in);
    push_pattern(L, 2, c.last);
    c.pattern = lua_gettop(L);
    set_numbers(L, &c);
    int k = find_trace(L, &c, &near);
    if (k >= 0 && c.g->check) check_trace(L, &c, k);
    if (k < 0 && near >= 0 && replace_trace(L, &c, near)) k = near;
    if (k < 0) k = make_trace(L, &c);
    return run_trace(L, &c, k);
}

/* Implements __call of a step: pads the arguments first if the step has buckets. */
int
graph_call(lua_State *L)
{
    graph_check(L, 1);
    if (lua_getiuservalue(L, 1, GRAPH_BUCKETS) == LUA_TNIL) {
        lua_pop(L, 1);
        return graph_run(L);
    }
    lua_insert(L, 1);
    push_hook(L, "call_in_bucket");
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    return lua_gettop(L);
}
