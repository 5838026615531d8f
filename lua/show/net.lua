-- net.lua - net:show([file.svg]): shows a module's parts, with the shapes, layouts and bytes per device of their
-- parameters.

local rille = require "rille"
local layout = require "rille.base.layout"
local paint = require "rille.show.paint"

-- Returns the greatest number of bytes of a tensor on one device. Adds the bytes of each device to total, if given.
local function bytes_of(x, total)
  local most = 0
  for _, shard in ipairs(x:shards()) do
    local n = layout.shard_bytes(x, shard)
    local device = ("%s:%d"):format(x.device, shard.rank)
    if total then
      if not total[device] then total[#total + 1] = device end
      total[device] = (total[device] or 0) + n
    end
    most = math.max(most, n)
  end
  return most
end

-- ---- reading the tree of modules ----

-- Returns the node of the path's nearest ancestor that has a node, and the rest of the path. For "blocks.0", if there
-- is no node "blocks", returns the node "" and "blocks.0".
local function parent_of(nodes, path)
  local before = path
  while before ~= "" do
    before = before:match("^(.*)%.[^.]*$") or ""
    if nodes[before] then return nodes[before], before == "" and path or path:sub(#before + 2) end
  end
end

-- Returns the tree of modules and their tensors: nodes {name =, module =, tensors =, children =}.
local function tree_of(net)
  local nodes, total, count, held = {}, {}, 0, {}
  for path, module in net:named_modules() do
    if not nodes[path] then
      local parent, name = parent_of(nodes, path)
      local node = {name = name or "", module = tostring(module):match("^[^\n]*"):gsub("%($", ""), tensors = {}, children = {}}
      nodes[path] = node
      if parent then table.insert(parent.children, node) end
    end
  end
  for _, list in ipairs{{"parameter", net.named_parameters}, {"buffer", net.named_buffers}} do
    for path, x in list[2](net) do
      local owner, name = parent_of(nodes, path)
      table.insert(owner.tensors, {name = name, tensor = x, tied = held[x]})
      if not held[x] then
        held[x] = true
        bytes_of(x, total)
        if list[1] == "parameter" then count = count + x:numel() end
      end
    end
  end
  return nodes[""], total, count
end

-- Returns a text that describes the contents of a module. Modules with equal texts may share a row.
local function signature(node)
  local parts = {node.module}
  for _, t in ipairs(node.tensors) do
    local x = t.tensor
    parts[#parts + 1] = ("%s %s {%s} %s %s %s"):format(t.name, x.dtype, table.concat(x.shape, ", "), x.sbp, x.placement, t.tied)
  end
  for _, child in ipairs(node.children) do parts[#parts + 1] = child.name .. " (" .. signature(child) .. ")" end
  return table.concat(parts, "\n")
end

-- Returns true if b is the list member directly after a.
local function follows(a, b)
  local list, k = a:match("^(.-)(%d+)$")
  return list and b == ("%s%d"):format(list, k + 1)
end

-- Returns the rows of the picture in order, each {depth =, name =, module = or tensor =, tied =}. Members of a list
-- with equal contents share a row.
local function flatten(node, depth, rows, name, alike)
  local module = alike > 1 and ("%s x %d"):format(node.module, alike) or node.module
  rows[#rows + 1] = {depth = depth, name = name, module = module}
  for _, t in ipairs(node.tensors) do rows[#rows + 1] = {depth = depth + 1, name = t.name, tensor = t.tensor, tied = t.tied} end
  local k = 1
  while k <= #node.children do
    local child, last = node.children[k], k
    local own = signature(child)
    local function next_is_alike()
      local other = node.children[last + 1]
      return other and follows(node.children[last].name, other.name) and signature(other) == own
    end
    while next_is_alike() do last = last + 1 end
    local label = child.name
    if last > k then label = ("%s - %s"):format(child.name, node.children[last].name:match("[^.]*$")) end
    flatten(child, depth + 1, rows, label, last - k + 1)
    k = last + 1
  end
  return rows
end

local function read(net)
  local root, total, count = tree_of(net)
  return {rows = flatten(root, 0, {}, "", 1), total = total, count = count}
end

local function grouped(n)
  local s = tostring(n)
  while true do
    local shorter, k = s:gsub("^(%d+)(%d%d%d)", "%1,%2")
    if k == 0 then return s end
    s = shorter
  end
end

local function headline(m)
  local most = 0
  for _, device in ipairs(m.total) do most = math.max(most, m.total[device]) end
  return ("%s: %s parameters, at most %s per device"):format(m.rows[1] and m.rows[1].module or "module", grouped(m.count), paint.bytes(most))
end

local function type_text(x) return ("%s {%s}"):format(x.dtype, table.concat(x.shape, ", ")) end

-- ---- drawing the module on the terminal ----

local function plain_picture(m, columns, color)
  local rows = {{"", "", "layout", "on", "each"}}
  for k, r in ipairs(m.rows) do
    local name = ("  "):rep(r.depth) .. r.name
    if r.module then rows[#rows + 1] = {k == 1 and r.module or name, k > 1 and r.module or "", "", "", ""}
    else
      rows[#rows + 1] = {name, type_text(r.tensor), r.tensor.sbp .. "", paint.place(r.tensor.placement),
        r.tied and "(tied)" or paint.bytes(bytes_of(r.tensor))}
    end
  end
  local lines, most = {paint.colored(paint.wrap(headline(m), columns, "  "), "head", color), (paint.table(rows, columns, {4, 2}):gsub("\n$", ""))}, 1
  for _, device in ipairs(m.total) do most = math.max(most, m.total[device]) end
  local width = math.max(8, math.min(40, columns - 24))
  for k = 1, math.min(#m.total, 16) do
    local device = m.total[k]
    lines[#lines + 1] = ("  %-8s %s %s"):format(device, ("█"):rep(math.ceil(width * m.total[device] / most)), paint.bytes(m.total[device]))
  end
  if #m.total > 16 then lines[#lines + 1] = ("  ... %d devices"):format(#m.total) end
  return table.concat(lines, "\n") .. "\n"
end

-- ---- drawing the module as SVG ----

local WIDTH <const>, ROW <const>, LEFT <const> = 900, 22, 24
local AT <const> = {module = 190, type = 380, picture = 540, layout = 606, place = 700, bytes = 876}

local function class_of(rank) return "r" .. (rank + rank // 8 + rank // 64) % 8 end

-- Draws a tensor's shards as a thumbnail: its last two axes, the first replica in front.
local function thumbnail(doc, x, left, top)
  local W <const>, H <const> = 52, 16
  local shape, n = x.shape, x.ndim
  doc:add('<g class="rule">')
  local shards = x:shards()
  for k = #shards, 1, -1 do
    local s, across, down = shards[k], {0, 1}, {0, 1}
    if n > 0 and shape[n] > 0 then across = {s.offset[n] / shape[n], s.shape[n] / shape[n]} end
    if n > 1 and shape[n - 1] > 0 then down = {s.offset[n - 1] / shape[n - 1], s.shape[n - 1] / shape[n - 1]} end
    doc:add('<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" class="%s"/>', left + across[1] * W, top + down[1] * H,
      across[2] * W, down[2] * H, class_of(s.rank))
  end
  doc:add('<rect x="%.1f" y="%.1f" width="%d" height="%d" class="rule"/></g>', left, top, W, H)
end

local function svg_picture(m)
  local doc, y = paint.document(headline(m)), 34
  doc:text(LEFT, y, "head", headline(m))
  y = y + 30
  for _, column in ipairs{{AT.type, "type"}, {AT.picture, "layout"}, {AT.place, "on"}} do doc:text(column[1], y, "small faint", column[2]) end
  doc:text(AT.bytes, y, "end small faint", "on each device")
  for k, r in ipairs(m.rows) do
    if k > 1 then
      y = y + ROW
      local x = LEFT + 18 * (r.depth - 1)
      for d = 1, r.depth - 1 do
        doc:add('<path d="M%.1f %.1fv%d" class="rule"/>', LEFT + 18 * (d - 1) + 4, y - ROW + 6, ROW)
      end
      if r.module then
        local rest = r.module:sub(1, 90)
        doc:text(x + (r.depth > 1 and 6 or 0), y, "", r.name .. "  ")
        doc:text(AT.module, y, "faint", rest)
      else
        local t = r.tensor
        doc:text(x + 6, y, "", r.name)
        doc:text(AT.type, y, "", type_text(t))
        thumbnail(doc, t, AT.picture, y - 12)
        doc:text(AT.layout, y, "", t.sbp .. "")
        doc:text(AT.place, y, "faint", paint.place(t.placement))
        doc:text(AT.bytes, y, "end", r.tied and "tied" or paint.bytes(bytes_of(t)))
      end
    end
  end
  local most = 1
  for _, device in ipairs(m.total) do most = math.max(most, m.total[device]) end
  y = y + 34
  for k = 1, math.min(#m.total, 16) do
    local device = m.total[k]
    doc:text(LEFT + 52, y + 12, "end small", device)
    doc:box(LEFT + 60, y, (WIDTH - 200) * m.total[device] / most, 15, class_of(tonumber(device:match("%d+$"))))
    doc:text(LEFT + 68 + (WIDTH - 200) * m.total[device] / most, y + 12, "small", paint.bytes(m.total[device]))
    y = y + 20
  end
  return doc:finish(WIDTH, y + 14)
end

return function(net, path)
  local m = read(net)
  rille._show(path, function() return svg_picture(m) end, function(columns, color) return plain_picture(m, columns, color) end)
end
