-- rotary.lua - the tables of rille.rotary: cos, sin of position * base^(-2i / size), each (length, size / 2).
-- Su et al. 2021. Angles are computed in f64: at large positions f32 has no digits left for them.

local rille = require "rille"
local check = require "rille.check"
local layout = require "rille.layout"

return function(length, size, options)
  check.count("nn.rotary_tables", "the length", length)
  check.count("nn.rotary_tables", "the size", size)
  check.that(size % 2 == 0, "nn.rotary_tables: the size is even, not %d", size)
  options = check.options("nn.rotary_tables", options, {base = 10000, dtype = "f32", placement = check.none})

  local function row(n)
    local place = options.placement
    return rille.arange(n, {dtype = "f64", placement = place, sbp = place and layout.whole(place)})
  end
  local frequency = (row(size // 2) * (-2 * math.log(options.base) / size)):exp()
  local angle = row(length):reshape{length, 1} * frequency:reshape{1, size // 2}
  return angle:cos():to(options.dtype):detach(), angle:sin():to(options.dtype):detach()
end
