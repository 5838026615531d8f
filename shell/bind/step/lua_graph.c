/* lua_graph.c - rille.graph(fn, options): the options, and the methods of compiled steps. */
#include "shell/bind/step/lua_graph.h"
#include "shell/bind/step/lua_graph_call.h"
#include "shell/bind/base/field.h"
#include "shell/bind/base/lua_error.h"
#include "shell/bind/base/misuse.h"
#include "shell/bind/base/names.h"
#include "shell/bind/step/lua_actors.h"
#include "shell/bind/step/lua_chart.h"
#include "shell/bind/step/lua_conditions.h"
#include "shell/bind/step/lua_explain.h"
#include "shell/bind/step/lua_watch.h"
#include "shell/bind/tensor/lua_place.h"
#include "shell/bind/tensor/lua_show.h"
#include "shell/bind/step/lua_graph.h"

#include <stdlib.h>
#include <string.h>

struct graph *
graph_check(lua_State *L, int i)
{
    struct graph *g = kind_test(L, i, KIND_GRAPH);
    lua_Debug ar;
    if (g) return g;
    bool method = lua_getstack(L, 0, &ar) && lua_getinfo(L, "n", &ar) && ar.name && strcmp(ar.namewhat, "upvalue") &&
                  strcmp(ar.namewhat, "local");
    refuse_self(L, i, KIND_GRAPH, method ? ar.name : "graph", "a compiled step");
    return NULL;
}

/* ---- the options ---- */

static int64_t
integer_option(lua_State *L, int i, const char *key, int64_t least, int64_t most, int64_t otherwise)
{
    int64_t v = otherwise;
    bool good = lua_getfield(L, i, key) == LUA_TNIL || whole_at(L, -1, &v);
    if (!good || v < least || v > most)
        complain(L, "graph: %s must be an integer from %d to %d, found %s", key, (int)least, (int)most, what_is(L, -1));
    lua_pop(L, 1);
    return v;
}

static bool
bool_option(lua_State *L, int i, const char *key)
{
    if (lua_getfield(L, i, key) != LUA_TNIL && !lua_isboolean(L, -1))
        complain(L, "graph: %s must be true or false, found %s", key, what_is(L, -1));
    bool v = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return v;
}

/* Pops the option `key` and returns its value, which must be above 0 and at most 9e18; returns 0 for nil. */
static double
amount_at(lua_State *L, const char *who, const char *key)
{
    const double most = 9e18;
    double v = 0;
    if (!lua_isnil(L, -1) && (!real_at(L, -1, &v) || !(v > 0) || v > most))
        complain(L, "%s: %s must be a number above 0%s, found %s", who, key, v > most ? " and no more than 9e18" : "",
                 what_is(L, -1));
    lua_pop(L, 1);
    return v;
}

static double
amount_option(lua_State *L, int i, const char *key)
{
    lua_getfield(L, i, key);
    return amount_at(L, "graph", key);
}

/* Like amount_at(), for a number of bytes, which must be 1 or more. */
static int64_t
memory_option(lua_State *L, const char *who, const char *key)
{
    double v = amount_at(L, who, key);
    if (v > 0 && v < 1) complain(L, "%s: %s must be at least 1 byte, found %g", who, key, v);
    return (int64_t)v;
}

static bool
has_option(lua_State *L, int i, const char *key)
{
    bool has = lua_getfield(L, i, key) != LUA_TNIL;
    lua_pop(L, 1);
    return has;
}

/* Reads the options of a schedule: {lag = 2, split_backward = true} or {memory = 0.5, costs = {forward = 1e-3,
 * ...}}. */
static void
schedule_table(lua_State *L, int i, struct graph *g)
{
    static const char *const keys[] = {"lag", "split_backward", "memory", "costs", NULL};
    check_keys(L, i, "graph: schedule", keys);
    bool numbers = has_option(L, i, "lag") || has_option(L, i, "split_backward");
    g->options.lag = (int)integer_option(L, i, "lag", 1, 1 << 20, 1);
    g->options.split_backward = bool_option(L, i, "split_backward");
    g->options.memory = amount_option(L, i, "memory");
    lua_getfield(L, i, "costs");
    if (chart_costs(L, lua_gettop(L), "graph", &g->costs)) g->options.costs = &g->costs;
    lua_pop(L, 1);
    if (g->options.memory > 0 && numbers)
        complain(L,
                 "graph: schedule: memory chooses lag and split_backward; expected either memory or these, found both");
    if (g->options.memory > 0) g->options.lag = 0;
    if (g->options.costs && g->options.memory == 0)
        complain(L, "graph: schedule: memory must be given too, because only the search for a memory uses costs");
}

