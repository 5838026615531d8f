/* help.c - pages: ?name in the shell, rille.help(name). Operators tell their own; here is what is no operator. */
#include "shell/shell.h"

#include <stdlib.h>
#include <string.h>

static const struct page {
    const char *name, *text;
} pages[] = {
    {"placement",
     "rille.placement(kind, ranks)\n"
     "  A mesh of devices of one kind: placement(\"cpu\", {0, 1}), placement(\"cpu\", {{0, 1}, {2, 3}}).\n"
     "  Fields: device, ranks, shape, size. Equal meshes are ==. The kind \"meta\" has layouts and no values."},
    {"sbp", "How a tensor lies over a mesh, one text for each mesh axis: \"S(0)\" split along axis 0,\n"
            "  \"B\" whole everywhere, \"P\" the sum over ranks, \"P(max)\", \"P(min)\".\n"
            "  {\"B\", \"S(0)\"} on a 2-D mesh; {\"S(0)\", \"S(0)\", order = {1, 0}} cuts along mesh axis 1 first.\n"
            "  rille.sbp.split(axis), rille.sbp.broadcast, rille.sbp.partial_sum, rille.sbp.partial(\"max\")"},
    {"tensor", "rille.tensor(values[, options])\n"
               "  A tensor from a number or nested tables.\n"
               "  Options of all creations: dtype, placement, sbp, requires_grad, name."},
    {"zeros", "rille.zeros(shape[, options])   also ones, empty, rand, randn"},
    {"full", "rille.full(shape, value[, options])"},
    {"arange", "rille.arange(n), arange(a, b[, step][, options])   a, a + step, ... before b; whole numbers give i64"},
    {"linspace", "rille.linspace(a, b, n[, options])   n numbers from a to b, both included"},
    {"eye", "rille.eye(n[, m][, options])   ones on the diagonal"},
    {"randint", "rille.randint(low, high, shape[, options])   whole numbers, high left out; i64"},
    {"manual_seed", "rille.manual_seed(n)   restarts the random values"},
    {"to_global", "x:to_global{placement =, sbp =}   the same values in another layout; differentiable\n"
                  "  x:to_global_{...} changes a variable in place"},
    {"to_local", "x:to_local(rank)   the part at that rank, a tensor on that device alone"},
    {"shards", "x:shards()   in mesh order {rank =, shape =, offset =}"},
    {"item", "x:item()   the number in a tensor of one element"},
    {"totable", "x:totable()   the values as nested tables: the global view"},
    {"detach", "x:detach()   the same values, a leaf without gradient; x:clone() is a copy"},
    {"copy_",
     "x:copy_(y), x:add_(y), x:fill_(v), ...   in place, on variables; what was computed from the old value keeps it"},
    {"index", "x[i]   entry i of axis 0;  x[{i, {a, b}, {}}]   a position, a range before b, all, for each axis;\n"
              "  x[{...}] = v   in place. Positions count from 0, negative ones from the end."},
    {"split", "x:split(size, axis), x:split({sizes}, axis), x:chunk(n, axis)   lists of parts"},
    {"backward", "y:backward()   adds the gradient of y to grad of the leaves with requires_grad"},
    {"grad", "rille.grad(y, {x1, x2})   dy/dx1, dy/dx2; can be differentiated again.  x.grad is what backward added"},
    {"no_grad", "rille.no_grad(fn, ...)   runs fn; nothing in it is remembered for gradients"},
    {"graph",
     "step = rille.graph(fn, {micro_batches =, schedule =, auto_parallel =, recompute =, zero =})\n"
     "  step(x, y) traces fn once, then runs the plan. step:explain(), step:plan(), step:stats(), step:trace(file)"},
    {"live", "rille.live(fn)   a number that is asked before each call of a compiled step"},
    {"explain",
     "rille.explain(y)   each operator's signature, candidates and bytes; each boxing's steps, bytes and bound"},
    {"plan", "rille.plan(y[, {physical = true}])   tasks, registers, memory"},
    {"boxing",
     "rille.boxing{shape =, dtype =, from = {placement =, sbp =}, to = {placement =, sbp =}}   one move, priced\n"
     "  Fields: name, bytes, bound, received (by rank), steps, candidates. b:show() draws it, also e.boxing[1]:show()"},
    {"show", "x:show([\"file.svg\"])   draws how x is cut over its mesh: tiles with their ranks, replicas as\n"
             "  stacked sheets, addends of P side by side.\n"
             "  rille.boxing{...}:show([\"file.svg\"]) draws a move, its name and its bytes."},
    {"save", "rille.save(\"x.npy\", x), rille.load(\"x.npy\"[, {placement =, sbp =}]), rille.load_npy(path)"},
    {"counters", "rille.counters()   nodes, compiles, cache_hits, runs, acts, messages, ... since the start"},
    {"devices", "rille.devices()   the devices used so far and their memory"},
    {"nn", "rille.nn   Module, Linear, Embedding, LayerNorm, ...: rille.nn.Module:extend(\"Net\")"},
    {"optim", "rille.optim   SGD, Adam, AdamW, clip_grad_norm, cosine, linear, constant"},
    {NULL, NULL},
};

