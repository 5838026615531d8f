-- crc32.lua - the checksum of members of zip files, for tests.

-- Returns the remainder c after one more zero byte.
local function shifted(c)
  for _ = 1, 8 do c = c & 1 == 1 and 0xEDB88320 ~ c >> 1 or c >> 1 end
  return c
end

local crc_table = {}
for i = 0, 255 do crc_table[i] = shifted(i) end

-- Returns the product of a matrix of bits, given as the list of its 32 columns, and a vector.
local function times(columns, vector)
  local product = 0
  for i = 1, 32 do
    if vector >> i - 1 & 1 == 1 then product = product ~ columns[i] end
  end
  return product
end

-- Returns the remainder c after n more zero bytes.
local function after_zeros(c, n)
  local columns = {}
  for i = 1, 32 do columns[i] = shifted(1 << i - 1) end
  while n > 0 do
    if n & 1 == 1 then c = times(columns, c) end
    local square = {}
    for i = 1, 32 do square[i] = times(columns, columns[i]) end
    columns, n = square, n >> 1
  end
  return c
end

-- Returns the checksum of these bytes, followed by `zeros` zero bytes.
return function(bytes, zeros)
  local c = 0xFFFFFFFF
  for i = 1, #bytes do c = crc_table[(c ~ bytes:byte(i)) & 255] ~ c >> 8 end
  return after_zeros(c, zeros or 0) ~ 0xFFFFFFFF
end
