-- resnet.lua - a small residual network for images. He et al. 2015.
--
--   resnet.new{classes = 10, channels = 3, width = 16, blocks = {2, 2, 2}}     x: (batch, channels, h, w) -> (batch, classes)
--
-- Each stage after the first halves the image and doubles the width. Logits are f32 if the model's dtype has 16 bits.

local check = require "rille.base.check"
local layout = require "rille.base.layout"
local nn = require("rille").nn
local language = require "rille.models.language"

local Block = nn.Module:extend("models.resnet.Block")

function Block:init(n_in, n_out, stride)
  self.conv1 = nn.Conv2d(n_in, n_out, 3, {stride = stride, padding = 1, bias = false})
  self.bn1 = nn.BatchNorm2d(n_out)
  self.conv2 = nn.Conv2d(n_out, n_out, 3, {padding = 1, bias = false})
  self.bn2 = nn.BatchNorm2d(n_out)
  if stride ~= 1 or n_in ~= n_out then
    self.downsample = nn.Sequential(nn.Conv2d(n_in, n_out, 1, {stride = stride, bias = false}), nn.BatchNorm2d(n_out))
  end
end

function Block:forward(x)
  local y = self.bn2(self.conv2(self.bn1(self.conv1(x)):relu()))
  return (y + (self.downsample and self.downsample(x) or x)):relu()
end

local ResNet = nn.Module:extend("models.resnet")

function ResNet:init(config)
  local width = config.width
  self.config = config
  self.conv1 = nn.Conv2d(config.channels, width, 3, {padding = 1, bias = false})
  self.bn1 = nn.BatchNorm2d(width)
  self.blocks = {}
  local n = width
  for stage, count in ipairs(config.blocks) do
    for i = 1, count do
      local wide = width << (stage - 1)
      self.blocks[#self.blocks + 1] = Block(n, wide, stage > 1 and i == 1 and 2 or 1)
      n = wide
    end
  end
  self.fc = nn.Linear(n, config.classes)
end

function ResNet:start()
  for _, m in ipairs(self:modules()) do
    if m.__name == "nn.Conv2d" then nn.init.kaiming_normal_(m.weight) end
  end
end

function ResNet:forward(x)
  check.that(x.ndim == 4 and x.shape[2] == self.config.channels,
    "models.resnet: images must be (batch, %d, height, width), found {%s}",
    self.config.channels, table.concat(x.shape, ", "))
  x = self.bn1(self.conv1(x)):relu()
  for _, block in ipairs(self.blocks) do x = block(x) end
  local y = self.fc(x:mean{axis = {2, 3}})
  return (y.dtype == "bf16" or y.dtype == "f16") and y:to("f32") or y
end

local resnet = {}

function resnet.new(given, more)
  local who = "models.resnet.new"
  check.that(more == nil,
    "%s: expected one table of options, including placement, sbp and dtype; found %s as a second argument", who, check.shown(more))
  local config = check.options(who, given, {classes = check.none, channels = 3, width = 16, blocks = {2, 2, 2},
    placement = check.none, sbp = check.none, dtype = "f32"})
  for _, name in ipairs{"classes", "channels", "width"} do check.count(who, name, config[name]) end
  check.that(type(config.blocks) == "table" and #config.blocks > 0, "%s: blocks must be a list of counts, one per stage, found %s", who,
    type(config.blocks) == "table" and "an empty table" or check.shown(config.blocks))
  for i = 1, #config.blocks do check.count(who, "a count of blocks", config.blocks[i]) end
  layout.check_placement(who, config.placement)
  local where = {placement = config.placement, sbp = config.sbp}
  local model = ResNet(config):to(config.dtype)
  language.place(model, where)
  model:start()
  return model
end

return check.names("models.resnet", resnet)
