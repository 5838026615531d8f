/* lua_op.c - the operators in Lua: one C function calls any operator, as its record describes.
 *
 * An operator's Lua function is a closure over a struct lua_op, which holds everything that a call needs: operands,
 * attributes, number of results. One pass sorts the arguments. Tensors are operands, in order; so are numbers and nil
 * where an operand may be a number or absent. All other arguments are attributes: by position in the declared order,
 * or by name in a table. A table without names is a list-valued attribute. Functions also serve as methods;
 * x:name_(...) computes the result and assigns it to x. */
#include "shell/bind/tensor/lua_op.h"
#include "shell/bind/base/lua_error.h"
#include "shell/bind/base/misuse.h"
#include "shell/bind/base/modules.h"
#include "shell/bind/base/names.h"
#include "shell/bind/base/shell.h"
#include "shell/bind/base/value.h"
#include "shell/bind/tensor/lua_tensor.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NOPERAND = 16, NATTR = 16, NLIST = 16, NARG = 32 };

struct lua_op {
    const struct rille_op *op;
    const char *name; /* name that the user calls: "cat" for the operator concat */
    int noperand;     /* number of operands that the user passes */
    int nattr, nresult;
    bool list; /* true if the last operand is a list of tensors */
    /* true if the only attribute is a list of integers, whose entries may be separate arguments: x:reshape(4, 5) */
    bool spread;
    struct rille_operand_info operand[NOPERAND];
    struct rille_attr_info attr[NATTR];
};

struct call {
    lua_State *L;
    const struct lua_op *o;
    int narg, cap, nattr;
    int position; /* index of the next positional attribute */
    /* slot[k]: 1 + index in attr[] of the operator's attribute k; 0: the attribute was not given */
    int slot[NATTR];
    struct rille_arg *arg; /* arguments of the call: own[], or an array in a userdata on the stack */
    struct rille_arg own[NARG];
    struct rille_attr attr[NATTR];
    int64_t list[NATTR][NLIST];
};

/* ---- errors of a call ---- */

void
tensor_describe(lua_State *L, luaL_Buffer *b, const char *name, struct rille_tensor *t)
{
    const struct rille_layout *l = rille_tensor_layout(t);
    char *place = rille_place_text(rille_layout_place(l)), size[32];
    luaL_addstring(b, name);
    luaL_addstring(b, " is ");
    luaL_addstring(b, rille_tensor_dtype(t));
    for (int d = 0; d < rille_tensor_ndim(t); d++) {
        snprintf(size, sizeof size, "%s%lld", d ? ", " : "{", (long long)rille_tensor_shape(t)[d]);
        luaL_addstring(b, size);
    }
    luaL_addstring(b, rille_tensor_ndim(t) ? "} " : "{} ");
    luaL_addstring(b, rille_layout_text(shell_of(L)->session, l));
    luaL_addstring(b, " on ");
    luaL_addstring(b, place);
    free(place);
}

/* Raises an error that contains the operator, the message, and the operands found so far. */
static int __attribute__((format(printf, 2, 3))) refuse_call(struct call *c, const char *fmt, ...)
{
    const struct lua_op *o = c->o;
    char what[600];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    luaL_Buffer b;
    luaL_buffinit(c->L, &b);
    for (int k = 0, n = 0; k < c->narg && n < NOPERAND; k++) {
        if (c->arg[k].kind != RILLE_ARG_TENSOR) continue;
        luaL_addstring(&b, n++ ? ", " : "; ");
        tensor_describe(c->L, &b, o->operand[k < o->noperand ? k : o->noperand - 1].name, c->arg[k].tensor);
    }
    luaL_pushresult(&b);
    return complain(c->L, "%s: %s%s", o->name, what, lua_tostring(c->L, -1));
}

/* Pushes and returns the call syntax that users write: "clamp(x, min, max)". */
static const char *
usage_text(const struct call *c)
{
    const struct lua_op *o = c->o;
    luaL_Buffer b;
    luaL_buffinit(c->L, &b);
    luaL_addstring(&b, o->name);
    for (int k = 0; k < o->noperand + o->nattr; k++) {
        luaL_addstring(&b, k ? ", " : "(");
        luaL_addstring(&b, k < o->noperand ? o->operand[k].name : o->attr[k - o->noperand].name);
    }
    luaL_addchar(&b, ')');
    luaL_pushresult(&b);
    return lua_tostring(c->L, -1);
}

