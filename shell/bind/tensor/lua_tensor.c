/* lua_tensor.c - tensors in Lua: the userdata, its fields and methods.
 *
 * A userdata holds one handle. x[key] is resolved in three steps: methods, in a table built once; fields, computed
 * on access; any other key is a position (lua_index.c) or an error. */
#include "shell/bind/tensor/lua_tensor.h"
#include "shell/bind/base/field.h"
#include "shell/bind/base/lua_error.h"
#include "shell/bind/base/misuse.h"
#include "shell/bind/base/names.h"
#include "shell/bind/base/shell.h"
#include "shell/bind/base/value.h"
#include "shell/bind/tensor/lua_gradient.h"
#include "shell/bind/tensor/lua_index.h"
#include "shell/bind/tensor/lua_op.h"
#include "shell/bind/tensor/lua_place.h"
#include "shell/bind/tensor/lua_show.h"
#include "shell/bind/tensor/print.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct rille_tensor **
tensor_slot(lua_State *L)
{
    struct shell *sh = shell_of(L);
    if (++sh->made % 1024 == 0) collect_if_due(L);
    return kind_new(L, KIND_TENSOR, sizeof(struct rille_tensor *));
}

struct rille_tensor *
tensor_check(lua_State *L, int i, const char *who)
{
    struct rille_tensor *t = tensor_test(L, i);
    if (!t) refuse_self(L, i, KIND_TENSOR, who, "a tensor");
    return t;
}

/* Collects the tensor at i, or the tensors of the list at i. The list is a table, or a read-only table, whose
 * __index is another table (lua/optim/optimizer.lua). The list keeps the tensors alive. */
void
tensor_list(lua_State *L, int i, const char *who, int max, struct rille_tensor **out, int *n)
{
    *n = 0;
    if (!lua_istable(L, i)) {
        out[(*n)++] = tensor_check(L, i, who);
        return;
    }
    lua_pushvalue(L, i);
    if (luaL_getmetafield(L, -1, "__index") != LUA_TNIL) {
        if (lua_istable(L, -1) && !lua_rawlen(L, -2))
            lua_replace(L, -2);
        else
            lua_pop(L, 1);
    }
    lua_Unsigned len = lua_rawlen(L, -1);
    if (len > (lua_Unsigned)max)
        complain(L, "%s: expected at most %d tensors, found %d", who, max, len > INT_MAX ? INT_MAX : (int)len);
    for (lua_Unsigned k = 1; k <= len; k++, lua_pop(L, 1)) {
        lua_rawgeti(L, -1, (lua_Integer)k);
        out[(*n)++] = tensor_check(L, -1, who);
    }
    lua_pop(L, 1);
}

static const char shape_meta; /* registry key of the metatable of shapes, by which they print and compare */

void
push_shape(lua_State *L, int n, const int64_t *shape)
{
    lua_createtable(L, n, 0);
    for (int d = 0; d < n; d++) {
        lua_pushinteger(L, shape[d]);
        lua_rawseti(L, -2, d + 1);
    }
    lua_rawgetp(L, LUA_REGISTRYINDEX, &shape_meta);
    lua_setmetatable(L, -2);
}

static int
shape_tostring(lua_State *L)
{
    luaL_Buffer b;
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_Integer n = (lua_Integer)lua_rawlen(L, 1);
    luaL_buffinit(L, &b);
    luaL_addchar(&b, '{');
    for (lua_Integer k = 1; k <= n; k++) {
        if (k > 1) luaL_addstring(&b, ", ");
        lua_rawgeti(L, 1, k);
        luaL_tolstring(L, -1, NULL);
        lua_remove(L, -2);
        luaL_addvalue(&b);
    }
    luaL_addchar(&b, '}');
    luaL_pushresult(&b);
    return 1;
}

/* Implements x.shape == y.shape and x.shape == {2, 3}. */
static int
lua_shape_equal(lua_State *L)
{
    bool same = lua_istable(L, 1) && lua_istable(L, 2) && lua_rawlen(L, 1) == lua_rawlen(L, 2);
    for (lua_Integer k = 1; same && k <= (lua_Integer)lua_rawlen(L, 1); k++) {
        lua_rawgeti(L, 1, k);
        lua_rawgeti(L, 2, k);
        same = lua_rawequal(L, -1, -2);
        lua_pop(L, 2);
    }
    lua_pushboolean(L, same);
    return 1;
}

