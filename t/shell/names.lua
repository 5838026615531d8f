-- names.lua - tests that names of PyTorch, Torch7 and Python exist in Rille, or have an error with the name to write.
local tap = dofile("t/lib/tap.lua")
local pages = require "rille.pages"
local nn = rille.nn

local net = nn.Linear(2, 2)
local scopes = {tensor = rille.ones{2, 2}, rille = rille, nn = nn, optim = rille.optim, data = rille.data, init = nn.init, module = net}

local asked = {
  nn = [[Tanh Sigmoid Softmax LogSoftmax Softplus ReLU LeakyReLU ELU GELU SiLU Identity Flatten MaxPool2d AvgPool2d Upsample Linear
    Conv1d Conv2d BatchNorm1d BatchNorm2d GroupNorm LayerNorm RMSNorm Embedding Dropout LSTM GRU RNN Sequential Module Parameter
    CrossEntropyLoss MSELoss MultiheadAttention ModuleList ModuleDict ParameterList AdaptiveAvgPool2d MaxPool1d BCELoss BCEWithLogitsLoss
    L1Loss SmoothL1Loss HuberLoss NLLLoss KLDivLoss PReLU ReLU6 Hardtanh Mish Softsign LogSigmoid SELU GLU InstanceNorm2d Conv3d ConvTranspose2d
    TransformerEncoderLayer TransformerEncoder Transformer DataParallel functional utils Buffer EmbeddingBag ZeroPad2d PixelShuffle Unflatten
    SpatialConvolution SpatialMaxPooling SpatialAveragePooling SpatialBatchNormalization BatchNormalization TemporalConvolution LookupTable SoftMax
    LogSoftMax ClassNLLCriterion CrossEntropyCriterion MSECriterion BCECriterion Reshape View Concat ConcatTable ParallelTable CAddTable JoinTable
    SplitTable Threshold gModule Dropout2d LazyLinear CosineSimilarity TripletMarginLoss weight_norm]],
  rille = [[no_grad manual_seed from_numpy save load tensor zeros ones zeros_like ones_like full_like randn randn_like rand randint arange linspace eye
    cat stack matmul einsum where Tensor FloatTensor LongTensor device cuda backends distributed jit compile autograd vmap nn optim data utils DataLoader
    functional relu softmax sigmoid tanh clip norm sort argsort outer randperm inference_mode set_grad_enabled is_grad_enabled set_detect_anomaly float32 float16 bfloat16 int64 bool
    Module DeviceMesh shard_map value_and_grad hstack vstack as_tensor std mm bmm profiler l1_loss
    smooth_l1_loss nll_loss binary_cross_entropy binary_cross_entropy_with_logits kl_div cosine_similarity cdist normalize interpolate
    adaptive_avg_pool2d pixel_shuffle gumbel_softmax multinomial meshgrid unfold hessian jacrev]],
  tensor = [[shape size view cuda cpu item detach numpy tolist T t dim reshape float double half long int bool type std mm bmm dot flatten contiguous
    squeeze unsqueeze expand expand_as repeat_interleave tile norm clip clamp sort argsort topk sum mean max min argmax pow sqrt abs isnan isinf isfinite detach_ add sub mul div
    add_ mul_ fill_ zero_ copy_ normal_ uniform_ clone backward grad requires_grad requires_grad_ register_hook retain_grad is_leaf masked_fill
    index_select gather scatter_add scatter narrow select unbind chunk split cmul cdiv nElement nDimension resize apply histc typeAs new_zeros
    device_mesh placements full_tensor redistribute swapaxes permute transpose outer log2 log1p is_contiguous data ndim device dtype grad_fn
    absolute acos acosh addbmm addcdiv addcmul addmm addmv addr allclose amax amin aminmax argwhere asin asinh atan atan2 atanh baddbmm bernoulli
    bincount bitwise_and bitwise_not bitwise_or bitwise_xor broadcast_to byte char clamp_max clamp_min copysign cosh count_nonzero cummax cummin
    cumprod cumsum deg2rad det diag diag_embed diagonal diff digamma divide equal erfc erfinv exp2 expm1 fix flip fliplr flipud
    float_power floor_divide fmax fmin fmod frac ger greater greater_equal hardshrink heaviside hypot index_add index_copy index_fill index_put_ inner
    inverse is_complex is_floating_point isclose isneginf isposinf kthvalue ldexp lerp less less_equal lgamma log10 logaddexp logdet logical_and
    logical_not logical_or logical_xor logit masked_select median mode moveaxis movedim msort multiply mv nan_to_num nansum ndimension negative
    new_full new_tensor nonzero not_equal pinverse prelu prod put qr quantile rad2deg ravel remainder renorm reshape_as roll round rsqrt
    scatter_reduce select_scatter sgn short sigmoid sinc sinh slice_scatter softmax square subtract svd swapdims take take_along_dim tan tanh
    tensor_split trace true_divide trunc type_as unflatten var vdot view_as xlogy abs_ absolute_ acos_ acosh_ add_ addbmm_ addcdiv_ addcmul_ addmm_
    addmv_ addr_ apply_ arccos_ arccosh_ arcsin_ arcsinh_ arctan2_ arctan_ arctanh_ as_strided_ asin_ asinh_ atan2_ atan_ atanh_ baddbmm_ bernoulli_
    bitwise_and_ bitwise_left_shift_ bitwise_not_ bitwise_or_ bitwise_right_shift_ bitwise_xor_ cauchy_ ceil_ clamp_ clamp_max_ clamp_min_ clip_
    conj_physical_ copy_ copysign_ cos_ cosh_ cumprod_ cumsum_ deg2rad_ detach_ digamma_ div_ divide_ eq_ erf_ erfc_ erfinv_ exp2_ exp_ expm1_
    exponential_ fill_ fill_diagonal_ fix_ float_power_ floor_ floor_divide_ fmod_ frac_ gcd_ ge_ geometric_ greater_ greater_equal_ gt_ heaviside_
    hypot_ i0_ igamma_ igammac_ index_add_ index_copy_ index_fill_ index_reduce_ lcm_ ldexp_ le_ lerp_ less_ less_equal_ lgamma_ log10_ log1p_ log2_
    log_ log_normal_ logical_and_ logical_not_ logical_or_ logical_xor_ logit_ lt_ map2_ map_ masked_fill_ masked_scatter_ mul_ multiply_ mvlgamma_
    nan_to_num_ ne_ neg_ negative_ nextafter_ normal_ not_equal_ polygamma_ pow_ put_ rad2deg_ random_ reciprocal_ relu_ remainder_ renorm_
    requires_grad_ resize_ resize_as_ resize_as_sparse_ round_ rsqrt_ scatter_ scatter_add_ scatter_reduce_ set_ sgn_ share_memory_ sigmoid_ sign_
    sin_ sinc_ sinh_ sparse_resize_ sparse_resize_and_clear_ sqrt_ square_ squeeze_ sub_ subtract_ swapaxes_ swapdims_ t_ tan_ tanh_ transpose_ tril_
    triu_ true_divide_ trunc_ uniform_ unsqueeze_ xlogy_ zero_]],
  optim = [[SGD Adam AdamW RMSprop Adagrad LBFGS Lion lr_scheduler CosineAnnealingLR StepLR LambdaLR OneCycleLR Optimizer clip_grad_norm_ sgd adam MultiStepLR
    ExponentialLR CosineAnnealingWarmRestarts Adadelta NAdam RAdam]],
  data = [[DataLoader Dataset TensorDataset random_split DistributedSampler Subset read_csv RandomSampler WeightedRandomSampler
    ConcatDataset]],
  init = [[xavier_uniform_ kaiming_normal_ normal_ uniform_ zeros_ ones_ constant_ trunc_normal_ orthogonal_ kaiming_uniform xavier_normal]],
  module = [[cuda cpu half float double bfloat16 to train eval parameters named_parameters state_dict load_state_dict zero_grad children
    named_children modules named_modules apply register_buffer register_parameter add_module requires_grad_ buffers named_buffers compile
    getParameters evaluate updateParameters size append register_forward_hook save]],
}

