-- dealt.lua - returns a function that lists the device of each pipeline stage, for p devices with v stages each. The
-- list repeats the devices in the same order. With `back`, every second repetition is in reverse order (V-shaped).
return function(p, v, back)
  local devices = {}
  for c = 0, v - 1 do
    for d = 0, p - 1 do devices[#devices + 1] = back and c % 2 == 1 and p - 1 - d or d end
  end
  return devices
end