static void
open_shapes(lua_State *L)
{
    static const luaL_Reg meta[] = {{"__tostring", shape_tostring}, {"__eq", lua_shape_equal}, {NULL, NULL}};
    luaL_newlib(L, meta);
    misuse_shape(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &shape_meta);
}

/* ---- fields ---- */

static int
get_shape(lua_State *L, struct rille_tensor *t)
{
    push_shape(L, rille_tensor_ndim(t), rille_tensor_shape(t));
    return 1;
}

static int
get_ndim(lua_State *L, struct rille_tensor *t)
{
    lua_pushinteger(L, rille_tensor_ndim(t));
    return 1;
}

static int
get_dtype(lua_State *L, struct rille_tensor *t)
{
    lua_pushstring(L, rille_tensor_dtype(t));
    return 1;
}

static int
get_placement(lua_State *L, struct rille_tensor *t)
{
    place_push(L, rille_layout_place(rille_tensor_layout(t)));
    return 1;
}

static int
get_sbp(lua_State *L, struct rille_tensor *t)
{
    lua_pushstring(L, rille_layout_text(shell_of(L)->session, rille_tensor_layout(t)));
    return 1;
}

static int
get_device(lua_State *L, struct rille_tensor *t)
{
    lua_pushstring(L, rille_place_kind(rille_layout_place(rille_tensor_layout(t))));
    return 1;
}

static int
get_requires_grad(lua_State *L, struct rille_tensor *t)
{
    lua_pushboolean(L, rille_tensor_requires_grad(t));
    return 1;
}

static int
get_grad(lua_State *L, struct rille_tensor *t)
{
    struct rille_tensor **slot = tensor_slot(L);
    if (!(*slot = rille_tensor_grad(t))) lua_pushnil(L);
    return 1;
}

static int
get_name(lua_State *L, struct rille_tensor *t)
{
    lua_pushstring(L, rille_tensor_name(t));
    return 1;
}

static int
get_is_leaf(lua_State *L, struct rille_tensor *t)
{
    lua_pushboolean(L, rille_tensor_is_leaf(t));
    return 1;
}

static void
set_requires_grad(lua_State *L, struct rille_tensor *t, int i)
{
    if (!lua_isboolean(L, i)) complain(L, "requires_grad must be true or false, found %s", what_is(L, i));
    at_line(L);
    check(L, rille_tensor_set_requires_grad(t, lua_toboolean(L, i)));
}

static void
set_grad(lua_State *L, struct rille_tensor *t, int i)
{
    struct rille_tensor *g = lua_isnil(L, i) ? NULL : tensor_check(L, i, "grad");
    at_line(L);
    check(L, rille_tensor_set_grad(t, g));
}

static void
set_name(lua_State *L, struct rille_tensor *t, int i)
{
    if (!lua_isnil(L, i) && lua_type(L, i) != LUA_TSTRING)
        complain(L, "name must be a string, found %s", what_is(L, i));
    rille_tensor_set_name(t, lua_isnil(L, i) ? NULL : text_at(L, i, "name"));
}

static const struct field {
    const char *name;
    int (*get)(lua_State *L, struct rille_tensor *t);
    /* sets the field; NULL: the field cannot be assigned */
    void (*set)(lua_State *L, struct rille_tensor *t, int i);
    const char *instead; /* end of the error message: what to write instead of an assignment */
    bool followed;       /* a compiled step that reads the field is traced again if its value changes */
} fields[] = {
    {"shape", get_shape, NULL, "write y = x:reshape{...}", false},
    {"ndim", get_ndim, NULL, "write y = x:reshape{...}", false},
    {"dtype", get_dtype, NULL, "write y = x:to(dtype)", false},
    {"placement", get_placement, NULL, "write y = x:to_global{placement =, sbp =}", false},
    {"sbp", get_sbp, NULL, "write y = x:to_global{placement =, sbp =}", false},
    {"device", get_device, NULL, "write y = x:to_global{placement =, sbp =}", false},
    {"requires_grad", get_requires_grad, set_requires_grad, NULL, true},
    {"grad", get_grad, set_grad, NULL, true},
    {"name", get_name, set_name, NULL, true},
    {"is_leaf", get_is_leaf, NULL, "write y = x:detach()", true},
};
enum { NFIELD = sizeof fields / sizeof *fields };

