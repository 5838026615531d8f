/* names.c - suggests a replacement for an unknown name: Rille's equivalent of another program's name, or the name with
 * the fewest changed letters. */
#include "shell/bind/shell.h"

#include <ctype.h>
#include <string.h>

enum { LONGEST = 40 };

static int
least_of_three(int a, int b)
{
    return a < b ? a : b;
}

/* Returns how many letters must be inserted, deleted or replaced to turn a into b (Levenshtein 1966), ignoring case.
 * row[j]: the count for the letters of a so far and the first j of b. */
static int
changes(const char *a, const char *b)
{
    int row[LONGEST + 1], n = (int)strlen(b);
    for (int j = 0; j <= n; j++) row[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        int corner = row[0];
        row[0] = i;
        for (int j = 1; j <= n; j++) {
            int changed = corner + (tolower((unsigned char)a[i - 1]) != tolower((unsigned char)b[j - 1]));
            corner = row[j];
            row[j] = least_of_three(changed, least_of_three(row[j - 1], corner) + 1);
        }
    }
    return row[n];
}

void
nearest_add(struct nearest *best, const char *name, const char *key)
{
    if (strlen(name) > LONGEST || strlen(key) > LONGEST) return;
    int n = changes(name, key), most = (int)strlen(name) / 3; /* a name with more changes is not suggested */
    bool better = !best->name || n < best->changes || (n == best->changes && strcmp(key, best->name) < 0);
    if (n <= most && better) *best = (struct nearest){key, n};
}

void
name_nearest(lua_State *L, int table, const char *name, struct nearest *best)
{
    table = lua_absindex(L, table);
    for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1)) {
        const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "_";
        if (key[0] != '_') nearest_add(best, name, key);
    }
}