/* Reads the option schedule, "1f1b" or a table. */
static void
schedule_option(lua_State *L, int i, struct graph *g)
{
    switch (lua_getfield(L, i, "schedule")) {
    case LUA_TNIL: break;
    case LUA_TSTRING:
        snprintf(g->schedule, sizeof g->schedule, "%s", text_at(L, -1, "graph"));
        g->options.schedule = g->schedule;
        break;
    case LUA_TTABLE: schedule_table(L, lua_gettop(L), g); break;
    default: complain(L, "graph: schedule must be a string such as \"1f1b\" or a table, found %s", what_is(L, -1));
    }
    lua_pop(L, 1);
}

/* Reads the option auto_parallel (true, "optimal", "propagate", ...), and the planner's memory limit (bytes) and
 * time limit (s). */
static void
planner_options(lua_State *L, int i, struct graph *g)
{
    bool planned = false;
    switch (lua_getfield(L, i, "auto_parallel")) {
    case LUA_TNIL: break;
    case LUA_TBOOLEAN:
        planned = lua_toboolean(L, -1);
        strcpy(g->mode, "optimal");
        break;
    case LUA_TSTRING:
        planned = true;
        snprintf(g->mode, sizeof g->mode, "%s", text_at(L, -1, "graph"));
        break;
    default:
        complain(L,
                 "graph: auto_parallel must be true, false, \"optimal\", \"propagate\", \"recursive\" or \"greedy\", "
                 "found %s",
                 what_is(L, -1));
    }
    lua_pop(L, 1);
    g->options.auto_parallel = planned ? g->mode : NULL;
    lua_getfield(L, i, "memory_limit");
    g->options.memory_limit = memory_option(L, "graph", "memory_limit");
    g->options.time_limit = amount_option(L, i, "time_limit");
}

/* Reads the option recompute: true, false or "auto". */
static void
recompute_option(lua_State *L, int i, struct graph *g)
{
    bool is_text = lua_getfield(L, i, "recompute") == LUA_TSTRING;
    g->options.recompute_auto = is_text && !strcmp(lua_tostring(L, -1), "auto");
    if (!g->options.recompute_auto && !lua_isnil(L, -1) && !lua_isboolean(L, -1))
        complain(L, "graph: recompute must be true, false or \"auto\", found %s", what_is(L, -1));
    if (!is_text) g->options.recompute = lua_toboolean(L, -1);
    lua_pop(L, 1);
}

/* Reads the option check: "trace", "nan", or both, separated by a comma. */
static void
check_option(lua_State *L, int i, struct graph *g)
{
    if (lua_getfield(L, i, "check") != LUA_TNIL) {
        const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
        g->check = !strcmp(text, "trace") || !strcmp(text, "trace,nan") || !strcmp(text, "nan,trace");
        g->options.check_nan = !strcmp(text, "nan") || (g->check && strlen(text) > strlen("trace"));
        if (!g->check && !g->options.check_nan)
            complain(L, "graph: check must be \"trace\", \"nan\" or \"trace,nan\", found %s", what_is(L, -1));
    }
    lua_pop(L, 1);
}

/* Reads the option buckets, such as {64, 128, axis = 1}, of the compiled step at the top of the stack. */
static void
buckets_option(lua_State *L, int i)
{
    if (!lua_istable(L, i)) return;
    if (lua_getfield(L, i, "buckets") == LUA_TNIL) {
        lua_pop(L, 1);
        return;
    }
    push_hook(L, "read_buckets");
    lua_insert(L, -2);
    lua_pushvalue(L, 1);
    lua_call(L, 2, 1);
    lua_setiuservalue(L, -2, GRAPH_BUCKETS);
}