/* ---- operands ---- */

static void
grow_call(struct call *c)
{
    int cap = 2 * c->cap;
    struct rille_arg *more = lua_newuserdatauv(c->L, (size_t)cap * sizeof *more, 0);
    memcpy(more, c->arg, (size_t)c->narg * sizeof *more);
    c->arg = more;
    c->cap = cap;
}

/* Returns the record of the next operand; NULL: all operands were passed. */
static const struct rille_operand_info *
next_operand(const struct call *c)
{
    const struct lua_op *o = c->o;
    if (c->narg < o->noperand) return &o->operand[c->narg];
    return o->list ? &o->operand[o->noperand - 1] : NULL;
}

static void
add_operand(struct call *c, struct rille_arg arg)
{
    if (!next_operand(c)) refuse_call(c, "one tensor too many; expected %s", usage_text(c));
    if (c->narg == c->cap) grow_call(c);
    c->arg[c->narg++] = arg;
}

static struct rille_arg
number_arg(lua_State *L, int i)
{
    if (lua_isinteger(L, i)) return (struct rille_arg){.kind = RILLE_ARG_INT, .i = lua_tointeger(L, i)};
    return (struct rille_arg){.kind = RILLE_ARG_FLOAT, .f = lua_tonumber(L, i)};
}

/* ---- attributes ---- */

static const char *
kind_text(const struct rille_attr_info *a)
{
    static const char *const texts[] = {"",
                                        "an integer",
                                        "a number",
                                        "true or false",
                                        NULL,
                                        "an integer or a list of integers",
                                        "a dtype such as \"f32\""};
    return texts[a->kind];
}

static int
wrong_operand(struct call *c, const struct rille_operand_info *in, int i)
{
    bool list = lua_istable(c->L, i) && lua_rawlen(c->L, i) > 0 && !class_text(c->L, i);
    return refuse_call(c, "%s must be a tensor%s, found %s%s", in->name, in->number ? " or a number" : "",
                       list ? "a list"
                       : i  ? what_is(c->L, i)
                            : "nil",
                       list ? "; rille.tensor(list) makes a tensor" : "");
}

static bool
lacks_operand(const struct call *c)
{
    return c->narg < c->o->noperand && !c->o->operand[c->narg].optional;
}

static int
wrong_type(struct call *c, const struct rille_attr_info *a, int i)
{
    if (lacks_operand(c)) return wrong_operand(c, next_operand(c), i);
    const char *expected = kind_text(a);
    if (!expected) expected = lua_pushfstring(c->L, "\"%s\"", luaL_gsub(c->L, a->words, "|", "\" or \""));
    bool place = a->kind == RILLE_DTYPE && kind_test(c->L, i, KIND_PLACE);
    return refuse_call(c, "%s must be %s, found %s%s", a->name, expected, what_is(c->L, i),
                       place ? "; x:to_global{placement =, sbp =} moves x there" : "");
}

static int64_t
integer_argument(struct call *c, const struct rille_attr_info *a, int i)
{
    int64_t v;
    if (!whole_at(c->L, i, &v)) wrong_type(c, a, i);
    return v;
}

static void
read_list(struct call *c, const struct rille_attr_info *a, struct rille_attr *out, int64_t *list, int i)
{
    out->list = list;
    if (!lua_istable(c->L, i)) {
        list[out->n++] = integer_argument(c, a, i);
        return;
    }
    int n = (int)lua_rawlen(c->L, i);
    if (n > NLIST) refuse_call(c, "%s must have at most %d entries, found %d", a->name, NLIST, n);
    for (int k = 1; k <= n; k++) {
        lua_rawgeti(c->L, i, k);
        list[out->n++] = integer_argument(c, a, lua_gettop(c->L));
        lua_pop(c->L, 1);
    }
}

