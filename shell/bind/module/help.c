/* help.c - shows help pages: ?name and ?words in the shell, rille.help(name). The pages are in lua/pages.lua; the
 * pages of operators are completed from the operators' records. */
#include "shell/bind/module/help.h"
#include "shell/bind/base/field.h"
#include "shell/bind/base/fold.h"
#include "shell/bind/base/lua_error.h"
#include "shell/bind/base/shell.h"

#include <stdlib.h>
#include <string.h>

/* Calls a function of lua/pages.lua with the value at the top of the stack and replaces the value by the result.
 * If the result is not a string, pops it and returns false. */
static bool
ask_pages(lua_State *L, const char *function)
{
    lua_getglobal(L, "require");
    lua_pushliteral(L, "rille.pages");
    lua_call(L, 1, 1);
    lua_getfield(L, -1, function);
    lua_replace(L, -2);
    lua_insert(L, -2);
    lua_call(L, 1, 1);
    bool found = lua_isstring(L, -1);
    if (!found) lua_pop(L, 1);
    return found;
}

bool
help_push(lua_State *L, const char *name)
{
    lua_pushstring(L, name);
    return ask_pages(L, "page");
}

bool
help_push_found(lua_State *L, const char *question)
{
    lua_pushstring(L, question);
    return ask_pages(L, "found");
}

bool
help_push_call(lua_State *L, int i)
{
    lua_pushvalue(L, i);
    return ask_pages(L, "of");
}

bool
help_push_about(lua_State *L, int i)
{
    lua_pushvalue(L, i);
    return ask_pages(L, "about");
}

const char *
help_missing(lua_State *L, const char *name)
{
    lua_pushstring(L, name);
    bool near = ask_pages(L, "nearest");
    return lua_pushfstring(L, "no page for '%s'%s%s; rille.help() lists all names", name,
                           near ? "; the nearest page is ?" : "", near ? lua_tostring(L, -1) : "");
}

/* rille._record(name): returns the help text of an operator's record; nil: unknown operator. */
static int
record(lua_State *L)
{
    const struct rille_op *op = rille_op_find(luaL_checkstring(L, 1));
    if (!op) return 0;
    char *text = rille_op_help(shell_of(L)->session, op);
    if (!text) check(L, rille_error_code());
    size_t n = strlen(text);
    lua_pushlstring(L, text, n && text[n - 1] == '\n' ? n - 1 : n);
    free(text);
    return 1;
}

static void
push_operand(lua_State *L, const struct rille_operand_info *o)
{
    lua_createtable(L, 0, 4);
    field_text(L, "name", o->name);
    field_flag(L, "number", o->number);
    field_flag(L, "optional", o->optional);
    field_flag(L, "list", o->list);
}

static void
push_attr(lua_State *L, const struct rille_attr_info *a)
{
    static const char *const kinds[] = {[RILLE_INT] = "integer", [RILLE_FLOAT] = "number",   [RILLE_BOOL] = "boolean",
                                        [RILLE_TEXT] = "string", [RILLE_INTS] = "integer[]", [RILLE_DTYPE] = "string"};
    lua_createtable(L, 0, 4);
    field_text(L, "name", a->name);
    field_text(L, "type", kinds[a->kind]);
    field_flag(L, "optional", !a->required);
    field_text(L, "words", a->kind == RILLE_DTYPE ? "dtype" : a->kind == RILLE_TEXT ? a->words : NULL);
}

/* rille._operator(name): returns {operands =, attributes =, results =, source =, elementwise =, library =}; nil:
 * unknown operator. */
static int
operator_of(lua_State *L)
{
    struct rille_operand_info in[16];
    struct rille_attr_info attr[16];
    const struct rille_op *op = rille_op_find(luaL_checkstring(L, 1));
    if (!op) return 0;
    lua_newtable(L);
    lua_newtable(L);
    for (int i = 0, n = 0, all = rille_op_operands(op, in); i < all; i++) {
        if (in[i].hidden) continue;
        push_operand(L, &in[i]);
        lua_rawseti(L, -2, ++n);
    }
    lua_setfield(L, -2, "operands");
    lua_newtable(L);
    for (int i = 0, all = rille_op_attrs(op, attr); i < all; i++) {
        push_attr(L, &attr[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "attributes");
    field_integer(L, "results", rille_op_results(op));
    field_flag(L, "source", rille_op_source(op));
    field_flag(L, "elementwise", rille_op_elementwise(op));
    field_text(L, "library", rille_op_library(op));
    return 1;
}

/* Pushes the page of a name. If `name` is a question in words, pushes the list of the pages that answer it. Raises
 * if nothing is found. */
static void
push_answer(lua_State *L, const char *name)
{
    if (!help_push(L, name) && !help_push_found(L, name)) complain(L, "%s", help_missing(L, name));
}

/* rille.help() prints the list of pages, rille.help("matmul") one page, rille.help("learning rate") the list of
 * pages about these words. */
static int
help(lua_State *L)
{
    const char *name = lua_isnoneornil(L, 1) ? NULL : text_at(L, 1, "help");
    if (name) {
        push_answer(L, name);
    } else {
        lua_pushinteger(L, print_columns());
        ask_pages(L, "list");
    }
    lua_getglobal(L, "print");
    fold_push(L, lua_tostring(L, -2));
    lua_call(L, 1, 0);
    return 0;
}

/* rille.page(name): returns the text that rille.help prints. */
static int
page(lua_State *L)
{
    push_answer(L, text_at(L, 1, "page"));
    return 1;
}

/* rille.operators(): returns the names of all operators: the built-in ones sorted, then those of loaded libraries. */
static int
operators(lua_State *L)
{
    const struct rille_op *op;
    lua_newtable(L);
    for (int i = 0, n = 0; (op = rille_op_at(i)); i++) {
        if (rille_op_hidden(op)) continue;
        lua_pushstring(L, rille_op_name(op));
        lua_rawseti(L, -2, ++n);
    }
    return 1;
}

void
help_open(lua_State *L)
{
    field_function(L, "help", help);
    field_function(L, "page", page);
    field_function(L, "operators", operators);
    field_function(L, "_record", record);
    field_function(L, "_operator", operator_of);
}
