/* lua_rille.c - the module `rille`: opening the module, and functions that fit no other file.
 *
 * The parts written in Lua (rille.nn, rille.optim, ...) are loaded at first use (modules.c). */
#include "shell/bind/base/clock.h"
#include "shell/bind/module/lua_rille.h"
#include "shell/bind/base/arity.h"
#include "shell/bind/base/coroutine.h"
#include "shell/bind/base/field.h"
#include "shell/bind/base/lua_error.h"
#include "shell/bind/base/misuse.h"
#include "shell/bind/base/modules.h"
#include "shell/bind/base/names.h"
#include "shell/bind/base/shell.h"
#include "shell/bind/module/help.h"
#include "shell/bind/module/lua_file.h"
#include "shell/bind/module/lua_json.h"
#include "shell/bind/module/lua_regex.h"
#include "shell/bind/module/lua_stopping.h"
#include "shell/bind/module/lua_tokenizer.h"
#include "shell/bind/module/lua_tokens.h"
#include "shell/bind/module/lua_workers.h"
#include "shell/bind/step/lua_explain.h"
#include "shell/bind/step/lua_graph.h"
#include "shell/bind/step/lua_live.h"
#include "shell/bind/tensor/lua_create.h"
#include "shell/bind/tensor/lua_gradient.h"
#include "shell/bind/tensor/lua_leaves.h"
#include "shell/bind/tensor/lua_op.h"
#include "shell/bind/tensor/lua_place.h"
#include "shell/bind/tensor/lua_scan.h"
#include "shell/bind/tensor/lua_show.h"
#include "shell/bind/tensor/lua_tensor.h"

#include <limits.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* ---- settings of the session: random seed, autocast, recompute, gradients ---- */

static int
manual_seed(lua_State *L)
{
    if (!lua_isinteger(L, 1)) complain(L, "manual_seed: expected an integer, found %s", what_is(L, 1));
    if (shell_of(L)->tracing)
        complain(L, "manual_seed: a compiled step must not set the seed, because its function runs once, when it is "
                    "traced; call it before the step");
    rille_seed(shell_session(L), (uint64_t)lua_tointeger(L, 1));
    return 0;
}

/* rille._interrupts(): returns how often the error "interrupted" was raised. */
static int
interrupts(lua_State *L)
{
    lua_pushinteger(L, shell_of(L)->ninterrupt);
    return 1;
}

/* rille._recompute(on): sets whether activations of the following calls are recomputed in backward; returns the
 * previous setting. */
static int
recompute(lua_State *L)
{
    lua_pushboolean(L, rille_recompute(shell_of(L)->session, lua_toboolean(L, 1)));
    return 1;
}

/* rille._autocast(dtype or nil): sets the autocast dtype; returns the previous dtype. rille._autocast(): returns
 * the current dtype. */
static int
shell_autocast(lua_State *L)
{
    const char *dtype = lua_isnoneornil(L, 1) ? NULL : text_at(L, 1, "autocast");
    bool sets = !lua_isnone(L, 1);
    lua_pushstring(L, rille_autocast_dtype(shell_of(L)->session));
    if (sets) check(L, rille_autocast(shell_of(L)->session, dtype));
    return 1;
}

/* Reads or changes a boolean setting of the session. Changes the setting if the argument is not nil; returns the
 * previous setting. */
static int
session_setting(lua_State *L, const char *name, bool (*set)(struct rille_session *s, bool on))
{
    struct rille_session *s = shell_session(L);
    if (!lua_isnoneornil(L, 1) && !lua_isboolean(L, 1))
        complain(L, "%s: expected true or false, found %s", name, what_is(L, 1));
    bool was = set(s, lua_toboolean(L, 1));
    if (lua_isnoneornil(L, 1)) set(s, was);
    lua_pushboolean(L, was);
    return 1;
}

/* rille.detect_nan([on]): sets whether the first NaN or new infinity is an error; returns the previous setting. */
static int
detect_nan(lua_State *L)
{
    return session_setting(L, "detect_nan", rille_detect_nan);
}

