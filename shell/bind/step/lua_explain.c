/* lua_explain.c - returns the records of rille.explain, rille.plan and rille.boxing as tables that print as text. */
#include "shell/bind/step/lua_explain.h"
#include "shell/bind/base/field.h"
#include "shell/bind/base/fold.h"
#include "shell/bind/base/lua_error.h"
#include "shell/bind/base/shell.h"
#include "shell/bind/tensor/lua_create.h"
#include "shell/bind/tensor/lua_place.h"
#include "shell/bind/tensor/lua_show.h"
#include "shell/bind/tensor/lua_tensor.h"

#include <stdlib.h>

/* Registry keys of two metatables. text_meta: tables that print as their field text. boxing_meta: such tables with a
 * method show(), which draws a move. */
static const char text_meta, boxing_meta;

enum { MAX_ROOTS = 4096 };

static int
text_tostring(lua_State *L)
{
    lua_getfield(L, 1, "text");
    fold_push(L, luaL_tolstring(L, -1, NULL));
    return 1;
}

/* Makes the table at the top of the stack print as its field text. */
static void
set_text_meta(lua_State *L)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &text_meta);
    lua_setmetatable(L, -2);
}

void
text_push(lua_State *L, char **text)
{
    lua_createtable(L, 0, 1);
    field_text(L, "text", *text);
    free(*text);
    *text = NULL;
    set_text_meta(L);
}

static void
set_strings(lua_State *L, const char *key, int n, const char *const *list)
{
    lua_createtable(L, n, 0);
    for (int k = 0; k < n; k++) {
        lua_pushstring(L, list[k]);
        lua_rawseti(L, -2, k + 1);
    }
    lua_setfield(L, -2, key);
}

/* Reuses the Lua table that was made from the core's list at `address`, so that records with the same list share one
 * Lua table. The table at `lists` has these Lua tables by address. If it has one for `address`, sets the field `key`
 * of the table at the top of the stack to that Lua table, and returns true. */
static bool
is_address_shared(lua_State *L, const char *key, const void *address, int lists)
{
    if (lua_rawgetp(L, lists, address) != LUA_TNIL) {
        lua_setfield(L, -2, key);
        return true;
    }
    lua_pop(L, 1);
    return false;
}

/* Stores the value of the field `key` in the table at `lists`, under the address of the core's list from which the
 * value was made. Later records then share the value. */
static void
share_table(lua_State *L, const char *key, const void *address, int lists)
{
    lua_getfield(L, -1, key);
    lua_rawsetp(L, lists, address);
}

static void
set_layouts(lua_State *L, const char *key, int n, const char *const *list, int lists)
{
    if (is_address_shared(L, key, list, lists)) return;
    set_strings(L, key, n, list);
    share_table(L, key, list, lists);
}

/* Sets the field results: a list of {shape =, part =}, one per output. */
static void
set_results(lua_State *L, const struct rille_explain_op *op)
{
    lua_createtable(L, op->noutput, 0);
    for (int k = 0; k < op->noutput; k++) {
        lua_createtable(L, 0, 2);
        push_shape(L, op->results[k].ndim, op->results[k].shape);
        lua_setfield(L, -2, "shape");
        push_shape(L, op->results[k].ndim, op->results[k].part);
        lua_setfield(L, -2, "part");
        lua_rawseti(L, -2, k + 1);
    }
    lua_setfield(L, -2, "results");
}

static void
push_candidate(lua_State *L, const struct rille_explain_op *op, const struct rille_explain_candidate *c, int lists)
{
    lua_createtable(L, 0, 5);
    set_layouts(L, "inputs", op->ninput, c->inputs, lists);
    set_layouts(L, "outputs", op->noutput, c->outputs, lists);
    field_integer(L, "bytes", c->bytes);
    field_integer(L, "owed", c->owed);
    if (c->regret >= 0) field_integer(L, "regret", c->regret);
    if (c->regret >= 0 && c->regret_high < INT64_MAX) field_integer(L, "regret_high", c->regret_high);
    field_number(L, "share", c->share);
}

