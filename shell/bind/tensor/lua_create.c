/* lua_create.c - creates tensors from Lua values, and by source operators, which have no tensor operands.
 *
 * All functions accept a table of options as last argument. Values in tables are packed into bytes of the dtype
 * here. Every other tensor is a source operator of the core, called with shape, dtype and layout, so each rank
 * creates only its shard. */
#include "shell/bind/tensor/lua_create.h"
#include "shell/bind/base/lua_error.h"
#include "shell/bind/base/shell.h"
#include "shell/bind/base/value.h"
#include "shell/bind/tensor/lua_place.h"
#include "shell/bind/tensor/lua_tensor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading options and shapes ---- */

static const char *
text_option(lua_State *L, int i, const char *who, const char *key)
{
    int type = lua_getfield(L, i, key);
    if (type != LUA_TNIL && type != LUA_TSTRING)
        complain(L, "%s: %s must be a string, found %s", who, key, what_is(L, -1));
    const char *text = type == LUA_TNIL ? NULL : text_at(L, -1, who);
    lua_pop(L, 1); /* the string stays valid, because the table refers to it */
    return text;
}

void
options_read(lua_State *L, int i, const char *who, int ndim, struct options *o)
{
    static const char *const keys[] = {"dtype", "placement", "sbp", "requires_grad", "name", NULL};
    *o = (struct options){0};
    if (lua_isnoneornil(L, i)) return;
    if (!lua_istable(L, i)) complain(L, "%s: options must be a table, found %s", who, what_is(L, i));
    check_keys(L, i, who, keys);
    o->dtype = text_option(L, i, who, "dtype");
    o->name = text_option(L, i, who, "name");
    if (lua_getfield(L, i, "requires_grad") != LUA_TNIL && !lua_isboolean(L, -1))
        complain(L, "%s: requires_grad must be true or false, found %s", who, what_is(L, -1));
    o->requires_grad = lua_toboolean(L, -1);
    lua_pop(L, 1);
    o->layout = layout_read(L, i, who, ndim, NULL);
    o->planned = layout_auto(L, i);
}

void
options_apply(lua_State *L, const char *who, const struct options *o, struct rille_tensor *t)
{
    if (o->name) rille_tensor_set_name(t, o->name);
    if (o->requires_grad) check_as(L, who, rille_tensor_set_requires_grad(t, true));
    if (o->planned) check(L, rille_tensor_auto(t, true));
}

static int64_t
size_argument(lua_State *L, int i, const char *who, const char *what)
{
    int64_t n;
    if (!whole_at(L, i, &n) || n < 0)
        complain(L, "%s: %s must be an integer of at least 0, found %s", who, what, what_is(L, i));
    return n;
}

int
shape_read(lua_State *L, int *i, const char *who, int64_t *shape)
{
    int n = 0, at = *i;
    if (lua_istable(L, at)) {
        int len = (int)lua_rawlen(L, at);
        if (len > RILLE_DIMS)
            complain(L, "%s: a tensor must have at most %d dimensions, found %d", who, RILLE_DIMS, len);
        for (; n < len; n++, lua_pop(L, 1)) {
            lua_rawgeti(L, at, n + 1);
            shape[n] = size_argument(L, lua_gettop(L), who, "a size");
        }
        *i = at + 1;
        return n;
    }
    for (; lua_type(L, *i) == LUA_TNUMBER; ++*i) {
        if (n == RILLE_DIMS) complain(L, "%s: a tensor must have at most %d dimensions, found more", who, RILLE_DIMS);
        shape[n++] = size_argument(L, *i, who, "a size");
    }
    if (*i == at) complain(L, "%s: expected a shape such as {4, 5}, found %s", who, what_is(L, at));
    return n;
}

/* ---- source operators ---- */

struct number { /* a number operand of a source operator; its name is the one in the operator's record */
    const char *name;
    struct rille_arg arg;
};

struct source {
    const char *who;
    int nnumber;
    struct number number[4];
    int ndim;
    int64_t shape[RILLE_DIMS];
    const char *dtype; /* dtype if the options name none */
};

