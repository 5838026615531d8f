/* help.h - help pages. Only the thread that owns the Lua state calls these functions. */
#ifndef RILLE_SHELL_BIND_MODULE_HELP_H
#define RILLE_SHELL_BIND_MODULE_HELP_H

#include "shell/bind/base/shell.h"

bool help_push(lua_State *L, const char *name); /* pushes the help page of this name; false: there is none */
/* Pushes a list of the help pages that contain the words of the question, best first; returns false if there are
 * none. */
bool help_push_found(lua_State *L, const char *question);
/* Pushes the call syntax of the value at i if the value is a function or class of Rille; else returns false. */
bool help_push_call(lua_State *L, int i);
bool help_push_about(lua_State *L, int i); /* pushes the help page of a value, or of its kind; false: none */
/* Returns the error message for a name that has no page. May push a new value for the text. */
const char *help_missing(lua_State *L, const char *name);
void help_open(lua_State *L);

#endif
