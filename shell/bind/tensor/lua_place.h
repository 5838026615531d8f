/* lua_place.h - placements and layouts. Only the thread that owns the Lua state calls these functions. */
#ifndef RILLE_SHELL_BIND_TENSOR_LUA_PLACE_H
#define RILLE_SHELL_BIND_TENSOR_LUA_PLACE_H

#include "shell/bind/base/shell.h"

void place_open(lua_State *L); /* adds functions to the module table at the top */
void place_push(lua_State *L, const struct rille_place *p);
const struct rille_place *place_check(lua_State *L, int i); /* raises if the value is no placement */
/* Returns the layout that is broadcast (B) on every mesh axis. */
const struct rille_layout *broadcast_layout(lua_State *L, const struct rille_place *p);
/* Returns the layout given by the fields placement and sbp of the table at i, or NULL if both are absent. If only one
 * field is absent, its value is that of `like` (like NULL: device 0 of the default kind, layout B). who: prefix of
 * messages. */
const struct rille_layout *layout_read(lua_State *L, int i, const char *who, int ndim, const struct rille_layout *like);
/* Returns true if sbp of the options at i is "auto". Then layout_read() returns B, and the caller marks the tensor
 * with rille_tensor_auto(). */
bool layout_auto(lua_State *L, int i);

#endif
