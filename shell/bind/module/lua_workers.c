/* lua_workers.c - reports worker processes to Lua: their state, losses, snapshots.
 *
 * The loss of a worker is an ordinary error: a text with the user's line. The core's message of the loss is stored,
 * so that worker_is_lost() recognises the message inside a longer text. */
#include "shell/bind/module/lua_workers.h"
#include "shell/bind/base/field.h"
#include "shell/bind/base/lua_error.h"
#include "shell/bind/base/shell.h"
#include "shell/bind/module/lua_file.h"
#include "shell/bind/tensor/lua_place.h"
#include "shell/bind/tensor/lua_tensor.h"

#include <string.h>

/* ---- losses ---- */

static int
worker_is_lost(lua_State *L)
{
    luaL_checkany(L, 1);
    lua_pushboolean(L, lost_is(L, 1));
    return 1;
}

/* ---- worker list ---- */

/* Pushes the devices in "cpu:2 cpu:3" as a list. */
static void
push_devices(lua_State *L, const char *text)
{
    lua_newtable(L);
    for (int n = 1; *text; n++) {
        size_t k = strcspn(text, " ");
        lua_pushlstring(L, text, k);
        lua_rawseti(L, -2, n);
        text += k + (text[k] == ' ');
    }
}

static int
workers(lua_State *L)
{
    struct rille_worker_info w;
    lua_newtable(L);
    struct rille_session *s = shell_session(L);
    for (int i = 0; rille_worker_info(s, i, &w); i++) {
        lua_createtable(L, 0, 9);
        field_integer(L, "rank", w.rank);
        field_integer(L, "pid", w.pid);
        field_text(L, "host", w.host);
        field_text(L, "state", w.state);
        field_number(L, "heartbeat", w.heartbeat);
        field_integer(L, "acts", w.acts);
        field_number(L, "busy", w.busy);
        if (w.slow > 0) field_number(L, "slow", w.slow);
        push_devices(L, w.devices);
        lua_setfield(L, -2, "devices");
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

/* ---- primitives for lua/snapshot.lua, lua/recover.lua and lua/elastic.lua ---- */

/* rille._snapshot(keep[, text, tensors]): text and tensors, a table by name: the state that is stored with workers that
 * outlive the controller. Returns the number of the snapshot and that of the oldest one. */
static int
snapshot(lua_State *L)
{
    int keep = (int)luaL_optinteger(L, 1, 1);
    int64_t number, oldest;
    struct names names = {0};
    if (!lua_isnoneornil(L, 2)) names_read(L, 3, "snapshot", &names);
    struct rille_state state = {names.n, names.name, names.tensor, lua_tostring(L, 2)};
    at_line(L);
    check_as(L, "snapshot", rille_snapshot(shell_of(L)->session, keep, state.text ? &state : NULL, &number, &oldest));
    lua_pushinteger(L, number);
    lua_pushinteger(L, oldest);
    return 2;
}

/* rille._keeps_state(): returns true if a worker outlives the controller. */
static int
keeps_state(lua_State *L)
{
    lua_pushboolean(L, rille_keeps_state(shell_session(L)));
    return 1;
}

/* rille._kept_state(): returns the description of the snapshot that an earlier controller left (nil: none), and whether
 * workers of such a controller are present. */
static int
kept_state(lua_State *L)
{
    const char *text;
    bool took_over;
    at_line(L);
    check_as(L, "train.resume", rille_kept_state(shell_of(L)->session, &text, &took_over));
    lua_pushstring(L, text);
    lua_pushboolean(L, took_over);
    return 2;
}

/* rille._kept_tensor(name, {placement =, sbp =}, ndim): returns a tensor of that snapshot. */
static int
kept_tensor(lua_State *L)
{
    const struct rille_layout *l = layout_read(L, 2, "train.resume", (int)luaL_checkinteger(L, 3), NULL);
    struct rille_tensor **slot = tensor_slot(L);
    at_line(L);
    check_as(L, "train.resume", rille_kept_tensor(shell_of(L)->session, luaL_checkstring(L, 1), l, slot));
    return 1;
}

static int
compare_replicas(lua_State *L)
{
    const char *wrong;
    at_line(L);
    check_as(L, "train.replicas", rille_compare_replicas(shell_of(L)->session, &wrong));
    lua_pushstring(L, wrong);
    return 1;
}

static int
workers_recover(lua_State *L)
{
    int count = (int)luaL_optinteger(L, 1, 0);
    int64_t number;
    const char *why;
    at_line(L);
    check_as(L, "recover", rille_recover(shell_of(L)->session, count, &number, &why));
    lua_pushinteger(L, number);
    lua_pushstring(L, why);
    return 2;
}

/* rille._admit(): admits workers that wait. Returns true if there were any. */
static int
workers_admit(lua_State *L)
{
    struct rille_session *s = shell_session(L);
    bool waits = rille_can_admit(s);
    at_line(L);
    if (waits) files_finish(L);
    if (waits) check_as(L, "train.elastic", rille_admit(s));
    lua_pushboolean(L, waits);
    return 1;
}

/* rille._present(): returns the kind of the default device, and the list of the devices whose workers are present. */
static int
workers_present(lua_State *L)
{
    struct rille_session *s = shell_session(L);
    const char *kind = rille_default_kind(s);
    int n = 0;
    lua_pushstring(L, kind);
    lua_newtable(L);
    for (int i = 0; i < rille_device_count(s, kind); i++) {
        if (!rille_device_present(s, kind, i)) continue;
        lua_pushinteger(L, i);
        lua_rawseti(L, -2, ++n);
    }
    return 2;
}

void
workers_open(lua_State *L)
{
    static const luaL_Reg functions[] = {{"workers", workers},
                                         {"is_lost", worker_is_lost},
                                         {"_snapshot", snapshot},
                                         {"_compare_replicas", compare_replicas},
                                         {"_recover", workers_recover},
                                         {"_admit", workers_admit},
                                         {"_present", workers_present},
                                         {"_keeps_state", keeps_state},
                                         {"_kept_state", kept_state},
                                         {"_kept_tensor", kept_tensor},
                                         {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
}
