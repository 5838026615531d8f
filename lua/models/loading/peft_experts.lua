-- peft_experts.lua - adapters of experts (lua/models/expert_lora.lua) in folders of PEFT.
--
-- PEFT adapts the tensors of all experts of a layer at once (target_parameters): gate_up_proj, which joins the gates and
-- the up projections, and down_proj. A is (experts * r, in), with the experts in order; B is (out, r * experts), in which
-- neighbouring columns belong to different experts. If both tensors have adapters, the names of the first tensor's contain
-- ".base_layer". In folders of PEFT 0.17 and older each expert has linear layers with adapters of their own.

local rille = require "rille"
local check = require "rille.base.check"
local ExpertLoRA = require "rille.models.expert_lora"
local layout = require "rille.base.layout"
local names = require "rille.models.loading.names"
local options = require "rille.models.loading.peft_options"
local pieces = require "rille.models.loading.pieces"
local pin = require "rille.nn.base.pin"

local experts = {}

local FIELDS <const> = {"lora_A", "lora_B"}

-- Returns the name of a field in a file. inner: number of wrappers within which PEFT stores the adapter.
local function name_of(module, inner, field) return module .. (".base_layer"):rep(inner) .. "." .. field .. ".weight" end

-- Returns true if the weight at a path can have an adapter.
local function fits(m, path)
  local mixture, name = pin.field(m, path)
  return ExpertLoRA.__fits(mixture, name)
end

-- Returns the modules of experts of a model: {name = PEFT's name, row = naming row {tensor, paths of weights...} of a
-- tensor, ...} for both tensors of each layer. nil: the model's kind has no experts that PEFT adapts.
local function modules_of(m)
  if not m.kind or type(m.kind.names) ~= "function" then return {} end
  return names.experts(m.kind.name, m.config)
end

function experts.has(m) return modules_of(m)[1] ~= nil end

-- ---- loading a folder ----

-- Returns an error text if an entry of the file is no float tensor of this shape; else nil.
local function misfit(entry, shape)
  if not layout.is_float(entry) then return ("'%s' must have a float dtype, found %s"):format(entry.name, entry.dtype) end
  local want, found = table.concat(shape, ", "), table.concat(entry.shape, ", ")
  if want ~= found then return ("'%s' must have the shape {%s}, found {%s}"):format(entry.name, want, found) end
end

