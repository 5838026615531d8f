/* names.c - suggests a replacement for an unknown name: Rille's equivalent of another program's name, or the name with
 * the fewest changed letters. */
#include "shell/bind/base/names.h"
#include "shell/bind/base/field.h"

#include <ctype.h>
#include <string.h>

enum { LONGEST = 40 };

static int
least_of_three(int a, int b)
{
    return a < b ? a : b;
}

/* Returns how many letters must be inserted, deleted or replaced to turn a into b (Levenshtein 1966), ignoring case.
 * row[j]: the count for the letters of a examined so far and the first j letters of b. */
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
    /* most: a name that needs more changes is not suggested */
    int n = changes(name, key), most = (int)strlen(name) / 3;
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

/* Names of PyTorch, NumPy, Python and other programs, by the scope in which users look for them, with Rille's
 * equivalents. Names with the same equivalent are separated by |. */
static const struct elsewhere {
    const char *scope, *names, *here;
} elsewhere[] = {
    {"", "torch", "write rille, as in rille.randn{2, 3}"},
    {"", "np|numpy", "write rille, as in rille.arange(6)"},
    {"", "tf|jax|jnp|flow|oneflow", "write rille"},
    {"", "nn", "write rille.nn, or: local nn = rille.nn"},
    {"", "optim", "write rille.optim, or: local optim = rille.optim"},
    {"", "exit|quit", "type :quit or Ctrl-D"},
    {"", "help", "type :help, or ?name for a page"},
    {"", "len", "write #x"},
    {"", "range", "write for i = 0, n - 1 do, or rille.arange(n)"},
    {"", "None|null", "write nil"},
    {"", "True", "write true"},
    {"", "False", "write false"},
    {"", "str", "write tostring(x)"},
    {"", "int", "write math.tointeger(x), or x // 1"},
    {"", "float", "write tonumber(x)"},
    {"", "isinstance", "write type(x)"},
    {"", "import|from", "write local name = require \"name\""},
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
    {"tensor", "dim|rank|dims|nDimension|ndimension", "write x.ndim"},
    {"tensor", "view|flatten|resize|unflatten", "write x:reshape{...}"},
    {"tensor", "view_as|reshape_as|resizeAs", "write x:reshape(y.shape)"},
    {"tensor", "contiguous|stride|is_contiguous", "not needed: every tensor is contiguous"},
    {"tensor", "T|t", "write x:transpose(0, 1)"},
    {"tensor", "mT", "write x:transpose(-2, -1)"},
    {"tensor", "numpy", "write x:totable(), or rille.save(\"x.npy\", x)"},
    {"tensor", "tolist|storage|toTable|to_list", "write x:totable()"},
    {"tensor", "cuda", "write x:to_global{placement = rille.placement(\"cuda\", {0})}"},
    {"tensor", "cpu", "write x:to_global{placement = rille.placement(\"cpu\", {0})}"},
    {"tensor", "float", "write x:to(\"f32\")"},
    {"tensor", "double", "write x:to(\"f64\")"},
    {"tensor", "half", "write x:to(\"f16\")"},
    {"tensor", "bfloat16", "write x:to(\"bf16\")"},
    {"tensor", "long", "write x:to(\"i64\")"},
    {"tensor", "int|char|short", "write x:to(\"i32\")"},
    {"tensor", "bool", "write x:to(\"bool\")"},
    {"tensor", "type", "write x.dtype, or x:to(dtype)"},
    {"tensor", "astype", "write x:to(dtype)"},
    {"tensor", "std", "write x:var():sqrt()"},
    {"tensor", "mm|bmm|dot|mv", "write x:matmul(y)"},
    {"tensor", "ravel", "write x:reshape{x:numel()}"},
    {"tensor", "nelement|nElement", "write x:numel()"},
    {"tensor", "is_cuda", "write x.device == \"cuda\""},
    {"tensor", "data", "write x:detach()"},
    {"tensor", "values", "write x:topk(1, axis), which returns values and ids; x:max() returns values alone"},
    {"tensor", "indices", "write x:argmax{axis =}, or x:topk(1, axis), which returns values and ids"},
    {"tensor", "local_to_global|redistribute", "write x:to_global{placement =, sbp =}"},
    {"tensor", "norm", "write x:square():sum():sqrt()"},
    {"tensor", "leaky_relu", "write x:gt(0):where(x, x * 0.01), or rille.nn.LeakyReLU()"},
    {"tensor", "elu", "write rille.nn.ELU()(x)"},
    {"tensor", "repeat_interleave|index", "write x:index_select(axis, ids)"},
    {"tensor", "tile", "write x:expand{...}, or rille.concat({x, x}, axis)"},
    {"tensor", "expand_as", "write x:expand(y.shape)"},
    {"tensor", "swapaxes|swapdims", "write x:transpose(a, b)"},
    {"tensor", "movedim|moveaxis", "write x:permute{...}"},
    {"tensor", "isnan", "write x:ne(x)"},
    {"tensor", "isfinite", "write (x - x):eq(0)"},
    {"tensor", "isinf", "write x:abs():eq(math.huge)"},
    {"tensor", "clip", "write x:clamp(low, high)"},
    {"tensor", "sort", "write -(-x):topk(n) for ascending values; x:topk(n) returns descending values, and ids"},
    {"tensor", "argsort", "write select(2, (-x):topk(n)), or select(2, x:topk(n)) for descending values"},
    {"tensor", "unique",
     "not supported: collect the distinct values of x:reshape{-1}:totable() in a Lua table, then write "
     "rille.tensor(table)"},
    {"tensor", "outer|ger", "write x:unsqueeze(1) * y"},
    {"tensor", "true_divide|divide|cdiv", "write x / y"},
    {"tensor", "multiply|cmul", "write x * y"},
    {"tensor", "subtract|csub", "write x - y"},
    {"tensor", "negative", "write -x"},
    {"tensor", "absolute", "write x:abs()"},
    {"tensor", "addmm|baddbmm", "write a:matmul(b) + x"},
    {"tensor", "log2", "write x:log() * (1 / math.log(2))"},
    {"tensor", "log10", "write x:log() * (1 / math.log(10))"},
    {"tensor", "log1p", "write (x + 1):log()"},
    {"tensor", "expm1", "write x:exp() - 1"},
    {"tensor", "tan", "write x:sin() / x:cos()"},
    {"tensor", "trunc|fix", "write x:sign() * x:abs():floor()"},
    {"tensor", "logit", "write (x / (1 - x)):log()"},
    {"tensor", "normal_", "write rille.nn.init.normal_(x, mean, std)"},
    {"tensor", "uniform_", "write rille.nn.init.uniform_(x, a, b)"},
    {"tensor", "new_zeros", "write rille.zeros(shape, {dtype =, placement =, sbp =})"},
    {"tensor", "new_ones", "write rille.ones(shape, {dtype =, placement =, sbp =})"},
    {"tensor", "scatter|scatter_", "write x:scatter_add(...), or x:index_put_(...)"},
    {"tensor", "detach_", "write x:copy_(x:detach())"},
    {"tensor", "tolocal", "write x:to_local(rank)"},
    {"tensor", "grad_fn", "write x.is_leaf, or x.requires_grad"},
    {"tensor", "device_mesh", "write x.placement"},
    {"tensor", "placements", "write x.sbp"},
    {"tensor", "full_tensor", "write x:to_global{placement = x.placement, sbp = \"B\"}"},
    {"tensor", "share_memory_", "not needed: all threads share tensors"},
    {"tensor", "pin_memory", "not needed: transfers use pinned memory"},
    {"tensor", "copy", "write x:clone()"},
    {"tensor", "unbind", "write x:split(1, axis), or x[i]"},
    {"tensor", "narrow", "write x:slice(axis, from, to)"},
    {"tensor", "select", "write x[i], or x:index_select(axis, ids)"},
    {"tensor", "cadd", "write x + y"},
    {"tensor", "typeAs|type_as", "write x:to(y.dtype)"},
    {"tensor", "apply|map_|map2_|apply_", "write operators, or rille.tensor(table) of x:totable()"},
    {"tensor", "histc", "write x:hist(bins)"},
    {"tensor", "fill", "write x:fill_(value)"},
    {"tensor", "zero", "write x:zero_()"},
    {"tensor", "nan_to_num", "write rille.where(x:ne(x), 0, x)"},
    {"tensor", "absolute_", "write x:abs_()"},
    {"tensor", "acos|asin|atan|atan2|arccos|arcsin|arctan|arctan2",
     "not supported: Rille has no inverse trigonometric functions"},
    {"tensor", "acosh|arccosh", "write (x + (x:square() - 1):sqrt()):log()"},
    {"tensor", "asinh|arcsinh", "write (x + (x:square() + 1):sqrt()):log()"},
    {"tensor", "atanh|arctanh", "write ((1 + x) / (1 - x)):log() * 0.5"},
    {"tensor", "addbmm", "write x + a:matmul(b):sum(0)"},
    {"tensor", "addmv", "write x + a:matmul(b)"},
    {"tensor", "addr", "write x + a:unsqueeze(1) * b"},
    {"tensor", "addcmul", "write x + a * b * value"},
    {"tensor", "addcdiv", "write x + a / b * value"},
    {"tensor", "amax", "write x:max(axis)"},
    {"tensor", "amin", "write x:min(axis)"},
    {"tensor", "aminmax", "write x:min(axis), x:max(axis)"},
    {"tensor", "argwhere", "write x:nonzero()"},
    {"tensor", "allclose", "write (x - y):abs():le(1e-8 + 1e-5 * y:abs()):all():item()"},
    {"tensor", "isclose", "write (x - y):abs():le(1e-8 + 1e-5 * y:abs())"},
    {"tensor", "l1_loss", "write (x - y):abs():mean()"},
    {"tensor", "smooth_l1_loss|huber_loss", "write d = (x - y):abs(); d:lt(1):where(d * d * 0.5, d - 0.5):mean()"},
    {"tensor", "nll_loss", "keep logits and write x:cross_entropy(labels)"},
    {"tensor", "binary_cross_entropy", "keep logits and write (x:softplus() - x * y):mean()"},
    {"tensor", "binary_cross_entropy_with_logits", "write (x:softplus() - x * y):mean()"},
    {"tensor", "kl_div", "write (p * (p:log() - log_q)):sum()"},
    {"tensor", "cosine_similarity",
     "write (x * y):sum{axis = -1} / (x:square():sum{axis = -1} * y:square():sum{axis = -1}):sqrt()"},
    {"tensor", "cdist", "write (x:unsqueeze(1) - y:unsqueeze(0)):square():sum(2):sqrt()"},
    {"tensor", "normalize", "write x / x:square():sum{axis = -1, keepdim = true}:sqrt()"},
    {"tensor", "interpolate", "write rille.nn.Upsample(2)(x), which repeats pixels"},
    {"tensor", "adaptive_avg_pool2d", "write x:mean{axis = {2, 3}, keepdim = true} for size 1"},
    {"tensor", "pixel_shuffle", "write x:reshape{...}:permute{...}:reshape{...}"},
    {"tensor", "gumbel_softmax", "write (x - (-rille.rand(x.shape):log()):log()):softmax()"},
    {"tensor", "multinomial",
     "write (p:log() - (-rille.rand(p.shape):log()):log()):topk(n), whose second result is the ids"},
    {"tensor", "meshgrid", "write x:unsqueeze(1):expand{n, m} and y:unsqueeze(0):expand{n, m}"},
    {"tensor", "unfold", "not supported: write rille.nn.Conv2d, or rille.stack of slices"},
    {"tensor", "equal", "write x:eq(y):all()"},
    {"tensor", "bernoulli", "write rille.rand(x.shape):lt(x)"},
    {"tensor", "bernoulli_", "write x:copy_(rille.rand(x.shape):lt(p))"},
    {"tensor", "bincount", "write x:one_hot(n):sum(0)"},
    {"tensor", "bitwise_and", "write x:logical_and(y), for bool tensors"},
    {"tensor", "bitwise_or", "write x:logical_or(y), for bool tensors"},
    {"tensor", "bitwise_xor|logical_xor", "write x:ne(y), for bool tensors"},
    {"tensor", "bitwise_not", "write x:logical_not(), for bool tensors"},
    {"tensor", "bitwise_left_shift", "write x * (1 << n)"},
    {"tensor", "bitwise_right_shift", "write x // (1 << n)"},
    {"tensor", "broadcast_to", "write x:expand(shape)"},
    {"tensor", "byte", "write x:to(\"u8\")"},
    {"tensor", "clamp_max|fmin", "write x:minimum(y)"},
    {"tensor", "clamp_min|fmax", "write x:maximum(y)"},
    {"tensor", "copysign", "write x:abs() * y:sign()"},
    {"tensor", "cosh", "write (x:exp() + (-x):exp()) * 0.5"},
    {"tensor", "sinh", "write (x:exp() - (-x):exp()) * 0.5"},
    {"tensor", "count_nonzero", "write x:ne(0):sum()"},
    {"tensor", "cumprod", "write x:log():cumsum(axis):exp(), for positive x"},
    {"tensor",
     "cummax|cummin|digamma|lgamma|polygamma|mvlgamma|i0|igamma|igammac|erfinv|nextafter|gcd|lcm|"
     "frexp|renorm|cauchy_|geometric_|index_reduce|scatter_reduce|as_strided|masked_scatter",
     "not supported: Rille has no such operator"},
    {"tensor", "mode", "write x:one_hot(n):sum(0):argmax(), for integers from 0 to n - 1 in one dimension"},
    {"tensor", "median", "write x:topk(n)[n // 2], for n values in one dimension"},
    {"tensor", "nanmedian",
     "not supported: select one of the values without NaN, in a Lua table: x:reshape{-1}:totable()"},
    {"tensor", "quantile",
     "not supported: write x:reshape{-1}:topk(x:numel()) for the values in descending order, and select one"},
    {"tensor", "deg2rad", "write x * (math.pi / 180)"},
    {"tensor", "rad2deg", "write x * (180 / math.pi)"},
    {"tensor", "det|slogdet|logdet|inverse|pinverse|svd|qr|cholesky|eig|lu",
     "not supported: Rille has no matrix decompositions"},
    {"tensor", "diag", "write x:unsqueeze(-1) * rille.eye(n) for a vector, (x * rille.eye(n)):sum(1) for a matrix"},
    {"tensor", "diag_embed", "write x:unsqueeze(-1) * rille.eye(n)"},
    {"tensor", "diagonal", "write (x * rille.eye(n)):sum(1)"},
    {"tensor", "trace", "write (x * rille.eye(n)):sum()"},
    {"tensor", "diff", "write x:slice(-1, 1) - x:slice(-1, 0, -1)"},
    {"tensor", "sparse_resize_|sparse_resize_and_clear_|resize_as_sparse_|to_sparse",
     "not supported: Rille has no sparse tensors"},
    {"tensor", "real|imag|conj|conj_physical|angle|H|mH|adjoint|cfloat|cdouble|is_complex",
     "not supported: Rille has no complex numbers"},
    {"tensor", "erfc", "write 1 - x:erf()"},
    {"tensor", "exp2", "write (x * math.log(2)):exp()"},
    {"tensor", "exponential_", "write x:copy_(-(1 - rille.rand(x.shape)):log() / rate)"},
    {"tensor", "log_normal_", "write x:copy_((rille.randn(x.shape) * std + mean):exp())"},
    {"tensor", "random_", "write x:copy_(rille.randint(low, high, x.shape))"},
    {"tensor", "fill_diagonal_", "write x:copy_(rille.eye(n):to(\"bool\"):where(value, x))"},
    {"tensor", "frac", "write x - x:sign() * x:abs():floor()"},
    {"tensor", "float_power", "write x:to(\"f64\") ^ y"},
    {"tensor", "floor_divide", "write x // y"},
    {"tensor", "remainder", "write x % y"},
    {"tensor", "fmod", "write x:sign() * (x:abs() % y), for positive y"},
    {"tensor", "greater", "write x:gt(y)"},
    {"tensor", "greater_equal", "write x:ge(y)"},
    {"tensor", "less", "write x:lt(y)"},
    {"tensor", "less_equal", "write x:le(y)"},
    {"tensor", "not_equal", "write x:ne(y)"},
    {"tensor", "fliplr", "write x:flip(1)"},
    {"tensor", "flipud", "write x:flip(0)"},
    {"tensor", "hypot", "write (x:square() + y:square()):sqrt()"},
    {"tensor", "heaviside", "write x:gt(0):where(1, x:eq(0):where(y, 0))"},
    {"tensor", "hardshrink", "write x:abs():gt(0.5):where(x, 0)"},
    {"tensor", "index_add_", "write x:index_put_(ids, v, {accumulate = true}), or with the key {{}, ids} for axis 1"},
    {"tensor", "index_copy_|index_fill_", "write x:index_put_(ids, v), or x:index_put_({{}, ids}, v) for axis 1"},
    {"tensor", "put_", "write y = x:reshape{-1}:clone(), then y:index_put_(ids, v) and x:copy_(y:reshape(x.shape))"},
    {"tensor", "index_add",
     "write y = x:clone(), then y:index_put_(ids, v, {accumulate = true}), or with the key {{}, ids} for axis 1"},
    {"tensor", "index_copy|index_fill|slice_scatter|select_scatter", "write y = x:clone(), then y:index_put_(key, v)"},
    {"tensor", "put", "write y = x:reshape{-1}:clone(), then y:index_put_(ids, v) and y:reshape(x.shape)"},
    {"tensor", "masked_scatter_", "write x:index_put_(mask, v)"},
    {"tensor", "inner|vdot", "write (x * y):sum()"},
    {"tensor", "is_floating_point", "write x.dtype:find(\"f\") ~= nil"},
    {"tensor", "is_signed", "write x.dtype ~= \"u8\" and x.dtype ~= \"bool\""},
    {"tensor", "is_nonzero", "write x:item() ~= 0"},
    {"tensor", "isneginf", "write x:eq(-math.huge)"},
    {"tensor", "isposinf", "write x:eq(math.huge)"},
    {"tensor", "kthvalue", "write (-(-x):topk(k))[k - 1], for values in one dimension"},
    {"tensor", "msort", "write -(-x):topk(#x, 0)"},
    {"tensor", "ldexp", "write x * (y * math.log(2)):exp()"},
    {"tensor", "lerp", "write x + weight * (y - x)"},
    {"tensor", "logaddexp", "write rille.stack({x, y}, 0):logsumexp(0)"},
    {"tensor", "nansum", "write x:ne(x):where(0, x):sum()"},
    {"tensor", "new_empty|new_full", "write rille.full(shape, value, {dtype =, placement =, sbp =})"},
    {"tensor", "new_tensor", "write rille.tensor(table, {dtype =, placement =, sbp =})"},
    {"tensor", "prelu", "write x:gt(0):where(x, x * weight)"},
    {"tensor", "resize_|resize_as_", "write x = x:reshape{...}"},
    {"tensor", "t_", "write x = x:transpose(0, 1)"},
    {"tensor", "swapaxes_|swapdims_", "write x = x:transpose(a, b)"},
    {"tensor", "roll", "write rille.concat({x:slice(axis, -n), x:slice(axis, 0, -n)}, axis)"},
    {"tensor", "set_", "write x:copy_(y)"},
    {"tensor", "sgn", "write x:sign()"},
    {"tensor", "signbit", "write x:lt(0)"},
    {"tensor", "sinc", "write x:eq(0):where(1, (x * math.pi):sin() / (x * math.pi))"},
    {"tensor", "take", "write x:reshape{-1}[ids]"},
    {"tensor", "take_along_dim", "write x:gather(axis, ids)"},
    {"tensor", "tensor_split|hsplit|vsplit|dsplit", "write x:chunk(n, axis)"},
    {"tensor", "xlogy", "write x:eq(0):where(0, x * y:log())"},
    {"rille", "from_numpy", "write rille.load_npy(path), or rille.tensor(table)"},
    {"rille", "FloatTensor|Tensor|array|as_tensor|asarray", "write rille.tensor(table)"},
    {"rille", "bmm|mm", "write rille.matmul(a, b)"},
    {"rille", "std", "write x:var():sqrt()"},
    {"rille", "ones_like", "write rille.ones(x.shape, {dtype =, placement =, sbp =})"},
    {"rille", "zeros_like", "write rille.zeros(x.shape, {dtype =, placement =, sbp =})"},
    {"rille", "device", "devices are placements: rille.placement(\"cpu\", {0})"},
    {"rille", "no_grad_|inference_mode", "write rille.no_grad(fn)"},
    {"rille", "jit|compile|script", "write rille.graph(fn)"},
    {"rille", "seed|manual_seed_all|random|manualSeed", "write rille.manual_seed(n)"},
    {"rille", "cuda", "devices are placements: rille.placement(\"cuda\", {0})"},
    {"rille", "backends", "write rille.allow_tf32(true) for matrix products in TF32"},
    {"rille", "distributed", "ranks are part of a placement: rille.placement(\"cpu\", {0, 1})"},
    {"rille", "DeviceMesh", "write rille.placement(\"cuda\", {{0, 1}, {2, 3}})"},
    {"rille", "functional", "operators are in rille itself: rille.relu(x), or x:relu()"},
    {"rille", "utils|DataLoader", "write rille.data.loader{x, y, batch = 64}"},
    {"rille", "autograd", "write rille.grad(loss, {x}), or rille.func{forward =, backward =}"},
    {"rille", "einsum", "write x:matmul(y), after permute and reshape"},
    {"rille", "dot", "write x:matmul(y)"},
    {"rille", "norm", "write x:square():sum():sqrt()"},
    {"rille", "clip", "write x:clamp(low, high)"},
    {"rille", "normal", "write rille.randn(shape) * std + mean"},
    {"rille", "randperm", "write rille.data.permutation(n, seed)"},
    {"rille", "sort", "write -(-x):topk(n) for ascending values; x:topk(n) returns descending values, and ids"},
    {"rille", "argsort", "write select(2, (-x):topk(n)), or select(2, x:topk(n)) for descending values"},
    {"rille", "outer", "write x:unsqueeze(1) * y"},
    {"rille", "hstack", "write rille.concat({a, b}, 1)"},
    {"rille", "vstack", "write rille.concat({a, b}, 0)"},
    {"rille", "full_like", "write rille.full(x.shape, value)"},
    {"rille", "rand_like", "write rille.rand(x.shape)"},
    {"rille", "randn_like", "write rille.randn(x.shape)"},
    {"rille", "empty_like", "write rille.empty(x.shape)"},
    {"rille", "set_detect_anomaly", "write rille.detect_nan(true)"},
    {"rille", "is_grad_enabled", "write (w * 1).requires_grad, where w requires a gradient"},
    {"rille", "set_grad_enabled", "write rille.no_grad(fn), or rille.enable_grad(fn)"},
    {"rille", "set_default_dtype|setdefaulttensortype", "write {dtype = \"f64\"} at each creation"},
    {"rille", "is_tensor", "write type(x) == \"userdata\""},
    {"rille", "swapaxes", "write x:transpose(a, b)"},
    {"rille", "cond", "write c:where(a, b) for tensors; a number that decides in Lua is an argument of the step"},
    {"rille", "vmap", "operators broadcast over leading axes: write x:unsqueeze(axis)"},
    {"rille", "hessian|jacrev|jacobian", "write rille.grad(y, {x}), which can be differentiated again"},
    {"rille", "pmap", "write rille.per_rank, or x:to_global{placement =, sbp =}"},
    {"rille", "shard_map", "write rille.per_rank"},
    {"rille", "value_and_grad", "write rille.grad(loss, {x})"},
    {"rille", "float32|float", "write \"f32\""},
    {"rille", "float64|double", "write \"f64\""},
    {"rille", "float16|half", "write \"f16\""},
    {"rille", "bfloat16", "write \"bf16\""},
    {"rille", "int64|long", "write \"i64\""},
    {"rille", "int32|int", "write \"i32\""},
    {"rille", "uint8", "write \"u8\""},
    {"rille", "bool", "write \"bool\""},
    {"rille", "Module", "write rille.nn.Module"},
    {"rille", "Linear", "write rille.nn.Linear(in, out)"},
    {"rille", "LongTensor", "write rille.tensor(table, {dtype = \"i64\"})"},
    {"rille", "DoubleTensor", "write rille.tensor(table, {dtype = \"f64\"})"},
    {"rille", "profiler", "write rille.graph(fn):trace(path)"},
    {"rille", "trace", "write step:trace(path), where step = rille.graph(fn)"},
    {"rille", "CmdLine", "write rille.args(arg, {name = default})"},
    {"rille", "DistributedDataParallel", "write rille.parallel(net, {data = 0})"},
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
    {"nn", "L1Loss|AbsCriterion", "write (x - y):abs():mean()"},
    {"nn", "SmoothL1Loss|HuberLoss", "write d = (x - y):abs(); d:lt(1):where(d * d * 0.5, d - 0.5):mean()"},
    {"nn", "NLLLoss|ClassNLLCriterion", "write rille.nn.CrossEntropyLoss(), which accepts logits"},
    {"nn", "BCELoss|BCECriterion", "keep logits and write (x:softplus() - x * y):mean()"},
    {"nn", "BCEWithLogitsLoss", "write (x:softplus() - x * y):mean()"},
    {"nn", "KLDivLoss", "write (p * (p:log() - log_q)):sum()"},
    {"nn", "TripletMarginLoss",
     "write ((a - p):square():sum(1):sqrt() - (a - n):square():sum(1):sqrt() + 1):relu():mean()"},
    {"nn", "weight_norm", "write the weight in forward: g * v / v:square():sum{axis = 1, keepdim = true}:sqrt()"},
    {"nn", "Softmax2d", "write rille.nn.Softmax(1)"},
    {"nn", "ZeroPad2d", "write x:pad{left, right, top, bottom}"},
    {"nn", "Unflatten|Reshape", "write x:reshape{...}"},
    {"nn", "Dropout2d|Dropout1d|SpatialDropout", "write rille.nn.Dropout(p)"},
    {"nn", "EmbeddingBag", "write rille.nn.Embedding(n, d), then y:sum{axis = 1}"},
    {"nn", "LazyLinear", "write rille.nn.Linear(in, out)"},
    {"nn", "Bilinear", "write x:matmul(w):matmul(y)"},
    {"nn", "LSTMLayer", "write rille.nn.LSTM(in, hidden)"},
    {"nn", "TransformerEncoderLayer", "write rille.nn.TransformerBlock(d, heads, {is_causal = false})"},
    {"nn", "TransformerDecoderLayer", "write rille.nn.TransformerBlock(d, heads)"},
    {"nn", "TransformerEncoder|Transformer", "write a list of rille.nn.TransformerBlock"},
    {"nn", "PixelShuffle", "write x:reshape{...}:permute{...}:reshape{...}"},
    {"nn", "DataParallel|parallel", "write rille.parallel(net, {data = 0})"},
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
    {"nn", "SoftMax", "write rille.nn.Softmax()"},
    {"nn", "LogSoftMax", "write rille.nn.LogSoftmax()"},
    {"nn", "CrossEntropyCriterion", "write rille.nn.CrossEntropyLoss()"},
    {"nn", "MSECriterion", "write rille.nn.MSELoss()"},
    {"nn", "Criterion", "write a function of results and labels"},
    {"nn", "View", "write rille.nn.Flatten(), or x:reshape{...}"},
    {"nn", "Concat", "write rille.concat({a(x), b(x)}, axis)"},
    {"nn", "ConcatTable", "write {a(x), b(x)}"},
    {"nn", "ParallelTable", "write {a(x), b(y)}"},
    {"nn", "CAddTable", "write x + y"},
    {"nn", "CMulTable", "write x * y"},
    {"nn", "JoinTable", "write rille.concat({x, y}, axis)"},
    {"nn", "SplitTable", "write x:split(1, axis)"},
    {"nn", "Threshold", "write x:gt(limit):where(x, value)"},
    {"nn", "Container|gModule", "write rille.nn.Module:extend(name)"},
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
    {"optim", "lr_scheduler|CosineAnnealingLR", "write opt.lr = rille.optim.cosine{lr =, steps =}"},
    {"optim", "LRScheduler|LambdaLR|StepLR|MultiStepLR|ExponentialLR|CosineAnnealingWarmRestarts",
     "write opt.lr = function(step) return ... end"},
    {"optim", "LinearLR", "write opt.lr = rille.optim.linear{lr =, steps =}"},
    {"optim", "OneCycleLR", "write opt.lr = rille.optim.cosine{lr =, warmup =, steps =}"},
    {"optim", "ReduceLROnPlateau", "write opt.lr = value between steps"},
    {"optim", "RMSprop|Adagrad|Adadelta|NAdam|RAdam|Lion|Muon|Adamax", "write it with rille.optim.class{update =}"},
    {"optim", "LBFGS", "not supported: write rille.optim.AdamW"},
    {"optim", "Optimizer", "write rille.optim.class{name =, update =}"},
    {"optim", "clip_grad_value_", "write p.grad = p.grad:clamp(-max, max)"},
    {"optim", "swa_utils", "write p:copy_(...) inside rille.no_grad"},
    {"data", "DataLoader|Dataset|TensorDataset", "write rille.data.loader{x, y, batch = 64}"},
    {"data", "IterableDataset", "write an iterator: for x, y in ... do"},
    {"data", "random_split", "write y = x[{{rille.data.permutation(n, seed)}}], then y[{{0, k}}] and y[{{k, n}}]"},
    {"data", "Subset|WeightedRandomSampler", "write x:index_select(0, ids)"},
    {"data", "RandomSampler", "write rille.data.loader{x, y, batch = 64, shuffle = true}"},
    {"data", "ConcatDataset", "write rille.concat({x, y}, 0)"},
    {"data", "DistributedSampler", "write rille.data.loader{x, batch =, sbp = \"S(0)\"}"},
    {"data", "read_csv", "write rille.data.csv(path)"},
    {"data", "read_image", "write rille.data.image(path)"},
    {"init", "trunc_normal_", "write rille.nn.init.normal_(p, mean, std)"},
    {"init", "orthogonal_", "not supported: write p:copy_(t)"},
    {"init", "eye_", "write p:copy_(rille.eye(n))"},
    {"checkpoint", "save_state_dict", "write rille.checkpoint.save(dir, {model = net})"},
    {"checkpoint", "restore", "write rille.checkpoint.load(dir, {model = net})"},
    {"module", "cuda", "write net:to_global{placement = rille.placement(\"cuda\", {0}), sbp = \"B\"}"},
    {"module", "cpu", "write net:to_global{placement = rille.placement(\"cpu\", {0}), sbp = \"B\"}"},
    {"module", "half", "write net:to(\"f16\")"},
    {"module", "bfloat16", "write net:to(\"bf16\")"},
    {"module", "requires_grad_|freeze", "write for _, p in ipairs(net:parameters()) do p:requires_grad_(false) end"},
    {"module", "unfreeze", "write for _, p in ipairs(net:parameters()) do p:requires_grad_(true) end"},
    {"module", "zero_grad|zeroGradParameters", "write optimizer:zero_grad()"},
    {"module", "children", "write net:modules(), or pairs over its fields"},
    {"module", "named_children", "write net:named_modules()"},
    {"module", "buffers", "write net:named_buffers()"},
    {"module", "register_buffer", "write net:buffer(name, t)"},
    {"module", "register_parameter", "write net.name = rille.nn.Parameter(t)"},
    {"module", "register_module|add_module", "write net.name = module"},
    {"module", "register_backward_hook", "write net:register_full_backward_hook(fn)"},
    {"module", "compile", "write rille.graph(net)"},
    {"module", "getParameters", "write net:parameters(), a list of tensors"},
    {"module", "updateParameters", "write optimizer:step()"},
    {"module", "accGradParameters|updateGradInput", "write loss:backward()"},
    {"module", "updateOutput", "write net(x)"},
    {"module", "evaluate", "write net:eval()"},
    {"module", "clearState", "not needed: results are freed after their last use"},
    {"module", "get_parameter|get_submodule", "write net.name"},
    {"module", "share_memory", "not needed: all threads share tensors"},
    {"module", "gradParameters", "write p.grad for each of net:parameters()"},
    {"flag", "nproc|np|nproc_per_node|nproc-per-node", "write -n N"},
    {"flag", "nnodes|hostfile", "write -H a:SLOTS,b:SLOTS"},
    {"flag", "gpus", "write -d cuda:N, or -d cuda:all"},
    {"flag", "master_addr|master_port", "write coordinator --bind tcp://HOST:PORT --world N"},
    {"parallel option", "placement", "place the model first: net:to_global{placement =, sbp =}"},
    {"parallel option", "dp", "write data"},
    {"parallel option", "tp", "write tensor"},
    {"parallel option", "pp|pipeline", "write stages"},
    {"parallel option", "fsdp", "write data = 0, zero = 3"},
    {"models.lora option", "rank", "write r"},
    {"models.lora option", "lora_alpha", "write alpha"},
    {"models.lora option", "lora_dropout", "write dropout"},
    {"models.lora option", "target_modules", "write targets"},
    {"generate option", "max_length", "write max_new_tokens, which does not count the prompt"},
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
    {"layer option", "padding_idx", "write e(ids):masked_fill(ids:eq(i):unsqueeze(-1), 0)"},
    {"layer option", "batch_first", "not needed: the input is (batch, length, size)"},
    {"field", "param_groups", "write opt.groups"},
    {"option", "vocab_size", "write size"},
    {"option", "dim|dims|axes", "write axis"},
    {"option", "device|map_location", "write placement = rille.placement(kind, {0})"},
    {"option", "causal", "write is_causal"},
    {"option", "batch_size", "write batch"},
    {"option", "learning_rate", "write lr"},
    {"option", "weight", "write reduction = \"none\", then (l * w):sum() / w:sum(), where w = weights[labels]"},
    {"option", "size_average", "write reduction = \"mean\""},
    {"layer", "save", "write rille.save(path, net)"},
    {"layer", "add", "write net[#net + 1] = module, or rille.nn.Sequential(a, b, ...)"},
    {"layer", "insert", "write rille.nn.Sequential(a, b, ...)"},
    {"layer", "append", "write net[#net + 1] = module"},
    {"layer", "get", "write net[i]; the first index is 1"},
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

/* Returns true if the list, whose names are separated by |, contains the name. */
static bool
lists_name(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = list; *at; at += strcspn(at, "|"), at += *at == '|')
        if (strcspn(at, "|") == n && !strncmp(at, name, n)) return true;
    return false;
}

const char *
name_elsewhere(const char *scope, const char *name)
{
    for (const struct elsewhere *e = elsewhere; e->names; e++)
        if (!strcmp(e->scope, scope) && lists_name(e->names, name)) return e->here;
    return NULL;
}

void
nearest_option_print(const struct nearest *best, const char *option, char *text, size_t size)
{
    const char *here = name_elsewhere("flag", option + strspn(option, "-"));
    const char *middle = here ? ": " : best->name ? "; the nearest is --" : "";
    snprintf(text, size, "unknown option %.100s%s%s", option, middle, here ? here : best->name ? best->name : "");
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
        size_t n = strlen(*keys); /* the hint is "write KEY", so KEY begins at here + 6 */
        if (here && !strncmp(here + 6, *keys, n) && !isalnum((unsigned char)here[6 + n]) && here[6 + n] != '_')
            return lua_pushfstring(L, ": %s", here);
    }
    return name_hint(L, &best);
}

/* rille._nearest(table, name): returns the key nearest to name, or nil; and the number of letters that differ. */
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

/* rille._elsewhere(scope, name): returns Rille's equivalent of another program's name; nil: unknown. */
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
