/* lua_index.c - reads and assigns parts of a tensor: x[i], x[{i, {a, b}, {}}], assignment to them, pairs(x), split and
 * chunk. lua/base/index.lua does the rest: masks, index tensors, lists, "...", new axes, and negative steps.
 *
 * A read consists of slices, and a squeeze for each position, so reads are differentiable and independent of the
 * layout. No operator writes into part of a tensor. An assignment computes the whole new value, where(inside, v
 * expanded, x), and assigns it to x. The method is correct in every layout and in a compiled step; the cost is one
 * pass over x. */
#include "shell/bind/tensor/lua_index.h"
#include "shell/bind/base/field.h"
#include "shell/bind/base/lua_error.h"
#include "shell/bind/base/shell.h"
#include "shell/bind/base/value.h"
#include "shell/bind/tensor/lua_op.h"
#include "shell/bind/tensor/lua_place.h"
#include "shell/bind/tensor/lua_show.h"
#include "shell/bind/tensor/lua_tensor.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Raises an error that ends with a description of the tensor, which is argument 1 of all functions here. */
static int __attribute__((format(printf, 2, 3))) index_error(lua_State *L, const char *fmt, ...)
{
    char what[600];
    luaL_Buffer b;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    luaL_buffinit(L, &b);
    tensor_describe(L, &b, "x", tensor_check(L, 1, "index"));
    luaL_pushresult(&b);
    return complain(L, "%s; %s", what, lua_tostring(L, -1));
}

struct pick { /* positions selected on one axis: start, start + step, ... before stop */
    int64_t start, stop, step;
    bool whole; /* the selection is the entire axis, in order */
    bool drop;  /* the key is a position, which removes the axis */
};

static int64_t
pick_count(const struct pick *p)
{
    return p->stop <= p->start ? 0 : (p->stop - p->start - 1) / p->step + 1;
}

static void
pick_position(lua_State *L, int i, int axis, int64_t size, struct pick *p)
{
    int64_t at;
    if (!whole_at(L, i, &at)) index_error(L, "index: a position must be an integer, found %s", what_is(L, i));
    int64_t from_start = at < 0 ? at + size : at;
    if (from_start < 0 || from_start >= size)
        index_error(L, "index: position %lld is out of range: axis %d has %lld entries, and positions count from 0",
                    (long long)at, axis, (long long)size);
    *p = (struct pick){from_start, from_start + 1, 1, false, true};
}

static int64_t
clip(int64_t at, int64_t size)
{
    if (at < 0) at += size;
    return at < 0 ? 0 : at > size ? size : at;
}

/* Reads a range of positions: {}, {a}, {a, b}, {a, b, step}. */
static void
pick_range(lua_State *L, int i, int axis, int64_t size, struct pick *p)
{
    int64_t v[3] = {0, size, 1};
    int n = (int)lua_rawlen(L, i);
    if (n > 3) index_error(L, "index: a range must be {start, stop, step}, found %d entries for axis %d", n, axis);
    for (int k = 0; k < n; k++, lua_pop(L, 1)) {
        lua_rawgeti(L, i, k + 1);
        if (!whole_at(L, -1, &v[k]))
            index_error(L, "index: a range must be integers {start, stop, step}, found %s", what_is(L, -1));
    }
    if (v[2] == 0) index_error(L, "index: the step of a range must not be 0");
    *p = (struct pick){clip(v[0], size), clip(v[1], size), v[2], false, false};
    p->whole = p->start == 0 && p->stop == size && p->step == 1;
}

static void
pick_read(lua_State *L, int i, int axis, int64_t size, struct pick *p)
{
    if (lua_type(L, i) == LUA_TNUMBER)
        pick_position(L, i, axis, size, p);
    else if (lua_istable(L, i))
        pick_range(L, i, axis, size, p);
    else
        index_error(L, "index: expected a position or a range such as {0, 2} for axis %d, found %s", axis,
                    what_is(L, i));
}

