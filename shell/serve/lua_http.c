/* lua_http.c - rille._http{host =, port =, body =, queue =, connections =}: an HTTP server (http.h), and its methods.
 *
 *   server:port()                                   the port
 *   server:receive(seconds)                         id, method, path, type, body; no values: no request arrived
 *   server:answer(id, status, type, text, last)     true; false: the client has disconnected
 *   server:send(id, text, last)                     like answer
 *   server:connected(id)  server:drop(id)  server:close(seconds) */
#include "shell/serve/lua_http.h"

#ifdef RILLE_HTTP
#include "shell/serve/http.h"

#include <lauxlib.h>

static const char meta[] = "rille.http";

static struct http *
check_http(lua_State *L)
{
    struct http **h = luaL_checkudata(L, 1, meta);
    if (!*h) luaL_error(L, "the HTTP server is closed");
    return *h;
}

static lua_Integer
option(lua_State *L, const char *name)
{
    lua_getfield(L, 1, name);
    lua_Integer value = luaL_checkinteger(L, -1);
    lua_pop(L, 1);
    return value;
}

/* rille._http{...}: returns the server, or nil and the cause. */
static int
new_http(lua_State *L)
{
    char why[200];
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_getfield(L, 1, "host");
    struct http_options o = {.host = luaL_checkstring(L, -1),
                             .port = (int)option(L, "port"),
                             .body = (size_t)option(L, "body"),
                             .queue = (int)option(L, "queue"),
                             .connections = (int)option(L, "connections")};
    struct http **h = lua_newuserdatauv(L, sizeof *h, 0);
    *h = NULL;
    luaL_setmetatable(L, meta);
    *h = http_open(&o, why);
    if (*h) return 1;
    lua_pushnil(L);
    lua_pushstring(L, why);
    return 2;
}

static int
get_port(lua_State *L)
{
    lua_pushinteger(L, http_port(check_http(L)));
    return 1;
}

static int
receive(lua_State *L)
{
    struct http_request r;
    if (!http_receive(check_http(L), luaL_checknumber(L, 2), &r)) return 0;
    lua_pushinteger(L, r.id);
    lua_pushstring(L, r.method);
    lua_pushstring(L, r.path);
    lua_pushstring(L, r.type);
    lua_pushlstring(L, r.body, r.size);
    return 5;
}

static int
answer(lua_State *L)
{
    size_t n;
    struct http *h = check_http(L);
    const char *type = luaL_checkstring(L, 4), *text = luaL_checklstring(L, 5, &n);
    lua_pushboolean(
        L, http_answer(h, luaL_checkinteger(L, 2), (int)luaL_checkinteger(L, 3), type, text, n, lua_toboolean(L, 6)));
    return 1;
}

static int
send_bytes(lua_State *L)
{
    size_t n;
    struct http *h = check_http(L);
    const char *text = luaL_checklstring(L, 3, &n);
    lua_pushboolean(L, http_send(h, luaL_checkinteger(L, 2), text, n, lua_toboolean(L, 4)));
    return 1;
}

static int
is_connected(lua_State *L)
{
    lua_pushboolean(L, http_connected(check_http(L), luaL_checkinteger(L, 2)));
    return 1;
}

static int
drop(lua_State *L)
{
    http_drop(check_http(L), luaL_checkinteger(L, 2));
    return 0;
}

static int
close_http(lua_State *L)
{
    struct http **h = luaL_checkudata(L, 1, meta);
    http_close(*h, luaL_optnumber(L, 2, 0));
    *h = NULL;
    return 0;
}

static int
collect_http(lua_State *L)
{
    lua_settop(L, 1);
    return close_http(L);
}

void
http_functions(lua_State *L)
{
    static const luaL_Reg methods[] = {
        {"port", get_port},          {"receive", receive}, {"answer", answer},    {"send", send_bytes},
        {"connected", is_connected}, {"drop", drop},       {"close", close_http}, {NULL, NULL}};
    luaL_newmetatable(L, meta);
    lua_pushcfunction(L, collect_http);
    lua_setfield(L, -2, "__gc");
    luaL_newlib(L, methods);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
    lua_pushcfunction(L, new_http);
    lua_setfield(L, -2, "_http");
}
#else
void
http_functions(lua_State *L)
{
    (void)L;
}
#endif