static void
graph_options(lua_State *L, int i, struct graph *g)
{
    static const char *const keys[] = {"micro_batches", "schedule", "auto_parallel", "recompute",
                                       "zero",          "offload",  "prefetch",      "memory_limit",
                                       "time_limit",    "check",    "buckets",       NULL};
    if (lua_isnil(L, i)) return;
    if (!lua_istable(L, i)) complain(L, "graph: options must be a table, found %s", what_is(L, i));
    check_keys(L, i, "graph", keys);
    g->options.micro_batches = (int)integer_option(L, i, "micro_batches", 1, 1 << 20, 1);
    g->options.zero = (int)integer_option(L, i, "zero", 0, 3, 0);
    if (lua_getfield(L, i, "offload") != LUA_TNIL) {
        if (!kind_test(L, -1, KIND_PLACE)) complain(L, "graph: offload must be a placement, found %s", what_is(L, -1));
        g->options.offload = place_check(L, lua_gettop(L));
    }
    lua_pop(L, 1);
    g->options.prefetch = (int)integer_option(L, i, "prefetch", 1, 1024, 1);
    planner_options(L, i, g);
    recompute_option(L, i, g);
    schedule_option(L, i, g);
    check_option(L, i, g);
    check(L, rille_graph_check(&g->options));
}

static int
lua_graph_new(lua_State *L)
{
    lua_settop(L, 2);
    if (!is_callable(L, 1)) return complain(L, "graph: expected a function, found %s", what_is(L, 1));
    struct graph *g = kind_new(L, KIND_GRAPH, sizeof *g);
    g->last = -1;
    g->options.size = sizeof g->options;
    g->check = shell_of(L)->check_trace;
    user_line(L, 0, &g->line);
    graph_options(L, 2, g);
    buckets_option(L, 2);
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, 1);
    lua_newtable(L);
    lua_setiuservalue(L, -2, 2);
    return 1;
}

/* ---- inspecting ---- */

/* rille._graph_zero(): returns the ZeRO stage of the step being traced (0: none), and the user's line that created
 * the step. */
static int
graph_zero(lua_State *L)
{
    const struct graph *g = shell_of(L)->tracing;
    lua_pushinteger(L, g ? g->options.zero : 0);
    lua_pushfstring(L, "%s:%d", g ? g->line.file : "", g ? g->line.number : 0);
    return 2;
}

/* Returns the trace that ran last; raises if no trace has run. who: prefix of the message. */
static struct rille_graph *
trace_of(lua_State *L, const struct graph *g, const char *who)
{
    if (g->last < 0) complain(L, "%s: the step has no plan yet; call the step first", who);
    return g->trace[g->last];
}

/* Returns the trace that ran last, for the methods that inspect the step. */
static struct rille_graph *
last_trace(lua_State *L)
{
    return trace_of(L, graph_check(L, 1), "graph");
}

static int
graph_explain(lua_State *L)
{
    struct rille_explain *e;
    struct rille_graph *g = last_trace(L);
    at_line(L);
    check(L, rille_graph_explain(g, &e));
    explain_push(L, &e);
    return 1;
}

/* Formats each layout hint as a line of text. */
static int
hints_tostring(lua_State *L)
{
    luaL_Buffer b;
    int n = (int)lua_rawlen(L, 1);
    luaL_buffinit(L, &b);
    if (n == 0) luaL_addstring(&b, "no hints: the step has no to_global, strategy or variable with a given layout");
    for (int k = 1; k <= n; k++) {
        lua_rawgeti(L, 1, k);
        lua_getfield(L, -1, "what");
        lua_getfield(L, -2, "line");
        lua_getfield(L, -3, "price");
        lua_getfield(L, -4, "price_high");
        bool known = lua_rawequal(L, -1, -2);
        const char *what = lua_tostring(L, -4), *line = lua_tostring(L, -3);
        const char *low = lua_tostring(L, -2), *high = lua_tostring(L, -1);
        lua_pushfstring(L, "%s%s (%s): the step +%s%s%s ns", k > 1 ? "\n" : "", what, line, low, known ? "" : " to ",
                        known ? "" : high);
        lua_replace(L, -6);
        lua_pop(L, 4);
        luaL_addvalue(&b);
    }
    luaL_pushresult(&b);
    return 1;
}