/* rille.allow_tf32([on]): sets whether matrix products and convolutions on GPUs may round f32 factors to TF32;
 * returns the previous setting. */
static int
allow_tf32(lua_State *L)
{
    return session_setting(L, "allow_tf32", rille_allow_tf32);
}

/* Calls the function at index 1 with gradient recording set to `on`, and returns its results. */
static int
call_in_mode(lua_State *L, const char *name, bool on)
{
    struct rille_session *s = shell_session(L);
    int top = lua_gettop(L);
    if (!is_callable(L, 1)) complain(L, "%s: expected a function, found %s", name, what_is(L, 1));
    bool mode = rille_grad_mode(s, on);
    int code = lua_pcall(L, top - 1, LUA_MULTRET, 0);
    rille_grad_mode(s, mode);
    return code ? lua_error(L) : lua_gettop(L);
}

/* rille.no_grad(fn, ...): calls fn without recording gradients, and returns its results. */
static int
no_grad(lua_State *L)
{
    return call_in_mode(L, "no_grad", false);
}

/* rille.per_micro_batch(fn, ...): calls fn, whose operators may combine the rows of one micro-batch; returns the
 * results of fn. */
static int
per_micro_batch(lua_State *L)
{
    struct rille_session *s = shell_of(L)->session;
    int top = lua_gettop(L);
    if (!is_callable(L, 1)) complain(L, "per_micro_batch: expected a function, found %s", what_is(L, 1));
    bool was = rille_micro_batch_alone(s, true);
    int code = lua_pcall(L, top - 1, LUA_MULTRET, 0);
    rille_micro_batch_alone(s, was);
    if (code) return lua_error(L);
    for (int i = 1, n = lua_gettop(L); i <= n; i++) {
        struct rille_tensor *t = tensor_test(L, i);
        if (t) check(L, rille_micro_batch_result(t));
    }
    return lua_gettop(L);
}

/* rille.enable_grad(fn, ...): calls fn with gradients recorded, even inside no_grad and inside backward; returns
 * its results. */
static int
enable_grad(lua_State *L)
{
    return call_in_mode(L, "enable_grad", true);
}

enum { GRAD_MAX = 4096 };

/* rille.grad(y, {x1, x2}): returns the gradient of y with respect to each x. */
static int
grad(lua_State *L)
{
    struct rille_tensor *y = tensor_check(L, 1, "grad"), *x[GRAD_MAX], *out[GRAD_MAX];
    struct rille_tensor **slot[GRAD_MAX];
    int n;
    if (!lua_istable(L, 2)) tensor_check(L, 2, "grad");
    if (lua_istable(L, 2) && lua_gettop(L) > 2)
        complain(L, "grad: expected at most 2 arguments, found %d", lua_gettop(L));
    tensor_list(L, 2, "grad", GRAD_MAX, x, &n);
    luaL_checkstack(L, n + 4, "grad");
    for (int k = 0; k < n; k++) slot[k] = tensor_slot(L);
    at_line(L);
    check(L, rille_tensor_grad_of(y, n, x, out));
    for (int k = 0; k < n; k++) *slot[k] = out[k];
    return n;
}

enum { SHARD_MAX = 4096 };

/* rille.from_local(list, {placement =, sbp =}): returns the tensor with these shards, one per rank. */
static int
from_local(lua_State *L)
{
    int n;
    luaL_checkstack(L, SHARD_MAX + 8, "from_local");
    if (!lua_istable(L, 1)) return complain(L, "from_local: expected a list of tensors, found %s", what_is(L, 1));
    struct rille_tensor **list = lua_newuserdatauv(L, SHARD_MAX * sizeof *list, 0);
    tensor_list(L, 1, "from_local", SHARD_MAX, list, &n);
    static const char *const keys[] = {"placement", "sbp", NULL};
    if (n == 0) return complain(L, "from_local: expected at least 1 tensor");
    if (lua_istable(L, 2)) check_keys(L, 2, "from_local", keys);
    const struct rille_layout *l =
        lua_istable(L, 2) ? layout_read(L, 2, "from_local", rille_tensor_ndim(list[0]), NULL) : NULL;
    if (!l) return complain(L, "from_local: expected a table {placement =, sbp =}, found %s", what_is(L, 2));
    struct rille_tensor **slot = tensor_slot(L);
    at_line(L);
    check_as(L, "from_local", rille_tensor_from_local(n, list, l, slot));
    return 1;
}