static void
read_attr(struct call *c, int k, int i)
{
    const struct rille_attr_info *a = &c->o->attr[k];
    struct rille_attr *out = &c->attr[c->nattr];
    int type = lua_type(c->L, i);
    *out = (struct rille_attr){.name = a->name, .kind = a->kind};
    switch (a->kind) {
    case RILLE_INT: out->i = integer_argument(c, a, i); break;
    case RILLE_INTS: read_list(c, a, out, c->list[k], i); break;
    case RILLE_FLOAT:
        if (type != LUA_TNUMBER) wrong_type(c, a, i);
        out->f = value_real(lua_tonumber(c->L, i));
        break;
    case RILLE_BOOL:
        if (type != LUA_TBOOLEAN) wrong_type(c, a, i);
        out->i = lua_toboolean(c->L, i);
        break;
    case RILLE_TEXT:
    case RILLE_DTYPE:
        if (type != LUA_TSTRING) wrong_type(c, a, i);
        out->text = text_at(c->L, i, c->o->name);
        break;
    }
    if (c->slot[k]) refuse_call(c, "%s is given twice", a->name);
    c->slot[k] = ++c->nattr;
}

/* Appends an integer to the only attribute, a list, as in x:permute(1, 0). */
static bool
spread_list(struct call *c, int i)
{
    const struct lua_op *o = c->o;
    if (!o->spread || !c->slot[0] || lua_type(c->L, i) != LUA_TNUMBER) return false;
    struct rille_attr *a = &c->attr[0];
    if (a->n == NLIST) refuse_call(c, "%s must have at most %d entries, found more", a->name, NLIST);
    c->list[0][a->n++] = integer_argument(c, &o->attr[0], i);
    return true;
}

static void
next_attr(struct call *c, int i)
{
    const struct lua_op *o = c->o;
    if (spread_list(c, i)) return;
    if (c->position < o->nattr) {
        read_attr(c, c->position++, i);
        return;
    }
    const struct rille_operand_info *in = next_operand(c);
    if (in) wrong_operand(c, in, i);
    refuse_call(c, "one argument too many: %s; expected %s", what_is(c->L, i), usage_text(c));
}

static int
unknown_argument(struct call *c, const char *name)
{
    const struct lua_op *o = c->o;
    const char *keys[NATTR + 1];
    luaL_Buffer b;
    luaL_buffinit(c->L, &b);
    for (int k = 0; k < o->nattr; k++) {
        keys[k] = o->attr[k].name;
        luaL_addstring(&b, keys[k]);
        luaL_addstring(&b, ", ");
    }
    keys[o->nattr] = NULL;
    luaL_addstring(&b, "strategy");
    luaL_pushresult(&b);
    const char *list = lua_tostring(c->L, -1);
    return refuse_call(c, "unknown argument '%s'%s; expected one of: %s", name, option_hint(c->L, name, keys), list);
}

/* ---- reading a table argument: a list of tensors, a list of integers, or named options ---- */

static bool
is_tensor_list(struct call *c, int i)
{
    if (!c->o->list || c->narg >= c->o->noperand) return false;
    lua_rawgeti(c->L, i, 1);
    bool yes = tensor_test(c->L, -1) != NULL;
    lua_pop(c->L, 1);
    return yes || (lua_rawlen(c->L, i) == 0 && c->narg == 0);
}

static void
add_tensor_list(struct call *c, int i)
{
    lua_State *L = c->L;
    int n = (int)lua_rawlen(L, i);
    if (n == 0) refuse_call(c, "expected a list of at least 1 tensor, found an empty list");
    for (int k = 1; k <= n; k++) {
        lua_rawgeti(L, i, k);
        struct rille_tensor *t = tensor_test(L, -1);
        if (!t) refuse_call(c, "entry %d of the list must be a tensor, found %s", k, what_is(L, -1));
        lua_pop(L, 1);
        add_operand(c, (struct rille_arg){.kind = RILLE_ARG_TENSOR, .tensor = t});
    }
}

/* Reads an optional operand that was passed by name: x:clamp{max = 1}, x:layer_norm{bias = b}. */
static bool
read_operand_name(struct call *c, const char *name, int i)
{
    const struct lua_op *o = c->o;
    int k = 0;
    while (k < o->noperand && (!o->operand[k].optional || strcmp(o->operand[k].name, name))) k++;
    if (k == o->noperand) return false;
    if (k < c->narg && c->arg[k].kind != RILLE_ARG_NONE) refuse_call(c, "%s is given twice", name);
    while (c->narg <= k) add_operand(c, (struct rille_arg){.kind = RILLE_ARG_NONE});
    struct rille_tensor *t = tensor_test(c->L, i);
    struct rille_live **live = t ? NULL : kind_test(c->L, i, KIND_LIVE);
    if (t)
        c->arg[k] = (struct rille_arg){.kind = RILLE_ARG_TENSOR, .tensor = t};
    else if (live)
        c->arg[k] = (struct rille_arg){.kind = RILLE_ARG_LIVE, .live = *live};
    else if (o->operand[k].number && lua_type(c->L, i) == LUA_TNUMBER)
        c->arg[k] = number_arg(c->L, i);
    else
        wrong_operand(c, &o->operand[k], i);
    return true;
}