/* step:hints(): returns a list of {what =, line =, price =, price_high =}, one per layout hint. */
static int
graph_hints(lua_State *L)
{
    struct rille_hints *h;
    struct rille_graph *g = last_trace(L);
    at_line(L);
    check(L, rille_graph_hints(g, &h));
    lua_createtable(L, h->n, 0);
    for (int k = 0; k < h->n; k++) {
        lua_createtable(L, 0, 4);
        field_text(L, "what", h->hint[k].what);
        field_text(L, "line", h->hint[k].line);
        field_integer(L, "price", h->hint[k].price);
        field_integer(L, "price_high", h->hint[k].price_high);
        lua_rawseti(L, -2, k + 1);
    }
    rille_hints_free(&h);
    if (luaL_newmetatable(L, "rille.hints")) {
        field_function(L, "__tostring", hints_tostring);
    }
    lua_setmetatable(L, -2);
    return 1;
}

/* step:_program(): returns the traced program as bytes; for tests. */
static int
graph_program_bytes(lua_State *L)
{
    char *bytes;
    size_t n;
    check(L, rille_graph_program(last_trace(L), &bytes, &n));
    lua_pushlstring(L, bytes, n);
    free(bytes);
    return 1;
}

static int
graph_plan(lua_State *L)
{
    struct rille_graph *g = last_trace(L);
    char *text;
    at_line(L);
    check(L, rille_graph_plan(g, plan_physical(L, 2), &text));
    text_push(L, &text);
    return 1;
}

static void
push_device_stats(lua_State *L, const struct rille_device_stats *d)
{
    lua_newtable(L);
    lua_pushfstring(L, "%s:%d", d->kind, d->device);
    lua_setfield(L, -2, "device");
    field_number(L, "busy", d->busy);
    field_number(L, "idle", d->idle);
    field_integer(L, "bytes_in", d->bytes_in);
    field_integer(L, "bytes_out", d->bytes_out);
    field_integer(L, "peak_memory", d->peak_memory);
    field_number(L, "flops", d->flops);
    field_text(L, "tenants", d->tenants);
}

