-- show-net.lua - tests of net:show() and placement:show(): trees of modules, and meshes; on a terminal and as SVG.

local tap = dofile("t/lib/tap.lua")

local function widest(text)
  local most = 0
  for line in text:gmatch("[^\n]+") do most = math.max(most, utf8.len(line)) end
  return most
end

local function is_whole(svg)
  local open = 0
  for slash, closed in svg:gmatch("<(/?)[%a]+[^<>]-(/?)>") do open = open + (slash == "/" and -1 or closed == "/" and 0 or 1) end
  return open == 0 and svg:find("^<svg.*</svg>%s*$") and not svg:find("nan") and svg:find("prefers%-color%-scheme:dark")
end

tap.group("placements", function()
  for _, ranks in ipairs{{0}, {2, 0, 1}, {{0, 1}, {2, 3}}, {{{0, 1}, {2, 3}}, {{4, 5}, {6, 7}}}} do
    local P = rille.placement("meta", ranks)
    local plain, svg = tap.drawn(P, 80)
    for _, rank in ipairs(P.ranks) do
      tap.ok(plain:find("│ " .. rank .. " │", 1, true) and svg:find(">" .. rank .. "</text>"), ("%s shows rank %d"):format(P, rank))
    end
    tap.ok(is_whole(svg), "the SVG of a placement is complete")
  end
  local plain, svg = tap.drawn(rille.placement("meta", tap.ranks(4096)), 40)
  tap.ok(widest(plain) <= 40 and plain:find("4095") and plain:find("...", 1, true), "a large mesh is drawn without its middle", plain)
  tap.ok(is_whole(svg) and #svg < 20000, "the SVG of a large mesh is small")
  tap.fails(function() rille.placement("cpu", {0}):show("x.png") end, "expected the name of an .svg file", "another kind of file is refused")
  tap.fails(function() rille.placement("cpu", {0}):show(3) end, "expected the name of an .svg file", "a number as file name is refused")
  tap.fails(function() rille.placement("cpu", {0}).show({}) end, "expected a placement", "a wrong self is refused")
end)

tap.group("modules", function()
  local P = rille.placement("cpu", {{0, 1}, {2, 3}})
  local net = rille.models.gpt2.new{vocab = 128, length = 16, layers = 3, heads = 2, width = 32, placement = P, sbp = {"B", "B"}}
  rille.parallel(net, {data = 0, tensor = 1})
  local plain, svg = tap.drawn(net, 100)
  tap.ok(tap.has(plain, "models.gpt2", "nn.Embedding(128, 32)", "f32 {128, 32}", "(B, S(0))", "cpu[0-3] 2 x 2"), "modules, types, layouts, placements")
  tap.ok(tap.has(plain, "h.0 - 2", "x 3"), "equal blocks are drawn once")
  tap.ok(is_whole(svg) and tap.has(svg, "nn.TransformerBlock x 3", "(B, S(1))"), "the SVG shows equal blocks once")
  -- Computes the expected bytes per device: the sum over all parameter shards on the device.
  local bytes, count = {}, 0
  for _, p in ipairs(net:parameters()) do
    count = count + p:numel()
    for _, shard in ipairs(p:shards()) do
      bytes[shard.rank] = (bytes[shard.rank] or 0) + 4 * tap.numel(shard.shape)
    end
  end
  tap.ok(plain:find((("%d"):format(count):gsub("(%d)(%d%d%d)$", "%1,%2"))), "the number of parameters is shown")
  for rank = 0, 3 do
    local reported = plain:match(("cpu:%d [^%%d]+([%%d.]+ KiB)"):format(rank))
    tap.is(reported, require("rille.show.paint").bytes(bytes[rank]), ("the bytes of device %d are shown"):format(rank))
  end
  for _, columns in ipairs{40, 80, 120} do tap.ok(widest(tap.drawn(net, columns)) <= columns, ("fits into %d columns"):format(columns)) end
  -- A user-defined network with a list, a buffer and tied weights.
  local Net = rille.nn.Module:extend("Net")
  function Net:init()
    self.first = rille.nn.Linear(4, 4)
    self.list = {rille.nn.Linear(4, 4), rille.nn.Linear(4, 2)}
    self:buffer("mean", rille.zeros{4})
  end
  plain, svg = tap.drawn(Net(), 80)
  tap.ok(tap.has(plain, "Net", "first", "list.0", "list.1", "mean") and is_whole(svg), "lists and buffers are shown", plain)
  tap.ok(is_whole(select(2, tap.drawn(rille.nn.ReLU(), 80))), "a module without parameters is drawn")
  tap.fails(function() net:show("x.png") end, "expected the name of an .svg file", "another kind of file is refused")
end)

tap.done()
