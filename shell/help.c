/* help.c - pages: ?name in the shell, rille.help(name). Operators tell their own; here is what is no operator. */
#include "shell/shell.h"

#include <stdlib.h>
#include <string.h>

#define OPTIONS ", {dtype =, placement =, sbp =, requires_grad =, name =}"
#define OPTION_LINES                                                                                                   \
    "  dtype          of the tensor; \"f32\" where nothing else is said\n"                                             \
    "  placement      a rille.placement; device 0 of the default kind\n"                                               \
    "  sbp            any layout of it: the values are the global value; \"B\"\n"                                      \
    "  requires_grad  boolean; false\n"                                                                                \
    "  name           text, for messages"
#define SHAPED(name) "rille." name "(shape" OPTIONS ")\n" OPTION_LINES

/* Of an operator of this name the page goes on with what its record tells. */
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
    {"tensor", "rille.tensor(values" OPTIONS ")   a tensor from a number or nested tables\n" OPTION_LINES},
    {"zeros", SHAPED("zeros")},
    {"ones", SHAPED("ones")},
    {"empty", SHAPED("empty")},
    {"rand", SHAPED("rand")},
    {"randn", SHAPED("randn")},
    {"full", "rille.full(shape, value" OPTIONS ")\n" OPTION_LINES},
    {"arange", "rille.arange(n" OPTIONS "), rille.arange(a, b, step = 1" OPTIONS ")\n"
               "  a, a + step, ... before b; whole numbers give i64\n" OPTION_LINES},
    {"linspace", "rille.linspace(a, b, n" OPTIONS ")   n numbers from a to b, both included\n" OPTION_LINES},
    {"eye", "rille.eye(n, m = n" OPTIONS ")   ones on the diagonal\n" OPTION_LINES},
    {"randint", "rille.randint(lo, hi, shape" OPTIONS ")   whole numbers, hi left out; i64\n" OPTION_LINES},
    {"load_npy", "rille.load_npy(path[, {placement =, sbp =}])   the tensor in a .npy file"},
    {"workers", "rille.workers()   the worker processes: {rank =, host =, pid =, devices =, state =, heartbeat =}"},
    {"is_lost", "rille.is_lost(err)   does the error tell that a worker was lost?"},
    {"snapshot", "rille.snapshot(note)   keeps all variables, random counters and the note as they are now"},
    {"recover",
     "rille.recover([{workers = n}])   replaces lost workers, or goes on with n; all is as at the last snapshot,\n"
     "  whose note it gives"},
    {"manual_seed", "rille.manual_seed(n)   restarts the random values"},
    {"to_global", "x:to_global{placement =, sbp =}   the same values in another layout; differentiable\n"
                  "  x:to_global_{...} changes a variable in place"},
    {"to_local", "x:to_local(rank)   the part at that rank, a tensor on that device alone"},
    {"shards", "x:shards()   in mesh order {rank =, shape =, offset =}"},
    {"item", "x:item()   the number in a tensor of one element"},
    {"totable", "x:totable()   the values as nested tables: the global view"},
    {"detach", "x:detach()   the same values, a leaf without gradient"},
    {"clone", "x:clone()   a copy, through which gradients pass; of a tensor without gradient a leaf"},
    {"to", "x:to(dtype)   the same values in another dtype: x:cast(dtype)"},
    {"numel", "x:numel()   how many elements"},
    {"requires_grad_", "x:requires_grad_(on = true)   whether backward fills x.grad; gives x"},
    {"fill_", "x:fill_(v), x:zero_()   in place, on variables"},
    {"zero_", "x:zero_(), x:fill_(v)   in place, on variables"},
    {"copy_",
     "x:copy_(y), x:add_(y), x:fill_(v), ...   in place, on variables; what was computed from the old value keeps it"},
    {"index", "x[i]   entry i of axis 0;  x[{i, {a, b}, {}}]   a position, a range before b, all, for each axis;\n"
              "  x[{...}] = v   in place. Positions count from 0, negative ones from the end."},
    {"split",
     "split(x, size, axis = 0), split(x, {sizes}, axis = 0)\n"
     "  a list of parts: part k is x from start k up to start k + 1 along axis\n"
     "  size           integer, of a part, the last one may be smaller; or their sizes, which add up to that of x\n"
     "  axis           integer: dimension to cut\n"
     "  made of        slice, once for each part, whose layouts it has\n"
     "  gradient       yes"},
    {"chunk", "chunk(x, n, axis = 0)\n"
              "  a list of at most n parts of one size along axis, the last one smaller\n"
              "  n              integer: how many parts\n"
              "  axis           integer: dimension to cut\n"
              "  made of        slice, once for each part, whose layouts it has\n"
              "  gradient       yes"},
    {"cat", "rille.cat({x, ...}, axis)   concat"},
    {"floor_divide", "a // b"},
    {"remainder", "a % b"},
    {"backward", "y:backward()   adds the gradient of y to grad of the leaves with requires_grad"},
    {"grad", "rille.grad(y, {x1, x2})   dy/dx1, dy/dx2; can be differentiated again.  x.grad is what backward added"},
    {"no_grad", "rille.no_grad(fn, ...)   runs fn; nothing in it is remembered for gradients"},
    {"graph",
     "step = rille.graph(fn, {micro_batches =, schedule =, auto_parallel =, recompute =, zero =})\n"
     "  step(x, y) traces fn once, then runs the plan. step:explain(), step:plan(), step:stats(), step:trace(file)\n"
     "  auto_parallel = true lays the step out: e = step:explain() has e.cost and e.bound, in ns, and e.gap; with\n"
     "  memory_limit =, in bytes a device, and time_limit =, in seconds. step:certify(file) writes what proves it."},
    {"whatif",
     "rille.whatif(step, {mesh = {128, 8}, bandwidth =, latency =, flops =, memory =})\n"
     "  The step, planned for a cluster that one does not have: a record as step:explain() gives, with step_time."},
    {"certificate", "rille.certificate(path)   what the certificate of a plan proves; an error when it proves nothing"},
    {"live", "rille.live(fn)   a number that is asked before each call of a compiled step"},
    {"explain",
     "rille.explain(y)   each operator's signature, candidates and bytes; each boxing's steps, bytes and bound"},
    {"plan", "rille.plan(y[, {physical = true}])   tasks, registers, memory"},
    {"boxing",
     "rille.boxing{shape =, dtype =, from = {placement =, sbp =}, to = {placement =, sbp =}}   one move, priced\n"
     "  Fields: name, bytes, bound, received (by rank), steps, candidates. b:show() draws it, also e.boxing[1]:show()"},
    {"show",
     "x:show([\"file.svg\"])   draws how x is cut over its mesh: tiles with their ranks, replicas as\n"
     "  stacked sheets, addends of P side by side.\n"
     "  rille.boxing{...}:show([\"file.svg\"]) draws a move, its name and its bytes.\n"
     "  step:show([\"file.svg\"]) draws what a compiled step does when: a row a device, pieces numbered, planned\n"
     "  above measured, memory below, and who waited for what. step:show(nil, {forward = 1, backward = 2}) plans\n"
     "  with these costs."},
    {"chart",
     "step:chart([{forward =, backward =, weight =, move =, update =}])   what step:show() draws, as a table:\n"
     "  planned (on a virtual clock, by these seconds a piece and stage, or by measured ones) and measured, each\n"
     "  {time =, bubble =, spans =, stalls =, devices =}; a span is {device =, stage =, piece =, what =, from =, to "
     "=}"},
    {"stats", "x:stats()   {numel =, nan =, inf =, zeros =, min =, max =, mean =, std =} of all values; prints\n"
              "  min, max, mean and std are of those that are neither nan nor infinite"},
    {"hist", "x:hist(bins = 30)   {min =, max =, counts =}: how many lie in each of equal parts; prints as bars"},
    {"save", "rille.save(path, {name = tensor} | net | tensor[, {max_shard_size = \"5GB\"}])\n\n"
             "path.safetensors, path.npy (one tensor), or a folder, which gets shards and an index."},
    {"load",
     "rille.load(path[, {placement =, sbp =, dtype =, names =}])   tensors by name: .safetensors, .npz, .gguf, a "
     "folder\n"
     "  of shards; .npy: one tensor. placement and sbp may be functions of the name; dtype is what floats become."},
    {"counters", "rille.counters()   nodes, compiles, cache_hits, runs, acts, messages, ... since the start"},
    {"device_info", "rille.device_info(\"cuda\", 0)   the GPU of a device: {name =, memory =, capability =}"},
    {"devices", "rille.devices()   the devices used so far and their memory"},
    {"clock", "rille.clock()   seconds, from some start"},
    {"is_terminal", "rille.is_terminal(fd)   whether a file descriptor is one"},
    {"help", "rille.help([name])   prints the page of a name; without one, the names"},
    {"page", "rille.page(name)   the page of a name as text"},
    {"operators", "rille.operators()   the names of all operators, sorted"},
    {"nn", "rille.nn   Module, Linear, Embedding, LayerNorm, ...: rille.nn.Module:extend(\"Net\")"},
    {"models",
     "rille.models   gpt2, llama, moe, resnet: rille.models.gpt2.new{vocab =, length =, layers =, heads =, width =}\n"
     "  m(ids), m:generate(ids, {max_new_tokens =, temperature =}), m:save(dir), m.config\n"
     "  rille.models.llama.load(dir[, {placement =, sbp =, dtype =, quantize = \"int8\"}])   a Hugging Face folder"},
    {"parallel", "rille.parallel(model, {data =, tensor =, method =, sequence =, zero =, stages =, chunks =})\n\n"
                 "Lays a model out over the axes of its mesh and gives the table of what it set, which prints and can "
                 "be given back.\n"
                 "  {data = 0, tensor = 1}; {tensor = {0, 1}} is 2D, {0, 1, 2} with method \"2.5d\" or \"3d\"; {data = "
                 "0, zero = 3}\n"
                 "  rille.parallel.input(model), rille.parallel.labels(model)   where ids and labels should lie"},
    {"autocast", "rille.autocast(\"bf16\", fn, ...)   what fn gives; its products take and give 16 bits"},
    {"plot", "rille.plot(file, {name = {numbers}}[, {title =, x =, y =, log =}])   curves as an SVG"},
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