static int
get_field(lua_State *L, const struct field *f)
{
    struct rille_tensor *t = tensor_check(L, 1, "index");
    if (f->followed && rille_tracing(shell_of(L)->session) && rille_tensor_predates(t)) shell_of(L)->follow_field(L);
    return f->get(L, t);
}

/* Returns what to write in place of another library's in-place method; NULL: unknown. The text is derived from the
 * hint for the method without '_'. May push a new value for the text. */
static const char *
in_place_elsewhere(lua_State *L, const char *name)
{
    size_t n = strlen(name);
    if (n < 2 || name[n - 1] != '_') return NULL;
    const char *other = name_elsewhere("tensor", lua_pushlstring(L, name, n - 1));
    if (!other || strncmp(other, "write ", 6)) return other;
    return lua_pushfstring(L, "write x:copy_(z), where z is %s", other + 6);
}

/* Implements __index; upvalues: the table of methods, and a table from field name to field number. */
static int
tensor_index(lua_State *L)
{
    if (lua_type(L, 2) != LUA_TSTRING) return index_get(L);
    lua_pushvalue(L, 2);
    if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) return 1;
    lua_pushvalue(L, 2);
    if (lua_rawget(L, lua_upvalueindex(2)) == LUA_TNUMBER) return get_field(L, &fields[lua_tointeger(L, -1)]);
    struct nearest best = {0};
    const char *other = name_elsewhere("tensor", text_at(L, 2, "index"));
    if (!other) other = in_place_elsewhere(L, lua_tostring(L, 2));
    if (other) return complain(L, "a tensor has no field or method '%s': %s", lua_tostring(L, 2), other);
    for (int k = 1; k <= 2; k++) name_nearest(L, lua_upvalueindex(k), lua_tostring(L, 2), &best);
    return complain(L, "a tensor has no field or method '%s'%s", lua_tostring(L, 2), name_hint(L, &best));
}

static int
tensor_newindex(lua_State *L)
{
    if (lua_type(L, 2) != LUA_TSTRING) return index_set(L);
    const char *name = text_at(L, 2, "index");
    for (int k = 0; k < NFIELD; k++)
        if (!strcmp(fields[k].name, name)) {
            if (!fields[k].set) return complain(L, "%s of a tensor cannot be assigned; %s", name, fields[k].instead);
            fields[k].set(L, tensor_check(L, 1, name), 3);
            return 0;
        }
    return complain(
        L, "a tensor has no field '%s' that can be set; x:copy_(v) assigns all values, and x[key] = v a part", name);
}

/* ---- metamethods ---- */

static int
tensor_gc(lua_State *L)
{
    struct rille_tensor **t = kind_test(L, 1, KIND_TENSOR);
    if (t && *t) rille_tensor_free(t);
    return 0;
}

static int
tensor_len(lua_State *L)
{
    struct rille_tensor *t = tensor_check(L, 1, "#");
    if (rille_tensor_ndim(t) == 0) return complain(L, "#: a tensor of no dimensions has no axis 0");
    lua_pushinteger(L, rille_tensor_shape(t)[0]);
    return 1;
}

static int
tensor_tostring(lua_State *L)
{
    print_tensor(L, tensor_check(L, 1, "tostring"));
    return 1;
}

/* ---- values ---- */

static int
tensor_numel(lua_State *L)
{
    lua_pushinteger(L, rille_tensor_numel(tensor_check(L, 1, "numel")));
    return 1;
}

static int
tensor_item(lua_State *L)
{
    struct rille_tensor *t = tensor_check(L, 1, "item");
    double f = 0;
    int64_t i = 0;
    bool is_int = false;
    shell_of(L)->running = L; /* at_line() is not needed, because a read adds no operator */
    check(L, rille_tensor_item(t, &f, &i, &is_int));
    if (!is_int)
        lua_pushnumber(L, value_real(f));
    else if (!strcmp(rille_tensor_dtype(t), "bool"))
        lua_pushboolean(L, i != 0);
    else
        lua_pushinteger(L, i);
    collect_if_due(L);
    return 1;
}