static void
set_ops_candidates(lua_State *L, const struct rille_explain_op *op, int lists)
{
    if (op->candidates && is_address_shared(L, "candidates", op->candidates, lists)) return;
    lua_createtable(L, op->ncandidate, 0);
    for (int k = 0; k < op->ncandidate; k++) {
        push_candidate(L, op, &op->candidates[k], lists);
        lua_rawseti(L, -2, k + 1);
    }
    lua_setfield(L, -2, "candidates");
    if (op->candidates) share_table(L, "candidates", op->candidates, lists);
}

static void
push_op(lua_State *L, const struct rille_explain_op *op, int lists)
{
    lua_createtable(L, 0, 6);
    field_text(L, "name", op->name);
    field_text(L, "line", op->line);
    set_strings(L, "inputs", op->ninput, op->inputs);
    set_strings(L, "outputs", op->noutput, op->outputs);
    set_results(L, op);
    set_ops_candidates(L, op, lists);
}

/* Sets the field candidates: the methods for a move. Each method has a list of hops (collective steps). The chosen
 * method is the first. */
static void
set_candidates(lua_State *L, const struct rille_explain_boxing *b)
{
    lua_createtable(L, b->ncandidate, 0);
    for (int k = 0; k < b->ncandidate; k++) {
        const struct rille_explain_path *p = &b->candidates[k];
        lua_createtable(L, 0, 5);
        field_text(L, "name", p->name);
        set_strings(L, "layouts", p->nhop, p->layouts);
        field_integer(L, "bytes", p->bytes);
        field_integer(L, "staging", p->staging);
        field_number(L, "ns", p->ns);
        lua_rawseti(L, -2, k + 1);
    }
    lua_setfield(L, -2, "candidates");
}

static void
push_boxing(lua_State *L, const struct rille_explain_boxing *b)
{
    lua_createtable(L, 0, 14);
    field_text(L, "from", b->from);
    field_text(L, "to", b->to);
    place_push(L, b->from_place);
    lua_setfield(L, -2, "placement_from");
    place_push(L, b->to_place);
    lua_setfield(L, -2, "placement_to");
    push_shape(L, b->ndim, b->shape);
    lua_setfield(L, -2, "shape");
    field_text(L, "dtype", b->dtype);
    field_integer(L, "bytes", b->bytes);
    field_integer(L, "bound", b->bound);
    field_integer(L, "times", b->times);
    field_text(L, "name", b->name);
    field_text(L, "steps", b->steps);
    field_text(L, "forced_by", b->forced_by);
    field_text(L, "text", b->text);
    set_candidates(L, b);
    lua_createtable(L, b->nrank, 1);
    for (int k = 0; k < b->nrank; k++) {
        lua_pushinteger(L, b->received[k]);
        lua_rawseti(L, -2, b->rank[k]);
    }
    lua_setfield(L, -2, "received");
    lua_rawgetp(L, LUA_REGISTRYINDEX, &boxing_meta);
    lua_setmetatable(L, -2);
}

/* Sets the field meetings, for "propagate": the conflicts between layout hints. */
static void
set_meetings(lua_State *L, const struct rille_explain *x)
{
    lua_createtable(L, x->nmeeting, 0);
    for (int k = 0; k < x->nmeeting; k++) {
        const struct rille_explain_meeting *m = &x->meetings[k];
        lua_createtable(L, 0, 7);
        field_text(L, "op", m->op);
        field_text(L, "line", m->line);
        lua_createtable(L, 2, 0);
        for (int i = 0; i < 2; i++) {
            lua_createtable(L, 0, 2);
            field_text(L, "what", m->hint[i].what);
            field_text(L, "line", m->hint[i].line);
            lua_rawseti(L, -2, i + 1);
        }
        lua_setfield(L, -2, "hints");
        field_text(L, "from", m->from);
        field_text(L, "to", m->to);
        field_integer(L, "bytes", m->bytes);
        field_integer(L, "ns", m->ns);
        lua_rawseti(L, -2, k + 1);
    }
    lua_setfield(L, -2, "meetings");
}