const char *
op_strategy(lua_State *L, int i)
{
    enum { MOST = 8 };
    static const char *const lists = "strategy must be a list with one list of numbers for each operand";
    int naxis[MOST], n = (int)(lua_istable(L, i) ? lua_rawlen(L, i) : 0), at = 0;
    int32_t pieces[MOST * RILLE_DIMS];
    if (!lua_istable(L, i) || n > MOST) return lists;
    for (int k = 0; k < n; k++) {
        if (lua_rawgeti(L, i, k + 1) != LUA_TTABLE || lua_rawlen(L, -1) > RILLE_DIMS) return lists;
        naxis[k] = (int)lua_rawlen(L, -1);
        for (int d = 0; d < naxis[k]; d++) {
            int64_t x;
            lua_rawgeti(L, -1, d + 1);
            if (!whole_at(L, -1, &x) || x < 1 || x > INT32_MAX)
                return lua_pushfstring(
                    L, "strategy: the number of shards of an axis must be an integer from 1 to 2147483647, found %s",
                    what_is(L, -1));
            pieces[at++] = (int32_t)x;
            lua_pop(L, 1);
        }
        lua_pop(L, 1);
    }
    check(L, rille_strategy(shell_of(L)->session, n, naxis, pieces));
    return NULL;
}

static void
read_strategy(struct call *c, int i)
{
    const char *why = op_strategy(c->L, i);
    if (why) refuse_call(c, "%s", why);
}

static void
read_name_argument(struct call *c, int key, int value)
{
    const char *name = text_at(c->L, key, c->o->name);
    for (int k = 0; k < c->o->nattr; k++)
        if (!strcmp(c->o->attr[k].name, name)) {
            read_attr(c, k, value);
            return;
        }
    if (!strcmp(name, "strategy"))
        read_strategy(c, value);
    else if (!read_operand_name(c, name, value))
        unknown_argument(c, name);
}

/* Reads the named entries of the table at i as options. Returns true if the table has named entries. */
static bool
read_names(struct call *c, int i)
{
    lua_State *L = c->L;
    bool any = false;
    for (lua_pushnil(L); lua_next(L, i); lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING) continue;
        any = true;
        read_name_argument(c, lua_gettop(L) - 1, lua_gettop(L));
    }
    return any;
}

static void
read_table(struct call *c, int i)
{
    const struct lua_op *o = c->o;
    if (class_text(c->L, i)) { /* a module or another object: neither a list nor options */
        if (next_operand(c)) wrong_operand(c, next_operand(c), i);
        refuse_call(c, "one argument too many: %s; expected %s", what_is(c->L, i), usage_text(c));
    }
    if (is_tensor_list(c, i)) {
        add_tensor_list(c, i);
        read_names(c, i);
        return;
    }
    bool list = lua_rawlen(c->L, i) > 0, named = false;
    int at = c->position;
    if (list) c->position++;
    if (list && at >= o->nattr && lacks_operand(c)) wrong_operand(c, next_operand(c), i);
    if (list && at >= o->nattr) refuse_call(c, "one argument too many: a list; expected %s", usage_text(c));
    if (list) read_attr(c, at, i);
    named = read_names(c, i);
    if (!list && !named && at < o->nattr && o->attr[at].kind == RILLE_INTS && o->attr[at].required)
        read_attr(c, c->position++, i); /* an empty table is the value of an attribute: x:reshape{} */
}

/* ---- the call ---- */

static void
read_nil(struct call *c)
{
    const struct rille_operand_info *in = next_operand(c);
    if (!in) {
        c->position++;
        return;
    }
    if (!in->optional) wrong_operand(c, in, 0);
    add_operand(c, (struct rille_arg){.kind = RILLE_ARG_NONE});
}

