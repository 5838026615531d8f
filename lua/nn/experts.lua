-- experts.lua - a mixture of experts: each entry goes to the top_k of them that the router prefers, weighted by how much.
-- x: (..., d); up: (experts, d, hidden), down: (experts, hidden, d). Shazeer et al. 2017; the balance is Fedus et al. 2021's.
--
-- Every expert sees every entry, and weights of 0 take out those that did not choose it: no entry is ever dropped, nothing
-- depends on a capacity, and a split of the experts (S(0) of up and down) is a split of the work that leaves a partial sum.

local rille = require "rille"
local check = require "rille.check"
local Module = require "rille.nn.module"
local Linear = require "rille.nn.linear"
local start = require "rille.nn.start"

local MixtureOfExperts = Module:extend("nn.MixtureOfExperts")

local balance_of = setmetatable({}, {__mode = "k"}) -- of the last forward pass

function MixtureOfExperts:init(d, hidden, experts, options)
  check.count("nn.MixtureOfExperts", "d", d)
  check.count("nn.MixtureOfExperts", "hidden", hidden)
  check.count("nn.MixtureOfExperts", "the number of experts", experts)
  options = check.options("nn.MixtureOfExperts", options, {top_k = 2})
  check.count("nn.MixtureOfExperts", "top_k", options.top_k)
  check.that(options.top_k <= experts, "nn.MixtureOfExperts: top_k is %d of %d experts; 1 to %d would do", options.top_k,
    experts, experts)
  self.experts, self.top_k = experts, options.top_k
  self.router = Linear(d, experts, {bias = false})
  self.up = start.fan_in({experts, d, hidden}, d)
  self.down = start.fan_in({experts, hidden, d}, hidden)
end

-- (n, experts): how much each entry gives each expert; 0 but for its top_k, which add up to 1.
function MixtureOfExperts:gates(x)
  local p = self.router(x):softmax(-1)
  local _, best = p:topk(self.top_k) -- of experts that are alike as many as have room
  local chosen = best:one_hot(self.experts):sum{axis = 1}:gt(0)
  local share = chosen:to("f32"):detach():mean{axis = 0} / self.top_k
  balance_of[self] = (share * p:mean{axis = 0}):sum() * self.experts
  local kept = rille.where(chosen, p, 0)
  return kept / kept:sum{axis = 1, keepdim = true}
end

function MixtureOfExperts:forward(x)
  local shape, d = x.shape, x.shape[x.ndim]
  local n = x:numel() // d
  local rows = x:reshape{n, d}
  local gates = self:gates(rows):transpose(0, 1):reshape{self.experts, n, 1}
  local hidden = rille.matmul(rows:reshape{1, n, d}, self.up):gelu()
  return (rille.matmul(hidden, self.down) * gates):sum{axis = 0}:reshape(shape)
end

-- How unevenly entries went to experts in the last forward pass: 1 is even, the number of experts the worst; nil before.
function MixtureOfExperts:balance() return balance_of[self] end

function MixtureOfExperts:describe() return ("%d experts, %d for each entry"):format(self.experts, self.top_k) end

return MixtureOfExperts
