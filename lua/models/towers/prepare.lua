-- prepare.lua - prepares images for a model as its folder describes in preprocessor_config.json, or in the table
-- image_processor of processor_config.json: size, crop, scale, mean and standard deviation. Results are those of the
-- image processors of transformers that use Pillow.

local rille = require "rille"
local check = require "rille.base.check"
local json = require "rille.json"
local layout = require "rille.base.layout"
local optional = require "rille.models.loading.optional"
local resample = require "rille.data.resample"

local prepare = {}

-- ---- reading and writing a folder's description ----

local FILE <const> = "preprocessor_config.json"

-- Returns the description of a folder's images, as a table; nil: the folder has none.
function prepare.read(dir)
  local own = optional(dir .. "/" .. FILE)
  if own then return own end
  local words = optional(dir .. "/processor_config.json")
  return words and type(words.image_processor) == "table" and words.image_processor or nil
end

-- Writes the description into a saved folder. model_type: used in messages.
function prepare.write(model_type, dir, config)
  if not config.pixels then return end
  rille._write(("models.%s: save"):format(model_type), dir .. "/" .. FILE, json.encode(config.pixels) .. "\n")
end

-- ---- completing the description of images ----

local MOST <const> = 8192 -- maximum height and width of prepared images, pixels

local function square(n) return {height = n, width = n} end

local half = {0.5, 0.5, 0.5}
local clip_mean, clip_std = {0.48145466, 0.4578275, 0.40821073}, {0.26862954, 0.26130258, 0.27577711}

-- Name of the image processor in transformers -> its defaults. A size with shortest_edge keeps the ratio of the sides.
local processors = {
  ViT = {size = square(224), resample = 2},
  DeiT = {size = square(256), crop_size = square(224), do_center_crop = true},
  Siglip = {size = square(224)},
  CLIP = {size = {shortest_edge = 224}, crop_size = square(224), do_center_crop = true, image_mean = clip_mean, image_std = clip_std},
  ConvNext = {size = {shortest_edge = 384}, crop_pct = 224 / 256},
}
processors.Bit = processors.CLIP

-- Model type -> its image processor, for folders that do not name the processor.
local usual = {vit = "ViT", deit = "DeiT", dinov2 = "Bit", clip = "CLIP", siglip = "Siglip", resnet = "ConvNext",
  convnext = "ConvNext", convnextv2 = "ConvNext", clip_vision_model = "CLIP", siglip_vision_model = "Siglip"}

local flags = {"do_resize", "do_center_crop", "do_rescale", "do_normalize"}

-- Returns the defaults of the image processor. d: the folder's description.
local function defaults_of(who, d, model_type)
  local name = d.image_processor_type or d.feature_extractor_type
  local short = usual[model_type]
  if type(name) == "string" then short = name:gsub("Pil$", ""):gsub("Fast$", ""):gsub("ImageProcessor$", ""):gsub("FeatureExtractor$", "") end
  check.that(processors[short], "%s: %s: unknown image_processor_type %s; expected one of: %s", who, FILE, check.shown(name),
    table.concat(check.sorted_keys(processors), ", "))
  local all = {resample = 3, do_resize = true, do_rescale = true, do_normalize = true, do_center_crop = false,
    rescale_factor = 1 / 255, image_mean = half, image_std = half}
  for word, value in pairs(processors[short]) do all[word] = value end
  return all
end