for scope, names in pairs(asked) do
  tap.group(scope, function()
    for name in names:gmatch("%S+") do
      local good, why = pcall(function() return scopes[scope][name] end)
      local says = not good and (tostring(why):find("has no [%w ]*'" .. name .. "': %l") or tostring(why):find("'" .. name .. "': %l")
        or tostring(why):find("the nearest name is '", 1, true))
      -- permits x.grad, which exists but is nil for a tensor without a gradient
      good = good and (why ~= nil or name == "grad")
      tap.ok(good or says, ("%s of %s exists, or its error says what to write"):format(name, scope), tostring(why))
      tap.ok(pages.page(name) or pages.found(name), ("?%s has an answer"):format(name))
      local hint = rille._elsewhere(scope, name)
      tap.ok(not (good and hint), ("%s of %s does not have both"):format(name, scope), hint)
    end
  end)
end

tap.group("global names", function()
  for name in ([[torch np numpy tf jax F nn optim DataLoader device len range enumerate zip list dict max min abs sum round sqrt exp sin cos log pi
    None True False null str int float isinstance import from def elif is del pass lambda open print exit quit help]]):gmatch("%S+") do
    tap.ok(_G[name] or rille._elsewhere("", name), name .. " exists, or the shell says what to write")
  end
end)

