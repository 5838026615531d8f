/* lua_place.c - makes placements, and reads layouts as written in Lua.
 *
 * A placement in Lua is a userdata that points to the session's placement; equal placements are one userdata, found
 * in a table by address. Layouts have no object of their own: in Lua a layout is a string, or a table of strings
 * with an order. */
#include "shell/bind/tensor/lua_place.h"
#include "shell/bind/base/arity.h"
#include "shell/bind/base/field.h"
#include "shell/bind/base/lua_error.h"
#include "shell/bind/base/shell.h"
#include "shell/bind/tensor/lua_show.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RANKS = 1 << 20 };

static const char place_table; /* registry key of a table: address of the core's placement -> userdata */

void
place_push(lua_State *L, const struct rille_place *p)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &place_table);
    if (lua_rawgetp(L, -1, p) == LUA_TNIL) {
        lua_pop(L, 1);
        *(const struct rille_place **)kind_new(L, KIND_PLACE, sizeof p) = p;
        lua_pushvalue(L, -1);
        lua_rawsetp(L, -3, p);
    }
    lua_remove(L, -2);
}

static const struct rille_place *
place_test(lua_State *L, int i)
{
    const struct rille_place **p = kind_test(L, i, KIND_PLACE);
    return p ? *p : NULL;
}

/* ---- rille.placement ---- */

struct mesh {
    int naxis;
    int32_t size[RILLE_AXES];
    int32_t *rank; /* device numbers, in a userdata on the stack */
    int nrank, cap;
};

static void
mesh_add(lua_State *L, struct mesh *m, int i)
{
    int64_t rank;
    if (!whole_at(L, i, &rank) || rank < 0 || rank > INT32_MAX)
        complain(L, "placement: a rank must be a device number from 0 on, an integer, found %s", what_is(L, i));
    if (m->nrank == m->cap) complain(L, "placement: the mesh is ragged: all rows must have the same number of ranks");
    m->rank[m->nrank++] = (int32_t)rank;
}

/* Reads the ranks from nested tables. Raises unless all tables of one depth have equal length and only the deepest
 * tables hold ranks. */
static void
mesh_walk(lua_State *L, struct mesh *m, int i, int depth)
{
    if (depth == m->naxis) {
        mesh_add(L, m, i);
        return;
    }
    if (!lua_istable(L, i))
        complain(L, "placement: a level of the mesh must have only ranks or only tables, found both");
    if ((lua_Integer)lua_rawlen(L, i) != m->size[depth])
        complain(L, "placement: the mesh is ragged: rows of %d and of %d entries", (int)lua_rawlen(L, i),
                 m->size[depth]);
    check_list(L, i, "placement");
    for (int k = 1; k <= m->size[depth]; k++) {
        lua_rawgeti(L, i, k);
        mesh_walk(L, m, lua_gettop(L), depth + 1);
        lua_pop(L, 1);
    }
}

/* Infers the mesh sizes of nested tables from the first entry at each depth. */
static void
mesh_sizes(lua_State *L, struct mesh *m, int i)
{
    lua_pushvalue(L, i);
    int64_t total = 1;
    while (lua_istable(L, -1)) {
        lua_Unsigned n = lua_rawlen(L, -1);
        if (m->naxis == RILLE_AXES) complain(L, "placement: a mesh must have at most %d axes, found more", RILLE_AXES);
        if (n == 0) complain(L, "placement: the mesh must have at least 1 rank, found an empty table");
        total = n > MAX_RANKS ? MAX_RANKS + 1 : total * (int64_t)n;
        if (total > MAX_RANKS) complain(L, "placement: a mesh must have at most %d ranks, found more", MAX_RANKS);
        m->size[m->naxis++] = (int32_t)n;
        lua_rawgeti(L, -1, 1);
        lua_remove(L, -2);
    }
    lua_pop(L, 1);
    m->cap = (int)total;
}

/* rille.placement(kind, mesh): returns the placement of the devices of this kind whose numbers the nested table
 * `mesh` lists. */