-- Returns a size as {height =, width =} or {shortest_edge =}. like: the default, which decides the meaning of one number; nil:
-- the size must be {height =, width =}.
local function size_of(who, word, value, like)
  if math.type(value) == "integer" then value = like and like.shortest_edge and {shortest_edge = value} or square(value) end
  local t = type(value) == "table" and value or {}
  local counts = t.shortest_edge and like and {"shortest_edge"} or {"height", "width"}
  check.that(type(value) == "table" and t[counts[1]] and t[counts[#counts]] and not t.longest_edge,
    "%s: %s: %s must be %s, found %s", who, FILE, word, like and "{height, width} or {shortest_edge}" or "{height, width}",
    type(value) == "table" and "keys " .. table.concat(check.sorted_keys(value), ", ") or check.shown(value))
  for _, name in ipairs(counts) do
    check.count(who, ("%s: %s.%s"):format(FILE, word, name), t[name])
    check.that(t[name] <= MOST, "%s: %s: %s.%s must be at most %d, found %d", who, FILE, word, name, MOST, t[name])
  end
  return t
end

-- Returns a list of numbers, one per channel. value: a list or one number.
local function by_channel(who, word, value, channels)
  local list, many = {}, type(value) == "table"
  check.that(not many or #value == channels, "%s: %s: %s must have %d numbers, one per channel, found %d", who, FILE, word, channels,
    many and #value or 1)
  for i = 1, channels do list[i] = check.finite(who, ("%s: %s"):format(FILE, word), many and value[i] or value) end
  return list
end

-- Returns the checked description, completed with defaults.
local function described(who, own, model_type, channels)
  local d = defaults_of(who, own, model_type)
  local square_or_not = d.size
  for word, value in pairs(own) do
    if value ~= json.null then d[word] = value end
  end
  for _, word in ipairs(flags) do check.flag(who, ("%s: %s"):format(FILE, word), d[word]) end
  check.that(not d.do_pad, "%s: %s: do_pad is not supported", who, FILE)
  check.that(resample.filters[d.resample], "%s: %s: resample must be an integer from 0 to 5, found %s", who, FILE, check.shown(d.resample))
  if d.do_resize then d.size = size_of(who, "size", d.size, square_or_not) end
  if d.do_center_crop then d.crop_size = size_of(who, "crop_size", d.crop_size) end
  check.positive(who, FILE .. ": rescale_factor", d.rescale_factor)
  check.that(d.crop_pct == nil or type(d.crop_pct) == "number" and d.crop_pct >= 0.1 and d.crop_pct <= 1,
    "%s: %s: crop_pct must be a number from 0.1 to 1, found %s", who, FILE, check.shown(d.crop_pct))
  d.mean, d.std = by_channel(who, "image_mean", d.image_mean, channels), by_channel(who, "image_std", d.image_std, channels)
  return d
end

-- ---- resizing, cropping and normalising images ----

-- Returns the height and the width to which images of a size are resized, and the size of a crop that follows, or nil.
local function sizes(d, height, width)
  local size, crop = d.size, nil
  if not size.shortest_edge then return size.height, size.width end
  local short = size.shortest_edge
  if d.crop_pct then -- ConvNeXt: large images are distorted, small ones are resized and cropped
    if short >= 384 then return short, short end
    short, crop = math.floor(short / d.crop_pct), square(short)
  end
  local long = math.floor(short * math.max(height, width) / math.min(height, width))
  if width <= height then return long, short, crop end
  return short, long, crop
end

-- Cuts n pixels from the middle of an axis of x; a shorter axis is padded with zeros.
local function cut(x, axis, n)
  local size, shape = x.shape[axis + 1], x.shape
  if size < n then
    local function zeros(many)
      shape[axis + 1] = many
      return rille.zeros(shape, {dtype = x.dtype, placement = x.placement, sbp = x.sbp})
    end
    local before = (n - size + 1) // 2
    return rille.concat({zeros(before), x, zeros(n - size - before)}, axis)
  end
  local from = (size - n) // 2
  return x:slice(axis, from, from + n)
end

local function cropped(x, size) return cut(cut(x, 2, size.height), 3, size.width) end

local function prepared(who, d, x)
  x = x:to("f64")
  local function channels(list)
    return rille.tensor(list, {dtype = "f64", placement = x.placement, sbp = layout.replicated(x.placement)}):reshape{1, #list, 1, 1}
  end
  if d.do_resize then
    local height, width, crop = sizes(d, x.shape[3], x.shape[4])
    x = resample.resize(who, x, resample.filters[d.resample], height, width)
    if crop then x = cropped(x, crop) end
  end
  if d.do_center_crop then x = cropped(x, d.crop_size) end
  if d.do_rescale then x = x * d.rescale_factor end
  if d.do_normalize then x = (x - channels(d.mean)) / channels(d.std) end
  return x:to("f32")
end

-- Prepares images, u8 (batch, channels, height, width) or (channels, height, width), for a model. Returns f32 (batch,
-- channels, height, width).
function prepare.images(model, images)
  local who, own = model.__name .. ": prepare", model.config.pixels
  check.that(own, "%s: the model's folder has no %s, which describes how images are prepared", who, FILE)
  check.that(layout.is_tensor(images) and images.dtype == "u8" and (images.ndim == 3 or images.ndim == 4) and images:numel() > 0,
    "%s: images must be a tensor u8 (batch, channels, height, width) or (channels, height, width), found %s", who,
    layout.is_tensor(images) and ("%s{%s}"):format(images.dtype, table.concat(images.shape, ", ")) or check.shown(images))
  local x = images.ndim == 3 and images:unsqueeze(0) or images
  return rille.no_grad(prepared, who, described(who, own, model.kind.name, x.shape[2]), x)
end

return prepare