/* Reads the key at i into one struct pick for each axis. */
static void
picks_read(lua_State *L, int i, struct rille_tensor *t, struct pick *picks)
{
    const int64_t *shape = rille_tensor_shape(t);
    int ndim = rille_tensor_ndim(t), n = lua_istable(L, i) ? (int)lua_rawlen(L, i) : 1;
    if (n > ndim)
        index_error(
            L, "index: expected at most %d position%s, one per dimension, found %d; a list of positions is {{2, 0, 1}}",
            ndim, ndim == 1 ? "" : "s", n);
    for (int axis = 0; axis < ndim; axis++) picks[axis] = (struct pick){0, shape[axis], 1, true, false};
    if (!lua_istable(L, i)) {
        pick_read(L, i, 0, shape[0], &picks[0]);
        return;
    }
    for (int axis = 0; axis < n; axis++, lua_pop(L, 1)) {
        lua_rawgeti(L, i, axis + 1);
        pick_read(L, lua_gettop(L), axis, shape[axis], &picks[axis]);
    }
}

static struct rille_arg
index_arg(struct rille_tensor *t)
{
    return (struct rille_arg){.kind = RILLE_ARG_TENSOR, .tensor = t};
}

static struct rille_attr
int_attr(const char *name, int64_t i)
{
    return (struct rille_attr){.name = name, .kind = RILLE_INT, .i = i};
}

/* Replaces the tensor at the top of the stack with the result of an operator on it. */
static struct rille_tensor *
apply_top(lua_State *L, const char *name, int nattr, const struct rille_attr *attrs)
{
    struct rille_arg arg = index_arg(tensor_test(L, -1));
    struct rille_tensor *t = op_apply(L, name, 1, &arg, nattr, attrs);
    lua_remove(L, -2);
    return t;
}

static void
slice_top(lua_State *L, int axis, int64_t start, int64_t stop, int64_t step)
{
    struct rille_attr attrs[] = {int_attr("axis", axis), int_attr("start", start), int_attr("stop", stop),
                                 int_attr("step", step)};
    apply_top(L, "slice", step == 1 ? 3 : 4, attrs);
}

static void
squeeze_top(lua_State *L, int axis)
{
    int64_t list = axis;
    struct rille_attr attr = {.name = "axis", .kind = RILLE_INTS, .n = 1, .list = &list};
    apply_top(L, "squeeze", 1, &attr);
}

/* ---- keys that lua/base/index.lua reads ---- */

/* Returns true if the table at i is a list without holes and without other keys. */
static bool
is_list(lua_State *L, int i)
{
    lua_Unsigned n = 0;
    lua_pushnil(L);
    for (; lua_next(L, i); lua_pop(L, 1)) n++;
    return n == lua_rawlen(L, i);
}

/* Returns true if entry k of the key at i needs lua/base/index.lua: a range with a hole or a negative step, a list of
 * positions, a tensor or a text. */
static bool
is_rich_entry(lua_State *L, int i, int k)
{
    int top = lua_gettop(L), type = lua_rawgeti(L, i, k);
    bool rich = type == LUA_TSTRING || tensor_test(L, -1);
    if (type == LUA_TTABLE) {
        int64_t step = 1;
        rich = !is_list(L, top + 1) || lua_rawgeti(L, top + 1, 1) == LUA_TTABLE;
        lua_rawgeti(L, top + 1, 3);
        rich = rich || (whole_at(L, -1, &step) && step < 0);
    }
    lua_settop(L, top);
    return rich;
}

/* If the key (argument 2) needs lua/base/index.lua, calls the function `name` of that file with all arguments and
 * returns true. */
static bool
index_by_module(lua_State *L, const char *name, int nresult)
{
    bool table = lua_istable(L, 2), rich = tensor_test(L, 2) || (table && !is_list(L, 2));
    for (int k = 1; !rich && table && k <= (int)lua_rawlen(L, 2); k++) rich = is_rich_entry(L, 2, k);
    if (!rich) return false;
    int n = lua_gettop(L);
    look_push(L, "rille.base.index", name);
    lua_insert(L, 1);
    lua_call(L, n, nresult);
    return true;
}

int
index_get(lua_State *L)
{
    struct rille_tensor *t = tensor_check(L, 1, "index");
    struct pick picks[RILLE_DIMS];
    if (index_by_module(L, "get", 1)) return 1;
    if (lua_type(L, 2) != LUA_TNUMBER && !lua_istable(L, 2))
        return index_error(L, "index: expected a position, a table of ranges or a name, found %s", what_is(L, 2));
    picks_read(L, 2, t, picks);
    int ndim = rille_tensor_ndim(t);
    lua_pushvalue(L, 1);
    for (int axis = 0; axis < ndim; axis++)
        if (!picks[axis].whole) slice_top(L, axis, picks[axis].start, picks[axis].stop, picks[axis].step);
    for (int axis = ndim - 1; axis >= 0; axis--)
        if (picks[axis].drop) squeeze_top(L, axis);
    return 1;
}