/* rille.eval(x, ...): computes the tensors in one run, waits until their values are complete, and returns them. */
static int
eval(lua_State *L)
{
    int n = lua_gettop(L);
    struct rille_tensor **t = scratch_new(L, "eval", sizeof *t * (size_t)(n + 1));
    for (int i = 0; i < n; i++) t[i] = tensor_check(L, i + 1, "eval");
    at_line(L);
    check(L, rille_eval(shell_of(L)->session, n, t));
    check(L, rille_wait(shell_of(L)->session));
    lua_settop(L, n);
    return n;
}

/* ---- counters, devices ---- */

static int
counters(lua_State *L)
{
    struct rille_counters c = {0};
    rille_count(shell_session(L), &c);
    lua_newtable(L);
    field_integer(L, "nodes", c.nodes);
    field_integer(L, "compiles", c.compiles);
    field_integer(L, "cache_hits", c.cache_hits);
    field_integer(L, "runs", c.runs);
    field_integer(L, "acts", c.acts);
    field_integer(L, "messages", c.messages);
    field_integer(L, "thread_messages", c.thread_messages);
    field_integer(L, "allocations", c.allocations);
    field_integer(L, "run_allocations", c.run_allocations);
    field_integer(L, "live_values", c.live_values);
    field_integer(L, "live_nodes", c.live_nodes);
    field_integer(L, "live_bytes", c.live_bytes);
    field_integer(L, "arena_bytes", c.arena_bytes);
    field_integer(L, "plans", c.plans);
    field_integer(L, "plan_bytes", c.plan_bytes);
    field_integer(L, "generation", c.generation);
    field_integer(L, "cuda_graphs", c.cuda_graphs);
    field_integer(L, "cuda_replays", c.cuda_replays);
    return 1;
}

/* rille.devices(): returns a list of the devices used so far. */
static int
devices(lua_State *L)
{
    struct rille_device_info d;
    lua_newtable(L);
    for (int i = 0; rille_device_info(shell_session(L), i, &d); i++) {
        lua_newtable(L);
        field_text(L, "kind", d.kind);
        field_integer(L, "device", d.device);
        field_integer(L, "thread", d.thread);
        field_integer(L, "live_bytes", d.live_bytes);
        field_integer(L, "arena_bytes", d.arena_bytes);
        field_integer(L, "peak_bytes", d.peak_bytes);
        field_integer(L, "limit_bytes", d.limit_bytes);
        lua_rawseti(L, -2, i + 1);
    }
    print_as(L, "devices");
    return 1;
}

/* rille.device_info("cuda", 0): returns {name =, memory =, capability =, kernels =} of the device; memory in bytes. */
static int
device_info(lua_State *L)
{
    struct rille_gpu_info gpu;
    const char *kind = text_at(L, 1, "device_info");
    int64_t device;
    if (strcmp(kind, "cuda")) complain(L, "device_info: kind must be \"cuda\", found \"%s\"", kind);
    if (!whole_at(L, 2, &device))
        complain(L, "device_info: the second argument must be a device's number, found %s", what_is(L, 2));
    at_line(L);
    check_as(L, "device_info",
             rille_gpu_info(shell_of(L)->session, device < 0 || device > INT_MAX ? -1 : (int)device, &gpu));
    lua_newtable(L);
    field_text(L, "name", gpu.name);
    field_integer(L, "memory", gpu.memory);
    lua_pushfstring(L, "%d.%d", gpu.major, gpu.minor);
    lua_setfield(L, -2, "capability");
    field_text(L, "kernels", gpu.kernels);
    return 1;
}

