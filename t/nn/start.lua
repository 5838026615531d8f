-- start.lua - tests initial values of parameters: PyTorch's in every layer, those of GPT-2 and Llama in models.
--
-- Each parameter of each class has a row in a table below. Mean, deviation, fourth moment (3 for normal, 1.8 for
-- uniform) and bounds must be within five standard errors for n elements. (The fourth moment's standard error is
-- `spread` divided by the root of n.)
local tap = dofile("t/lib/tap.lua")
local nn = rille.nn

rille.manual_seed(tap.seed(1))

local function constant(value) return {low = value, high = value} end
local function uniform(bound)
  return {deviation = bound / math.sqrt(3), fourth = 1.8, spread = 1.148, low = -bound, high = bound}
end
local function normal(deviation)
  return {deviation = deviation, fourth = 3, spread = math.sqrt(24), low = -math.huge, high = math.huge}
end

-- Returns an error text if the values of p do not have the distribution; nil: they do.
local function differs(p, want)
  local v = p:detach():reshape{-1}
  local n, low, high = v:numel(), v:min():item(), v:max():item()
  if low < want.low - 1e-6 or high > want.high + 1e-6 then return ("from %g to %g"):format(low, high) end
  if not want.deviation then return nil end
  local function near(what, found, wanted, deviation)
    if math.abs(found - wanted) > 5 * deviation / math.sqrt(n) then return ("%s %g, not %g"):format(what, found, wanted) end
  end
  local mean, square = v:mean():item(), (v * v):mean():item()
  local unit = v * (1 / want.deviation)
  return near("mean", mean, 0, want.deviation) or
    near("square", square / want.deviation ^ 2, 1, math.sqrt(want.fourth - 1)) or
    near("fourth moment", (unit * unit * unit * unit):mean():item() / (square / want.deviation ^ 2) ^ 2, want.fourth, want.spread)
end

local function fan_in(...) return uniform(1 / math.sqrt(tap.numel{...})) end

-- Returns the distribution of the parameters of recurrent layers and cells.
local function recurrent(m)
  local all = {}
  for name in m:named_parameters() do all[name] = fan_in(m.hidden) end
  return all
end

-- By class of layer: the expected distribution of each parameter.
local layers = {
  ["nn.Linear"] = function(m) local want = fan_in(m.weight.shape[2]); return {weight = want, bias = want} end,
  ["nn.LoRA"] = function(m)
    local want = fan_in(m.weight.shape[2])
    return {weight = want, bias = want, lora_A = want, lora_B = constant(0)}
  end,
  ["nn.Conv2d"] = function(m)
    local want = fan_in(m.weight.shape[2], m.weight.shape[3], m.weight.shape[4])
    return {weight = want, bias = want}
  end,
  ["nn.Conv1d"] = function(m) local want = fan_in(m.weight.shape[2], m.weight.shape[3]); return {weight = want, bias = want} end,
  ["nn.LSTM"] = recurrent, ["nn.GRU"] = recurrent, ["nn.RNN"] = recurrent,
  ["nn.LSTMCell"] = recurrent, ["nn.GRUCell"] = recurrent, ["nn.RNNCell"] = recurrent,
  ["nn.Embedding"] = function() return {weight = normal(1)} end,
  ["nn.Positions"] = function() return {weight = normal(1)} end,
  ["nn.LayerNorm"] = function() return {weight = constant(1), bias = constant(0)} end,
  ["nn.BatchNorm2d"] = function() return {weight = constant(1), bias = constant(0)} end,
  ["nn.BatchNorm1d"] = function() return {weight = constant(1), bias = constant(0)} end,
  ["nn.GroupNorm"] = function() return {weight = constant(1), bias = constant(0)} end,
  ["nn.RMSNorm"] = function() return {weight = constant(1)} end,
  ["nn.MixtureOfExperts"] = function(m) return {up = fan_in(m.up.shape[2]), down = fan_in(m.down.shape[2])} end,
}

