-- layout.lua - small questions about tensors and where they lie.

local layout = {}

local tensor_type
function layout.is_tensor(v)
  if type(v) ~= "userdata" then return false end
  tensor_type = tensor_type or debug.getmetatable(require("rille").zeros({}))
  return debug.getmetatable(v) == tensor_type
end

-- The SBP that is whole on every rank of a placement.
function layout.whole(placement)
  local sbp = {}
  for axis = 1, #placement.shape do sbp[axis] = "B" end
  return sbp
end

-- Where t lies, as the options that put another tensor there.
function layout.of(t)
  return {placement = t.placement, sbp = t.sbp}
end

function layout.equal(a, b)
  return a.sbp == b.sbp and a.placement == b.placement
end

return layout
