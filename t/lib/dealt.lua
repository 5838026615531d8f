-- dealt.lua - returns a function: the devices of v stages on each of p devices, in the order of data; round them, or there
-- and back.
return function(p, v, back)
  local devices = {}
  for c = 0, v - 1 do
    for d = 0, p - 1 do devices[#devices + 1] = back and c % 2 == 1 and p - 1 - d or d end
  end
  return devices
end
