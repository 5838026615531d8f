-- random.lua - splitmix64 (Steele, Lea & Flood 2014): pseudo-random 64-bit integers from a 64-bit seed, equal on
-- every machine.

local random = {}

function random.integers(seed)
  local state = seed
  return function()
    state = state + 0x9e3779b97f4a7c15
    local z = state
    z = (z ~ (z >> 30)) * 0xbf58476d1ce4e5b9
    z = (z ~ (z >> 27)) * 0x94d049bb133111eb
    return z ~ (z >> 31)
  end
end

-- Returns a generator of numbers in [0, 1), multiples of 2^-24, which f32 represents exactly.
function random.numbers(seed)
  local draw = random.integers(seed)
  return function() return (draw() >> 40) * 2.0 ^ -24 end
end

return random