/* ---- primitives for the modules in Lua ---- */

static int
wall_clock(lua_State *L)
{
    lua_pushnumber(L, clock_seconds());
    return 1;
}

static int
is_terminal(lua_State *L)
{
    int64_t file = 1;
    if (!lua_isnoneornil(L, 1) && !whole_at(L, 1, &file))
        complain(L, "is_terminal: expected the number of a file, found %s", what_is(L, 1));
    lua_pushboolean(L, isatty((int)file));
    return 1;
}

static int
trace_pause(lua_State *L)
{
    lua_pushboolean(L, rille_trace_pause(shell_of(L)->session, lua_toboolean(L, 1)));
    return 1;
}

/* rille._trace_mean(t): returns the mean of t over the micro-batches of the current trace; outside a trace, returns
 * t. */
static int
lua_trace_mean(lua_State *L)
{
    struct rille_tensor *t = tensor_check(L, 1, "_trace_mean"), **slot = tensor_slot(L);
    at_line(L);
    check(L, rille_trace_mean(t, slot));
    return 1;
}

/* rille._trace_carries(from, to): returns true if both are tensors, and the current trace has read the variable `from`,
 * or computes `to` from it. */
static int
lua_trace_carries(lua_State *L)
{
    struct rille_tensor *from = tensor_test(L, 1), *to = tensor_test(L, 2);
    lua_pushboolean(L, from && to && rille_trace_carries(from, to));
    return 1;
}

/* rille._tracing(): returns whether a compiled step is being traced, whether the planner chooses its
 * layouts, and the number of micro-batches that the trace is for. */
static int
lua_tracing(lua_State *L)
{
    lua_pushboolean(L, rille_tracing(shell_of(L)->session));
    lua_pushboolean(L, rille_planning(shell_of(L)->session));
    const struct graph *g = shell_of(L)->tracing;
    lua_pushinteger(L, g && g->options.micro_batches ? g->options.micro_batches : 1);
    return 3;
}

/* rille._step(key, record): runs a step. Calls record(), which records the updates of the step and returns a list
 * of tables. After the run, increments table[key] in each table of the list. On failure neither the variables nor
 * the fields change. Implemented in C because Ctrl-C can interrupt before any line of Lua. */
static int
live_step(lua_State *L)
{
    struct rille_session *s = shell_of(L)->session;
    lua_settop(L, 2);
    if (lua_pcall(L, 0, 1, 0)) {
        rille_step_undo(s);
        return lua_error(L);
    }
    at_line(L);
    check(L, rille_step(s));
    lua_Integer n = rille_tracing(s) ? 0 : (lua_Integer)lua_rawlen(L, 2);
    for (lua_Integer i = 1; i <= n; i++, lua_settop(L, 2)) {
        lua_rawgeti(L, 2, i);
        lua_pushvalue(L, 1);
        count_field(L, 3, 1);
    }
    collect_if_due(L);
    return 0;
}

static int
generation(lua_State *L)
{
    rille_generation(shell_of(L)->session);
    return 0;
}

/* ---- primitives for tests ---- */

/* rille._fail_act(k): makes the k-th act from now fail; 0: no act fails. */
static int
fail_act(lua_State *L)
{
    rille_fail_act(shell_of(L)->session, luaL_checkinteger(L, 1));
    return 0;
}

/* rille._slow_op(name, seconds): makes each later call of this operator's kernel take `seconds` longer. */
static int
slow_op(lua_State *L)
{
    const char *name = luaL_checkstring(L, 1);
    if (!rille_op_find(name)) complain(L, "_slow_op: unknown operator '%s'", name);
    rille_slow_op(shell_of(L)->session, name, luaL_checknumber(L, 2));
    return 0;
}

/* rille._schedule_contexts(name, devices, stages, device): returns the number of micro-batches whose activations a
 * device holds at once in this schedule; device: from 0. */