/* ---- assigning ---- */

/* Pushes a tensor made from host values, with layout B (broadcast) on x's placement. */
static struct rille_tensor *
push_broadcast(lua_State *L, struct rille_tensor *x, const char *dtype, int ndim, const int64_t *shape,
               const void *data)
{
    const struct rille_layout *broadcast = broadcast_layout(L, rille_layout_place(rille_tensor_layout(x)));
    struct rille_tensor **slot = tensor_slot(L);
    at_line(L);
    check(L, rille_tensor_from_host(shell_of(L)->session, dtype, ndim, shape, data, broadcast, slot));
    return *slot;
}

/* Pushes the value v as a tensor with x's dtype on x's placement. */
static void
push_source(lua_State *L, struct rille_tensor *x, int i)
{
    const char *dtype = rille_tensor_dtype(x);
    char value[8];
    struct rille_tensor *v = tensor_test(L, i);
    if (!v) {
        bool boolean = lua_isboolean(L, i);
        if (!boolean && lua_type(L, i) != LUA_TNUMBER)
            index_error(L, "index: expected a tensor or a number to assign, found %s", what_is(L, i));
        if (value_kind(dtype)->store(value, boolean || lua_isinteger(L, i),
                                     boolean ? lua_toboolean(L, i) : lua_tointeger(L, i), lua_tonumber(L, i)))
            index_error(L, "index: %s does not fit in %s", number_text(L, i), dtype);
        push_broadcast(L, x, dtype, 0, NULL, value);
        return;
    }
    lua_pushvalue(L, i);
    const struct rille_place *home = rille_layout_place(rille_tensor_layout(x));
    if (rille_layout_place(rille_tensor_layout(v)) != home) {
        const struct rille_layout *broadcast = broadcast_layout(L, home);
        struct rille_tensor **slot = tensor_slot(L);
        at_line(L);
        check(L, rille_tensor_to_global(v, broadcast, slot));
        lua_remove(L, -2);
    }
    if (strcmp(rille_tensor_dtype(v), dtype)) {
        struct rille_attr attr = {.name = "dtype", .kind = RILLE_DTYPE, .text = dtype};
        apply_top(L, "cast", 1, &attr);
    }
}

/* Reshapes v, at the top of the stack, to x's number of dimensions: the size is 1 for axes that the key indexes by
 * a position, and for axes that v lacks. */
static void
align_top(lua_State *L, int ndim, const struct pick *picks)
{
    struct rille_tensor *v = tensor_test(L, -1);
    int64_t shape[RILLE_DIMS];
    int from = rille_tensor_ndim(v) - 1;
    for (int axis = ndim - 1; axis >= 0; axis--) {
        bool has = !picks[axis].drop && from >= 0;
        shape[axis] = has ? rille_tensor_shape(v)[from--] : 1;
        if (shape[axis] != 1 && shape[axis] != pick_count(&picks[axis]))
            index_error(L, "index: %lld entries cannot be assigned to %lld of axis %d", (long long)shape[axis],
                        (long long)pick_count(&picks[axis]), axis);
    }
    const int most = rille_tensor_ndim(v) - from - 1;
    while (from >= 0 && rille_tensor_shape(v)[from] == 1) from--;
    if (from >= 0)
        index_error(L, "index: the assigned value must have at most the %d dimensions of the indexed part, found %d",
                    most, rille_tensor_ndim(v));
    if (rille_tensor_ndim(v) == ndim && !memcmp(shape, rille_tensor_shape(v), (size_t)ndim * sizeof *shape)) return;
    struct rille_attr attr = {.name = "shape", .kind = RILLE_INTS, .n = ndim, .list = shape};
    apply_top(L, "reshape", 1, &attr);
}

/* Expands v along an axis to x's size. Entry j is the value to assign at position j; if nothing is assigned there,
 * entry j is arbitrary. */