static void
source_number(lua_State *L, struct source *src, const char *name, int i)
{
    struct number *n = &src->number[src->nnumber++];
    n->name = name;
    if (lua_isinteger(L, i))
        n->arg = (struct rille_arg){.kind = RILLE_ARG_INT, .i = lua_tointeger(L, i)};
    else if (lua_type(L, i) == LUA_TNUMBER)
        n->arg = (struct rille_arg){.kind = RILLE_ARG_FLOAT, .f = lua_tonumber(L, i)};
    else
        complain(L, "%s: %s must be a number, found %s", src->who, name, what_is(L, i));
}

static int
source_args(lua_State *L, const struct source *src, const struct rille_op *op, struct rille_arg *args)
{
    struct rille_operand_info info[16];
    int n = rille_op_operands(op, info), nargs = 0;
    for (int k = 0; k < n && !info[k].hidden; k++) {
        int j = 0;
        while (j < src->nnumber && strcmp(src->number[j].name, info[k].name)) j++;
        if (j == src->nnumber && !info[k].optional) complain(L, "%s: %s must be given", src->who, info[k].name);
        args[nargs++] = j < src->nnumber ? src->number[j].arg : (struct rille_arg){.kind = RILLE_ARG_NONE};
    }
    return nargs;
}

static int
source_call(lua_State *L, struct source *src, int options)
{
    const struct rille_op *op = rille_op_find(src->who);
    struct rille_arg args[16];
    struct options o;
    if (!op) complain(L, "unknown operator '%s' in this version of Rille", src->who);
    options_read(L, options, src->who, src->ndim, &o);
    int nargs = source_args(L, src, op, args);
    struct rille_tensor **slot = tensor_slot(L);
    at_line(L);
    check(L, rille_create(shell_of(L)->session, op, nargs, args, src->ndim, src->shape, o.dtype ? o.dtype : src->dtype,
                          o.layout, slot));
    options_apply(L, src->who, &o, *slot);
    return 1;
}

/* Checks that the argument at i, the options or nil, is the last one. Returns i. */
static int
options_last(lua_State *L, const char *who, int i)
{
    if (lua_gettop(L) > i)
        complain(L, "%s: options must be the last argument, found %s after them", who, what_is(L, i + 1));
    return i;
}

/* Returns the index of the options: the argument after the shape, or the table that contains the shape, whose named
 * fields are the options, as in zeros{2, 3, dtype = "i64"}. */
static int
options_behind(lua_State *L, const char *who, int shape, int next)
{
    options_last(L, who, next);
    return lua_isnoneornil(L, next) && lua_istable(L, shape) ? shape : next;
}

/* Implements zeros(shape), ones, empty, rand and randn; upvalue 1 is the name. */
static int
create_shape(lua_State *L)
{
    struct source src = {.who = lua_tostring(L, lua_upvalueindex(1)), .dtype = "f32"};
    int i = 1;
    src.ndim = shape_read(L, &i, src.who, src.shape);
    return source_call(L, &src, options_behind(L, src.who, 1, i));
}

/* Raises the error that the number at i does not fit in the dtype. */
static int
number_beyond(lua_State *L, const char *who, int i, const struct value_kind *kind)
{
    if (!kind->integer || !lua_isinteger(L, i))
        return complain(L, "%s: %s does not fit in %s", who, number_text(L, i), kind->name);
    return complain(L, "%s: %s does not fit in %s, which holds all integers from %lld to %lld", who, number_text(L, i),
                    kind->name, (long long)kind->low, (long long)kind->high);
}

/* Raises if the options name a dtype that cannot hold the number at i. */
static void
number_fits(lua_State *L, const char *who, int i, int options)
{
    char scalar[8];
    if (!lua_istable(L, options) || lua_getfield(L, options, "dtype") != LUA_TSTRING) return;
    const struct value_kind *kind = value_kind(lua_tostring(L, -1));
    if (kind && kind->store(scalar, lua_isinteger(L, i), lua_tointeger(L, i), lua_tonumber(L, i)))
        number_beyond(L, who, i, kind);
    lua_pop(L, 1);
}