static void
read_userdata(struct call *c, int i)
{
    struct rille_tensor *t = tensor_test(c->L, i);
    struct rille_live **live = t ? NULL : kind_test(c->L, i, KIND_LIVE);
    if (t)
        add_operand(c, (struct rille_arg){.kind = RILLE_ARG_TENSOR, .tensor = t});
    else if (live)
        add_operand(c, (struct rille_arg){.kind = RILLE_ARG_LIVE, .live = *live});
    else
        next_attr(c, i);
}

static void
read_number_argument(struct call *c, int i)
{
    const struct rille_operand_info *in = next_operand(c);
    if (in && in->number)
        add_operand(c, number_arg(c->L, i));
    else
        next_attr(c, i);
}

static void
read_arg(struct call *c, int i)
{
    switch (lua_type(c->L, i)) {
    case LUA_TUSERDATA: read_userdata(c, i); break;
    case LUA_TNUMBER: read_number_argument(c, i); break;
    case LUA_TNIL: read_nil(c); break;
    case LUA_TTABLE: read_table(c, i); break;
    default: next_attr(c, i); break;
    }
}

static void
read_args(struct call *c)
{
    int top = lua_gettop(c->L);
    for (int i = 1; i <= top; i++) read_arg(c, i);
    while (c->narg && c->arg[c->narg - 1].kind == RILLE_ARG_NONE) c->narg--;
}

static void
call_begin(struct call *c, lua_State *L, const struct lua_op *o)
{
    c->L = L;
    c->o = o;
    c->narg = c->nattr = c->position = 0;
    c->arg = c->own;
    c->cap = NARG;
    memset(c->slot, 0, sizeof c->slot);
}

/* Pushes the function with which objects that stand for tensors, such as local tensors of rille.per_rank, implement
 * operators: the metafield __operator of an argument, or of an entry of a list. Returns false if there is none. */
static bool
push_implementation(lua_State *L)
{
    for (int i = 1, top = lua_gettop(L); i <= top; i++) {
        if (!lua_istable(L, i)) continue;
        if (luaL_getmetafield(L, i, "__operator")) return true;
        for (int k = 1; lua_rawgeti(L, i, k) == LUA_TTABLE || lua_isuserdata(L, -1); k++) {
            if (lua_istable(L, -1) && luaL_getmetafield(L, -1, "__operator")) return true;
            lua_settop(L, top);
        }
        lua_settop(L, top);
    }
    return false;
}

/* Calls the function at the top of the stack: __operator(name, arguments...). */
static int
call_implementation(lua_State *L, const char *name, int narg)
{
    int base = lua_gettop(L) - 1;
    luaL_checkstack(L, narg + 1, name);
    lua_pushstring(L, name);
    for (int i = 1; i <= narg; i++) lua_pushvalue(L, i);
    lua_call(L, narg + 1, LUA_MULTRET);
    return lua_gettop(L) - base;
}

/* Implements f(...) and x:f(...). */
static int
op_call(lua_State *L)
{
    const struct lua_op *o = lua_touserdata(L, lua_upvalueindex(1));
    int top = lua_gettop(L);
    struct call c;
    struct rille_tensor *out[NOPERAND];
    struct rille_tensor **slot[NOPERAND];
    if (push_implementation(L)) return call_implementation(L, o->name, top);
    call_begin(&c, L, o);
    read_args(&c);
    luaL_checkstack(L, o->nresult + 2, o->name);
    for (int k = 0; k < o->nresult; k++) slot[k] = tensor_slot(L);
    at_line(L);
    if (rille_call(shell_of(L)->session, o->op, c.narg, c.arg, c.nattr, c.attr, out))
        return raise_call(L, rille_op_name(o->op), o->name);
    for (int k = 0; k < o->nresult; k++) *slot[k] = out[k];
    return o->nresult;
}

static int
op_call_unary(lua_State *L)
{
    lua_settop(L, 1);
    return op_call(L);
}

/* Implements x:f_(...): assigns the first result to the variable x. */
static int
op_inplace(lua_State *L)
{
    const struct lua_op *o = lua_touserdata(L, lua_upvalueindex(1));
    const char *name = lua_tostring(L, lua_upvalueindex(2));
    struct rille_tensor *self = tensor_check(L, 1, name);
    struct call c;
    call_begin(&c, L, o);
    read_args(&c);
    at_line(L);
    if (rille_call_into(shell_of(L)->session, self, o->op, c.narg, c.arg, c.nattr, c.attr))
        return raise_call(L, rille_op_name(o->op), name);
    lua_settop(L, 1);
    return 1;
}