static void
spread_top(lua_State *L, struct rille_tensor *x, int axis, const struct pick *p)
{
    int64_t size = rille_tensor_shape(x)[axis], count = pick_count(p);
    if (p->whole || rille_tensor_shape(tensor_test(L, -1))[axis] == 1) return;
    int64_t *ids = scratch_new(L, "index", (size_t)size * sizeof *ids);
    for (int64_t j = 0; j < size; j++) {
        int64_t k = j < p->start ? 0 : (j - p->start) / p->step;
        ids[j] = k < count ? k : count - 1;
    }
    struct rille_tensor *at = push_broadcast(L, x, "i64", 1, &size, ids);
    struct rille_arg args[] = {index_arg(tensor_test(L, -3)), index_arg(at)};
    struct rille_attr attr = int_attr("axis", axis);
    op_apply(L, "index_select", 2, args, 1, &attr);
    lua_replace(L, -4);
    lua_pop(L, 2);
}

/* Pushes a mask of the assigned entries of one axis, shaped to broadcast over x. */
static struct rille_tensor *
push_mask(lua_State *L, struct rille_tensor *x, int axis, const struct pick *p)
{
    int ndim = rille_tensor_ndim(x);
    int64_t shape[RILLE_DIMS], size = rille_tensor_shape(x)[axis];
    for (int d = 0; d < ndim; d++) shape[d] = d == axis ? size : 1;
    char *mask = scratch_new(L, "index", (size_t)size);
    for (int64_t j = 0; j < size; j++) mask[j] = j >= p->start && j < p->stop && (j - p->start) % p->step == 0;
    push_broadcast(L, x, "bool", ndim, shape, mask);
    lua_remove(L, -2);
    return tensor_test(L, -1);
}

/* Replaces v at the top of the stack with where(inside, v, x). */
static void
merge_top(lua_State *L, struct rille_tensor *x, const struct pick *picks)
{
    int v = lua_gettop(L), masks = 0;
    for (int axis = 0; axis < rille_tensor_ndim(x); axis++) {
        if (picks[axis].whole) continue;
        struct rille_tensor *mask = push_mask(L, x, axis, &picks[axis]);
        if (!masks++) continue;
        struct rille_arg both[] = {index_arg(tensor_test(L, -2)), index_arg(mask)};
        op_apply(L, "logical_and", 2, both, 0, NULL);
        lua_replace(L, -3);
        lua_pop(L, 1);
    }
    if (!masks) return;
    struct rille_arg args[] = {index_arg(tensor_test(L, -1)), index_arg(tensor_test(L, v)), index_arg(x)};
    op_apply(L, "where", 3, args, 0, NULL);
    lua_replace(L, v);
    lua_settop(L, v);
}

static int
index_assign_part(lua_State *L)
{
    struct rille_tensor *x = tensor_check(L, 1, "index");
    struct pick picks[RILLE_DIMS];
    luaL_checkstack(L, 20, "index");
    if (index_by_module(L, "assign", 0)) return 0;
    if (lua_type(L, 2) != LUA_TNUMBER && !lua_istable(L, 2))
        return index_error(L, "index: expected a position or a table of ranges, found %s", what_is(L, 2));
    picks_read(L, 2, x, picks);
    int ndim = rille_tensor_ndim(x);
    push_source(L, x, 3);
    align_top(L, ndim, picks);
    for (int axis = 0; axis < ndim; axis++)
        if (pick_count(&picks[axis]) == 0) return 0;
    for (int axis = 0; axis < ndim; axis++) spread_top(L, x, axis, &picks[axis]);
    merge_top(L, x, picks);
    at_line(L);
    check_as(L, "index", rille_tensor_assign(x, tensor_test(L, -1)));
    return 0;
}

/* Returns argument 1, the tensor that is assigned to. */
static struct rille_tensor *
check_variable(lua_State *L)
{
    struct rille_tensor *x = tensor_check(L, 1, "index");
    if (!rille_tensor_is_variable(x))
        index_error(L, "index: cannot assign to the result of an operator, or to an argument of a step; assign to a "
                       "copy, y = x:clone(); for x[0][1] = v, write x[{0, 1}] = v");
    return x;
}

/* Calls a function that assigns `value` to parts of x. The function and its n arguments are at the top of the stack.
 * Gradients are recorded unless x is a leaf that requires a gradient. */