static int
create_full(lua_State *L)
{
    struct source src = {.who = "full", .dtype = "f32"};
    int i = 1;
    if (!lua_istable(L, 1)) complain(L, "full: expected a shape such as {4, 5}, found %s", what_is(L, 1));
    src.ndim = shape_read(L, &i, src.who, src.shape);
    if (lua_isboolean(L, 2)) {
        lua_pushinteger(L, lua_toboolean(L, 2));
        lua_replace(L, 2);
    }
    source_number(L, &src, "value", 2);
    int options = options_behind(L, src.who, 1, 3);
    number_fits(L, "full", 2, options);
    return source_call(L, &src, options);
}

/* Raises if the options name a dtype that cannot hold every integer from lo to hi - 1. */
static void
range_fits(lua_State *L, const char *who, int64_t lo, int64_t hi, int options)
{
    if (!lua_istable(L, options) || lua_getfield(L, options, "dtype") != LUA_TSTRING) return;
    const struct value_kind *kind = value_kind(lua_tostring(L, -1));
    int64_t beyond = kind && lo < kind->low ? lo : hi - 1;
    if (kind && (beyond < kind->low || beyond > kind->high))
        complain(L, "%s: %lld does not fit in %s, which holds all integers from %lld to %lld", who, (long long)beyond,
                 kind->name, (long long)kind->low, (long long)kind->high);
    lua_pop(L, 1);
}

static int
create_randint(lua_State *L)
{
    struct source src = {.who = "randint", .dtype = "i64"};
    int i = 3;
    for (int k = 1; k <= 2; k++)
        if (!lua_isinteger(L, k))
            complain(L, "randint: expected integers low and high and a shape, as in rille.randint(0, 9, {4}); found %s",
                     what_is(L, k));
    if (lua_tointeger(L, 1) >= lua_tointeger(L, 2))
        complain(L, "randint: low must be less than high, found %lld and %lld", (long long)lua_tointeger(L, 1),
                 (long long)lua_tointeger(L, 2));
    src.ndim = shape_read(L, &i, src.who, src.shape);
    source_number(L, &src, "lo", 1);
    source_number(L, &src, "hi", 2);
    int options = options_behind(L, src.who, 3, i);
    range_fits(L, "randint", lua_tointeger(L, 1), lua_tointeger(L, 2), options);
    return source_call(L, &src, options);
}

static int
create_eye(lua_State *L)
{
    struct source src = {.who = "eye", .ndim = 2, .dtype = "f32"};
    bool wide = lua_type(L, 2) == LUA_TNUMBER;
    src.shape[0] = size_argument(L, 1, src.who, "the number of rows");
    src.shape[1] = wide ? size_argument(L, 2, src.who, "the number of columns") : src.shape[0];
    return source_call(L, &src, options_last(L, src.who, wide || lua_isnil(L, 2) ? 3 : 2));
}

/* Returns how many of the numbers a, a + step, ... are before b. The count is exact for integers. */
static int64_t
arange_count(lua_State *L, int a)
{
    if (lua_isinteger(L, a) && lua_isinteger(L, a + 1) && lua_isinteger(L, a + 2)) {
        int64_t start = lua_tointeger(L, a), stop = lua_tointeger(L, a + 1), step = lua_tointeger(L, a + 2);
        if (stop == start) return 0;
        uint64_t span = step > 0 ? (uint64_t)stop - (uint64_t)start : (uint64_t)start - (uint64_t)stop;
        uint64_t size = step > 0 ? (uint64_t)step : -(uint64_t)step;
        uint64_t n = (span - 1) / size + 1;
        return n > INT64_MAX ? INT64_MAX : (int64_t)n;
    }
    double n = ceil((lua_tonumber(L, a + 1) - lua_tonumber(L, a)) / lua_tonumber(L, a + 2));
    if (!(n < 9e15)) complain(L, "arange: expected an end of the range, or a start and an end");
    return n > 0 ? (int64_t)n : 0;
}