struct rille_tensor *
op_apply(lua_State *L, const char *name, int nargs, const struct rille_arg *args, int nattrs,
         const struct rille_attr *attrs)
{
    const struct rille_op *op = rille_op_find(name);
    struct rille_tensor *out[NOPERAND];
    if (!op) complain(L, "unknown operator '%s' in this version of Rille", name);
    struct rille_tensor **slot = tensor_slot(L);
    at_line(L);
    check(L, rille_call(shell_of(L)->session, op, nargs, args, nattrs, attrs, out));
    for (int k = 1; k < rille_op_results(op); k++) rille_tensor_free(&out[k]);
    return *slot = out[0];
}

/* ---- updates, for optimisers: rille._update("sgd", {p, nil, g, lr}, {momentum = 0.9}) ---- */

static const struct lua_op *op_describe(lua_State *L, const struct rille_op *op, const char *name);

static void
update_operands(struct call *c, int i)
{
    for (int k = 1; k <= c->o->noperand; k++) {
        lua_rawgeti(c->L, i, k);
        int at = lua_gettop(c->L);
        if (lua_isnil(c->L, at))
            add_operand(c, (struct rille_arg){.kind = RILLE_ARG_NONE});
        else if (lua_type(c->L, at) == LUA_TNUMBER)
            add_operand(c, number_arg(c->L, at));
        else
            read_userdata(c, at);
        lua_pop(c->L, 1);
    }
    while (c->narg && c->arg[c->narg - 1].kind == RILLE_ARG_NONE) c->narg--;
}

static int
op_update(lua_State *L)
{
    const struct rille_op *op = rille_op_find(luaL_checkstring(L, 1));
    struct call c;
    if (!op) complain(L, "unknown operator '%s' in this version of Rille", lua_tostring(L, 1));
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_settop(L, 3);
    call_begin(&c, L, op_describe(L, op, rille_op_name(op)));
    update_operands(&c, 2);
    if (lua_istable(L, 3)) read_names(&c, 3);
    at_line(L);
    check(L, rille_update(shell_of(L)->session, op, c.narg, c.arg, c.nattr, c.attr));
    return 0;
}

/* rille._update_to(p, value): records the update that assigns a value to a variable. */
static int
op_update_to(lua_State *L)
{
    struct rille_tensor *p = tensor_check(L, 1, "update"), *value = tensor_check(L, 2, "update");
    at_line(L);
    check(L, rille_update_to(p, value));
    return 0;
}

/* ---- the table ---- */

static const char operators; /* registry key: name -> struct lua_op */

/* Returns the struct lua_op of the operator that users call `name`. The struct lives as long as the Lua state. */
static const struct lua_op *
op_describe(lua_State *L, const struct rille_op *op, const char *name)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &operators);
    if (lua_getfield(L, -1, name) == LUA_TNIL) {
        struct lua_op *o = lua_newuserdatauv(L, sizeof *o, 0);
        memset(o, 0, sizeof *o);
        o->op = op;
        o->name = name;
        o->nresult = rille_op_results(op);
        int n = rille_op_operands(op, o->operand);
        while (o->noperand < n && !o->operand[o->noperand].hidden) o->noperand++;
        o->list = o->noperand && o->operand[o->noperand - 1].list;
        o->nattr = rille_op_attrs(op, o->attr);
        o->spread = o->nattr == 1 && o->attr[0].kind == RILLE_INTS;
        lua_setfield(L, -3, o->name);
        lua_pop(L, 1);
        lua_getfield(L, -1, name);
    }
    const struct lua_op *o = lua_touserdata(L, -1);
    lua_pop(L, 2);
    return o;
}

static void
push_named_function(lua_State *L, const char *op_name, const char *name, lua_CFunction function)
{
    const struct rille_op *op = rille_op_find(op_name);
    if (!op) {
        lua_pushnil(L);
        return;
    }
    lua_pushlightuserdata(L, (void *)op_describe(L, op, name));
    lua_pushcclosure(L, function, 1);
}

void
op_push(lua_State *L, const char *name)
{
    push_named_function(L, name, name, op_call);
}

void
op_push_as(lua_State *L, const char *op, const char *name)
{
    push_named_function(L, op, name, op_call);
}