static int
assign_recorded(lua_State *L, int n, struct rille_tensor *x, struct rille_tensor *value)
{
    struct rille_session *s = shell_of(L)->session;
    bool wants = rille_tensor_is_leaf(x) && rille_tensor_requires_grad(x), mode = rille_grad_mode(s, false);
    rille_grad_mode(s, mode);
    if (mode && wants && value && rille_tensor_requires_grad(value))
        complain(L, "index: the variable requires a gradient itself, so the gradient of the assigned value cannot be "
                    "recorded; assign v:detach(), assign in rille.no_grad(fn), or join the parts with concat, stack "
                    "or where");
    rille_grad_mode(s, mode && !wants);
    int code = lua_pcall(L, n, 0, 0);
    rille_grad_mode(s, mode);
    return code ? lua_error(L) : 0;
}

/* Implements x[key] = v. */
int
index_set(lua_State *L)
{
    struct rille_tensor *x = check_variable(L);
    lua_settop(L, 3);
    lua_pushcfunction(L, index_assign_part);
    lua_insert(L, 1);
    return assign_recorded(L, 3, x, tensor_test(L, 4));
}

/* rille._assign(x, key, v, accumulate): implements index_put_. */
static int
index_assign(lua_State *L)
{
    struct rille_tensor *x = check_variable(L);
    lua_settop(L, 4);
    look_push(L, "rille.base.index", "assign");
    lua_insert(L, 1);
    return assign_recorded(L, 4, x, tensor_test(L, 4));
}

/* ---- pairs ---- */

static int
next_index_row(lua_State *L)
{
    struct rille_tensor *t = tensor_check(L, 1, "pairs");
    lua_Integer row = lua_isnil(L, 2) ? 0 : lua_tointeger(L, 2) + 1;
    if (row >= rille_tensor_shape(t)[0]) return 0;
    lua_settop(L, 1);
    lua_pushinteger(L, row);
    index_get(L);
    lua_pushinteger(L, row);
    lua_insert(L, -2);
    return 2;
}

int
index_pairs(lua_State *L)
{
    struct rille_tensor *t = tensor_check(L, 1, "pairs");
    if (rille_tensor_ndim(t) == 0) return index_error(L, "pairs: a tensor without dimensions has no rows");
    lua_pushcfunction(L, next_index_row);
    lua_pushvalue(L, 1);
    lua_pushnil(L);
    return 3;
}

/* ---- split, chunk ---- */

/* Reads the axis: argument 3, or a field of an options table at 3 or 4; default 0. Also pushes the table's field
 * strategy, or nil, so that the value is at index STRATEGY. */
enum { STRATEGY = 4 };
static int
axis_read(lua_State *L, struct rille_tensor *t, const char *who)
{
    static const char *const keys[] = {"axis", "strategy", NULL};
    int ndim = rille_tensor_ndim(t), options = lua_istable(L, 3) ? 3 : lua_istable(L, STRATEGY) ? STRATEGY : 0;
    int64_t axis = 0;
    lua_settop(L, STRATEGY);
    if (options) {
        check_keys(L, options, who, keys);
        lua_getfield(L, options, "strategy");
        lua_getfield(L, options, "axis");
        if (options == STRATEGY && !lua_isnil(L, 3) && !lua_isnil(L, -1))
            index_error(L, "%s: axis is given twice", who);
        if (options == 3 || !lua_isnil(L, -1)) lua_copy(L, -1, 3);
        lua_copy(L, -2, STRATEGY);
        lua_settop(L, STRATEGY);
    } else {
        lua_pushnil(L);
        lua_replace(L, STRATEGY);
    }
    if (!lua_isnil(L, 3) && !whole_at(L, 3, &axis))
        index_error(L, "%s: axis must be an integer, found %s", who, what_is(L, 3));
    if (axis < -ndim || axis >= ndim)
        index_error(L, "%s: axis must be from %d to %d, found %lld", who, -ndim, ndim - 1, (long long)axis);
    return (int)(axis < 0 ? axis + ndim : axis);
}

static int64_t
count_read(lua_State *L, int i, const char *who, const char *what, int64_t least)
{
    int64_t n;
    if (!whole_at(L, i, &n) || n < least)
        index_error(L, "%s: %s must be an integer of at least %d, found %s", who, what, (int)least, what_is(L, i));
    return n;
}

/* Appends one piece of the split to the list at the top of the stack. */
static void
add_index_piece(lua_State *L, const char *who, int axis, int64_t start, int64_t stop, int k)
{
    const char *why = lua_isnil(L, STRATEGY) ? NULL : op_strategy(L, STRATEGY);
    if (why) index_error(L, "%s: %s", who, why);
    lua_pushvalue(L, 1);
    slice_top(L, axis, start, stop, 1);
    lua_rawseti(L, -2, k);
}