/* Sets the field axis_bytes, for whatif: bytes sent along each mesh axis. */
static void
set_axes(lua_State *L, const struct rille_explain *x)
{
    lua_createtable(L, x->naxis, 0);
    for (int a = 0; a < x->naxis; a++) {
        lua_pushinteger(L, x->axis_bytes[a]);
        lua_rawseti(L, -2, a + 1);
    }
    lua_setfield(L, -2, "axis_bytes");
}

/* Sets the planner's results: cost and lower bound in ns, the gap between them, and so on. */
static void
set_plan(lua_State *L, const struct rille_explain *x)
{
    field_integer(L, "cost", x->cost);
    field_integer(L, "bound", x->bound);
    field_integer(L, "memory", x->peak);
    field_integer(L, "scratch", x->scratch);
    if (x->cost == x->bound)
        lua_pushinteger(L, 0);
    else
        lua_pushnumber(L, x->gap);
    lua_setfield(L, -2, "gap");
    field_number(L, "step_time", (double)x->time * 1e-9);
    field_number(L, "search_time", x->search);
    if (x->naxis) set_axes(L, x);
}

/* Builds the table of a record; argument 1 is the pointer to the record. */
static int
make_explain(lua_State *L)
{
    const struct rille_explain *x = lua_touserdata(L, 1);
    lua_newtable(L);
    int lists = lua_gettop(L);
    lua_createtable(L, 0, 4);
    lua_createtable(L, x->nop, 0);
    for (int k = 0; k < x->nop; k++) {
        push_op(L, &x->ops[k], lists);
        lua_rawseti(L, -2, k + 1);
    }
    lua_setfield(L, -2, "ops");
    lua_createtable(L, x->nboxing, 0);
    for (int k = 0; k < x->nboxing; k++) {
        push_boxing(L, &x->boxing[k]);
        lua_rawseti(L, -2, k + 1);
    }
    lua_setfield(L, -2, "boxing");
    field_integer(L, "bytes", x->bytes);
    if (x->meetings) set_meetings(L, x);
    if (x->planned) set_plan(L, x);
    field_text(L, "text", x->text);
    set_text_meta(L);
    return 1;
}

/* Builds the table with the collector stopped: nothing built here is garbage, and collections would take a quarter
 * of the time of whatif. The call is protected, so that the collector is restarted if memory runs out. */
void
explain_push(lua_State *L, struct rille_explain **e)
{
    bool collects = lua_gc(L, LUA_GCISRUNNING);
    lua_pushcfunction(L, make_explain);
    lua_pushlightuserdata(L, *e);
    lua_gc(L, LUA_GCSTOP);
    int failed = lua_pcall(L, 1, 1, 0);
    if (collects) lua_gc(L, LUA_GCRESTART);
    rille_explain_free(e);
    if (failed) lua_error(L);
}

/* rille.explain(y, ...), rille.explain{y, z}: reads the tensors among the arguments, and returns their number.
 * options: number of arguments that may follow the tensors. */
static int
roots(lua_State *L, const char *who, int options, struct rille_tensor **out)
{
    int n = 0, used;
    if (lua_istable(L, 1))
        tensor_list(L, 1, who, MAX_ROOTS, out, &n);
    else if (kind_test(L, 1, KIND_GRAPH))
        complain(L, "%s: for a graph, write step:%s()", who, who);
    else
        for (int i = 1; tensor_test(L, i) && n < MAX_ROOTS; i++) out[n++] = tensor_test(L, i);
    if (n == 0) tensor_check(L, 1, who);
    used = (lua_istable(L, 1) ? 1 : n) + options;
    if (lua_gettop(L) > used)
        complain(L, "%s: expected at most %d argument%s, found %d", who, used, used == 1 ? "" : "s", lua_gettop(L));
    return n;
}