static int
graph_stats(lua_State *L)
{
    struct rille_stats stats;
    struct rille_graph *g = last_trace(L);
    at_line(L);
    check(L, rille_graph_stats(g, &stats));
    lua_newtable(L);
    field_number(L, "step_time", stats.step_time);
    field_number(L, "bubble", stats.bubble);
    field_number(L, "ideal", stats.ideal);
    field_integer(L, "hosts", stats.nhost);
    lua_createtable(L, stats.ndevice, 0);
    for (int i = 0; i < stats.ndevice; i++) {
        push_device_stats(L, &stats.device[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "devices");
    field_number(L, "flops", stats.flops);
    if (stats.peak > 0 && stats.step_time > 0) {
        field_number(L, "peak_share", stats.flops / stats.step_time / stats.peak);
    }
    print_as(L, "step");
    return 1;
}

static int
graph_trace(lua_State *L)
{
    struct rille_graph *g = last_trace(L);
    if (lua_type(L, 2) != LUA_TSTRING)
        return complain(L, "trace: expected the name of a file, found %s", what_is(L, 2));
    at_line(L);
    check(L, rille_graph_timeline(g, text_at(L, 2, "trace")));
    return 0;
}

/* step:chart([costs]): returns the timeline of the step, planned and measured. */
static int
graph_chart(lua_State *L)
{
    struct graph *g = graph_check(L, 1);
    chart_push(L, last_trace(L), 2);
    if (g->options.schedule)
        lua_pushstring(L, g->options.schedule);
    else if (g->options.memory > 0)
        lua_pushfstring(L, "memory %f", g->options.memory);
    else if (g->options.lag)
        lua_pushfstring(L, "lag %d%s", g->options.lag, g->options.split_backward ? ", split" : "");
    else
        lua_pushliteral(L, "1f1b");
    lua_setfield(L, -2, "schedule");
    return 1;
}

/* step:actors(): returns a list of {name =, device =, acts =, state =, ...} */
static int
graph_actors(lua_State *L)
{
    actors_push(L, last_trace(L));
    return 1;
}

/* step:show([path]): prints a picture of the step, or writes it to an SVG file. */
static int
graph_show(lua_State *L)
{
    graph_check(L, 1);
    return picture_call(L, "step");
}

static int
graph_certify(lua_State *L)
{
    struct rille_graph *trace = trace_of(L, graph_check(L, 1), "certify");
    if (lua_type(L, 2) != LUA_TSTRING)
        return complain(L, "certify: expected the name of a file, found %s", what_is(L, 2));
    at_line(L);
    check(L, rille_graph_certify(trace, text_at(L, 2, "certify")));
    return 0;
}

/* Reads a field of the options of whatif: a number, or a list with one number per mesh axis. Each number must be >
 * 0 if `above`, else >= 0. Returns false if the field is absent. */
static bool
link_field(lua_State *L, const char *key, int naxis, bool above, double *out)
{
    int type = lua_getfield(L, 2, key);
    if (type != LUA_TNIL && type != LUA_TTABLE && type != LUA_TNUMBER)
        complain(L, "whatif: %s must be a number, or a list with one for each mesh axis, found %s", key,
                 what_is(L, -1));
    if (type == LUA_TTABLE) check_list(L, -1, "whatif");
    if (type == LUA_TTABLE && (int)lua_rawlen(L, -1) != naxis)
        complain(L, "whatif: the number of entries of %s must be %d, one for each mesh axis, found %d", key, naxis,
                 (int)lua_rawlen(L, -1));
    for (int a = 0; type != LUA_TNIL && a < naxis; a++) {
        if (type == LUA_TTABLE)
            lua_rawgeti(L, -1, a + 1);
        else
            lua_pushvalue(L, -1);
        if (!real_at(L, -1, &out[a]) || !(above ? out[a] > 0 : out[a] >= 0))
            complain(L, "whatif: %s must be a number %s 0, found %s", key, above ? "above" : "not below",
                     what_is(L, -1));
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return type != LUA_TNIL;
}

/* Plans the step once for each memory limit of the list at the top of the stack, and pushes the list of explain
 * records. A record is false if no plan fits its limit. */
static void
whatif_each(lua_State *L, struct rille_graph *trace, struct rille_cluster *c)
{
    int n = (int)lua_rawlen(L, -1);
    check_list(L, -1, "whatif");
    lua_createtable(L, n, 0);
    for (int k = 1; k <= n; k++) {
        struct rille_explain *e;
        lua_rawgeti(L, -2, k);
        c->memory = memory_option(L, "whatif", "memory");
        int status = rille_graph_whatif(trace, c, &e);
        if (status && strstr(rille_error(), "memory: no plan")) {
            lua_pushboolean(L, false);
        } else {
            check(L, status);
            explain_push(L, &e);
        }
        lua_rawseti(L, -2, k);
    }
}

/* rille.whatif(step, {mesh = {128, 8}, bandwidth =, latency =, flops =, memory =}): plans the step for a mesh with
 * these sizes and device properties. */
static int
whatif(lua_State *L)
{
    static const char *const keys[] = {"mesh", "bandwidth", "latency", "flops", "memory", NULL};
    struct graph *g = kind_test(L, 1, KIND_GRAPH);
    struct rille_cluster c = {.size = sizeof c};
    struct rille_explain *e;
    if (!g) return complain(L, "whatif: expected a compiled step, found %s", what_is(L, 1));
    if (!lua_istable(L, 2)) return complain(L, "whatif: expected a table {mesh =, ...}, found %s", what_is(L, 2));
    if (!lua_isnoneornil(L, 3))
        return complain(L, "whatif: expected a step and a table, found a third argument, %s", what_is(L, 3));
    check_keys(L, 2, "whatif", keys);
    struct rille_graph *trace = trace_of(L, g, "whatif");
    if (lua_getfield(L, 2, "mesh") != LUA_TTABLE)
        return complain(L, "whatif: mesh must be a list of sizes, found %s", what_is(L, -1));
    check_list(L, -1, "whatif");
    c.naxis = (int)lua_rawlen(L, -1);
    if (c.naxis < 1 || c.naxis > RILLE_AXES)
        return complain(L, "whatif: a mesh must have 1 to %d axes, found %d", RILLE_AXES, c.naxis);
    for (int a = 0; a < c.naxis; a++) {
        int64_t n;
        lua_rawgeti(L, -1, a + 1);
        if (!whole_at(L, -1, &n) || n < 1)
            return complain(L, "whatif: the size of a mesh axis must be an integer of at least 1, found %s",
                            what_is(L, -1));
        c.mesh[a] = (int32_t)(n < INT32_MAX ? n : INT32_MAX);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    link_field(L, "bandwidth", c.naxis, true, c.bandwidth);
    c.has_latency = link_field(L, "latency", c.naxis, false, c.latency);
    lua_getfield(L, 2, "flops");
    c.flops = amount_at(L, "whatif", "flops");
    at_line(L);
    if (lua_getfield(L, 2, "memory") == LUA_TTABLE) {
        whatif_each(L, trace, &c);
        return 1;
    }
    c.memory = memory_option(L, "whatif", "memory");
    check(L, rille_graph_whatif(trace, &c, &e));
    explain_push(L, &e);
    return 1;
}

/* rille.certificate(path): checks a certificate. Returns a sentence with the proven claim; raises an error if the proof
 * fails. */
static int
certificate(lua_State *L)
{
    char *said;
    if (lua_type(L, 1) != LUA_TSTRING)
        return complain(L, "certificate: expected the name of a file, found %s", what_is(L, 1));
    at_line(L);
    check(L, rille_certificate_check(text_at(L, 1, "certificate"), &said));
    lua_pushstring(L, said);
    free(said);
    return 1;
}

static int
graph_tostring(lua_State *L)
{
    struct graph *g = graph_check(L, 1);
    int pieces = g->options.micro_batches ? g->options.micro_batches : 1;
    lua_pushfstring(L, "graph: %d trace%s, %d micro-batch%s", g->ntrace, g->ntrace == 1 ? "" : "s", pieces,
                    pieces == 1 ? "" : "es");
    return 1;
}

static int
graph_gc(lua_State *L)
{
    struct graph *g = kind_test(L, 1, KIND_GRAPH);
    while (g && g->ntrace) rille_graph_free(&g->trace[--g->ntrace]);
    return 0;
}

/* Implements __index of a step; upvalue: the table of methods. */
static int
graph_index(lua_State *L)
{
    struct nearest best = {0};
    lua_pushvalue(L, 2);
    if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) return 1;
    if (lua_type(L, 2) != LUA_TSTRING)
        return complain(L, "a compiled step has only methods, found the key %s", what_is(L, 2));
    name_nearest(L, lua_upvalueindex(1), text_at(L, 2, "graph"), &best);
    return complain(L, "a compiled step has no method '%s'%s", lua_tostring(L, 2), name_hint(L, &best));
}

static int
graph_newindex(lua_State *L)
{
    return complain(L, "a compiled step has no field '%s' that can be set; its function returns values",
                    lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : what_is(L, 2));
}

/* step:_reads(i): returns true if the last trace computes with tensor argument i, counted from 0. */
static int
graph_reads(lua_State *L)
{
    struct graph *g = graph_check(L, 1);
    lua_pushboolean(L, g->last >= 0 && rille_graph_reads(g->trace[g->last], (int)luaL_checkinteger(L, 2)));
    return 1;
}

void
graph_open(lua_State *L)
{
    static const luaL_Reg meta[] = {{"__call", graph_call},         {"__gc", graph_gc},
                                    {"__close", graph_gc},          {"__tostring", graph_tostring},
                                    {"__newindex", graph_newindex}, {NULL, NULL}};
    static const luaL_Reg methods[] = {{"explain", graph_explain},
                                       {"hints", graph_hints},
                                       {"plan", graph_plan},
                                       {"stats", graph_stats},
                                       {"trace", graph_trace},
                                       {"certify", graph_certify},
                                       {"chart", graph_chart},
                                       {"show", graph_show},
                                       {"actors", graph_actors},
                                       {"_program", graph_program_bytes},
                                       {"_run", graph_run},
                                       {"_reads", graph_reads},
                                       {NULL, NULL}};
    kind_make(L, KIND_GRAPH, "rille.graph", meta);
    luaL_newlib(L, methods);
    lua_pushvalue(L, -1);
    lua_setfield(L, -3, "__methods"); /* lists the methods for completion */
    lua_pushcclosure(L, graph_index, 1);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
    field_function(L, "graph", lua_graph_new);
    field_function(L, "whatif", whatif);
    field_function(L, "certificate", certificate);
    field_function(L, "_graph_zero", graph_zero);
    conditions_open(L);
    watch_open(L);
}
