/* lua_conditions.h - the values that a trace depends on. The compiled step is at stack index 1. Only the thread that
 * owns the Lua state calls these functions. */
#ifndef RILLE_SHELL_BIND_STEP_LUA_CONDITIONS_H
#define RILLE_SHELL_BIND_STEP_LUA_CONDITIONS_H

#include "shell/bind/base/shell.h"

/* index of the compiled step's user value (lua_setiuservalue) that holds the last trace's conditions */
enum { GRAPH_CONDITIONS = 3 };
/* Warns, before a trace, if a changed argument has often caused new traces. The arguments are at indices 2 to args,
 * and the tensors of tables among them at args + 1 to last. */
void conditions_sizes(lua_State *L, int args, int last);
void push_hook(lua_State *L, const char *name); /* pushes the function `name` of lua/step/trace.lua */
/* Begins a list of the conditions of a trace: the values that the traced function reads. pattern: stack index of
 * the table of the call's arguments, with a marker in place of each tensor. */
void conditions_begin(lua_State *L, int pattern);
/* Like conditions_begin(), for a trace that replaces a former trace after numbers have changed. The conditions of
 * the former trace are at the top of the Lua stack, and are popped. Each changed number becomes a live number: an
 * input that is read again before each run. Returns false if anything else has changed, or if a number cannot be
 * live. */
bool conditions_begin_live(lua_State *L, int pattern);
void conditions_none(lua_State *L); /* declares that the next trace depends on no values that may change */
/* Begin and end the recording of a trace's conditions: call conditions_enter before the traced function runs, and
 * conditions_end after. failed: the function raised an error. Non-zero: an error is at the top. */
int conditions_enter(lua_State *L);
int conditions_end(lua_State *L, int failed);
/* Ends the trace of the whole batch, after the function has returned or failed. Checks that the function still has each
 * tensor that it read, in the same place, and puts back other values that it has changed. Non-zero: an error is at the
 * top. */
int conditions_leave_whole(lua_State *L, int failed);
/* Sets the numbers that became live, where the traced function reads them: to the values of the former trace if
 * `former`, else to the present values. */
void conditions_numbers(lua_State *L, bool former);
/* Declares that the trace begun by conditions_begin_live() is only compared with the former trace: changes that the
 * function makes do not count. */
void conditions_repeat(lua_State *L);
/* Ends the attempt that conditions_begin_live() began. good: the new trace computes the same as the former trace.
 * Returns false if the numbers cannot be live. */
bool conditions_end_live(lua_State *L, bool good);
void conditions_give(lua_State *L); /* stores the conditions in the trace at the top */
/* Returns true if a step computes the same with either of the two values at the top: 2 and 2.0 differ, as do 0.0 and
 * -0.0. */
bool conditions_same(lua_State *L);
bool conditions_hold(lua_State *L); /* returns true if no value that the trace at the top read has changed */
/* adds rille._conditions and related functions to the module table at the top */
void conditions_open(lua_State *L);

#endif