static int
lua_schedule_contexts(lua_State *L)
{
    lua_pushinteger(L, rille_schedule_contexts(luaL_checkstring(L, 1), (int)luaL_checkinteger(L, 2),
                                               (int)luaL_checkinteger(L, 3), (int)luaL_checkinteger(L, 4)));
    return 1;
}

static const luaL_Reg functions[] = {
    {"manual_seed", manual_seed},
    {"allow_tf32", allow_tf32},
    {"detect_nan", detect_nan},
    {"no_grad", no_grad},
    {"per_micro_batch", per_micro_batch},
    {"enable_grad", enable_grad},
    {"_autocast", shell_autocast},
    {"_interrupts", interrupts},
    {"_recompute", recompute},
    {"_schedule_contexts", lua_schedule_contexts},
    {"grad", grad},
    {"eval", eval},
    {"counters", counters},
    {"devices", devices},
    {"device_info", device_info},
    {"clock", wall_clock},
    {"is_terminal", is_terminal},
    {"_trace_carries", lua_trace_carries},
    {"_trace_pause", trace_pause},
    {"from_local", from_local},
    {"_trace_mean", lua_trace_mean},
    {"_tracing", lua_tracing},
    {"_step", live_step},
    {"_generation", generation},
    {"_fail_act", fail_act},
    {"_slow_op", slow_op},
    {"_show", show_drawn},
    {NULL, NULL},
};

/* ---- loading modules written in Lua ---- */

/* A package searcher: loads "rille.nn.linear" from nn/linear.lua. */
static int
search_module(lua_State *L)
{
    const char *name = luaL_checkstring(L, 1);
    if (strncmp(name, "rille.", 6)) return 0;
    int code = module_load(L, name + 6);
    if (code == MODULE_NONE) return lua_pushfstring(L, "rille has no module '%s'", name + 6), 1;
    if (code) return lua_error(L);
    lua_pushstring(L, name);
    return 2;
}

/* Inserts the searcher before Lua's searchers of files, so that no file in a user's directory shadows a Rille
 * module. */
static void
add_searcher(lua_State *L)
{
    lua_getglobal(L, "package");
    lua_getfield(L, -1, "searchers");
    for (lua_Integer k = (lua_Integer)lua_rawlen(L, -1); k >= 2; k--) {
        lua_rawgeti(L, -1, k);
        lua_rawseti(L, -2, k + 1);
    }
    lua_pushcfunction(L, search_module);
    lua_rawseti(L, -2, 2);
    lua_pop(L, 2);
}

/* Implements __call of a Rille module in Lua that is a plain table: raises an error. Upvalue: name of the module. */
static int
table_call(lua_State *L)
{
    const char *name = lua_tostring(L, lua_upvalueindex(1)), *other = name_elsewhere("rille", name);
    return complain(L, "rille.%s is a table, not a function%s%s", name, other ? ": " : "", other ? other : "");
}

/* Makes calling the table at the top of the stack an error that names the module, unless the table has a
 * metatable. */
static void
refuse_call(lua_State *L, const char *name)
{
    if (!lua_istable(L, -1)) return;
    if (lua_getmetatable(L, -1)) {
        lua_pop(L, 1);
        return;
    }
    lua_createtable(L, 0, 1);
    lua_pushstring(L, name);
    lua_pushcclosure(L, table_call, 1);
    lua_setfield(L, -2, "__call");
    lua_setmetatable(L, -2);
}

/* Returns advice for a name that rille, the table at index 1, lacks: "write rille.PART.NAME" if a table in rille has
 * the name in any case, or Rille's equivalent of another framework's name. NULL: no advice. May push the text. */
static const char *
name_in_part(lua_State *L, const char *name)
{
    static const char *const part[] = {"nn", "optim", "data", "sbp"};
    for (int i = 0; i < (int)(sizeof part / sizeof *part); i++) {
        const char *other = name_elsewhere(part[i], name);
        if (other) return other;
        if (lua_getfield(L, 1, part[i]) != LUA_TTABLE) return NULL;
        for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
            const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "";
            if (!strcasecmp(key, name)) return lua_pushfstring(L, "write rille.%s.%s", part[i], key);
        }
        lua_pop(L, 1);
    }
    return NULL;
}