/* What an expression calls. */
static const char *
name_of_sign(const char *sign)
{
    static const char *const calls[][2] = {{"+", "add"}, {"-", "sub"},           {"*", "mul"},      {"/", "div"},
                                           {"^", "pow"}, {"//", "floor_divide"}, {"%", "remainder"}};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        if (!strcmp(calls[i][0], sign)) return calls[i][1];
    return sign;
}

/* The page of an operator without its last line end; without its first line where a page tells how it is called. */
static void
add_record(lua_State *L, luaL_Buffer *b, const struct rille_op *op, bool called)
{
    char *text = rille_op_help(shell_of(L)->session, op), *from = called ? strchr(text, '\n') : text;
    size_t n = strlen(from);
    luaL_addlstring(b, from, n && from[n - 1] == '\n' ? n - 1 : n);
    free(text);
}

/* Pushes what a function of lua/pages.lua gives of the name; false, and nothing pushed, when that is nil. */
static bool
push_from_lua(lua_State *L, const char *function, const char *name)
{
    lua_getglobal(L, "require");
    lua_pushliteral(L, "rille.pages");
    lua_call(L, 1, 1);
    lua_getfield(L, -1, function);
    lua_remove(L, -2);
    lua_pushstring(L, name);
    lua_call(L, 1, 1);
    bool found = lua_isstring(L, -1);
    if (!found) lua_pop(L, 1);
    return found;
}

bool
help_push(lua_State *L, const char *name)
{
    luaL_Buffer b;
    if (!strncmp(name, "rille.", 6)) name += 6;
    name = name_of_sign(name);
    const struct page *page = find_page(name);
    const struct rille_op *op = rille_op_find(name);
    if (!page && (!op || rille_op_hidden(op))) return push_from_lua(L, "page", name);
    luaL_buffinit(L, &b);
    if (page) luaL_addstring(&b, page->text);
    if (op) add_record(L, &b, op, page);
    luaL_pushresult(&b);
    if (push_from_lua(L, "below", name)) lua_concat(L, 2);
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
