/* lua_op.h - operators. Only the thread that owns the Lua state calls these functions. */
#ifndef RILLE_SHELL_BIND_TENSOR_LUA_OP_H
#define RILLE_SHELL_BIND_TENSOR_LUA_OP_H

#include "shell/bind/base/shell.h"

void op_open(lua_State *L);
/* Adds load_operators, and the operators that are loaded already, to the module at the top. Call when the module is
 * complete, because an operator must not replace a function. */
void op_open_loaded(lua_State *L);
/* Calls an operator as a step of another operation. Pushes and returns the operator's first result. */
struct rille_tensor *op_apply(lua_State *L, const char *name, int nargs, const struct rille_arg *args, int nattrs,
                              const struct rille_attr *attrs);
/* Sets the strategy of the next call from the table at index i: for each operand, the list of the numbers of
 * shards per axis, as in {{2, 1}, {1, 4}}. Returns NULL, or an error message that stays on the stack. */
const char *op_strategy(lua_State *L, int i);
/* Push the function of an operator, or nil if the operator does not exist. op_push_unary pushes a unary
 * metamethod, to which Lua passes the operand twice. */
void op_push(lua_State *L, const char *name);
/* like op_push(); messages use `name` for the operator */
void op_push_as(lua_State *L, const char *op, const char *name);
void op_push_unary(lua_State *L, const char *name);
/* Appends "x is f32{4, 5} S(0) on cpu[0, 1]". */
void tensor_describe(lua_State *L, luaL_Buffer *b, const char *name, struct rille_tensor *t);

#endif