static void
push_values(lua_State *L, const struct value_kind *kind, const int64_t *shape, int ndim, const char **at)
{
    if (ndim == 0) {
        value_push(L, kind, *at);
        *at += kind->bytes;
        return;
    }
    lua_createtable(L, (int)shape[0], 0);
    for (int64_t k = 1; k <= shape[0]; k++) {
        push_values(L, kind, shape + 1, ndim - 1, at);
        lua_rawseti(L, -2, k);
    }
}

/* Raises if the tensor has more values than a Lua table can count or the host can hold. */
static void
check_tables(lua_State *L, struct rille_tensor *t)
{
    const int64_t most = INT64_C(1) << 56, *shape = rille_tensor_shape(t);
    enum { LUA_VALUE_BYTES = 16 };
    if (rille_tensor_numel(t) > most)
        complain(L, "totable: a table can have at most %lld values, found %lld", (long long)most,
                 (long long)rille_tensor_numel(t));
    for (int axis = 0; axis < rille_tensor_ndim(t); axis++)
        if (shape[axis] > INT_MAX)
            complain(L, "totable: axis %d has %lld entries, but a table can have at most %d", axis,
                     (long long)shape[axis], INT_MAX);
    room_check(L, "totable", (size_t)rille_tensor_numel(t) * LUA_VALUE_BYTES);
}

static int
tensor_totable(lua_State *L)
{
    struct rille_tensor *t = tensor_check(L, 1, "totable");
    const struct value_kind *kind = value_kind(rille_tensor_dtype(t));
    luaL_checkstack(L, RILLE_DIMS + 4, "totable");
    at_line(L);
    check(L, rille_eval(shell_of(L)->session, 1, &t));
    check_tables(L, t);
    const char *at = scratch_new(L, "totable", (size_t)rille_tensor_numel(t) * (size_t)kind->bytes);
    check(L, rille_tensor_read(t, (void *)at));
    push_values(L, kind, rille_tensor_shape(t), rille_tensor_ndim(t), &at);
    collect_if_due(L);
    return 1;
}

static int
tensor_to_local(lua_State *L)
{
    struct rille_tensor *t = tensor_check(L, 1, "to_local");
    int64_t rank;
    if (!whole_at(L, 2, &rank) || rank < INT32_MIN || rank > INT32_MAX)
        return complain(L, "to_local: a rank must be an integer, found %s", what_is(L, 2));
    struct rille_tensor **slot = tensor_slot(L);
    at_line(L);
    check(L, rille_tensor_to_local(t, (int)rank, slot));
    return 1;
}

static int
tensor_shards(lua_State *L)
{
    struct rille_tensor *t = tensor_check(L, 1, "shards");
    const int32_t *ranks;
    int n = rille_place_ranks(rille_layout_place(rille_tensor_layout(t)), &ranks), ndim = rille_tensor_ndim(t);
    at_line(L);
    lua_createtable(L, n, 0);
    for (int pos = 0; pos < n; pos++) {
        int rank;
        int64_t shape[RILLE_DIMS], offset[RILLE_DIMS];
        check(L, rille_tensor_shard(t, pos, &rank, shape, offset));
        lua_createtable(L, 0, 3);
        field_integer(L, "rank", rank);
        push_shape(L, ndim, shape);
        lua_setfield(L, -2, "shape");
        push_shape(L, ndim, offset);
        lua_setfield(L, -2, "offset");
        lua_rawseti(L, -2, pos + 1);
    }
    print_as(L, "shards");
    return 1;
}

/* ---- moving ---- */

static const struct rille_layout *
layout_wanted(lua_State *L, struct rille_tensor *t, const char *who)
{
    static const char *const keys[] = {"placement", "sbp", NULL};
    if (!lua_istable(L, 2)) complain(L, "%s: expected a table {placement =, sbp =}, found %s", who, what_is(L, 2));
    check_keys(L, 2, who, keys);
    const struct rille_layout *l = layout_read(L, 2, who, rille_tensor_ndim(t), rille_tensor_layout(t));
    return l ? l : rille_tensor_layout(t);
}

static int
tensor_to_global(lua_State *L)
{
    struct rille_tensor *t = tensor_check(L, 1, "to_global");
    const struct rille_layout *l = layout_wanted(L, t, "to_global");
    if (layout_auto(L, 2))
        complain(L, "to_global: sbp = \"auto\" is for variables only: use to_global_(), or give it when the variable "
                    "is created");
    struct rille_tensor **slot = tensor_slot(L);
    at_line(L);
    check(L, rille_tensor_to_global(t, l, slot));
    return 1;
}

