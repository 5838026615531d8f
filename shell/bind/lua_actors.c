/* lua_actors.c - rille._actors([step]): returns the actors of a step's plan, or of the plan that ran last;
 * lua/show/actors.lua prints them. */
#include "shell/bind/shell.h"

static void
push_actor(lua_State *L, const struct rille_actor *a)
{
    const struct {
        const char *key;
        lua_Integer value;
    } numbers[] = {{"thread", a->thread},        {"stage", a->stage}, {"begun", a->begun}, {"acts", a->acts},
                   {"micro_batches", a->pieces}, {"bytes", a->bytes}, {"hosts", a->nhost}, {"shown", a->nshown}};
    const struct {
        const char *key, *value;
    } texts[] = {{"name", a->name}, {"kind", a->kind}, {"phase", a->phase}, {"state", a->state}, {"line", a->line}};
    lua_createtable(L, 0, 14);
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
        lua_pushinteger(L, numbers[k].value);
        lua_setfield(L, -2, numbers[k].key);
    }
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
        lua_pushstring(L, texts[k].value);
        lua_setfield(L, -2, texts[k].key);
    }
    lua_pushfstring(L, "%s:%d", a->device_kind, a->device);
    lua_setfield(L, -2, "device");
    renamed_fields(L);
}

void
actors_push(lua_State *L, struct rille_graph *g)
{
    struct rille_actor a;
    lua_newtable(L);
    for (int i = 0; rille_actor(shell_of(L)->session, g, i, &a); i++) {
        push_actor(L, &a);
        lua_rawseti(L, -2, i + 1);
    }
}