/* __index: loads rille.NAME as a module in Lua, or raises an error. */
static int
module_index(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    const char *name = lua_type(L, 2) == LUA_TSTRING ? text_at(L, 2, "rille") : NULL;
    if (!name) {
        lua_pushnil(L);
        return 1;
    }
    if (strchr(name, '.') || !module_exists(L, name)) {
        struct nearest best = {0};
        const char *other = name_elsewhere("rille", name);
        if (!other) other = name_elsewhere("tensor", name);
        if (!other) other = name_in_part(L, name);
        if (other) return complain(L, "rille has no '%s': %s", name, other);
        name_nearest(L, 1, name, &best);
        return complain(L, "rille has no '%s'%s", name, name_hint(L, &best));
    }
    lua_getglobal(L, "require");
    lua_pushfstring(L, "rille.%s", name);
    lua_call(L, 1, 1);
    refuse_call(L, name);
    lua_pushvalue(L, 2);
    lua_pushvalue(L, -2);
    lua_rawset(L, 1);
    return 1;
}

static int
module_tostring(lua_State *L)
{
    lua_pushliteral(L, "rille " RILLE_VERSION "; rille.help() lists its names, ?NAME in the shell is a page");
    return 1;
}

/* ---- opening ---- */

void
shell_finish(lua_State *L)
{
    struct shell *sh = shell_of(L);
    if (sh->process != getpid()) return;
    files_finish(L);
    check(L, rille_wait(sh->session));
}

/* Implements __close, for local rille <close> = require "rille": closes the session at the end of the scope,
 * before the Lua state is closed. */
static int
module_close(lua_State *L)
{
    if (!lua_rawequal(L, 1, lua_upvalueindex(1))) return complain(L, "expected rille, found %s", what_is(L, 1));
    shell_finish(L);
    tokens_close(L);
    return shell_close(L);
}

static int
module_loaded(lua_State *L)
{
    lua_pushvalue(L, lua_upvalueindex(1));
    return 1;
}

/* Fills the module table at the top of the stack, the result of require. */
static void
publish_scratch(lua_State *L)
{
    lua_getglobal(L, "package");
    lua_getfield(L, -1, "preload");
    lua_pushvalue(L, -3);
    lua_pushcclosure(L, module_loaded, 1);
    lua_setfield(L, -2, "rille");
    lua_getfield(L, -2, "loaded");
    lua_pushvalue(L, -4);
    lua_setfield(L, -2, "rille");
    lua_pop(L, 3);
}

static void
open_module(lua_State *L)
{
    lua_newtable(L);
    field_text(L, "_VERSION", RILLE_VERSION);
    luaL_setfuncs(L, functions, 0);
    place_open(L);
    create_open(L);
    tensor_open(L);
    graph_open(L);
    live_open(L);
    gradient_open(L);
    scan_open(L);
    explain_open(L);
    leaves_open(L);
    files_open(L);
    tokens_open(L);
    tokenizers_open(L);
    json_open(L);
    regex_open(L);
    help_open(L);
    workers_open(L);
    stopping_open(L);
    names_open(L);
    misuse_open(L);
    op_open_loaded(L);
    arity_open(L);
    static const luaL_Reg meta[] = {
        {"__index", module_index}, {"__tostring", module_tostring}, {"__close", module_close}, {NULL, NULL}};
    luaL_newlibtable(L, meta);
    lua_pushvalue(L, -2);
    luaL_setfuncs(L, meta, 1); /* the module is the upvalue */
    lua_setmetatable(L, -2);
    publish_scratch(L);
    add_searcher(L);
}

int
shell_open(lua_State *L, const struct environment *e)
{
    int code = shell_new(L, e);
    if (!code) coroutine_open(L);
    if (!code) open_module(L);
    return code;
}
