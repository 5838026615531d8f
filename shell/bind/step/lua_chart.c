/* lua_chart.c - returns the data of step:chart() as a table; lua/show/step.lua draws it. Units are seconds and bytes.
 * Devices are numbered from 1, like entries of a list; stages and micro-batches are numbered from 0. */
#include "shell/bind/step/lua_chart.h"
#include "shell/bind/base/field.h"
#include "shell/bind/base/lua_error.h"
#include "shell/bind/base/shell.h"

#include <string.h>

/* Implements __index: returns a field by its old name, with a warning. */
static int
read_renamed_field(lua_State *L)
{
    static const char *const renamed[][2] = {{"piece", "micro_batch"}, {"pieces", "micro_batches"}};
    const char *name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
    lua_pushnil(L);
    for (size_t k = 0; k < sizeof renamed / sizeof *renamed; k++) {
        if (strcmp(renamed[k][0], name)) continue;
        lua_warning(
            L,
            lua_pushfstring(L, "the field \"%s\" was renamed to \"%s\"; \"%s\" will be an error in the next release",
                            name, renamed[k][1], name),
            0);
        lua_pushstring(L, renamed[k][1]);
        lua_rawget(L, 1);
    }
    return 1;
}

void
renamed_fields(lua_State *L)
{
    if (luaL_newmetatable(L, "rille.renamed_fields")) {
        field_function(L, "__index", read_renamed_field);
    }
    lua_setmetatable(L, -2);
}

static void
push_span(lua_State *L, const struct rille_chart_span *s)
{
    lua_createtable(L, 0, 6);
    field_integer(L, "device", s->device + 1);
    field_integer(L, "stage", s->stage);
    if (s->piece >= 0) field_integer(L, "micro_batch", s->piece);
    field_text(L, "what", s->what);
    field_number(L, "from", s->begin);
    field_number(L, "to", s->end);
    renamed_fields(L);
}

static void
push_stall(lua_State *L, const struct rille_chart_stall *s)
{
    lua_createtable(L, 0, 3);
    field_integer(L, "stage", s->stage);
    field_number(L, "share", s->share);
    field_text(L, "text", s->text);
}

static void
push_device(lua_State *L, const struct rille_chart *c, const struct rille_chart_run *r, int d)
{
    lua_createtable(L, 0, 3);
    field_number(L, "busy", r->busy[d]);
    lua_createtable(L, RILLE_CHART_POINTS, 0);
    int64_t most = 0;
    for (int k = 0; k < RILLE_CHART_POINTS; k++) {
        int64_t bytes = r->memory[d * RILLE_CHART_POINTS + k];
        if (bytes > most) most = bytes;
        lua_pushinteger(L, bytes);
        lua_rawseti(L, -2, k + 1);
    }
    lua_setfield(L, -2, "memory");
    field_integer(L, "peak", most);
    (void)c;
}

static void
push_run(lua_State *L, const struct rille_chart *c, const struct rille_chart_run *r)
{
    lua_createtable(L, 0, 5);
    field_number(L, "time", r->time);
    field_number(L, "bubble", r->bubble);
    lua_createtable(L, r->nspan, 0);
    for (int i = 0; i < r->nspan; i++) {
        push_span(L, &r->span[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "spans");
    lua_createtable(L, r->nstall, 0);
    for (int i = 0; i < r->nstall; i++) {
        push_stall(L, &r->stall[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "stalls");
    lua_createtable(L, c->ndevice, 0);
    for (int d = 0; d < c->ndevice; d++) {
        push_device(L, c, r, d);
        lua_rawseti(L, -2, d + 1);
    }
    lua_setfield(L, -2, "devices");
}

static void
push_chart(lua_State *L, const struct rille_chart *c)
{
    lua_createtable(L, 0, 21);
    renamed_fields(L);
    field_integer(L, "stages", c->nstage);
    field_integer(L, "threads", c->nthread);
    field_integer(L, "computing", c->ncompute);
    field_integer(L, "at_once", c->natonce);
    field_integer(L, "micro_batches", c->pieces);
    field_integer(L, "lag", c->lag);
    field_flag(L, "split", c->split);
    field_flag(L, "reckoned", c->reckoned);
    field_number(L, "forward", c->forward);
    field_number(L, "backward", c->backward);
    field_number(L, "weight", c->weight);
    field_number(L, "move", c->moving);
    field_number(L, "bound", c->bound);
    field_integer(L, "activations", c->activations);
    field_integer(L, "activations_1f1b", c->activations_1f1b);
    field_number(L, "again", c->again);
    lua_createtable(L, c->ndevice, 0);
    for (int d = 0; d < c->ndevice; d++) {
        lua_createtable(L, 0, 3);
        lua_pushfstring(L, "%s:%d", c->device[d].kind, c->device[d].device);
        lua_setfield(L, -2, "device");
        field_integer(L, "thread", c->device[d].thread);
        field_integer(L, "arena", c->device[d].arena);
        lua_rawseti(L, -2, d + 1);
    }
    lua_setfield(L, -2, "devices");
    push_run(L, c, &c->planned);
    lua_setfield(L, -2, "planned");
    if (!c->measured.nspan) return;
    field_integer(L, "call", c->call);
    field_integer(L, "calls", c->ncall);
    push_run(L, c, &c->measured);
    lua_setfield(L, -2, "measured");
}

static double
cost_field(lua_State *L, int i, const char *who, const char *key)
{
    double v = 0;
    bool good = lua_getfield(L, i, key) == LUA_TNIL || real_at(L, -1, &v);
    if (!good || !(v >= 0)) complain(L, "%s: %s must be a number of seconds, found %s", who, key, what_is(L, -1));
    lua_pop(L, 1);
    return v;
}

bool
chart_costs(lua_State *L, int i, const char *who, struct rille_chart_costs *out)
{
    static const char *const keys[] = {"forward", "backward", "weight", "move", "update", "jitter", "seed", NULL};
    if (lua_isnoneornil(L, i)) return false;
    if (!lua_istable(L, i)) complain(L, "%s: costs must be a table, found %s", who, what_is(L, i));
    bool chart = lua_getfield(L, i, "planned") != LUA_TNIL;
    lua_pop(L, 1);
    if (!chart) check_keys(L, i, who, keys);
    *out = (struct rille_chart_costs){.forward = cost_field(L, i, who, "forward"),
                                      .backward = cost_field(L, i, who, "backward"),
                                      .weight = cost_field(L, i, who, "weight"),
                                      .move = cost_field(L, i, who, "move"),
                                      .update = cost_field(L, i, who, "update"),
                                      .jitter = cost_field(L, i, who, "jitter"),
                                      .seed = (int64_t)cost_field(L, i, who, "seed")};
    return true;
}

void
chart_push(lua_State *L, struct rille_graph *g, int costs)
{
    struct rille_chart_costs k;
    struct rille_chart *c;
    bool given = chart_costs(L, costs, "chart", &k);
    at_line(L);
    check(L, rille_graph_chart(g, given ? &k : NULL, &c));
    push_chart(L, c);
    rille_chart_free(&c);
}
