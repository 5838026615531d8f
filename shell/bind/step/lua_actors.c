/* lua_actors.c - rille._actors([step]): returns the actors of a step's plan, or of the plan that ran last;
 * lua/show/actors.lua prints them. */
#include "shell/bind/step/lua_actors.h"
#include "shell/bind/base/field.h"
#include "shell/bind/base/shell.h"
#include "shell/bind/step/lua_chart.h"

static void
push_actor(lua_State *L, const struct rille_actor *a)
{
    lua_createtable(L, 0, 14);
    field_integer(L, "thread", a->thread);
    field_integer(L, "stage", a->stage);
    field_integer(L, "begun", a->begun);
    field_integer(L, "acts", a->acts);
    field_integer(L, "micro_batches", a->pieces);
    field_integer(L, "bytes", a->bytes);
    field_integer(L, "hosts", a->nhost);
    field_integer(L, "shown", a->nshown);
    field_text(L, "name", a->name);
    field_text(L, "kind", a->kind);
    field_text(L, "phase", a->phase);
    field_text(L, "state", a->state);
    field_text(L, "line", a->line);
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