/* Names of PyTorch, NumPy, Python and others, by the scope in which users look for them, with Rille's equivalent. */
static const struct elsewhere {
    const char *scope, *name, *here;
} elsewhere[] = {
    {"", "torch", "write rille, as in rille.randn{2, 3}"},
    {"", "np", "write rille, as in rille.arange(6)"},
    {"", "numpy", "write rille, as in rille.arange(6)"},
    {"", "tf", "write rille"},
    {"", "jax", "write rille"},
    {"", "jnp", "write rille"},
    {"", "flow", "write rille"},
    {"", "oneflow", "write rille"},
    {"", "nn", "write rille.nn, or: local nn = rille.nn"},
    {"", "optim", "write rille.optim, or: local optim = rille.optim"},
    {"", "exit", "type :quit or Ctrl-D"},
    {"", "quit", "type :quit or Ctrl-D"},
    {"", "help", "type :help, or ?name for a page"},
    {"", "len", "write #x"},
    {"", "range", "write for i = 0, n - 1 do, or rille.arange(n)"},
    {"", "None", "write nil"},
    {"", "null", "write nil"},
    {"", "True", "write true"},
    {"", "False", "write false"},
    {"", "str", "write tostring(x)"},
    {"", "int", "write math.tointeger(x), or x // 1"},
    {"", "float", "write tonumber(x)"},
    {"", "isinstance", "write type(x)"},
    {"", "import", "write local name = require \"name\""},
    {"", "from", "write local name = require \"name\""},
    {"", "def", "write function name(x) ... end"},
    {"", "elif", "write elseif"},
    {"", "is", "write x == nil"},
    {"", "del", "write x = nil"},
    {"", "pass", "not needed: for i = 1, 3 do end"},
    {"", "lambda", "write function(x) return ... end"},
    {"", "sqrt", "write x:sqrt() or math.sqrt(x)"},
    {"", "exp", "write x:exp() or math.exp(x)"},
    {"tensor", "size", "write x.shape, or #x for axis 0"},
    {"tensor", "dim", "write x.ndim"},
    {"tensor", "rank", "write x.ndim"},
    {"tensor", "view", "write x:reshape{...}"},
    {"tensor", "view_as", "write x:reshape(y.shape)"},
    {"tensor", "contiguous", "not needed: every tensor is contiguous"},
    {"tensor", "T", "write x:transpose(0, 1)"},
    {"tensor", "t", "write x:transpose(0, 1)"},
    {"tensor", "mT", "write x:transpose(-2, -1)"},
    {"tensor", "numpy", "write x:totable(), or rille.save(\"x.npy\", x)"},
    {"tensor", "tolist", "write x:totable()"},
    {"tensor", "cuda", "write x:to_global{placement = rille.placement(\"cuda\", {0})}"},
    {"tensor", "cpu", "write x:to_global{placement = rille.placement(\"cpu\", {0})}"},
    {"tensor", "float", "write x:to(\"f32\")"},
    {"tensor", "double", "write x:to(\"f64\")"},
    {"tensor", "half", "write x:to(\"f16\")"},
    {"tensor", "bfloat16", "write x:to(\"bf16\")"},
    {"tensor", "long", "write x:to(\"i64\")"},
    {"tensor", "int", "write x:to(\"i32\")"},
    {"tensor", "bool", "write x:to(\"bool\")"},
    {"tensor", "type", "write x.dtype, or x:to(dtype)"},
    {"tensor", "astype", "write x:to(dtype)"},
    {"tensor", "std", "write x:var():sqrt()"},
    {"tensor", "mm", "write x:matmul(y)"},
    {"tensor", "bmm", "write x:matmul(y)"},
    {"tensor", "dot", "write x:matmul(y)"},
    {"tensor", "flatten", "write x:reshape{...}"},
    {"tensor", "ravel", "write x:reshape{x:numel()}"},
    {"tensor", "nelement", "write x:numel()"},
    {"tensor", "is_cuda", "write x.device == \"cuda\""},
    {"tensor", "data", "write x:detach()"},
    {"tensor", "local_to_global", "write x:to_global{placement =, sbp =}"},
    {"tensor", "redistribute", "write x:to_global{placement =, sbp =}"},
    {"tensor", "dims", "write x.ndim"},
    {"rille", "from_numpy", "write rille.load_npy(path), or rille.tensor(table)"},
    {"rille", "FloatTensor", "write rille.tensor(table)"},
    {"rille", "Tensor", "write rille.tensor(table)"},
    {"rille", "array", "write rille.tensor(table)"},
    {"rille", "bmm", "write rille.matmul(a, b)"},
    {"rille", "mm", "write rille.matmul(a, b)"},
    {"rille", "std", "write x:var():sqrt()"},
    {"rille", "ones_like", "write rille.ones(x.shape, {dtype =, placement =, sbp =})"},
    {"rille", "zeros_like", "write rille.zeros(x.shape, {dtype =, placement =, sbp =})"},
    {"rille", "device", "devices are placements: rille.placement(\"cpu\", {0})"},
    {"rille", "no_grad_", "write rille.no_grad(fn)"},
    {"rille", "jit", "write rille.graph(fn)"},
    {"rille", "compile", "write rille.graph(fn)"},
    {"rille", "seed", "write rille.manual_seed(n)"},
    {"module", "cuda", "write net:to_global{placement = rille.placement(\"cuda\", {0}), sbp = \"B\"}"},
    {"module", "cpu", "write net:to_global{placement = rille.placement(\"cpu\", {0}), sbp = \"B\"}"},
    {"module", "half", "write net:to(\"f16\")"},
    {"module", "bfloat16", "write net:to(\"bf16\")"},
    {"module", "requires_grad_", "write for _, p in ipairs(net:parameters()) do p:requires_grad_(false) end"},
    {"module", "zero_grad", "write optimizer:zero_grad()"},
    {"module", "children", "write net:modules(), or pairs over its fields"},
    {"module", "named_children", "write net:named_modules()"},
    {"module", "buffers", "write net:named_buffers()"},
    {"module", "register_buffer", "write net:buffer(name, t)"},
    {"module", "register_parameter", "write net.name = rille.nn.Parameter(t)"},
    {"module", "register_module", "write net.name = module"},
    {"module", "add_module", "write net.name = module"},
    {"module", "register_backward_hook", "write net:register_full_backward_hook(fn)"},
    {"module", "compile", "write rille.graph(net)"},
    {"module", "getParameters", "write net:parameters(), a list of tensors"},
    {"module", "zeroGradParameters", "write optimizer:zero_grad()"},
    {"module", "updateParameters", "write optimizer:step()"},
    {"module", "accGradParameters", "write loss:backward()"},
    {"module", "updateOutput", "write net(x)"},
    {"module", "updateGradInput", "write loss:backward()"},
    {"module", "evaluate", "write net:eval()"},
    {"module", "clearState", "not needed: results are freed after their last use"},
    {"layer", "add", "write net[#net + 1] = module, or rille.nn.Sequential(a, b, ...)"},
    {"layer", "insert", "write rille.nn.Sequential(a, b, ...)"},
    {"layer", "append", "write net[#net + 1] = module"},
    {"layer", "get", "write net[i], which counts from 1"},
    {"layer", "size", "write #net"},
    {"layer", "backward", "write loss:backward()"},
    {"layer", "float", "write net:to(\"f32\")"},
    {"layer", "double", "write net:to(\"f64\")"},
    {"layer", "type", "write net:to(dtype)"},
    {"layer", "clone", "make another module and write other:load_state_dict(net:state_dict())"},
    {"layer", "reset", "write rille.nn.init.normal_(p, mean, std) for its parameters"},
    {"layer", "device", "write net:parameters()[1].placement"},
    {"layer", "dtype", "write net:parameters()[1].dtype"},
    {NULL, NULL, NULL},
};

const char *
name_elsewhere(const char *scope, const char *name)
{
    for (const struct elsewhere *e = elsewhere; e->name; e++)
        if (!strcmp(e->scope, scope) && !strcmp(e->name, name)) return e->here;
    return NULL;
}

const char *
name_hint(lua_State *L, const struct nearest *best)
{
    return best->name ? lua_pushfstring(L, "; the nearest name is '%s'", best->name) : "";
}

/* rille._nearest(table, name): returns the key nearest to name, or nil. */
static int
nearest_name(lua_State *L)
{
    struct nearest best = {0};
    luaL_checktype(L, 1, LUA_TTABLE);
    name_nearest(L, 1, luaL_checkstring(L, 2), &best);
    lua_pushstring(L, best.name);
    return 1;
}

/* rille._elsewhere(scope, name): Rille's equivalent of another program's name, or nil. */
static int
elsewhere_name(lua_State *L)
{
    lua_pushstring(L, name_elsewhere(luaL_checkstring(L, 1), luaL_checkstring(L, 2)));
    return 1;
}

void
names_open(lua_State *L)
{
    lua_pushcfunction(L, elsewhere_name);
    lua_setfield(L, -2, "_elsewhere");
    lua_pushcfunction(L, nearest_name);
    lua_setfield(L, -2, "_nearest");
}
