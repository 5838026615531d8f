/* lua_chart.c - returns the data of step:chart() as a table; lua/show/step.lua draws it. Seconds, bytes; devices count
 * from 1, as lists do, stages and micro-batches from 0. */
#include "shell/bind/shell.h"

#include <string.h>

static void
set_number(lua_State *L, const char *key, double v)
{
    lua_pushnumber(L, v);
    lua_setfield(L, -2, key);
}

static void
chart_set_integer(lua_State *L, const char *key, int64_t v)
{
    lua_pushinteger(L, v);
    lua_setfield(L, -2, key);
}

static void
set_text(lua_State *L, const char *key, const char *v)
{
    lua_pushstring(L, v);
    lua_setfield(L, -2, key);
}

/* __index: returns a field by its old name, with a warning. */
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
        lua_pushcfunction(L, read_renamed_field);
        lua_setfield(L, -2, "__index");
    }
    lua_setmetatable(L, -2);
}

static void
push_span(lua_State *L, const struct rille_chart_span *s)
{
    lua_createtable(L, 0, 6);
    chart_set_integer(L, "device", s->device + 1);
    chart_set_integer(L, "stage", s->stage);
    if (s->piece >= 0) chart_set_integer(L, "micro_batch", s->piece);
    set_text(L, "what", s->what);
    set_number(L, "from", s->begin);
    set_number(L, "to", s->end);
    renamed_fields(L);
}

static void
push_stall(lua_State *L, const struct rille_chart_stall *s)
{
    lua_createtable(L, 0, 3);
    chart_set_integer(L, "stage", s->stage);
    set_number(L, "share", s->share);
    set_text(L, "text", s->text);
}

static void
push_device(lua_State *L, const struct rille_chart *c, const struct rille_chart_run *r, int d)
{
    lua_createtable(L, 0, 3);
    set_number(L, "busy", r->busy[d]);
    lua_createtable(L, RILLE_CHART_POINTS, 0);
    int64_t most = 0;
    for (int k = 0; k < RILLE_CHART_POINTS; k++) {
        int64_t bytes = r->memory[d * RILLE_CHART_POINTS + k];
        if (bytes > most) most = bytes;
        lua_pushinteger(L, bytes);
        lua_rawseti(L, -2, k + 1);
    }
    lua_setfield(L, -2, "memory");
    chart_set_integer(L, "peak", most);
    (void)c;
}

static void
push_run(lua_State *L, const struct rille_chart *c, const struct rille_chart_run *r)
{
    lua_createtable(L, 0, 5);
    set_number(L, "time", r->time);
    set_number(L, "bubble", r->bubble);
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
    chart_set_integer(L, "stages", c->nstage);
    chart_set_integer(L, "threads", c->nthread);
    chart_set_integer(L, "computing", c->ncompute);
    chart_set_integer(L, "at_once", c->natonce);
    chart_set_integer(L, "micro_batches", c->pieces);
    chart_set_integer(L, "lag", c->lag);
    lua_pushboolean(L, c->split);
    lua_setfield(L, -2, "split");
    lua_pushboolean(L, c->reckoned);
    lua_setfield(L, -2, "reckoned");
    set_number(L, "forward", c->forward);
    set_number(L, "backward", c->backward);
    set_number(L, "weight", c->weight);
    set_number(L, "move", c->moving);
    set_number(L, "bound", c->bound);
    chart_set_integer(L, "activations", c->activations);
    chart_set_integer(L, "activations_1f1b", c->activations_1f1b);
    set_number(L, "again", c->again);
    lua_createtable(L, c->ndevice, 0);
    for (int d = 0; d < c->ndevice; d++) {
        lua_createtable(L, 0, 3);
        lua_pushfstring(L, "%s:%d", c->device[d].kind, c->device[d].device);
        lua_setfield(L, -2, "device");
        chart_set_integer(L, "thread", c->device[d].thread);
        chart_set_integer(L, "arena", c->device[d].arena);
        lua_rawseti(L, -2, d + 1);
    }
    lua_setfield(L, -2, "devices");
    push_run(L, c, &c->planned);
    lua_setfield(L, -2, "planned");
    if (!c->measured.nspan) return;
    chart_set_integer(L, "call", c->call);
    chart_set_integer(L, "calls", c->ncall);
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