/* Implements arange(n) and arange(a, b[, step]). */
static int
create_arange(lua_State *L)
{
    struct source src = {.who = "arange", .ndim = 1};
    int n = 0;
    while (n < 3 && lua_type(L, n + 1) == LUA_TNUMBER) n++;
    if (n == 0) complain(L, "arange: expected a number, found %s", what_is(L, 1));
    if (n == 1) {
        lua_pushinteger(L, 0);
        lua_insert(L, 1);
    }
    if (n < 3) {
        lua_pushinteger(L, 1);
        lua_insert(L, 3);
    }
    double step = lua_tonumber(L, 3);
    if (step == 0) complain(L, "arange: step must not be 0");
    if (lua_compare(L, step > 0 ? 2 : 1, step > 0 ? 1 : 2, LUA_OPLT))
        complain(L, "arange: step %s does not lead from %s to %s; change its sign", luaL_tolstring(L, 3, NULL),
                 luaL_tolstring(L, 1, NULL), luaL_tolstring(L, 2, NULL));
    bool integers = lua_isinteger(L, 1) && lua_isinteger(L, 2) && lua_isinteger(L, 3);
    src.dtype = integers ? "i64" : "f32";
    src.shape[0] = arange_count(L, 1);
    source_number(L, &src, "start", 1);
    source_number(L, &src, "stop", 2);
    source_number(L, &src, "step", 3);
    return source_call(L, &src, options_last(L, src.who, 4));
}

/* Implements linspace(a, b, n). The first and last values are exactly a and b. */
static int
create_linspace(lua_State *L)
{
    struct source src = {.who = "linspace", .ndim = 1, .dtype = "f32"};
    source_number(L, &src, "start", 1);
    source_number(L, &src, "stop", 2);
    src.shape[0] = size_argument(L, 3, src.who, "n, the number of elements,");
    return source_call(L, &src, options_last(L, src.who, 4));
}

/* ---- creating tensors from Lua values ---- */

struct pack {
    lua_State *L;
    const struct value_kind *kind;
    int ndim;
    int64_t shape[RILLE_DIMS];
    char *at;
};

/* Infers the shape of nested tables from the first entry at each depth. */
static void
values_shape(lua_State *L, int i, struct pack *p)
{
    lua_pushvalue(L, i);
    while (lua_istable(L, -1)) {
        if (p->ndim == RILLE_DIMS)
            complain(L, "tensor: a tensor must have at most %d dimensions, found more", RILLE_DIMS);
        p->shape[p->ndim] = (int64_t)lua_rawlen(L, -1);
        lua_rawgeti(L, -1, 1);
        lua_remove(L, -2);
        if (p->shape[p->ndim++] == 0) break;
    }
    lua_pop(L, 1);
}

/* Returns the number of bytes of the packed values. The total may exceed the memory even if the Lua tables do not,
 * because one table may occur in many places. */
static size_t
pack_bytes(const struct pack *p)
{
    const int64_t most = INT64_C(1) << 48;
    int64_t bytes = p->kind->bytes;
    for (int d = 0; d < p->ndim; d++) {
        int64_t n = p->shape[d];
        if (n > most / bytes) complain(p->L, "tensor: the tables hold more than 2^48 bytes of %s", p->kind->name);
        bytes *= n;
        if (bytes == 0) return 0;
    }
    return (size_t)bytes;
}

static void
pack_value(struct pack *p, int i)
{
    lua_State *L = p->L;
    int type = lua_type(L, i), bad;
    if (type == LUA_TBOOLEAN)
        bad = p->kind->store(p->at, true, lua_toboolean(L, i), 0);
    else if (type == LUA_TNUMBER)
        bad = p->kind->store(p->at, lua_isinteger(L, i), lua_tointeger(L, i), lua_tonumber(L, i));
    else
        bad = complain(L, "tensor: a value must be a number or a boolean, found %s", what_is(L, i));
    if (bad) number_beyond(L, "tensor", i, p->kind);
    p->at += p->kind->bytes;
}