static int
lua_place_new(lua_State *L)
{
    struct mesh m = {0};
    const struct rille_place *p;
    if (lua_type(L, 1) != LUA_TSTRING)
        complain(L, "placement: the first argument must be a device kind such as \"cpu\", found %s", what_is(L, 1));
    if (!strcmp(lua_tostring(L, 1), "late")) lua_warning(L, RENAMED_KIND, 0);
    if (!lua_istable(L, 2))
        complain(L, "placement: the second argument must be a table of ranks such as {0, 1}, found %s", what_is(L, 2));
    lua_settop(L, 2);
    luaL_checkstack(L, 2 * RILLE_AXES + 8, "placement");
    mesh_sizes(L, &m, 2);
    m.rank = lua_newuserdatauv(L, (size_t)m.cap * sizeof *m.rank, 0);
    mesh_walk(L, &m, 2, 0);
    at_line(L);
    check_as(L, "placement",
             rille_place(shell_of(L)->session, text_at(L, 1, "placement"), m.naxis, m.size, m.rank, &p));
    place_push(L, p);
    return 1;
}

/* ---- fields ---- */

static int
place_device(lua_State *L, const struct rille_place *p)
{
    lua_pushstring(L, rille_place_kind(p));
    return 1;
}

static int
place_ranks(lua_State *L, const struct rille_place *p)
{
    const int32_t *ranks;
    int n = rille_place_ranks(p, &ranks);
    lua_createtable(L, n, 0);
    for (int i = 0; i < n; i++) {
        lua_pushinteger(L, ranks[i]);
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

static int
place_shape(lua_State *L, const struct rille_place *p)
{
    int32_t sizes[RILLE_AXES];
    int n = rille_place_axes(p, sizes);
    lua_createtable(L, n, 0);
    for (int i = 0; i < n; i++) {
        lua_pushinteger(L, sizes[i]);
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

static int
place_size(lua_State *L, const struct rille_place *p)
{
    const int32_t *ranks;
    lua_pushinteger(L, rille_place_ranks(p, &ranks));
    return 1;
}

static const struct {
    const char *name;
    int (*push)(lua_State *L, const struct rille_place *p);
} fields[] = {{"device", place_device}, {"ranks", place_ranks}, {"shape", place_shape}, {"size", place_size}};

const struct rille_place *
place_check(lua_State *L, int i)
{
    const struct rille_place *p = place_test(L, i);
    if (!p) complain(L, "expected a placement, found %s", what_is(L, i));
    return p;
}

/* Implements P:show([path]). */
static int
place_show(lua_State *L)
{
    place_check(L, 1);
    return picture_call(L, "placement");
}

static int
place_index(lua_State *L)
{
    const struct rille_place *p = place_check(L, 1);
    const char *name = lua_type(L, 2) == LUA_TSTRING ? text_at(L, 2, "placement") : "?";
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (!strcmp(fields[i].name, name)) return fields[i].push(L, p);
    if (!strcmp(name, "show")) {
        lua_pushcfunction(L, place_show);
        arity_limit(L, "show", 2, 1);
        return 1;
    }
    return complain(L, "a placement has no field '%s'; it has device, ranks, shape, size, show", name);
}

static int
place_tostring(lua_State *L)
{
    char *text = rille_place_text(place_check(L, 1));
    lua_pushstring(L, text);
    free(text);
    return 1;
}

/* ---- layouts ---- */

static const struct rille_place *
default_place(lua_State *L)
{
    struct rille_session *s = shell_of(L)->session;
    const struct rille_place *p;
    at_line(L);
    check(L, rille_place(s, rille_default_kind(s), 1, (int32_t[]){1}, (int32_t[]){0}, &p));
    return p;
}

const struct rille_layout *
broadcast_layout(lua_State *L, const struct rille_place *p)
{
    const char *text[RILLE_AXES];
    int32_t sizes[RILLE_AXES];
    const struct rille_layout *layout;
    int n = rille_place_axes(p, sizes);
    for (int k = 0; k < n; k++) text[k] = "B";
    at_line(L);
    check(L, rille_layout(shell_of(L)->session, p, n, text, NULL, -1, &layout));
    return layout;
}

struct sbp {
    int n;
    const char *text[RILLE_AXES + 1]; /* strings owned by the table that is still on the stack */
    int order[RILLE_AXES];
    bool ordered;
};

static void
sbp_order(lua_State *L, const char *who, struct sbp *sbp)
{
    if (!lua_istable(L, -1)) complain(L, "%s: order must be a list of mesh axes, found %s", who, what_is(L, -1));
    if ((int)lua_rawlen(L, -1) != sbp->n)
        complain(L, "%s: order must list all mesh axes: expected %d, found %d", who, sbp->n, (int)lua_rawlen(L, -1));
    for (int k = 0; k < sbp->n; k++) {
        int64_t axis;
        lua_rawgeti(L, -1, k + 1);
        if (!whole_at(L, -1, &axis) || axis < 0 || axis >= sbp->n)
            complain(L, "%s: order must have mesh axes from 0 to %d, found %s", who, sbp->n - 1, what_is(L, -1));
        sbp->order[k] = (int)axis;
        lua_pop(L, 1);
    }
    sbp->ordered = true;
}

static void
sbp_table(lua_State *L, int i, const char *who, struct sbp *sbp)
{
    static const char *const keys[] = {"order", NULL};
    check_keys(L, i, who, keys);
    lua_Unsigned n = lua_rawlen(L, i);
    if (n == 0 || n > RILLE_AXES)
        complain(L, "%s: a table must have one entry for each mesh axis, found %d entries", who, (int)n);
    for (sbp->n = 0; sbp->n < (int)n; sbp->n++) {
        lua_rawgeti(L, i, sbp->n + 1);
        if (lua_type(L, -1) != LUA_TSTRING)
            complain(L, "%s: each entry must be a string such as \"S(0)\", found %s", who, what_is(L, -1));
        sbp->text[sbp->n] = text_at(L, -1, who);
        lua_pop(L, 1);
    }
    if (lua_getfield(L, i, "order") != LUA_TNIL) sbp_order(L, who, sbp);
    lua_pop(L, 1);
}

static void
sbp_read(lua_State *L, int i, const char *who, struct sbp *sbp)
{
    if (lua_type(L, i) == LUA_TSTRING) {
        sbp->n = 1;
        sbp->text[0] = text_at(L, i, who);
    } else if (lua_istable(L, i)) {
        sbp_table(L, i, who, sbp);
        for (int k = 0; k < sbp->n; k++)
            if (!strcmp(sbp->text[k], "auto"))
                complain(L, "%s: \"auto\" stands for all mesh axes and must not be an entry of a list", who);
    } else
        complain(L, "%s: expected a string such as \"S(0)\", or a table with one string for each mesh axis, found %s",
                 who, what_is(L, i));
}

/* Raises an error for an sbp table of one entry on a mesh of several axes. */
static void
check_entries(lua_State *L, int i, const char *who, const struct rille_place *p, const struct sbp *sbp)
{
    int32_t sizes[RILLE_AXES];
    int n = rille_place_axes(p, sizes);
    if (lua_istable(L, i) && sbp->n == 1 && n > 1)
        complain(L, "%s: expected one entry per mesh axis, %d, found 1; \"B\" without a table is B on all axes", who,
                 n);
}

/* Fills in the default sbp: the sbp of the tensor, or B on every mesh axis. */
static void
sbp_default(lua_State *L, const struct rille_place *p, const struct rille_layout *like, struct sbp *sbp)
{
    int32_t sizes[RILLE_AXES];
    sbp->n = like ? 1 : rille_place_axes(p, sizes);
    for (int k = 0; k < sbp->n; k++) sbp->text[k] = like ? rille_layout_text(shell_of(L)->session, like) : "B";
}

bool
layout_auto(lua_State *L, int i)
{
    if (!lua_istable(L, i)) return false;
    bool is = lua_getfield(L, i, "sbp") == LUA_TSTRING && !strcmp(lua_tostring(L, -1), "auto");
    lua_pop(L, 1);
    return is;
}

const struct rille_layout *
layout_read(lua_State *L, int i, const char *who, int ndim, const struct rille_layout *like)
{
    const struct rille_place *p = NULL;
    const struct rille_layout *layout;
    struct sbp sbp = {0};
    int top = lua_gettop(L);
    i = lua_absindex(L, i);
    bool planned = layout_auto(L, i);
    int placed = lua_getfield(L, i, "placement"), said = lua_getfield(L, i, "sbp");
    if (placed == LUA_TNIL && said == LUA_TNIL) {
        lua_settop(L, top);
        return NULL;
    }
    if (placed != LUA_TNIL && !(p = place_test(L, -2)))
        complain(L, "%s: placement must be a rille.placement, found %s", who, what_is(L, -2));
    if (!p) p = like ? rille_layout_place(like) : default_place(L);
    const char *of = lua_pushfstring(L, "%s: sbp", who);
    if (planned)
        sbp_default(L, p, NULL, &sbp);
    else if (said == LUA_TNIL)
        sbp_default(L, p, like, &sbp);
    else
        sbp_read(L, top + 2, of, &sbp);
    check_entries(L, top + 2, of, p, &sbp);
    at_line(L);
    check_as(L, of,
             rille_layout(shell_of(L)->session, p, sbp.n, sbp.text, sbp.ordered ? sbp.order : NULL, ndim, &layout));
    lua_settop(L, top);
    return layout;
}

/* ---- rille.sbp ---- */

static int
sbp_split(lua_State *L)
{
    int64_t axis, unit = 1;
    static const char *const keys[] = {"unit", NULL};
    if (!whole_at(L, 1, &axis)) complain(L, "sbp.split: the axis must be an integer, found %s", what_is(L, 1));
    if (!lua_isnoneornil(L, 2)) {
        if (!lua_istable(L, 2)) complain(L, "sbp.split: options must be a table, {unit = 64}, found %s", what_is(L, 2));
        check_keys(L, 2, "sbp.split", keys);
        if (lua_getfield(L, 2, "unit") != LUA_TNIL && (!whole_at(L, -1, &unit) || unit < 1))
            complain(L, "sbp.split: unit must be a positive integer, found %s", what_is(L, -1));
    }
    lua_pushfstring(L, unit > 1 ? "S(%I, unit %I)" : "S(%I)", axis, unit);
    return 1;
}

static int
sbp_partial(lua_State *L)
{
    static const char *const kinds[][2] = {{"sum", "P"}, {"max", "P(max)"}, {"min", "P(min)"}};
    const char *kind = lua_isnoneornil(L, 1) ? "sum" : lua_tostring(L, 1);
    for (int k = 0; kind && k < 3; k++)
        if (!strcmp(kinds[k][0], kind)) {
            lua_pushstring(L, kinds[k][1]);
            return 1;
        }
    return complain(L, "sbp.partial: expected \"sum\", \"max\" or \"min\", found %s", what_is(L, 1));
}

/* Raises an error for an unknown name, because nil would be accepted as broadcast. */
static int
sbp_unknown(lua_State *L)
{
    return complain(L, "rille.sbp has no '%s'; it has: broadcast, partial, partial_sum, split",
                    lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : what_is(L, 2));
}

/* rille._stages{placement, ...}: sets the placements of all pipeline stages, in order. */
static int
place_stages(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    int n = (int)lua_rawlen(L, 1);
    const struct rille_place **place = lua_newuserdatauv(L, sizeof *place * (size_t)(n + 1), 0);
    for (int k = 0; k < n; k++, lua_pop(L, 1)) {
        lua_rawgeti(L, 1, k + 1);
        place[k] = place_check(L, -1);
    }
    check(L, rille_stages(shell_of(L)->session, n, place));
    return 0;
}

/* rille._stage(placement): assigns the calls that follow to the stage on this placement; nil: to no stage. */
static int
place_stage(lua_State *L)
{
    check(L, rille_stage(shell_of(L)->session, lua_isnoneornil(L, 1) ? NULL : place_check(L, 1)));
    return 0;
}

void
place_open(lua_State *L)
{
    static const luaL_Reg meta[] = {{"__index", place_index}, {"__tostring", place_tostring}, {NULL, NULL}};
    static const luaL_Reg sbp[] = {{"split", sbp_split}, {"partial", sbp_partial}, {NULL, NULL}};
    kind_make(L, KIND_PLACE, "rille.placement", meta);
    lua_pop(L, 1);
    lua_newtable(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &place_table);

    field_function(L, "placement", lua_place_new);
    field_function(L, "_stages", place_stages);
    field_function(L, "_stage", place_stage);
    luaL_newlib(L, sbp);
    field_text(L, "broadcast", "B");
    field_text(L, "partial_sum", "P");
    lua_createtable(L, 0, 1);
    field_function(L, "__index", sbp_unknown);
    lua_setmetatable(L, -2);
    lua_setfield(L, -2, "sbp");
}
