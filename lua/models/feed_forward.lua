-- feed_forward.lua - feed-forward layers of a described decoder: down(act(gate(x)) * up(x)), or down(act(up(x)))
-- without gates. Also has mixtures of experts, in which each expert is such a layer.

local rille = require "rille"
local check = require "rille.base.check"
local nn = rille.nn
local activations = require "rille.models.activations"

local FeedForward = nn.SwiGLU:extend("models.FeedForward")

function FeedForward:init(c, hidden)
  if c.gated then self.gate_proj = nn.Linear(c.width, hidden, {bias = c.mlp_bias}) end
  self.up_proj = nn.Linear(c.width, hidden, {bias = c.mlp_bias})
  self.down_proj = nn.Linear(hidden, c.width, {bias = c.down_bias})
  self.activation = c.activation
end

function FeedForward:forward(x)
  local act = activations[self.activation]
  if not self.gate_proj then return self.down_proj(act(self.up_proj(x))) end
  return self.down_proj(act(self.gate_proj(x)) * self.up_proj(x))
end

-- ---- mixtures of experts ----

-- Weights: gate, up: (experts, width, hidden); down: (experts, hidden, width). Biases: (experts, hidden) or (experts,
-- width).
local Experts = nn.MixtureOfExperts:extend("models.Experts")
Experts.parallel = {expert = Experts.__sharded({"gate", "up", "down"}, {"gate_bias", "up_bias", "down_bias"})}

local function zeros(shape) return nn.Parameter(rille.zeros(shape)) end

-- c.experts has these settings:
--   count, top_k, hidden    number of experts, experts per row, hidden size of an expert
--   score                   "softmax" or "sigmoid" of the router's logits
--   renormalise, factor     the weights of the chosen experts sum to 1; a factor of the weights
--   correction              true: a buffer is added to the scores for the choice alone
--   groups, top_groups      experts are chosen within the best groups; group_score: "best": a group counts by its best
--                           score; nil: by the sum of its two best
--   bias                    biases of router and experts
--   shared, shared_gate     hidden size of an expert for every row; whether a gate scales its result
--   limit, alpha            bound of gates and hidden values, with gpt-oss's activation; its factor (1.702)
function Experts:init(c)
  local e, d = c.experts, c.width
  self.experts, self.top_k, self.activation, self.how = e.count, e.top_k, c.activation, {}
  for _, name in ipairs{"score", "renormalise", "factor", "groups", "top_groups", "limit",
    "group_score", "alpha"} do self.how[name] = e[name] end
  self.router = nn.Linear(d, e.count, {bias = e.bias or false})
  self.gate, self.up, self.down = zeros{e.count, d, e.hidden}, zeros{e.count, d, e.hidden}, zeros{e.count, e.hidden, d}
  if e.bias then self.gate_bias, self.up_bias, self.down_bias = zeros{e.count, e.hidden}, zeros{e.count, e.hidden}, zeros{e.count,
    d} end
  if e.correction then self:buffer("correction", rille.zeros{e.count}) end
  if e.shared then self.shared = FeedForward(c, e.shared) end
  if e.shared_gate then self.shared_gate = nn.Linear(d, 1, {bias = false}) end
end

-- Sets the scores of all experts outside the best groups to -inf.
local function within_groups(self, scores)
  local how, n, each = self.how, scores.shape[1], self.experts // self.how.groups
  local best = scores:reshape{n, how.groups, each}:topk(how.group_score == "best" and 1 or 2):sum{axis = 2}
  local _, chosen = best:topk(how.top_groups)
  local keeps = chosen:one_hot(how.groups):sum{axis = 1}:gt(0):reshape{n, how.groups, 1}:expand{n, how.groups, each}
  return rille.where(keeps:reshape{n, self.experts}, scores, -math.huge)
end

-- Returns the experts that each row chooses and their weights, both (n, top_k).
local function choose(self, rows)
  local how, logits = self.how, self.router(rows)
  if logits.dtype ~= "f32" then logits = logits:to("f32") end
  local p = how.score == "sigmoid" and logits:sigmoid() or logits:softmax(-1)
  local scores = self.correction and p:detach() + self.correction or p:detach()
  if how.groups and how.groups > 1 then scores = within_groups(self, scores) end
  local _, best = scores:topk(self.top_k)
  local given = p:gather(1, best)
  if how.renormalise then given = given / given:sum{axis = 1, keepdim = true} end
  if how.factor then given = given * how.factor end
  return best, given:to(rows.dtype)
end

-- Returns the hidden values of the experts. times(x, name): product of x with each expert's matrix "gate" or "up".
local function hidden(self, times, x)
  local gate, up, limit = times(x, "gate"), times(x, "up"), self.how.limit
  if not limit then return activations[self.activation](gate) * up end
  gate, up = gate:clamp(nil, limit), up:clamp(-limit, limit)
  return (up + 1) * (gate * (gate * (self.how.alpha or 1.702)):sigmoid())
end

Experts._steps = {choose = choose, hidden = hidden}

function Experts:forward(x)
  local y = nn.MixtureOfExperts.forward(self, x)
  if not self.shared then return y end
  local always = self.shared(x)
  return y + (self.shared_gate and always * self.shared_gate(x):sigmoid() or always)
end

function Experts:balance() check.fail("models.Experts: balance() is only for models of rille.models.moe") end

return {FeedForward = FeedForward, Experts = Experts}
