local P = rille.placement("cpu", {0, 1})
local x = rille.ones({4, 2}, {placement = P, sbp = "S(0)"})
local step = rille.graph(function(ids, x) return rille.embedding(ids, x:relu()):sum() end)
local function states()
  local text = {}
  for _, a in ipairs(step:actors()) do text[#text + 1] = a.name .. " " .. a.begun .. " " .. a.state end
  return table.concat(text, "; ")
end
for _, id in ipairs{1, 9} do
  print(id, pcall(function() return step(rille.tensor({id}, {dtype = "i64", placement = P}), x):item() end))
  print(id, states())
end
