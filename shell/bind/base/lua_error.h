/* lua_error.h - errors at the user's line, and arguments of any type. Only the thread that owns the Lua state calls
 * these functions. */
#ifndef RILLE_SHELL_BIND_BASE_LUA_ERROR_H
#define RILLE_SHELL_BIND_BASE_LUA_ERROR_H

#include "shell/bind/base/shell.h"

/* Finds the line of the user's program that is running. level: stack level at which the search begins; 0: the running
 * function. */
void user_line(lua_State *L, int level, struct line *line);
/* Reports the user's line to the core. Call before each core call that adds nodes or may fail. */
void at_line(lua_State *L);
/* Raises the core's error, prefixed by the user's line. Inserts `who` unless the message begins with it; who NULL:
 * nothing is inserted. */
int raise_core(lua_State *L, const char *who);
/* Raises the core's error for a call of operator `op`, which the user called `who`. */
int raise_call(lua_State *L, const char *op, const char *who);
static inline void
check(lua_State *L, int code)
{
    if (code) raise_core(L, NULL);
}
static inline void
check_as(lua_State *L, const char *who, int code)
{
    if (code) raise_core(L, who);
}
/* Raises an error of the shell, prefixed by the user's line. */
int complain(lua_State *L, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool lost_is(lua_State *L, int i); /* returns true if the text at i contains the remembered error */
/* stores the error at the top, and pops it; call in a function that the core has called */
void live_fail(lua_State *L);
/* Returns the string at i for the core, whose strings end at a zero byte. Raises if the value is no string or
 * contains a zero byte. */
const char *text_at(lua_State *L, int i, const char *who);
/* whole_at reads the integer at index i, real_at any number. Both return false for other values, also for numeric
 * strings, which Lua itself would convert. */
bool whole_at(lua_State *L, int i, int64_t *out);
bool real_at(lua_State *L, int i, double *out);
/* Returns the number at i as text: "2.5"; "nan" for NaN of either sign. May push a new value for the text. */
const char *number_text(lua_State *L, int i);
/* Describes an argument for messages: "a tensor", "the number 2.5". May push a new value for the text. */
const char *what_is(lua_State *L, int i);

#endif
