/* lua_show.c - draws pictures: x:show() draws a tensor's layout, rille.boxing{...}:show() a move.
 *
 * Without a path the picture is text on the terminal, coloured if --color allows; with a path it is an SVG file. */
#include "shell/bind/tensor/lua_show.h"
#include "shell/bind/base/field.h"
#include "shell/bind/base/fold.h"
#include "shell/bind/base/lua_error.h"
#include "shell/bind/base/shell.h"
#include "shell/bind/tensor/lua_create.h"
#include "shell/bind/tensor/lua_tensor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { NOTEBOOK = 100 }; /* width of a text picture in a notebook, in columns */

/* Returns the file name at index i; NULL: no file, so the picture is printed. */
static const char *
svg_path(lua_State *L, int i)
{
    if (lua_isnoneornil(L, i)) return NULL;
    const char *path = lua_type(L, i) == LUA_TSTRING ? text_at(L, i, "show") : NULL;
    const char *end = path ? strrchr(path, '.') : NULL;
    if (!end || strcmp(end, ".svg")) complain(L, "show: expected the name of an .svg file, found %s", what_is(L, i));
    return path;
}

/* Prints the picture, or writes it to the file. */
static int
write_picture(lua_State *L, const char *path, const char *text)
{
    if (path) {
        check(L, rille_text_write("show", path, text, strlen(text)));
    } else if (fputs(text, stdout) == EOF || fflush(stdout)) {
        complain(L, "show: stdout cannot be written: %s", strerror(errno));
    }
    return 0;
}

/* Prints a picture that the core allocated, or writes it to the file; frees the picture. */
static int
put_file(lua_State *L, const char *path, char *text)
{
    lua_pushstring(L, text);
    free(text);
    return write_picture(L, path, lua_tostring(L, -1));
}

/* Displays the SVG in the notebook, with the terminal's text as fallback; frees both. */
static int
show_display(lua_State *L, char *svg, char *plain)
{
    shell_of(L)->display("image/svg+xml", svg, plain);
    free(svg);
    free(plain);
    return 0;
}

/* x:show([path]): draws how the tensor is distributed over its mesh. */
static int
tensor_show(lua_State *L)
{
    struct rille_tensor *t = tensor_check(L, 1, "show");
    const char *path = svg_path(L, 2);
    char *text, *svg;
    if (!path && shell_of(L)->display) {
        check(L, rille_tensor_show_svg(t, &svg));
        if (!rille_tensor_show(t, NOTEBOOK, false, &text)) return show_display(L, svg, text);
        free(svg);
        return raise_core(L, "show");
    }
    check(L, path ? rille_tensor_show_svg(t, &text) : rille_tensor_show(t, print_columns(), shell_of(L)->color, &text));
    return put_file(L, path, text);
}

/* Returns the source or destination layout of the move whose record is at stack index 1. */
static const struct rille_layout *
show_layout(lua_State *L, const char *sbp_key, const char *place_key, int ndim)
{
    const struct rille_layout *l;
    lua_getfield(L, 1, place_key);
    const struct rille_place **place = kind_test(L, -1, KIND_PLACE);
    const char *sbp = lua_getfield(L, 1, sbp_key) == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
    if (!place || !sbp)
        complain(L, "show: expected the record of rille.boxing; this one has no %s or %s", place_key, sbp_key);
    check(L, rille_layout(shell_of(L)->session, *place, 1, &sbp, NULL, ndim, &l));
    lua_pop(L, 2);
    return l;
}