tap.group("layers", function()
  local made = {
    Linear = nn.Linear(200, 300), LoRA = nn.LoRA(nn.Linear(200, 300), {r = 40}), Conv2d = nn.Conv2d(8, 96, {3, 5}, {groups = 2}), Embedding = nn.Embedding(300, 40),
    Positions = nn.Positions(300, 40), LayerNorm = nn.LayerNorm(300), RMSNorm = nn.RMSNorm(300),
    BatchNorm2d = nn.BatchNorm2d(30), BatchNorm1d = nn.BatchNorm1d(30), GroupNorm = nn.GroupNorm(3, 30), Conv1d = nn.Conv1d(8, 96, 5, {groups = 2}),
    Sigmoid = nn.Sigmoid(), Softplus = nn.Softplus(), Tanh = nn.Tanh(), Identity = nn.Identity(), Softmax = nn.Softmax(), LogSoftmax = nn.LogSoftmax(),
    LeakyReLU = nn.LeakyReLU(), ELU = nn.ELU(), Upsample = nn.Upsample(2), MaxPool2d = nn.MaxPool2d(2), AvgPool2d = nn.AvgPool2d(2), Flatten = nn.Flatten(),
    MultiheadAttention = nn.MultiheadAttention(96, 4), TransformerBlock = nn.TransformerBlock(64, 4),
    SwiGLU = nn.SwiGLU(64, 96), MixtureOfExperts = nn.MixtureOfExperts(32, 64, 6), Dropout = nn.Dropout(0.5), ReLU = nn.ReLU(),
    GELU = nn.GELU(), SiLU = nn.SiLU(), Sequential = nn.Sequential(nn.Linear(64, 64)),
    LSTM = nn.LSTM(60, 80, {num_layers = 2}), GRU = nn.GRU(60, 80, {bidirectional = true}), RNN = nn.RNN(60, 80),
    LSTMCell = nn.LSTMCell(60, 80), GRUCell = nn.GRUCell(60, 80), RNNCell = nn.RNNCell(60, 80),
    CrossEntropyLoss = nn.CrossEntropyLoss(), MSELoss = nn.MSELoss(),
  }
  local untried = {}
  for name, class in pairs(nn) do
    if type(class) == "table" and class ~= nn.Module and class ~= nn.init and not name:find("^Int8") and not name:find("^Block") and not made[name] then
      untried[#untried + 1] = name
    end
  end
  tap.is(untried, {}, "every class of layers is tested here")
  for name, net in pairs(made) do
    local wrong = {}
    for path, m in net:named_modules() do
      local want = layers[m.__name] and layers[m.__name](m) or {}
      for own, p in m:named_parameters() do
        if not own:find(".", 1, true) then
          local what = not want[own] and "has no row here" or differs(p, want[own])
          if what then wrong[#wrong + 1] = ("%s.%s: %s"):format(path, own, what) end
        end
      end
    end
    tap.is(wrong, {}, name .. " has PyTorch's initial values")
  end
  tap.is(differs(nn.Embedding(300, 40, {std = 0.02}).weight, normal(0.02)), nil, "an embedding of another deviation")
  local others = {["a wider"] = normal(0.022), ["a uniform"] = uniform(0.02 * math.sqrt(3)), ["a smaller"] = normal(0.018)}
  for name, want in pairs(others) do
    tap.ok(differs(nn.Embedding(300, 40, {std = 0.02}).weight, want), name .. " distribution is detected")
  end
end)

-- Checks the weights of layers whose results are added to the residual stream. Their deviation must be divided by the
-- square root of the number of such additions, two per block.
tap.group("models", function()
  local std, depth = 0.02, 3
  local small = normal(std / math.sqrt(2 * depth))
  local models = {
    gpt2 = {new = {vocab = 300, length = 64, layers = depth, heads = 4, width = 64}, small = {"out_proj%.weight$", "fc2%.weight$"}},
    moe = {new = {vocab = 300, length = 64, layers = depth, heads = 4, width = 64, experts = 4},
      small = {"out_proj%.weight$", "down$"}},
    llama = {new = {vocab = 300, length = 64, layers = depth, heads = 4, kv_heads = 2, width = 64, hidden = 96}, small = {}},
  }
  for kind, how in pairs(models) do
    local wrong, n = {}, 0
    local m = rille.models[kind].new(how.new)
    for name, p in m:named_parameters() do
      local want = p.ndim >= 2 and normal(std) or constant(name:find("%.bias$") and 0 or 1)
      for _, pattern in ipairs(how.small) do
        if name:find(pattern) then want, n = small, n + 1 end
      end
      local what = differs(p, want)
      if what then wrong[#wrong + 1] = name .. ": " .. what end
    end
    tap.is({wrong, n}, {{}, #how.small * depth}, kind .. " has the initial values of its paper")
    local ids, labels = rille.randint(0, 300, {4, 64}), rille.randint(0, 300, {256})
    local loss = m(ids):reshape{-1, 300}:cross_entropy(labels):item()
    tap.near(loss, math.log(300), kind .. ": the initial loss is near log(vocab)", 0.05)
  end
end)

tap.done()