-- Takes the entries lora_A and lora_B of the file, names by field, and checks their shapes; nil: an entry is missing or
-- wrong, which is appended to the reader's problems.
local function entries_of(self, list, shapes)
  local entries, good = {}, true
  for _, field in ipairs(FIELDS) do
    entries[field] = self:take(list[field])
    local why = entries[field] and misfit(entries[field], shapes[field]) or not entries[field] and ("'%s' is missing"):format(self.prefix .. list[field])
    if why then self.wrong[#self.wrong + 1], good = why, false end
  end
  return good and entries or nil
end

-- Adds the options of an adapter to the reader, and returns the path of the adapter.
local function add_adapter(self, path, rank, alpha)
  local c = self.c
  check.that(not c.use_dora and not c.lora_bias and (c.lora_dropout or 0) == 0,
    "%s: use_dora and lora_bias must be false, and lora_dropout 0, with adapters of experts", c.where)
  local mixture, name = pin.field(self.m, path)
  check.that(not rawget(mixture, name .. "_lora"), "%s: '%s' must be without an adapter; rille.models.lora.swap(m) removes adapters", self.who, path)
  self.adapters[path] = {r = rank, alpha = alpha, rslora = c.use_rslora or false}
  return path .. "_lora."
end

-- Returns the sizes of experts: their number, inputs, and outputs of all the weights.
local function sizes_of(m, paths)
  local count, n_in, sum = 0, 0, 0
  for _, path in ipairs(paths) do
    local mixture, name = pin.field(m, path)
    local inputs, outputs = ExpertLoRA.__sizes(mixture, name)
    count, n_in, sum = mixture.experts, inputs, sum + outputs
  end
  return count, n_in, sum
end

-- Adds the pieces of an adapter that PEFT has for the tensor of this naming row, for all experts.
local function read_joined(self, row, module, inner)
  local paths, rank = table.move(row, 2, #row, 1, {}), options.rank(self.c, row[1])
  local n, n_in, n_out = sizes_of(self.m, paths)
  local entries = entries_of(self, {lora_A = name_of(module, inner, "lora_A"), lora_B = name_of(module, inner, "lora_B")},
    {lora_A = {n * rank, n_in}, lora_B = {n_out, rank * n}})
  if not entries then return end
  local b_row = {row[1], groups = row.groups}
  for k, path in ipairs(paths) do b_row[k + 1] = add_adapter(self, path, rank, options.alpha(self.c, row[1])) .. "lora_B" end
  local a = pieces.part(paths[1] .. "_lora.lora_A", entries.lora_A, 1, 1, 1)
  function a.make(value) return value:reshape{n, rank, n_in}:transpose(1, 2) end
  self.list[#self.list + 1] = a
  for k, path in ipairs(paths) do
    local b = pieces.of_row(b_row, entries.lora_B, k)
    local own = b.make or function(value) return value end
    function b.make(value)
      local rows = own(value)
      return rows:reshape{rows.shape[1], rank, n}:permute{2, 1, 0}
    end
    self.list[#self.list + 1] = b
    if k > 1 then self.tied[#self.tied + 1] = {paths[1] .. "_lora", path .. "_lora"} end
  end
end

-- Adds the pieces of the adapters of an expert's own layers. rows: naming rows {tensor, path, stack =} of a weight.
local function read_own(self, path, rows)
  local any, first = false, rows[1][1]:gsub("%.weight$", "")
  for _, row in ipairs(rows) do
    for _, field in ipairs(FIELDS) do any = any or self.given[self.prefix .. row[1]:gsub("weight$", field .. ".weight")] ~= nil end
  end
  if not any then return end
  local rank, alpha = options.rank(self.c, first), options.alpha(self.c, first)
  local _, n_in, n_out = sizes_of(self.m, {path})
  local at, good = add_adapter(self, path, rank, alpha), true
  for _, row in ipairs(rows) do
    local name = row[1]:gsub("%.weight$", "")
    check.that(options.rank(self.c, name) == rank and options.alpha(self.c, name) == alpha,
      "%s: the experts of '%s' must have the same rank and alpha, but those of '%s' differ", self.c.where, first, name)
    local entries = entries_of(self, {lora_A = name .. ".lora_A.weight", lora_B = name .. ".lora_B.weight"}, {lora_A = {rank, n_in}, lora_B = {n_out, rank}})
    good = good and entries
    for _, field in ipairs(good and FIELDS or {}) do
      self.list[#self.list + 1] = pieces.of_row({row[1], at .. field, turn = true, stack = row.stack}, entries[field], 1)
    end
  end
end

-- Adds the adapters of experts to a reader (peft.lua). rows: the naming rows of the model.
function experts.read(self, rows)
  for _, module in ipairs(modules_of(self.m)) do
    local inner = 0
    for k = #module, 1, -1 do
      local row = module[k]
      if options.targets_tensor(self.c, row[1]) and fits(self.m, row[2]) then
        read_joined(self, row, module.name, inner)
        inner = inner + 1
      end
    end
  end
  local own, order = {}, {}
  for _, row in ipairs(rows) do
    if row.stack and row[1]:find("%.weight$") and fits(self.m, row[2]) then
      if not own[row[2]] then own[row[2]], order[#order + 1] = {}, row[2] end
      table.insert(own[row[2]], row)
    end
  end
  for _, path in ipairs(order) do read_own(self, path, own[path]) end
end

-- ---- saving a folder ----

local function replicated(t) return t:detach():to_global{placement = t.placement, sbp = "B"} end

-- Returns A (experts, in, r) and B (experts, r, out) for the tensor of a naming row, or nil if none of its weights has an
-- adapter. adapters: by path. If the adapters do not share A, the r columns of A are those of all adapters, and B is zero
-- where a weight has no adapter with these columns.
local function joined(row, m, adapters)
  local list, shared, rank = {}, true, 0
  for k = 2, #row do list[#list + 1] = adapters[row[k]] end
  if #list == 0 then return nil end
  for _, p in ipairs(list) do shared, rank = shared and rawequal(p.lora_A, list[1].lora_A), rank + p.r end
  if shared and #list == #row - 1 then rank = list[1].r else shared = false end
  local as, bs, before = {}, {}, 0
  for k = 2, #row do
    local p = adapters[row[k]]
    local n, _, n_out = sizes_of(m, {row[k]})
    local here = {placement = list[1].lora_B.placement, sbp = "B", dtype = list[1].lora_B.dtype}
    local function zeros(r) return rille.zeros({n, r, n_out}, here) end
    bs[k - 1] = not p and zeros(rank) or shared and replicated(p.lora_B) or
      rille.concat({zeros(before), replicated(p.lora_B), zeros(rank - before - p.r)}, 1)
    before = before + (p and p.r or 0)
  end
  for i, p in ipairs(shared and {list[1]} or list) do as[i] = replicated(p.lora_A) end
  return rille.concat(as, 2), row.groups and rille.stack(bs, 3):reshape{bs[1].shape[1], rank, -1} or rille.concat(bs, 2)
end

-- Adds the adapters of experts to a writer (peft.lua). adapters: path of a weight -> its adapter.
function experts.write(self, adapters)
  for _, module in ipairs(modules_of(self.m)) do
    local inner = 0
    for k = #module, 1, -1 do
      local row = module[k]
      local a, b = joined(row, self.m, adapters)
      if a then
        local rank, scaling = a.shape[3], nil
        for i = 2, #row do
          local p = adapters[row[i]]
          if p then
            check.that(not scaling or scaling == p.scaling, "%s: adapters of '%s' must have one scaling, found %g and %g", self.where, row[1], p.scaling, scaling)
            scaling, self.saved[p] = p.scaling, true
          end
        end
        check.that(not self.config.use_dora and not self.config.lora_bias and self.config.lora_dropout == 0,
          "%s: with adapters of experts, PEFT needs adapters without dora, bias and dropout", self.where)
        self.tensors[self.prefix .. name_of(module.name, inner, "lora_A")] = a:transpose(1, 2):reshape{-1, a.shape[2]}
        self.tensors[self.prefix .. name_of(module.name, inner, "lora_B")] = b:permute{2, 1, 0}:reshape{b.shape[3], -1}
        self:add_target("target_parameters", row[1], rank, scaling)
        inner = inner + 1
      end
    end
  end
end

return experts