void
op_push_unary(lua_State *L, const char *name)
{
    push_named_function(L, name, name, op_call_unary);
}

/* Adds an operator as a function of the module and as a method; with "_" appended, as an in-place method. Stack: the
 * table of methods at the top, the module below it. */
static void
add_operator(lua_State *L, const struct rille_op *op)
{
    op_push(L, rille_op_name(op));
    lua_pushvalue(L, -1);
    lua_setfield(L, -4, rille_op_name(op));
    lua_setfield(L, -2, rille_op_name(op));
    lua_pushlightuserdata(L, (void *)op_describe(L, op, rille_op_name(op)));
    const char *name = lua_pushfstring(L, "%s_", rille_op_name(op));
    lua_pushcclosure(L, op_inplace, 2);
    lua_setfield(L, -2, name);
}

/* Returns true if the module or a tensor already has a field of this name. Stack: like add_operator(). */
static bool
is_taken(lua_State *L, const char *name)
{
    int top = lua_gettop(L);
    lua_pushstring(L, name);
    bool taken = lua_rawget(L, top) != LUA_TNIL;
    lua_pushstring(L, name);
    taken = lua_rawget(L, top - 1) != LUA_TNIL || taken || module_exists(L, name);
    lua_settop(L, top);
    return taken;
}

/* Returns true if the operator has been added to the module. */
static bool
is_operator_added(lua_State *L, const struct rille_op *op)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &operators);
    bool added = lua_getfield(L, -1, rille_op_name(op)) != LUA_TNIL;
    lua_pop(L, 2);
    return added;
}

/* Adds the loaded operators to the module. Returns NULL, or the name of an operator that cannot be added because
 * its name is taken. Stack: the module at the top. */
static const char *
add_loaded(lua_State *L)
{
    const char *refused = NULL;
    const struct rille_op *op;
    int top = lua_gettop(L);
    kind_metatable(L, KIND_TENSOR);
    lua_pushvalue(L, top);
    lua_getfield(L, -2, "__methods");
    for (int i = 0; (op = rille_op_at(i)); i++) {
        if (!rille_op_library(op) || rille_op_hidden(op) || is_operator_added(L, op)) continue;
        if (is_taken(L, rille_op_name(op)))
            refused = rille_op_name(op);
        else
            add_operator(L, op);
    }
    lua_settop(L, top);
    return refused;
}

/* rille.load_operators(path): loads the operators of a shared library. Upvalue: the module. */
static int
load_operators(lua_State *L)
{
    const char *path = text_at(L, 1, "load_operators");
    at_line(L);
    check(L, rille_load_operators(shell_of(L)->session, path));
    lua_pushvalue(L, lua_upvalueindex(1));
    const char *refused = add_loaded(L);
    if (refused)
        complain(L, "load_operators: rille or a tensor has a function '%s' already; choose another name", refused);
    return 0;
}

void
op_open_loaded(lua_State *L)
{
    lua_pushvalue(L, -1);
    lua_pushcclosure(L, load_operators, 1);
    lua_setfield(L, -2, "load_operators");
    const char *refused = add_loaded(L);
    if (!refused) return;
    lua_warning(L, "RILLE_OPERATORS: rille or a tensor has a function '", 1);
    lua_warning(L, refused, 1);
    lua_warning(L, "' already; choose another name", 0);
}

/* Adds every public built-in operator, and operators of other modules. Stack: like add_operator(). */
void
op_open(lua_State *L)
{
    /* hidden operators that Rille's Lua code calls */
    static const char *const inner[] = {"square_sum",    "product_sum",   "rescale",   "shift",
                                        "expert_matmul", "expert_blocks", "recurrence"};
    const struct rille_op *op;
    lua_newtable(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &operators);
    for (int i = 0; (op = rille_op_at(i)) && !rille_op_library(op); i++)
        if (!rille_op_hidden(op) && !rille_op_source(op)) add_operator(L, op);
    lua_pushcfunction(L, op_update);
    lua_setfield(L, -3, "_update");
    lua_pushcfunction(L, op_update_to);
    lua_setfield(L, -3, "_update_to");
    for (size_t i = 0; i < sizeof inner / sizeof inner[0]; i++) {
        lua_pushfstring(L, "_%s", inner[i]);
        op_push(L, inner[i]);
        lua_settable(L, -4);
    }
}
