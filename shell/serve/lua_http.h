/* lua_http.h - rille._http: the HTTP server as an object of Lua, for lua/serve.lua. The thread of
 * the Lua state owns the server. */
#ifndef RILLE_SHELL_LUA_HTTP_H
#define RILLE_SHELL_LUA_HTTP_H

#include <lua.h>

/* Adds _http to the table on top of the stack; a build without libmicrohttpd adds nothing. */
void http_functions(lua_State *L);

#endif