/* x:_pin{placement =, sbp =}: like to_global, but backward converts the gradient to x's layout. */
static int
tensor_pin(lua_State *L)
{
    struct rille_tensor *t = tensor_check(L, 1, "to_global");
    const struct rille_layout *l = layout_wanted(L, t, "to_global");
    struct rille_tensor **slot = tensor_slot(L);
    at_line(L);
    check(L, rille_tensor_pin(t, l, slot));
    return 1;
}

/* x:_has_value(): returns whether the value is in memory. */
static int
tensor_has_value(lua_State *L)
{
    lua_pushboolean(L, rille_tensor_has_value(tensor_check(L, 1, "_has_value")));
    return 1;
}

/* p:_grad_layout{placement =, sbp =}: sets the layout in which p's gradient is stored; nil: the layout that suits p. */
static int
tensor_grad_layout(lua_State *L)
{
    struct rille_tensor *t = tensor_check(L, 1, "_grad_layout");
    check(L, rille_tensor_set_grad_layout(t, lua_isnoneornil(L, 2) ? NULL : layout_wanted(L, t, "_grad_layout")));
    return 0;
}

/* p:_reshard(on): sets whether a step gathers the shards of p a second time, for backward. If not, the step keeps
 * the value gathered for forward. */
static int
tensor_reshard(lua_State *L)
{
    luaL_checktype(L, 2, LUA_TBOOLEAN);
    check(L, rille_tensor_set_reshard(tensor_check(L, 1, "_reshard"), lua_toboolean(L, 2)));
    return 0;
}

/* Changes the layout of a variable in place. */
static int
tensor_to_global_(lua_State *L)
{
    struct rille_tensor *t = tensor_check(L, 1, "to_global_");
    const struct rille_layout *l = layout_wanted(L, t, "to_global_");
    at_line(L);
    check(L, rille_tensor_relayout(t, l));
    if (layout_auto(L, 2)) check(L, rille_tensor_auto(t, true));
    rille_generation(shell_of(L)->session);
    lua_settop(L, 1);
    return 1;
}

static int
tensor_detach(lua_State *L)
{
    struct rille_tensor *t = tensor_check(L, 1, "detach");
    struct rille_tensor **slot = tensor_slot(L);
    at_line(L);
    check(L, rille_tensor_detach(t, slot));
    return 1;
}

static int
tensor_clone(lua_State *L)
{
    struct rille_tensor *t = tensor_check(L, 1, "clone");
    struct rille_tensor **slot = tensor_slot(L);
    at_line(L);
    check(L, rille_tensor_clone(t, slot));
    return 1;
}

/* ---- in place ---- */

static int
tensor_copy_(lua_State *L)
{
    struct rille_tensor *t = tensor_check(L, 1, "copy_"), *src = tensor_check(L, 2, "copy_");
    at_line(L);
    check_as(L, "copy_", rille_tensor_assign(t, src));
    lua_settop(L, 1);
    return 1;
}

/* Implements x:fill_(v) and x:zero_(). */
static int
tensor_fill_(lua_State *L)
{
    if (!rille_tensor_is_variable(tensor_check(L, 1, "fill_")))
        return complain(L, "fill_: expected a variable, found the result of an operator; clone or detach it first, or "
                           "write x[0] = y to change a part of x");
    if (lua_type(L, 2) != LUA_TNUMBER && lua_type(L, 2) != LUA_TBOOLEAN)
        return complain(L, "fill_: expected a number, found %s", what_is(L, 2));
    lua_pushcfunction(L, index_set); /* implements x[{}] = v */
    lua_pushvalue(L, 1);
    lua_newtable(L);
    lua_pushvalue(L, 2);
    lua_call(L, 3, 0);
    lua_settop(L, 1);
    return 1;
}

static int
tensor_zero_(lua_State *L)
{
    lua_settop(L, 1);
    lua_pushinteger(L, 0);
    return tensor_fill_(L);
}

static int
tensor_requires_grad_(lua_State *L)
{
    struct rille_tensor *t = tensor_check(L, 1, "requires_grad_");
    if (lua_isnoneornil(L, 2)) {
        lua_settop(L, 1);
        lua_pushboolean(L, true);
    }
    set_requires_grad(L, t, 2);
    lua_settop(L, 1);
    return 1;
}