/* Raises if the list at i has keys besides 1 to n, because the values of the nested lists cannot contain options.
 * Visits only the keys that lua_next() returns after the last value, because Lua stores the named fields of a
 * table constructor there. */
static void
check_values(lua_State *L, int i, int64_t n)
{
    if (n)
        lua_pushinteger(L, (lua_Integer)n);
    else
        lua_pushnil(L);
    for (; lua_next(L, i); lua_pop(L, 1))
        if (lua_type(L, -2) != LUA_TNUMBER || lua_tonumber(L, -2) < 1 || lua_tonumber(L, -2) > (double)n)
            complain(L, "tensor: expected a list without other keys, found the key %s; options must be a second table",
                     what_is(L, -2));
}

static void
pack_table(struct pack *p, int i, int depth)
{
    lua_State *L = p->L;
    if (depth == p->ndim) {
        pack_value(p, i);
        return;
    }
    if (!lua_istable(L, i))
        complain(L, "tensor: expected a table of %d entries, found %s", (int)p->shape[depth], what_is(L, i));
    if ((int64_t)lua_rawlen(L, i) != p->shape[depth])
        complain(L, "tensor: the tables are ragged: one table of dimension %d has %d entries, the first has %d", depth,
                 (int)lua_rawlen(L, i), (int)p->shape[depth]);
    check_values(L, i, p->shape[depth]);
    for (int64_t k = 1; k <= p->shape[depth]; k++) {
        lua_rawgeti(L, i, k);
        pack_table(p, lua_gettop(L), depth + 1);
        lua_pop(L, 1);
    }
}

/* Returns the default dtype: bool if the first value is a boolean, else f32. */
static const char *
values_dtype(lua_State *L, int i)
{
    lua_pushvalue(L, i);
    while (lua_istable(L, -1)) {
        lua_rawgeti(L, -1, 1);
        lua_remove(L, -2);
    }
    const char *dtype = lua_isboolean(L, -1) ? "bool" : "f32";
    lua_pop(L, 1);
    return dtype;
}

static void
complain_dtype(lua_State *L, const char *who, const char *dtype)
{
    rille_dtype_bytes(dtype); /* sets rille_error() */
    raise_core(L, who);
}

/* tensor(values, options): packs Lua values into a new tensor. */
static int
create_tensor(lua_State *L)
{
    struct pack p = {.L = L};
    struct options o;
    lua_settop(L, 2);
    luaL_checkstack(L, RILLE_DIMS + 8, "tensor");
    values_shape(L, 1, &p);
    options_read(L, 2, "tensor", p.ndim, &o);
    const char *dtype = o.dtype ? o.dtype : values_dtype(L, 1);
    if (!(p.kind = value_kind(dtype))) complain_dtype(L, "tensor", dtype);
    char *bytes = scratch_new(L, "tensor", pack_bytes(&p));
    p.at = bytes;
    pack_table(&p, 1, 0);
    struct rille_tensor **slot = tensor_slot(L);
    at_line(L);
    check(L, rille_tensor_from_host(shell_of(L)->session, dtype, p.ndim, p.shape, bytes, o.layout, slot));
    options_apply(L, "tensor", &o, *slot);
    return 1;
}

void
create_open(lua_State *L)
{
    static const luaL_Reg functions[] = {{"tensor", create_tensor},
                                         {"full", create_full},
                                         {"randint", create_randint},
                                         {"eye", create_eye},
                                         {"arange", create_arange},
                                         {"linspace", create_linspace},
                                         {NULL, NULL}};
    static const char *const shaped[] = {"zeros", "ones", "empty", "rand", "randn"};
    luaL_setfuncs(L, functions, 0);
    for (size_t k = 0; k < sizeof shaped / sizeof *shaped; k++) {
        lua_pushstring(L, shaped[k]);
        lua_pushcclosure(L, create_shape, 1);
        lua_setfield(L, -2, shaped[k]);
    }
}