-- Returns the paths in a hint, such as rille.nn.Conv2d, that do not exist.
local function unknown(hint)
  local list = {}
  for path in hint:gmatch("rille(%.[%w_.]*[%w_])") do
    local at = rille
    for part in path:gmatch("[%w_]+") do
      local good, value = pcall(function() return at[part] end)
      at = good and value or nil
      if at == nil then break end
    end
    if at == nil then list[#list + 1] = "rille" .. path end
  end
  return table.concat(list, " ")
end

tap.group("hints", function()
  for scope, names in pairs(asked) do
    for name in names:gmatch("%S+") do
      local hint = rille._elsewhere(scope, name)
      if hint then tap.is(unknown(hint), "", ("the hint for %s names what exists: %s"):format(name, hint)) end
    end
  end
end)

tap.group("options of other programs", function()
  local l, y, w = rille.rand(4, 3), rille.tensor({1, 2, 0, 1}, {dtype = "i64"}), rille.tensor{1, 2, 3}
  for _, row in ipairs{
    {"weight", function() return l:cross_entropy(y, {weight = w}) end}, {"weight", function() return nn.CrossEntropyLoss{weight = w} end},
    {"padding_idx", function() return nn.Embedding(5, 2, {padding_idx = 0}) end}, {"dim", function() return l:sum{dim = 0} end},
    {"batch_first", function() return nn.LSTM(3, 4, {batch_first = true}) end}, {"device", function() return nn.Linear(3, 4, {device = "cpu"}) end}} do
    tap.fails(row[2], {"'" .. row[1] .. "': ", "; expected one of: "}, "the error for the option " .. row[1] .. " says what to write")
  end
  local code = rille._elsewhere("option", "weight"):match("%(l .*sum%(%)"):gsub("w = v%[labels%]", "")
  tap.near(assert(load("local l, w = ...; return " .. code))(l:cross_entropy(y, {reduction = "none"}), w[y]):item(),
    (l:log_softmax{axis = 1}:neg():gather(1, y:unsqueeze(1)):squeeze(1) * w[y]):sum():item() / w[y]:sum():item(), "weights of classes")
end)

-- Each hint is computed, for x = {3, 1, 2, 1, 5} unless the row has values. Columns: name, result, values.
local computed = {
  {"median", 2}, {"mode", 1}, {"allclose", true}, {"is_floating_point", true}, {"is_signed", true}, {"diff", {-2, 1, -1, 4}},
  {"diff", {{1, 2}, {-2, -4}}, {{1, 2, 4}, {7, 5, 1}}}, {"sort", {1, 1, 2, 3, 5}}, {"argsort", {1, 3, 2, 0, 4}}, {"kthvalue", 3},
  {"msort", {{1, 5}, {2, 7}}, {{2, 5}, {1, 7}}}, {"frac", {0.5, -0.25}, {1.5, -2.25}}, {"trunc", {1, -2}, {1.5, -2.25}}}

tap.group("hints compute what the other program's name computes", function()
  for _, case in ipairs(computed) do
    local name, want, values = table.unpack(case)
    local hint = rille._elsewhere("tensor", name)
    local x = rille.tensor(values or {3, 1, 2, 1, 5}, {dtype = name == "mode" and "i64" or "f32"})
    local code = assert(load("local x, y, n, rille = ...; local k = 4; return " .. hint:gsub("^write ", ""):gsub(" for .*", ""):gsub(", *$", ""):gsub(", or .*", "")))
    local got = code(x, x * 1, name == "mode" and 6 or 5, rille)
    if type(got) == "userdata" then got = got.ndim == 0 and got:item() or got:totable() end
    tap.is(got, want, ("%s: %s"):format(name, hint))
  end
  local edits = {
    {"index_add", {4, 1, 3, 1, 5}}, {"index_add_", {4, 1, 3, 1, 5}}, {"index_copy_", {1, 1, 1, 1, 5}}, {"put_", {1, 1, 1, 1, 5}}}
  for _, case in ipairs(edits) do
    local hint = rille._elsewhere("tensor", case[1])
    local x, ids = rille.tensor{3, 1, 2, 1, 5}, rille.tensor({0, 2}, {dtype = "i64"})
    local code = hint:gsub("^write ", ""):gsub(", or .*", ""):gsub(", then ", "; "):gsub(" and ", "; ")
    local y = assert(load("local x, ids, v, y = ...; " .. code .. "; return y or x"))(x, ids, 1)
    tap.is(y:totable(), case[2], ("%s: %s"):format(case[1], hint))
  end
end)

tap.done()