/* ---- gradients ---- */

static int
tensor_backward(lua_State *L)
{
    struct rille_tensor *t = tensor_check(L, 1, "backward");
    static const char *const keys[] = {"retain_graph", NULL};
    bool retain = false;
    if (!lua_isnone(L, 2)) {
        if (!lua_istable(L, 2))
            complain(L,
                     "backward: expected no argument, or {retain_graph = true}, found %s; for a gradient g of y, write "
                     "(y * g):sum():backward()",
                     what_is(L, 2));
        check_keys(L, 2, "backward", keys);
        lua_getfield(L, 2, "retain_graph");
        if (!lua_isboolean(L, -1))
            complain(L, "backward: retain_graph must be true or false, found %s", what_is(L, -1));
        retain = lua_toboolean(L, -1);
    }
    at_line(L);
    check(L, retain ? rille_tensor_backward_retained(t) : rille_tensor_backward(t));
    return 0;
}

static const luaL_Reg methods[] = {
    {"numel", tensor_numel},
    {"item", tensor_item},
    {"totable", tensor_totable},
    {"to_local", tensor_to_local},
    {"shards", tensor_shards},
    {"to_global", tensor_to_global},
    {"_pin", tensor_pin},
    {"_has_value", tensor_has_value},
    {"_grad_layout", tensor_grad_layout},
    {"_reshard", tensor_reshard},
    {"to_global_", tensor_to_global_},
    {"detach", tensor_detach},
    {"clone", tensor_clone},
    {"copy_", tensor_copy_},
    {"fill_", tensor_fill_},
    {"zero_", tensor_zero_},
    {"backward", tensor_backward},
    {"retain_grad", tensor_retain_grad},
    {"requires_grad_", tensor_requires_grad_},
    {NULL, NULL},
};

/* Maps Lua's operators to Rille's: a + b is add(a, b). If an entry has two or more names, the first operator that
 * exists is used. */
static const struct {
    const char *event, *name[2];
} arithmetic[] = {
    {"__add", {"add"}},
    {"__sub", {"sub"}},
    {"__mul", {"mul"}},
    {"__div", {"div"}},
    {"__pow", {"pow"}},
    {"__mod", {"remainder", "mod"}},
    {"__idiv", {"floor_divide", "floor_div"}},
};

/* Adds the metatable's functions that need tables. Stack: the methods at the top, the module below, the metatable
 * below that. */
static void
tensor_open_index(lua_State *L)
{
    lua_pushvalue(L, -1);
    lua_createtable(L, 0, NFIELD);
    for (int k = 0; k < NFIELD; k++) {
        field_integer(L, fields[k].name, k);
    }
    lua_pushcclosure(L, tensor_index, 2);
    lua_setfield(L, -4, "__index");
    for (size_t k = 0; k < sizeof arithmetic / sizeof *arithmetic; k++) {
        const char *const *name = arithmetic[k].name;
        op_push(L, rille_op_find(name[0]) || !name[1] ? name[0] : name[1]);
        lua_setfield(L, -4, arithmetic[k].event);
    }
    op_push_unary(L, "neg");
    lua_setfield(L, -4, "__unm");
}

void
tensor_open(lua_State *L)
{
    static const luaL_Reg meta[] = {{"__newindex", tensor_newindex},
                                    {"__gc", tensor_gc},
                                    {"__close", tensor_gc},
                                    {"__len", tensor_len},
                                    {"__tostring", tensor_tostring},
                                    {"__pairs", index_pairs},
                                    {NULL, NULL}};
    open_shapes(L);
    kind_make(L, KIND_TENSOR, "rille.tensor", meta);
    lua_insert(L, -2); /* the stack is now: metatable, module */
    lua_newtable(L);
    op_open(L);
    luaL_setfuncs(L, methods, 0);
    index_open(L);
    show_open(L);
    op_push_as(L, "cast", "to");
    lua_setfield(L, -2, "to");
    op_push_as(L, "concat", "cat");
    lua_setfield(L, -3, "cat");
    lua_pushcfunction(L, tensor_to_global); /* replaces the operator's function, which accepts no layout */
    lua_setfield(L, -3, "to_global");
    tensor_open_index(L);
    lua_setfield(L, -3, "__methods"); /* lists the methods for completion and help */
    lua_remove(L, -2);
}
