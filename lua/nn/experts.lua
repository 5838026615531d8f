-- experts.lua - mixture of experts: each row is sent to the top_k experts with the greatest router weights; results
-- are multiplied by these weights and added. x: (..., d); up: (experts, d, hidden), down: (experts, hidden, d).
-- Shazeer et al. 2017; balance: Fedus et al. 2021.
--
-- On CPUs an expert computes only the rows that chose it (kernels/op/expert_matmul.c). On GPUs, and if ranks have
-- different numbers of experts, each expert computes every row, and the rows that did not choose it have weight 0. In
-- either case no row is dropped, because there is no capacity limit. Sharding the experts (S(0) of up and down)
-- shards the work; the result has a pending reduction (P).
--
-- A weight may be in blocks of a quantised type of GGUF: u8 (experts, outputs, blocks, bytes of a block), of the type
-- kinds[name]. Experts in blocks always compute only the rows that chose them (kernels/op/expert_blocks.c).

local rille = require "rille"
local check = require "rille.base.check"
local layout = require "rille.base.layout"
local Module = require "rille.nn.base.module"
local Linear = require "rille.nn.linear"
local start = require "rille.nn.base.start"

local MixtureOfExperts = Module:extend("nn.MixtureOfExperts")

-- Returns the names of the weights of experts and of their adapters (lua/models/expert_lora.lua), sharded by experts.
function MixtureOfExperts.__sharded(weights, more)
  local list = more or {}
  for _, name in ipairs(weights) do
    for _, last in ipairs{"", "_lora.lora_A", "_lora.lora_B"} do list[#list + 1] = name .. last end
  end
  return list
end

MixtureOfExperts.parallel = {expert = MixtureOfExperts.__sharded{"up", "down"}}

local balance_of = setmetatable({}, {__mode = "k"}) -- module -> load imbalance in its last forward pass

function MixtureOfExperts:init(d, hidden, experts, options)
  check.count("nn.MixtureOfExperts", "d", d)
  check.count("nn.MixtureOfExperts", "hidden", hidden)
  check.count("nn.MixtureOfExperts", "the number of experts", experts)
  options = check.options("nn.MixtureOfExperts", options, {top_k = 2})
  check.count("nn.MixtureOfExperts", "top_k", options.top_k)
  check.that(options.top_k <= experts, "nn.MixtureOfExperts: top_k must be from 1 to %d, the number of experts, found %d", experts,
    options.top_k)
  self.experts, self.top_k = experts, options.top_k
  self.router = Linear(d, experts, {bias = false})
  self.up = start.fan_in({experts, d, hidden}, d)
  self.down = start.fan_in({experts, hidden, d}, hidden)
end

-- Returns the chosen experts of each row and their weights, both (n, top_k). The weights of a row sum to 1.
local function choose(self, x)
  local p = self.router(x):softmax(-1)
  local most, best = p:topk(self.top_k) -- if experts tie for the last place, topk may choose any of them
  -- Computes the balance from means over rows; with micro-batches, per_micro_batch() averages it over the
  -- micro-batches.
  balance_of[self] = rille.per_micro_batch(function()
    local share = best:one_hot(self.experts):sum{axis = 1}:to("f32"):detach():mean{axis = 0} / self.top_k
    return (share * p:mean{axis = 0}):sum() * self.experts
  end)
  return best, most / most:sum{axis = 1, keepdim = true}
end

-- Returns the hidden values of experts; times(x, "up") is the product of x with each expert's matrix.
local function hidden(_, times, x) return times(x, "up"):gelu() end

MixtureOfExperts._steps = {choose = choose, hidden = hidden} -- functions that a subclass may replace by its own

-- Returns the weight of each expert, (n, experts); all except the top_k are 0.
function MixtureOfExperts:gates(x)
  local best, given = self._steps.choose(self, x)
  return (best:one_hot(self.experts):to(given.dtype) * given:unsqueeze(2)):sum{axis = 1}
end

-- Replaces the weight `name` by blocks of the type `kind`. For internal use.
function MixtureOfExperts:_take_blocks(name, kind, blocks)
  self:__drop(name)
  self:buffer(name, blocks)
  self.kinds = self.kinds or {}
  self.kinds[name] = kind
end

-- Returns y, products of rows x with the weight `name` of experts, plus the update of the weight's adapter.
local function adapted(self, name, y, ...)
  local adapter = rawget(self, name .. "_lora")
  local update = adapter and adapter(...)
  return update and y + update or y
end

-- Returns the products of rows x with the weight `name` of their experts `best`. The experts are in `groups`.
local function product(self, name, x, groups, best)
  local w, kind = self[name], self.kinds and self.kinds[name]
  local shape = w.shape
  w = w:reshape{groups, self.experts // groups, table.unpack(shape, 2)}
  local y = kind and rille._expert_blocks(x, w, best, {kind = kind}) or rille._expert_matmul(x, w, best)
  return adapted(self, name, y, x, groups, best)
end

-- Computes only the chosen experts. The experts of a rank form a group; the result of a group is an addend of the
-- pending reduction.
local function of_chosen(self, rows, groups)
  local best, given = self._steps.choose(self, rows)
  local function bias_of(name) return self[name .. "_bias"] and rille.embedding(best, self[name .. "_bias"]) end
  local function times(x, name)
    local y, bias = product(self, name, x, groups, best), bias_of(name)
    return bias and y + bias:unsqueeze(0) or y
  end
  local y = product(self, "down", self._steps.hidden(self, times, rows:unsqueeze(0):unsqueeze(2)), groups, best)
  local sum, bias = (y * given:unsqueeze(0):unsqueeze(3)):sum{axis = {0, 2}}, bias_of("down")
  return bias and sum + (bias * given:unsqueeze(2)):sum{axis = 1} or sum
end

local function of_all(self, rows)
  local gates = self:gates(rows):transpose(0, 1):unsqueeze(2)
  local function times(x, name)
    local y, bias = adapted(self, name, rille.matmul(x, self[name]), x), self[name .. "_bias"]
    return bias and y + bias:unsqueeze(1) or y
  end
  return (times(self._steps.hidden(self, times, rows:unsqueeze(0)), "down") * gates):sum{axis = 0}
end

function MixtureOfExperts:forward(x)
  local shape, d, groups = x.shape, x.shape[x.ndim], layout.shard_count(self.up, 0)
  check.that(d and d > 0, "%s: the last dimension of the input must be the width of the experts, found {%s}", self.__name, table.concat(shape, ", "))
  local rows = x:reshape{x:numel() // d, d}
  local even = self.experts % groups == 0
  local chosen = self.kinds or rows.placement.device ~= "cuda" and even and not self.up_bias
  return (chosen and of_chosen(self, rows, even and groups or 1) or of_all(self, rows)):reshape(shape)
end

-- Returns the load imbalance of the experts in the last forward pass, from 1 (equal load) to the number of experts;
-- nil before the first pass.
function MixtureOfExperts:balance() return balance_of[self] end

function MixtureOfExperts:describe() return ("%d experts, %d for each entry"):format(self.experts, self.top_k) end

return MixtureOfExperts
