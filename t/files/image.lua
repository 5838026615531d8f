-- image.lua - tests that rille.data.image reads the pixels that Pillow reads (t/golden/pictures.lua), and that damaged files are
-- errors.
local tap = dofile("t/lib/tap.lua")
local rille = require "rille"

local path = os.tmpname()

local function bytes_of(hex) return (hex:gsub("%x%x", function(two) return string.char(tonumber(two, 16)) end)) end

local function write(bytes)
  local file <close> = assert(io.open(path, "wb"))
  file:write(bytes)
end

-- Returns the error text of a read; nil: the file is read.
local function refusal(bytes)
  write(bytes)
  local good, result = pcall(rille.data.image, path)
  return not good and tostring(result) or nil
end

local pictures = dofile("t/golden/pictures.lua")
for _, picture in ipairs(pictures) do
  local name, bytes, want = picture[1], bytes_of(picture[2]), bytes_of(picture[3])
  write(bytes)
  local t, list = rille.data.image(path), {}
  for i, v in ipairs(t:permute{1, 2, 0}:reshape{-1}:totable()) do list[i] = v end
  local turned = tonumber(name:match "%-(%d)%.") or 1
  tap.is({t.dtype, t.shape}, {"u8", turned < 5 and {3, 9, 11} or {3, 11, 9}}, name .. ": dtype and shape")
  tap.near(list, {want:byte(1, -1)}, name .. ": pixels", 0, name:find "jpg" and 1 or 0)
  local short = 0
  for n = 0, #bytes - 1 do
    if (n == 0 or n % 7 == #name % 7) and not refusal(bytes:sub(1, n)) then short = short + 1 end
  end
  tap.is(short, 0, name .. ": a file that ends early is an error")
end

-- Changes each byte of the EXIF data, which states how the image is rotated. The image must be read, rotated or not,
-- or be refused.
tap.group("damaged EXIF data", function()
  for _, picture in ipairs(pictures) do
    if picture[1] == "turned-6.jpg" then
      local bytes, wrong = bytes_of(picture[2]), {}
      local at = bytes:find "Exif\0\0"
      for i = at, at + 60 do
        for _, byte in ipairs{0, 1, 8, 127, 255} do
          local why = refusal(bytes:sub(1, i - 1) .. string.char(byte) .. bytes:sub(i + 1))
          if why and not why:find("the JPEG file is damaged or not supported", 1, true) then wrong[#wrong + 1] = why end
        end
      end
      tap.ok(#wrong == 0, "no changed byte fails in another way", wrong[1])
    end
  end
end)

tap.group("arguments", function()
  write(bytes_of(pictures[1][2]))
  local P = rille.placement("cpu", {0, 1})
  local t = rille.data.image(path, {placement = P, sbp = "S(2)"})
  tap.is({tostring(t.sbp), t:totable()}, {"S(2)", rille.data.image(path):totable()}, "the pixels may be sharded")
  tap.is(rille.data.image(path, {height = 5, width = 21}).shape, {3, 5, 21}, "the pixels may be resized")
  tap.fails(function() rille.data.image(path, {dtype = "f32"}) end, {"data.image", "dtype"}, "a dtype")
  tap.fails(function() rille.data.image(path, {height = 1 << 50, width = 2}) end, {"data.image: images of", "cannot be resized to 1125899906842624 x 2"}, "a huge height")
  tap.fails(function() rille.data.image(path, {height = 5}) end, {"data.image: width must be a positive integer, found nil"}, "a height without a width")
  tap.fails(function() rille.data.image(3) end, {"data.image"}, "a number for the path")
  tap.fails(function() rille.data.image "/nowhere.png" end, {"/nowhere.png"}, "a missing file")
  tap.ok(refusal("GIF89a"):find("expected a PNG or JPEG file, found other bytes", 1, true), "a file of another format")
  local head = bytes_of(pictures[1][2])
  local wide = head:sub(1, 16) .. "\0\1\0\0\0\1\0\0" .. head:sub(25)
  tap.ok(refusal(wide):find("CRC", 1, true), "a changed size does not match its checksum")
end)
os.remove(path)
tap.done()