enum { MOST_PIECES = 1 << 20 };

static int
split_even(lua_State *L, const char *who, int axis, int64_t total, int64_t piece)
{
    int k = 0;
    lua_newtable(L);
    piece = piece < total ? piece : total;
    if (piece && total / piece > MOST_PIECES)
        return index_error(L, "split: axis %d has %lld entries, more than %d chunks of %lld", axis, (long long)total,
                           MOST_PIECES, (long long)piece);
    for (int64_t start = 0; start < total || k == 0; start += piece)
        add_index_piece(L, who, axis, start, piece < total - start ? start + piece : total, ++k);
    return 1;
}

/* Implements x:split(size, axis) and x:split({sizes}, axis). */
static int
tensor_split(lua_State *L)
{
    struct rille_tensor *t = tensor_check(L, 1, "split");
    int axis = axis_read(L, t, "split");
    int64_t total = rille_tensor_shape(t)[axis], start = 0, sum = 0;
    if (!lua_istable(L, 2))
        return split_even(L, "split", axis, total, count_read(L, 2, "split", "the size of a chunk", 1));
    int n = (int)lua_rawlen(L, 2);
    for (int k = 1; k <= n; k++, lua_pop(L, 1)) {
        lua_rawgeti(L, 2, k);
        int64_t size = count_read(L, lua_gettop(L), "split", "a size", 0);
        sum = size > INT64_MAX - sum ? INT64_MAX : sum + size;
    }
    if (sum != total)
        return index_error(L, "split: the sizes add up to %lld, but axis %d has %lld entries", (long long)sum, axis,
                           (long long)total);
    lua_newtable(L);
    for (int k = 1; k <= n; k++) {
        lua_rawgeti(L, 2, k);
        int64_t size = lua_tointeger(L, -1);
        lua_pop(L, 1);
        add_index_piece(L, "split", axis, start, start + size, k);
        start += size;
    }
    return 1;
}

/* Implements x:chunk(n, axis): returns at most n pieces of equal size, the last one possibly smaller. An empty
 * axis yields n pieces, as in PyTorch. */
static int
tensor_chunk(lua_State *L)
{
    struct rille_tensor *t = tensor_check(L, 1, "chunk");
    int axis = axis_read(L, t, "chunk");
    int64_t total = rille_tensor_shape(t)[axis], n = count_read(L, 2, "chunk", "the number of chunks", 1);
    if (total) return split_even(L, "chunk", axis, total, (total - 1) / n + 1);
    if (n > MOST_PIECES)
        return index_error(L, "chunk: %lld chunks are more than the limit of %d", (long long)n, MOST_PIECES);
    lua_newtable(L);
    for (int k = 1; k <= n; k++) add_index_piece(L, "chunk", axis, 0, 0, k);
    return 1;
}

/* rille._counts(t): returns the dimension along which the values of t are 0, 1, 2, ..., as made by arange; nil:
 * none is known. */
static int
tensor_counts(lua_State *L)
{
    int axis = rille_tensor_counts(tensor_check(L, 1, "index"));
    if (axis < 0) return 0;
    lua_pushinteger(L, axis);
    return 1;
}

/* Adds the methods to the table at the top of the stack, the functions to the module below it, and rille.newaxis
 * to the module. */
void
index_open(lua_State *L)
{
    lua_pushcfunction(L, index_assign);
    lua_setfield(L, -3, "_assign");
    lua_pushcfunction(L, tensor_counts);
    lua_setfield(L, -3, "_counts");
    static const luaL_Reg functions[] = {{"split", tensor_split}, {"chunk", tensor_chunk}, {NULL, NULL}};
    static const char *const methods[] = {"index_put_", "nonzero", "masked_select", "masked_fill", "masked_fill_"};
    lua_pushvalue(L, -2);
    for (int to = -2; to < 0; to++) { /* adds the functions to the table of methods, then to the module */
        lua_pushvalue(L, to);
        luaL_setfuncs(L, functions, 0);
        for (size_t k = 0; k < sizeof methods / sizeof *methods; k++) {
            look_push(L, "rille.base.index", methods[k]);
            lua_setfield(L, -2, methods[k]);
        }
        lua_pop(L, 1);
    }
    field_text(L, "newaxis", "newaxis");
    lua_pop(L, 1);
}