static int
explain(lua_State *L)
{
    struct rille_tensor *t[MAX_ROOTS];
    struct rille_explain *e;
    int n = roots(L, "explain", 0, t);
    at_line(L);
    check(L, rille_explain(shell_of(L)->session, n, t, &e));
    explain_push(L, &e);
    return 1;
}

bool
plan_physical(lua_State *L, int i)
{
    static const char *const keys[] = {"physical", NULL};
    if (!lua_istable(L, i)) return false;
    check_keys(L, i, "plan", keys);
    lua_getfield(L, i, "physical");
    bool physical = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return physical;
}

/* rille.plan(y, ..., {physical = true}): returns the plan of the tensors as a table that prints as text. */
static int
explain_plan(lua_State *L)
{
    struct rille_tensor *t[MAX_ROOTS];
    char *text;
    int n = roots(L, "plan", 1, t), top = lua_gettop(L);
    bool physical = top > 1 && plan_physical(L, top);
    at_line(L);
    check(L, rille_plan(shell_of(L)->session, n, t, physical, &text));
    text_push(L, &text);
    return 1;
}

/* Returns the layout in field `key` ("from" or "to") of the table at 1. */
static const struct rille_layout *
boxing_end(lua_State *L, const char *key, int ndim)
{
    static const char *const keys[] = {"placement", "sbp", NULL};
    if (lua_getfield(L, 1, key) != LUA_TTABLE)
        complain(L, "boxing: %s must be a table {placement =, sbp =}, found %s", key, what_is(L, -1));
    check_keys(L, -1, "boxing", keys);
    lua_pushfstring(L, "boxing: %s", key);
    if (layout_auto(L, lua_gettop(L) - 1))
        complain(L, "boxing: %s: sbp must be a layout; \"auto\" is for variables only", key);
    const struct rille_layout *l = layout_read(L, -2, lua_tostring(L, -1), ndim, NULL);
    if (!l) complain(L, "boxing: %s must have placement or sbp", key);
    lua_pop(L, 2);
    return l;
}

/* rille.boxing{shape =, dtype =, from = {placement =, sbp =}, to = {placement =, sbp =}}: returns the record of a
 * redistribution. */
static int
boxing(lua_State *L)
{
    static const char *const keys[] = {"shape", "dtype", "from", "to", NULL};
    int64_t shape[RILLE_DIMS];
    struct rille_explain *e;
    if (!lua_istable(L, 1))
        return complain(L, "boxing: expected a table {shape =, dtype =, from =, to =}, found %s", what_is(L, 1));
    lua_settop(L, 1);
    check_keys(L, 1, "boxing", keys);
    lua_getfield(L, 1, "shape");
    int at = 2, ndim = shape_read(L, &at, "boxing", shape);
    int type = lua_getfield(L, 1, "dtype");
    if (type != LUA_TNIL && type != LUA_TSTRING)
        return complain(L, "boxing: dtype must be a string, found %s", what_is(L, -1));
    const char *dtype = type == LUA_TNIL ? "f32" : text_at(L, -1, "boxing");
    const struct rille_layout *from = boxing_end(L, "from", ndim), *to = boxing_end(L, "to", ndim);
    at_line(L);
    check_as(L, "boxing", rille_boxing(shell_of(L)->session, dtype, ndim, shape, from, to, &e));
    push_boxing(L, &e->boxing[0]);
    rille_explain_free(&e);
    return 1;
}

void
explain_open(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"explain", explain}, {"plan", explain_plan}, {"boxing", boxing}, {NULL, NULL}};
    lua_createtable(L, 0, 1);
    field_function(L, "__tostring", text_tostring);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &text_meta);
    lua_createtable(L, 0, 2);
    field_function(L, "__tostring", text_tostring);
    lua_createtable(L, 0, 1);
    field_function(L, "show", boxing_show);
    lua_setfield(L, -2, "__index");
    lua_rawsetp(L, LUA_REGISTRYINDEX, &boxing_meta);
    luaL_setfuncs(L, functions, 0);
}
