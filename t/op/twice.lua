-- twice.lua - tests an operator that reads one value twice: directly, and after a move to another layout.
--
-- Tries every layout, and each kind of operator that makes the value and may be fused with the reader. Values must be
-- those of one device, and explain() must report the bytes that devices receive. Values are small integers, so no sum is
-- rounded.
local tap = dofile("t/lib/tap.lua")

local MESHES = {{"2", {0, 1}, 2}, {"3", {2, 0, 1}, 3}, {"2x2", {{0, 1}, {2, 3}}, 2}} -- Columns: name, devices, shards per axis.
local LAYOUTS = {"S(0)", "S(1)", "B", "P", "P(max)", "P(min)"}
local ALONE = rille.placement("cpu", {0})

-- functions that make the value, in the given layout, from x and a replicated tensor w
local MADE = {
  {"-x", function(x) return -x end}, {"x * 2", function(x) return x * 2 end},
  {"x + x", function(x) return x + x end}, {"x - w", function(x, w) return x - w end},
  {"x:relu()", function(x) return x:relu() end}, {"x @ w", function(x, w) return x:matmul(w) end},
  {"x:sum(0)", function(x) return x:sum{axis = 0} end}, {"x:mean() * 32", function(x) return x:mean() * 32 end},
  {"x:max(1) + 1", function(x) return x:max{axis = 1} + 1 end}, {"x:sum() / 2", function(x) return x:sum() / 2 end},
}
-- Functions that read the value twice.
local READ = {
  {"v * v", function(v) return v * v end}, {"v * v + v", function(v) return v * v + v end},
  {"v * (v * 3)", function(v) return v * (v * 3) end}, {"(v - 1) * v * v", function(v) return (v - 1) * v * v end},
  {"v:maximum(v)", function(v) return v:maximum(v) end}, {"v - v", function(v) return v - v end},
  {"v * v, and v", function(v) return v * v, v end},
  {"v by v, cut", function(v, n)
    if v.ndim == 0 or n == 1 then return v * v end
    local cut = v.ndim > 1 and {n, 1} or {n}
    return v:mul(v, {strategy = {cut, cut}})
  end},
  {"(v * v + 1) / (v * v + 1)", function(v) return (v * v + 1) / (v * v + 1) end},
}

local function layouts_of(mesh)
  local list = {}
  for _, a in ipairs(LAYOUTS) do
    if type(mesh[1]) ~= "table" then
      list[#list + 1] = a
    else
      for _, b in ipairs(LAYOUTS) do
        if not (a:find("P") and b:find("P")) or a == b then list[#list + 1] = {a, b} end
      end
    end
  end
  return list
end

local function text(sbp) return type(sbp) == "table" and ("(%s, %s)"):format(sbp[1], sbp[2]) or sbp end

local function values(list)
  for i, y in ipairs(list) do list[i] = y.ndim > 0 and table.concat(y:reshape(y:numel()):totable(), " ") or tostring(y:item()) end
  return table.concat(list, "; ")
end

for _, mesh in ipairs(MESHES) do
  tap.group(mesh[1] .. " devices", function()
    local P = rille.placement("cpu", mesh[2])
    for _, sbp in ipairs(layouts_of(mesh[2])) do
      if not tap.share() then goto next end
      local x = (rille.arange(32):reshape{8, 4} % 7 - 3):to("f32"):to_global{placement = P, sbp = sbp}
      local whole = type(sbp) == "table" and {"B", "B"} or "B"
      local w = (rille.arange(16):reshape{4, 4} % 3 - 1):to("f32"):to_global{placement = P, sbp = whole}
      local x1, w1 = x:to_global{placement = ALONE, sbp = "B"}, w:to_global{placement = ALONE, sbp = "B"}
      local wrong, moved
      for _, made in ipairs(MADE) do
        for _, read in ipairs(READ) do
          local function f(x, w)
            if made[1] == "x - w" then w = w:slice(0, 0, 1) end
            return read[2](made[2](x, w), x.placement == ALONE and 1 or mesh[3])
          end
          local what = ("v = %s, %s"):format(made[1], read[1])
          local want = values{f(x1, w1)}
          local step = rille.graph(f)
          for method, fn in pairs{eager = f, ["in a step"] = step} do
            local good, got = pcall(function() return values{fn(x, w)} end)
            if good and got ~= want then got = "values other than " .. want end
            if got ~= want then wrong = wrong or ("%s, %s: %s"):format(what, method, got) end
          end
          local reported, received = step:explain().bytes, tap.received(step)
          if reported ~= received then moved = moved or ("%s: %d bytes reported, %d received"):format(what, reported, received) end
        end
      end
      tap.ok(not wrong, text(sbp) .. ": values are those of one device", wrong)
      tap.ok(not moved, text(sbp) .. ": explain() reports the received bytes", moved)
      ::next::
    end
  end)
end
tap.done()