static const struct page *
find_page(const char *name)
{
    for (const struct page *p = pages; p->name; p++)
        if (!strcmp(p->name, name)) return p;
    return NULL;
}

bool
help_push(lua_State *L, const char *name)
{
    if (!strncmp(name, "rille.", 6)) name += 6;
    const struct page *page = find_page(name);
    const struct rille_op *op = rille_op_find(name);
    if (page) {
        lua_pushstring(L, page->text);
        return true;
    }
    if (!op || rille_op_hidden(op)) return false;
    char *text = rille_op_help(shell_of(L)->session, op);
    lua_pushstring(L, text);
    free(text);
    size_t n = lua_rawlen(L, -1);
    if (n && lua_tostring(L, -1)[n - 1] == '\n') { /* one line end, whoever prints it */
        lua_pushlstring(L, lua_tostring(L, -1), n - 1);
        lua_remove(L, -2);
    }
    return true;
}

/* All names, in lines of a fixed width. */
static void
push_names(lua_State *L)
{
    luaL_Buffer b;
    const struct rille_op *op;
    size_t column = 0;
    luaL_buffinit(L, &b);
    for (const struct page *p = pages; p->name; p++) {
        column += strlen(p->name) + 1;
        luaL_addstring(&b, p->name);
        luaL_addstring(&b, column > 90 ? (column = 0, "\n") : " ");
    }
    luaL_addstring(&b, "\noperators:\n");
    column = 0;
    for (int i = 0; (op = rille_op_at(i)); i++) {
        if (rille_op_hidden(op) || find_page(rille_op_name(op))) continue;
        column += strlen(rille_op_name(op)) + 1;
        luaL_addstring(&b, rille_op_name(op));
        luaL_addstring(&b, column > 90 ? (column = 0, "\n") : " ");
    }
    luaL_pushresult(&b);
}

/* rille.help(), rille.help("matmul") */
static int
help(lua_State *L)
{
    if (lua_isnoneornil(L, 1))
        push_names(L);
    else if (!help_push(L, luaL_checkstring(L, 1)))
        return complain(L, "nothing is called '%s'; rille.help() lists names", lua_tostring(L, 1));
    lua_getglobal(L, "print");
    lua_insert(L, -2);
    lua_call(L, 1, 0);
    return 0;
}

/* rille.page(name): what help prints. */
static int
page(lua_State *L)
{
    const char *name = luaL_checkstring(L, 1);
    if (!help_push(L, name)) complain(L, "nothing is called '%s'; rille.help() lists names", name);
    return 1;
}

/* rille.operators(): the names of all operators, sorted. */
static int
operators(lua_State *L)
{
    const struct rille_op *op;
    lua_newtable(L);
    for (int i = 0, n = 0; (op = rille_op_at(i)); i++) {
        if (rille_op_hidden(op)) continue;
        lua_pushstring(L, rille_op_name(op));
        lua_rawseti(L, -2, ++n);
    }
    return 1;
}

void
help_open(lua_State *L)
{
    lua_pushcfunction(L, help);
    lua_setfield(L, -2, "help");
    lua_pushcfunction(L, page);
    lua_setfield(L, -2, "page");
    lua_pushcfunction(L, operators);
    lua_setfield(L, -2, "operators");
}