int
boxing_show(lua_State *L)
{
    struct shell *sh = shell_of(L);
    int64_t shape[RILLE_DIMS];
    char *text, *svg;
    if (!lua_istable(L, 1)) return complain(L, "show: expected the record of rille.boxing, found %s", what_is(L, 1));
    const char *path = svg_path(L, 2);
    lua_settop(L, 2);
    lua_getfield(L, 1, "shape");
    int at = 3, ndim = shape_read(L, &at, "show", shape);
    const char *dtype = lua_getfield(L, 1, "dtype") == LUA_TSTRING ? lua_tostring(L, -1) : "";
    const struct rille_layout *from = show_layout(L, "from", "placement_from", ndim);
    const struct rille_layout *to = show_layout(L, "to", "placement_to", ndim);
    if (!path && sh->display) {
        check(L, rille_show_move_svg(sh->session, dtype, ndim, shape, from, to, &svg));
        if (!rille_show_move(sh->session, dtype, ndim, shape, from, to, NOTEBOOK, false, &text))
            return show_display(L, svg, text);
        free(svg);
        return raise_core(L, "show");
    }
    check(L, path ? rille_show_move_svg(sh->session, dtype, ndim, shape, from, to, &text)
                  : rille_show_move(sh->session, dtype, ndim, shape, from, to, print_columns(), sh->color, &text));
    return put_file(L, path, text);
}

int
picture_call(lua_State *L, const char *name)
{
    int n = lua_gettop(L);
    lua_getglobal(L, "require");
    lua_pushfstring(L, "rille.show.%s", name);
    lua_call(L, 1, 1);
    lua_insert(L, 1);
    lua_call(L, n, 0);
    return 0;
}

void
print_as(lua_State *L, const char *kind)
{
    lua_getglobal(L, "require");
    lua_pushliteral(L, "rille.show.records");
    lua_call(L, 1, 1);
    lua_getfield(L, -1, kind);
    lua_setmetatable(L, -3);
    lua_pop(L, 1);
}

/* rille._show(path, svg, plain): writes the picture to the file; without a path, displays it in the notebook or
 * prints it. svg() returns a document, plain(columns, color) returns lines. A file needs svg, the terminal plain, a
 * notebook both. */
int
show_drawn(lua_State *L)
{
    struct shell *sh = shell_of(L);
    const char *path = svg_path(L, 1);
    luaL_checktype(L, 2, LUA_TFUNCTION);
    luaL_checktype(L, 3, LUA_TFUNCTION);
    lua_settop(L, 3);
    if (path || sh->display) {
        lua_pushvalue(L, 2);
        lua_call(L, 0, 1);
    }
    if (path) return write_picture(L, path, luaL_checkstring(L, 4));
    lua_pushvalue(L, 3);
    lua_pushinteger(L, sh->display ? NOTEBOOK : print_columns());
    lua_pushboolean(L, sh->color && !sh->display);
    lua_call(L, 2, 1);
    if (sh->display)
        sh->display("image/svg+xml", luaL_checkstring(L, 4), luaL_checkstring(L, 5));
    else
        write_picture(L, NULL, luaL_checkstring(L, 4));
    return 0;
}

/* Calls a method written in Lua; upvalues: its module and its name. */
static int
look_call(lua_State *L)
{
    tensor_check(L, 1, lua_tostring(L, lua_upvalueindex(2)));
    int n = lua_gettop(L);
    lua_getglobal(L, "require");
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_call(L, 1, 1);
    lua_pushvalue(L, lua_upvalueindex(2));
    lua_gettable(L, -2);
    lua_insert(L, 1);
    lua_settop(L, n + 1);
    lua_call(L, n, LUA_MULTRET);
    return lua_gettop(L);
}

void
look_push(lua_State *L, const char *module, const char *name)
{
    lua_pushstring(L, module);
    lua_pushstring(L, name);
    lua_pushcclosure(L, look_call, 2);
}

void
show_open(lua_State *L)
{
    static const char *const looks[][2] = {
        {"stats", "rille.base.look"}, {"hist", "rille.base.look"}, {"register_hook", "rille.base.hooks"}};
    for (size_t k = 0; k < sizeof looks / sizeof *looks; k++) {
        look_push(L, looks[k][1], looks[k][0]);
        lua_setfield(L, -2, looks[k][0]);
    }
    field_function(L, "show", tensor_show);
}
