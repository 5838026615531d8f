-- images.lua - tests that m:prepare makes the images of transformers' image processors (t/golden/models/images.lua), and that a
-- saved folder keeps their description.
local tap = dofile("t/lib/tap.lua")
local rille = require "rille"
local json = require "rille.json"
local golden = dofile("t/golden/models/images.lua")
local towers = dofile("t/golden/models/towers.lua")
local families = dofile("t/lib/families.lua")

local dir = os.tmpname()
os.remove(dir)
os.execute("mkdir '" .. dir .. "'")

local entries = {} -- by model_type: an entry of t/golden/models/towers.lua
for _, entry in ipairs(towers) do
  local kind = families.words(entry).model_type
  entries[kind] = entries[kind] or entry
end

local function pixels(height, width)
  local list = families.spread("pixels", 2 * 3 * height * width)
  for i, v in ipairs(list) do list[i] = math.floor((v + 1) * 128) end
  return rille.tensor(list, {dtype = "u8"}):reshape{2, 3, height, width}
end

local function write(text, name)
  local file <close> = assert(io.open(dir .. "/" .. (name or "preprocessor_config.json"), "w"))
  file:write(text)
end

-- Loads the model of a kind from the folder, which has a description of images.
local function load(kind, words, name)
  families.write(entries[kind], dir)
  write(words, name)
  return rille.models.load(dir)
end

-- ---- results of transformers ----

for _, case in ipairs(golden) do
  if tap.share() then
    local kind, words, height, width = table.unpack(case)
    local what = ("%s of %d x %d, %s"):format(kind, height, width, words:match('"size": (%b{})') or "its own size")
    local y = load(kind, words):prepare(pixels(height, width))
    local list = y:reshape{-1}:totable()
    local some = {}
    for i = 0, 4 do some[i + 1] = list[i * (#list // 5) + 1] end
    tap.is({y.dtype, y.shape}, {"f32", case.shape}, what .. ": dtype and shape")
    tap.near(some, case.some, what .. ": some values", 0, 1e-5)
    tap.near(families.weighted(y, "all"), case.all, what .. ": all values", 1e-6, 1e-4)
  end
end

tap.group("files and layouts", function()
  local case = golden[1]
  local model, images = load("vit", case[2]), pixels(case[3], case[4])
  local want = model:prepare(images):totable()
  model:save(dir .. "/saved")
  tap.is(rille.models.load(dir .. "/saved"):prepare(images):totable(), want, "a saved folder keeps the description")
  os.remove(dir .. "/preprocessor_config.json")
  model = load("vit", '{"image_processor": ' .. case[2] .. "}", "processor_config.json")
  tap.is(model:prepare(images):totable(), want, "processor_config.json may hold the description")
  tap.is(model:prepare(images:slice(0, 1, 2):squeeze(0)):totable()[1], want[2], "one image needs no batch")
  local P = rille.placement("cpu", {0, 1})
  local laid = model:prepare(images:to_global{placement = P, sbp = "S(0)"})
  tap.is({tostring(laid.sbp), laid:totable()}, {"S(0)", want}, "sharded images stay sharded")
  os.remove(dir .. "/processor_config.json")
  model = load("vit", '{"size": 16, "image_mean": 0.5, "image_std": 0.5, "resample": 2}')
  tap.is(model:prepare(images):totable(), want, "old folders have a number for the size")
  model = load("clip", '{"size": 16, "crop_size": 16}')
  tap.is(model:prepare(images).shape, {2, 3, 16, 16}, "the number is that of CLIP's shortest edge")
end)

tap.group("messages", function()
  local function refuses(words, text, what) tap.fails(function() load("vit", words):prepare(pixels(4, 4)) end, {text}, what) end
  refuses('{"image_processor_type": "SamImageProcessor"}', 'unknown image_processor_type "SamImageProcessor"; expected one of: Bit, CLIP, ConvNext, DeiT, Siglip, ViT', "another processor")
  refuses('{"size": {"longest_edge": 3}}', "size must be {height, width} or {shortest_edge}, found keys longest_edge", "a longest edge")
  refuses('{"size": {"height": 0, "width": 3}}', "preprocessor_config.json: size.height must be a positive integer, found 0", "a height of 0")
  refuses('{"size": {"height": 9007199254740992, "width": 3}}', "size.height must be at most 8192, found 9007199254740992", "a huge height")
  refuses('{"do_center_crop": true, "crop_size": {"shortest_edge": 3}}', "crop_size must be {height, width}, found keys shortest_edge", "a crop by its shortest edge")
  refuses('{"image_processor_type": "ConvNextImageProcessor", "crop_pct": "x", "size": {"shortest_edge": 224}}', 'crop_pct must be a number from 0.1 to 1, found "x"', "a share that is a text")
  refuses('{"resample": 7}', "resample must be an integer from 0 to 5, found 7", "an unknown filter")
  refuses('{"image_mean": [0.5, 0.5]}', "image_mean must have 3 numbers, one per channel, found 2", "two means")
  refuses('{"image_mean": [1, 2, 3, 4]}', "image_mean must have 3 numbers, one per channel, found 4", "four means")
  refuses('{"do_pad": true}', "do_pad is not supported", "padding")
  refuses('{"do_resize": 1}', "do_resize must be true or false, found 1", "a number for a flag")
  refuses("3", "preprocessor_config.json: expected JSON with an object or a list, found 3", "a number")
  os.remove(dir .. "/preprocessor_config.json")
  local model = rille.models.load(dir)
  tap.fails(function() model:prepare(pixels(4, 4)) end, {"the model's folder has no preprocessor_config.json"}, "a folder without the file")
  model = load("vit", "{}")
  tap.fails(function() model:prepare(rille.zeros{3, 4, 4}) end, {"images must be a tensor u8 (batch, channels, height, width) or (channels, height, width), found f32{3, 4, 4}"}, "floats")
  tap.fails(function() model:prepare "x.png" end, {'found "x.png"'}, "a name")
  tap.fails(function() load("t5", "{}"):prepare(pixels(4, 4)) end, {"prepare"}, "a model of texts")
end)
os.execute(("rm -rf '%s'"):format(dir))
tap.done()
