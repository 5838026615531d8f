/* names.c - suggests a replacement for an unknown name: Rille's equivalent of another program's name, or the name with
 * the fewest changed letters. */
#include "shell/bind/base/shell.h"

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
    {"", "F", "operators are methods: write x:relu(), or rille.relu(x)"},
    {"", "device", "write rille.placement(\"cpu\", {0})"},
    {"", "DataLoader", "write rille.data.loader{x, y, batch = 64}"},
    {"", "cutorch", "write rille.placement(\"cuda\", {0})"},
    {"", "enumerate", "write for i, x in ipairs(list) do"},
    {"", "zip", "write for i = 1, #a do local x, y = a[i], b[i] ... end"},
    {"", "list", "write {a, b}"},
    {"", "dict", "write {name = value}"},
    {"", "max", "write math.max(a, b), or x:max()"},
    {"", "min", "write math.min(a, b), or x:min()"},
    {"", "abs", "write math.abs(a), or x:abs()"},
    {"", "sum", "write x:sum()"},
    {"", "round", "write x:round(), or math.floor(a + 0.5)"},
    {"", "sin", "write x:sin() or math.sin(x)"},
    {"", "cos", "write x:cos() or math.cos(x)"},
    {"", "log", "write x:log() or math.log(x)"},
    {"", "pi", "write math.pi"},
    {"", "open", "write io.open(path)"},
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
    {"tensor", "values", "write x:topk(1, axis), which returns values and ids; x:max() returns values alone"},
    {"tensor", "indices", "write x:argmax{axis =}, or x:topk(1, axis), which returns values and ids"},
    {"tensor", "local_to_global", "write x:to_global{placement =, sbp =}"},
    {"tensor", "redistribute", "write x:to_global{placement =, sbp =}"},
    {"tensor", "dims", "write x.ndim"},
    {"tensor", "norm", "write x:square():sum():sqrt()"},
    {"tensor", "leaky_relu", "write x:gt(0):where(x, x * 0.01), or rille.nn.LeakyReLU()"},
    {"tensor", "elu", "write rille.nn.ELU()(x)"},
    {"tensor", "repeat_interleave", "write x:index_select(axis, ids)"},
    {"tensor", "tile", "write x:expand{...}, or rille.concat({x, x}, axis)"},
    {"tensor", "expand_as", "write x:expand(y.shape)"},
    {"tensor", "reshape_as", "write x:reshape(y.shape)"},
    {"tensor", "swapaxes", "write x:transpose(a, b)"},
    {"tensor", "movedim", "write x:permute{...}"},
    {"tensor", "isnan", "write x:ne(x)"},
    {"tensor", "isfinite", "write (x - x):eq(0)"},
    {"tensor", "isinf", "write x:abs():eq(math.huge)"},
    {"tensor", "clip", "write x:clamp(low, high)"},
    {"tensor", "sort", "write x:topk(n), which returns values and ids"},
    {"tensor", "argsort", "write x:topk(n), whose second result are ids"},
    {"tensor", "unique", "not supported: write rille.tensor(list) of x:totable()"},
    {"tensor", "outer", "write x:unsqueeze(1) * y"},
    {"tensor", "true_divide", "write x / y"},
    {"tensor", "multiply", "write x * y"},
    {"tensor", "subtract", "write x - y"},
    {"tensor", "divide", "write x / y"},
    {"tensor", "negative", "write -x"},
    {"tensor", "absolute", "write x:abs()"},
    {"tensor", "addmm", "write a:matmul(b) + x"},
    {"tensor", "baddbmm", "write a:matmul(b) + x"},
    {"tensor", "log2", "write x:log() * (1 / math.log(2))"},
    {"tensor", "log10", "write x:log() * (1 / math.log(10))"},
    {"tensor", "log1p", "write (x + 1):log()"},
    {"tensor", "expm1", "write x:exp() - 1"},
    {"tensor", "tan", "write x:sin() / x:cos()"},
    {"tensor", "trunc", "write x:sign() * x:abs():floor()"},
    {"tensor", "logit", "write (x / (1 - x)):log()"},
    {"tensor", "normal_", "write rille.nn.init.normal_(x, mean, std)"},
    {"tensor", "uniform_", "write rille.nn.init.uniform_(x, a, b)"},
    {"tensor", "new_zeros", "write rille.zeros(shape, {dtype =, placement =, sbp =})"},
    {"tensor", "new_ones", "write rille.ones(shape, {dtype =, placement =, sbp =})"},
    {"tensor", "scatter", "write x:scatter_add(...), or x:index_put_(...)"},
    {"tensor", "scatter_", "write x:scatter_add(...), or x:index_put_(...)"},
    {"tensor", "detach_", "write x:copy_(x:detach())"},
    {"tensor", "masked_fill_", "write x:copy_(x:masked_fill(mask, value))"},
    {"tensor", "tolocal", "write x:to_local(rank)"},
    {"tensor", "grad_fn", "write x.is_leaf, or x.requires_grad"},
    {"tensor", "device_mesh", "write x.placement"},
    {"tensor", "placements", "write x.sbp"},
    {"tensor", "full_tensor", "write x:to_global{placement = x.placement, sbp = \"B\"}"},
    {"tensor", "storage", "write x:totable()"},
    {"tensor", "stride", "not needed: every tensor is contiguous"},
    {"tensor", "is_contiguous", "not needed: every tensor is contiguous"},
    {"tensor", "share_memory_", "not needed: all threads share tensors"},
    {"tensor", "pin_memory", "not needed: transfers use pinned memory"},
    {"tensor", "copy", "write x:clone()"},
    {"tensor", "unbind", "write x:split(1, axis), or x[i]"},
    {"tensor", "narrow", "write x:slice(axis, from, to)"},
    {"tensor", "select", "write x[i], or x:index_select(axis, ids)"},
    {"tensor", "index", "write x:index_select(axis, ids)"},
    {"tensor", "nElement", "write x:numel()"},
    {"tensor", "nDimension", "write x.ndim"},
    {"tensor", "resize", "write x:reshape{...}"},
    {"tensor", "resizeAs", "write x:reshape(y.shape)"},
    {"tensor", "cmul", "write x * y"},
    {"tensor", "cdiv", "write x / y"},
    {"tensor", "cadd", "write x + y"},
    {"tensor", "csub", "write x - y"},
    {"tensor", "typeAs", "write x:to(y.dtype)"},
    {"tensor", "apply", "write operators, or rille.tensor(table) of x:totable()"},
    {"tensor", "histc", "write x:hist(bins)"},
    {"tensor", "fill", "write x:fill_(value)"},
    {"tensor", "zero", "write x:zero_()"},
    {"tensor", "toTable", "write x:totable()"},
    {"tensor", "to_list", "write x:totable()"},
    {"tensor", "nan_to_num", "write rille.where(x:ne(x), 0, x)"},
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
    {"rille", "cuda", "devices are placements: rille.placement(\"cuda\", {0})"},
    {"rille", "backends", "write rille.allow_tf32(true) for matrix products in TF32"},
    {"rille", "distributed", "ranks are part of a placement: rille.placement(\"cpu\", {0, 1})"},
    {"rille", "DeviceMesh", "write rille.placement(\"cuda\", {{0, 1}, {2, 3}})"},
    {"rille", "functional", "operators are in rille itself: rille.relu(x), or x:relu()"},
    {"rille", "utils", "write rille.data.loader{x, y, batch = 64}"},
    {"rille", "DataLoader", "write rille.data.loader{x, y, batch = 64}"},
    {"rille", "autograd", "write rille.grad(loss, {x}), or rille.func{forward =, backward =}"},
    {"rille", "einsum", "write x:matmul(y), after permute and reshape"},
    {"rille", "dot", "write x:matmul(y)"},
    {"rille", "norm", "write x:square():sum():sqrt()"},
    {"rille", "clip", "write x:clamp(low, high)"},
    {"rille", "normal", "write rille.randn(shape) * std + mean"},
    {"rille", "randperm", "write rille.data.permutation(n, seed)"},
    {"rille", "sort", "write x:topk(n), which returns values and ids"},
    {"rille", "argsort", "write x:topk(n), whose second result are ids"},
    {"rille", "outer", "write x:unsqueeze(1) * y"},
    {"rille", "hstack", "write rille.concat({a, b}, 1)"},
    {"rille", "vstack", "write rille.concat({a, b}, 0)"},
    {"rille", "full_like", "write rille.full(x.shape, value)"},
    {"rille", "rand_like", "write rille.rand(x.shape)"},
    {"rille", "randn_like", "write rille.randn(x.shape)"},
    {"rille", "empty_like", "write rille.empty(x.shape)"},
    {"rille", "as_tensor", "write rille.tensor(table)"},
    {"rille", "asarray", "write rille.tensor(table)"},
    {"rille", "inference_mode", "write rille.no_grad(fn)"},
    {"rille", "set_detect_anomaly", "write rille.detect_nan(true)"},
    {"rille", "is_grad_enabled", "write (w * 1).requires_grad, where w requires a gradient"},
    {"rille", "set_grad_enabled", "write rille.no_grad(fn), or rille.enable_grad(fn)"},
    {"rille", "set_default_dtype", "write {dtype = \"f64\"} at each creation"},
    {"rille", "is_tensor", "write type(x) == \"userdata\""},
    {"rille", "swapaxes", "write x:transpose(a, b)"},
    {"rille", "script", "write rille.graph(fn)"},
    {"rille", "vmap", "operators broadcast over leading axes: write x:unsqueeze(axis)"},
    {"rille", "pmap", "write rille.per_rank, or x:to_global{placement =, sbp =}"},
    {"rille", "shard_map", "write rille.per_rank"},
    {"rille", "value_and_grad", "write rille.grad(loss, {x})"},
    {"rille", "manual_seed_all", "write rille.manual_seed(n)"},
    {"rille", "random", "write rille.manual_seed(n)"},
    {"rille", "float32", "write \"f32\""},
    {"rille", "float64", "write \"f64\""},
    {"rille", "float16", "write \"f16\""},
    {"rille", "bfloat16", "write \"bf16\""},
    {"rille", "float", "write \"f32\""},
    {"rille", "double", "write \"f64\""},
    {"rille", "half", "write \"f16\""},
    {"rille", "int64", "write \"i64\""},
    {"rille", "int32", "write \"i32\""},
    {"rille", "long", "write \"i64\""},
    {"rille", "int", "write \"i32\""},
    {"rille", "uint8", "write \"u8\""},
    {"rille", "bool", "write \"bool\""},
    {"rille", "Module", "write rille.nn.Module"},
    {"rille", "Linear", "write rille.nn.Linear(in, out)"},
    {"rille", "LongTensor", "write rille.tensor(table, {dtype = \"i64\"})"},
    {"rille", "DoubleTensor", "write rille.tensor(table, {dtype = \"f64\"})"},
    {"rille", "profiler", "write rille.graph(fn):trace(path)"},
    {"rille", "trace", "write step:trace(path), where step = rille.graph(fn)"},
    {"rille", "setdefaulttensortype", "write {dtype = \"f64\"} at each creation"},
    {"rille", "CmdLine", "write rille.args(arg, {name = default})"},
    {"rille", "DistributedDataParallel", "write rille.parallel(net, {data = 0})"},
    {"rille", "manualSeed", "write rille.manual_seed(n)"},
    {"rille", "var_mean", "write x:var() and x:mean()"},
    {"rille", "isnan", "write x:ne(x)"},
    {"nn", "ModuleList", "a list in a field is one: write self.layers = {a, b}"},
    {"nn", "ModuleDict", "a table in a field is one: write self.parts = {name = module}"},
    {"nn", "ParameterList", "a list in a field is one: write self.weights = {rille.nn.Parameter(t)}"},
    {"nn", "ParameterDict", "a table in a field is one: write self.weights = {name = rille.nn.Parameter(t)}"},
    {"nn", "functional", "operators are methods: write x:relu(), or rille.relu(x)"},
    {"nn", "utils", "write rille.optim.clip_grad_norm(params, max)"},
    {"nn", "AdaptiveAvgPool2d", "write x:mean{axis = {2, 3}, keepdim = true} for size 1"},
    {"nn", "MaxPool1d", "write x:unsqueeze(2):max_pool2d({1, n}):squeeze(2)"},
    {"nn", "AvgPool1d", "write x:unsqueeze(2):avg_pool2d({1, n}):squeeze(2)"},
    {"nn", "Conv3d", "not supported: write rille.nn.Conv2d of slices"},
    {"nn", "ConvTranspose2d", "write rille.nn.Upsample(2), then rille.nn.Conv2d"},
    {"nn", "BatchNorm3d", "write rille.nn.BatchNorm2d of x:reshape{...}"},
    {"nn", "InstanceNorm2d", "write rille.nn.GroupNorm(channels, channels)"},
    {"nn", "SyncBatchNorm", "write rille.nn.BatchNorm2d, whose statistics cover all devices"},
    {"nn", "PReLU", "write x:maximum(0) + x:minimum(0) * self.weight"},
    {"nn", "ReLU6", "write x:clamp(0, 6)"},
    {"nn", "Hardtanh", "write x:clamp(-1, 1)"},
    {"nn", "Hardswish", "write x * (x + 3):clamp(0, 6) / 6"},
    {"nn", "Hardsigmoid", "write (x + 3):clamp(0, 6) / 6"},
    {"nn", "Mish", "write x * x:softplus():tanh()"},
    {"nn", "Softsign", "write x / (x:abs() + 1)"},
    {"nn", "LogSigmoid", "write -(-x):softplus()"},
    {"nn", "CELU", "write rille.nn.ELU(alpha)"},
    {"nn", "SELU", "write rille.nn.ELU(1.6732632)(x) * 1.0507010"},
    {"nn", "GLU", "write x:slice(axis, 0, n) * x:slice(axis, n, 2 * n):sigmoid()"},
    {"nn", "Swish", "write rille.nn.SiLU()"},
    {"nn", "L1Loss", "write (x - y):abs():mean()"},
    {"nn", "SmoothL1Loss", "write d = (x - y):abs(); d:lt(1):where(d * d * 0.5, d - 0.5):mean()"},
    {"nn", "HuberLoss", "write d = (x - y):abs(); d:lt(1):where(d * d * 0.5, d - 0.5):mean()"},
    {"nn", "NLLLoss", "write rille.nn.CrossEntropyLoss(), which accepts logits"},
    {"nn", "BCELoss", "keep logits and write (x:softplus() - x * y):mean()"},
    {"nn", "BCEWithLogitsLoss", "write (x:softplus() - x * y):mean()"},
    {"nn", "KLDivLoss", "write (p * (p:log() - log_q)):sum()"},
    {"nn", "Softmax2d", "write rille.nn.Softmax(1)"},
    {"nn", "ZeroPad2d", "write x:pad{left, right, top, bottom}"},
    {"nn", "Unflatten", "write x:reshape{...}"},
    {"nn", "Dropout2d", "write rille.nn.Dropout(p)"},
    {"nn", "Dropout1d", "write rille.nn.Dropout(p)"},
    {"nn", "EmbeddingBag", "write rille.nn.Embedding(n, d), then y:sum{axis = 1}"},
    {"nn", "LazyLinear", "write rille.nn.Linear(in, out)"},
    {"nn", "Bilinear", "write x:matmul(w):matmul(y)"},
    {"nn", "LSTMLayer", "write rille.nn.LSTM(in, hidden)"},
    {"nn", "TransformerEncoderLayer", "write rille.nn.TransformerBlock(d, heads, {is_causal = false})"},
    {"nn", "TransformerDecoderLayer", "write rille.nn.TransformerBlock(d, heads)"},
    {"nn", "TransformerEncoder", "write a list of rille.nn.TransformerBlock"},
    {"nn", "Transformer", "write a list of rille.nn.TransformerBlock"},
    {"nn", "PixelShuffle", "write x:reshape{...}:permute{...}:reshape{...}"},
    {"nn", "DataParallel", "write rille.parallel(net, {data = 0})"},
    {"nn", "parallel", "write rille.parallel(net, {data = 0})"},
    {"nn", "Buffer", "write net:buffer(name, t)"},
    {"nn", "CosineSimilarity",
     "write (x * y):sum{axis = -1} / (x:square():sum{axis = -1} * y:square():sum{axis = -1}):sqrt()"},
    {"nn", "SpatialConvolution", "write rille.nn.Conv2d(in, out, {height, width}, {stride =, padding =})"},
    {"nn", "SpatialMaxPooling", "write rille.nn.MaxPool2d({height, width}, {stride =, padding =})"},
    {"nn", "SpatialAveragePooling", "write rille.nn.AvgPool2d({height, width}, {stride =, padding =})"},
    {"nn", "SpatialBatchNormalization", "write rille.nn.BatchNorm2d(channels)"},
    {"nn", "BatchNormalization", "write rille.nn.BatchNorm1d(channels)"},
    {"nn", "TemporalConvolution", "write rille.nn.Conv1d(in, out, size)"},
    {"nn", "LookupTable", "write rille.nn.Embedding(n, d)"},
    {"nn", "SpatialDropout", "write rille.nn.Dropout(p)"},
    {"nn", "SoftMax", "write rille.nn.Softmax()"},
    {"nn", "LogSoftMax", "write rille.nn.LogSoftmax()"},
    {"nn", "ClassNLLCriterion", "write rille.nn.CrossEntropyLoss(), which accepts logits"},
    {"nn", "CrossEntropyCriterion", "write rille.nn.CrossEntropyLoss()"},
    {"nn", "MSECriterion", "write rille.nn.MSELoss()"},
    {"nn", "BCECriterion", "keep logits and write (x:softplus() - x * y):mean()"},
    {"nn", "AbsCriterion", "write (x - y):abs():mean()"},
    {"nn", "Criterion", "write a function of results and labels"},
    {"nn", "Reshape", "write x:reshape{...}"},
    {"nn", "View", "write rille.nn.Flatten(), or x:reshape{...}"},
    {"nn", "Concat", "write rille.concat({a(x), b(x)}, axis)"},
    {"nn", "ConcatTable", "write {a(x), b(x)}"},
    {"nn", "ParallelTable", "write {a(x), b(y)}"},
    {"nn", "CAddTable", "write x + y"},
    {"nn", "CMulTable", "write x * y"},
    {"nn", "JoinTable", "write rille.concat({x, y}, axis)"},
    {"nn", "SplitTable", "write x:split(1, axis)"},
    {"nn", "Threshold", "write x:gt(limit):where(x, value)"},
    {"nn", "Container", "write rille.nn.Module:extend(name)"},
    {"nn", "gModule", "write rille.nn.Module:extend(name)"},
    {"nn", "Sum", "write x:sum{axis =}"},
    {"nn", "Mean", "write x:mean{axis =}"},
    {"nn", "Square", "write x:square()"},
    {"nn", "Exp", "write x:exp()"},
    {"nn", "Log", "write x:log()"},
    {"nn", "Add", "write x + self.bias"},
    {"nn", "Mul", "write x * self.weight"},
    {"nn", "MulConstant", "write x * value"},
    {"nn", "AddConstant", "write x + value"},
    {"nn", "Transpose", "write x:transpose(a, b)"},
    {"optim", "lr_scheduler", "write opt.lr = rille.optim.cosine{lr =, steps =}"},
    {"optim", "LRScheduler", "write opt.lr = function(step) return ... end"},
    {"optim", "LambdaLR", "write opt.lr = function(step) return ... end"},
    {"optim", "StepLR", "write opt.lr = function(step) return ... end"},
    {"optim", "CosineAnnealingLR", "write opt.lr = rille.optim.cosine{lr =, steps =}"},
    {"optim", "LinearLR", "write opt.lr = rille.optim.linear{lr =, steps =}"},
    {"optim", "OneCycleLR", "write opt.lr = rille.optim.cosine{lr =, warmup =, steps =}"},
    {"optim", "ReduceLROnPlateau", "write opt.lr = value between steps"},
    {"optim", "RMSprop", "write it with rille.optim.class{update =}"},
    {"optim", "Adagrad", "write it with rille.optim.class{update =}"},
    {"optim", "LBFGS", "not supported: write rille.optim.AdamW"},
    {"optim", "Lion", "write it with rille.optim.class{update =}"},
    {"optim", "Muon", "write it with rille.optim.class{update =}"},
    {"optim", "Adamax", "write it with rille.optim.class{update =}"},
    {"optim", "Optimizer", "write rille.optim.class{name =, update =}"},
    {"optim", "clip_grad_value_", "write p.grad = p.grad:clamp(-max, max)"},
    {"optim", "swa_utils", "write p:copy_(...) inside rille.no_grad"},
    {"data", "DataLoader", "write rille.data.loader{x, y, batch = 64}"},
    {"data", "Dataset", "write rille.data.loader{x, y, batch = 64}"},
    {"data", "TensorDataset", "write rille.data.loader{x, y, batch = 64}"},
    {"data", "IterableDataset", "write an iterator: for x, y in ... do"},
    {"data", "random_split", "write rille.data.permutation(n, seed) and x:index_select(0, ids)"},
    {"data", "Subset", "write x:index_select(0, ids)"},
    {"data", "DistributedSampler", "write rille.data.loader{x, batch =, sbp = \"S(0)\"}"},
    {"data", "read_csv", "write rille.data.csv(path)"},
    {"init", "trunc_normal_", "write rille.nn.init.normal_(p, mean, std)"},
    {"init", "orthogonal_", "not supported: write p:copy_(t)"},
    {"init", "eye_", "write p:copy_(rille.eye(n))"},
    {"checkpoint", "save_state_dict", "write rille.checkpoint.save(dir, {model = net})"},
    {"checkpoint", "restore", "write rille.checkpoint.load(dir, {model = net})"},
    {"module", "cuda", "write net:to_global{placement = rille.placement(\"cuda\", {0}), sbp = \"B\"}"},
    {"module", "cpu", "write net:to_global{placement = rille.placement(\"cpu\", {0}), sbp = \"B\"}"},
    {"module", "half", "write net:to(\"f16\")"},
    {"module", "bfloat16", "write net:to(\"bf16\")"},
    {"module", "requires_grad_", "write for _, p in ipairs(net:parameters()) do p:requires_grad_(false) end"},
    {"module", "freeze", "write for _, p in ipairs(net:parameters()) do p:requires_grad_(false) end"},
    {"module", "unfreeze", "write for _, p in ipairs(net:parameters()) do p:requires_grad_(true) end"},
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
    {"module", "get_parameter", "write net.name"},
    {"module", "get_submodule", "write net.name"},
    {"module", "share_memory", "not needed: all threads share tensors"},
    {"module", "gradParameters", "write p.grad for each of net:parameters()"},
    {"flag", "nproc", "write -n N"},
    {"flag", "np", "write -n N"},
    {"flag", "nproc_per_node", "write -n N"},
    {"flag", "nproc-per-node", "write -n N"},
    {"flag", "nnodes", "write -H a:SLOTS,b:SLOTS"},
    {"flag", "hostfile", "write -H a:SLOTS,b:SLOTS"},
    {"flag", "gpus", "write -d cuda:N, or -d cuda:all"},
    {"flag", "master_addr", "write coordinator --bind tcp://HOST:PORT --world N"},
    {"flag", "master_port", "write coordinator --bind tcp://HOST:PORT --world N"},
    {"parallel option", "placement", "place the model first: net:to_global{placement =, sbp =}"},
    {"parallel option", "dp", "write data"},
    {"parallel option", "tp", "write tensor"},
    {"parallel option", "pp", "write stages"},
    {"parallel option", "pipeline", "write stages"},
    {"parallel option", "fsdp", "write data = 0, zero = 3"},
    {"models.lora option", "rank", "write r"},
    {"models.lora option", "lora_alpha", "write alpha"},
    {"models.lora option", "lora_dropout", "write dropout"},
    {"models.lora option", "target_modules", "write targets"},
    {"generate option", "max_length", "write max_new_tokens"},
    {"generate option", "max_tokens", "write max_new_tokens"},
    {"generate option", "do_sample", "write temperature = 0 for the likeliest token, 1 to sample"},
    {"generate option", "num_beams", "write beams"},
    {"generate option", "num_return_sequences", "write n"},
    {"generate option", "eos_token_id", "write stop"},
    {"generate option", "pad_token_id", "not needed: prompts may have different lengths"},
    {"generate option", "bad_words_ids", "write bad_words"},
    {"generate option", "streamer", "write on_token"},
    {"generate option", "assistant_model", "write draft"},
    {"mesh", "all_reduce", "write mesh:psum(x)"},
    {"mesh", "ppermute", "write mesh:shift(x, axis, n)"},
    {"mesh", "pmean", "write mesh:psum(x) / n, where n is the number of ranks"},
    {"mesh", "axis_index", "write mesh:rank(axis)"},
    {"layer option", "dtype", "write net:to(dtype)"},
    {"layer option", "device", "write net:to_global{placement = rille.placement(kind, {0}), sbp = \"B\"}"},
    {"layer option", "batch_first", "not needed: the input is (batch, length, size)"},
    {"field", "param_groups", "write opt.groups"},
    {"option", "vocab_size", "write size"},
    {"option", "dim", "write axis"},
    {"option", "dims", "write axis"},
    {"option", "axes", "write axis"},
    {"option", "device", "write placement = rille.placement(kind, {0})"},
    {"option", "causal", "write is_causal"},
    {"option", "batch_size", "write batch"},
    {"option", "learning_rate", "write lr"},
    {"option", "size_average", "write reduction = \"mean\""},
    {"option", "map_location", "write placement = rille.placement(kind, {0})"},
    {"layer", "save", "write rille.save(path, net)"},
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

const char *
option_hint(lua_State *L, const char *name, const char *const *keys)
{
    const char *here = name_elsewhere("option", name);
    struct nearest best = {0};
    for (; *keys; keys++) {
        nearest_add(&best, name, *keys);
        size_t n = strlen(*keys); /* the hint is "write KEY" */
        if (here && !strncmp(here + 6, *keys, n) && !isalnum((unsigned char)here[6 + n]) && here[6 + n] != '_')
            return lua_pushfstring(L, ": %s", here);
    }
    return name_hint(L, &best);
}

/* rille._nearest(table, name): returns the key nearest to name, or nil, and the number of letters that differ. */
static int
nearest_name(lua_State *L)
{
    struct nearest best = {0};
    luaL_checktype(L, 1, LUA_TTABLE);
    name_nearest(L, 1, luaL_checkstring(L, 2), &best);
    lua_pushstring(L, best.name);
    lua_pushinteger(L, best.changes);
    return 2;
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
    field_function(L, "_elsewhere", elsewhere_name);
    field_function(L, "_nearest", nearest_name);
}
