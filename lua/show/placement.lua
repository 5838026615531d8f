-- placement.lua - P:show([file.svg]): the mesh and its ranks. Axes beyond two are drawn as pages.

local rille = require "rille"
local paint = require "rille.show.paint"

-- maximum number of ranks drawn per axis; if there are more, draws the first ones and the last
local MOST <const> = 8

-- Returns {rows =, columns =, pages =, rank = function(page, row, column)}: the last two axes are rows and columns.
local function mesh_of(P)
  local shape, ranks, n = P.shape, P.ranks, #P.shape
  local columns, rows, pages = shape[n], n > 1 and shape[n - 1] or 1, 1
  for k = 1, n - 2 do pages = pages * shape[k] end
  return {rows = rows, columns = columns, pages = pages, axes = n,
    rank = function(page, row, column) return ranks[(page * rows + row) * columns + column + 1] end}
end

-- Returns the positions, from 0 to n - 1, that are drawn; false stands for a gap.
local function drawn(n, most)
  local list = {}
  for k = 0, n - 1 do
    if n <= most or k < most - 2 or k == n - 1 then list[#list + 1] = k elseif list[#list] then list[#list + 1] = false end
  end
  return list
end

local function headline(P)
  local ranks = P.size == 1 and "1 device" or ("%d devices"):format(P.size)
  local axes = #P.shape == 1 and "" or (" as a mesh of %s"):format(table.concat(P.shape, " x "))
  return ("%s%s of kind %s"):format(ranks, axes, P.device)
end

-- Returns the title of a page: "axis 0 = 1".
local function page_text(P, page)
  local parts, n = {}, #P.shape
  for k = n - 2, 1, -1 do
    parts[k] = ("axis %d = %d"):format(k - 1, page % P.shape[k])
    page = page // P.shape[k]
  end
  return table.concat(parts, ", ")
end

-- Returns a text that names the axis of rows and the axis of columns.
local function axes_text(m)
  local across = ("axis %d across"):format(m.axes - 1)
  return m.axes > 1 and ("axis %d down, %s"):format(m.axes - 2, across) or across
end

local function plain_picture(P, columns, color)
  local m, lines = mesh_of(P), {}
  local width = 3
  for _, r in ipairs(P.ranks) do width = math.max(width, #tostring(r) + 2) end
  local shown = drawn(m.columns, math.max(3, math.min(16, (columns - 4) // (width + 1))))
  lines[1] = paint.colored(paint.wrap(headline(P), columns, "  "), "head", color)
  lines[2] = paint.colored("  " .. axes_text(m), "faint", color)
  local function rule(left, middle, right)
    local parts = {}
    for k in ipairs(shown) do parts[k] = ("─"):rep(width) end
    lines[#lines + 1] = "  " .. left .. table.concat(parts, middle) .. right
  end
  for _, page in ipairs(drawn(m.pages, 4)) do
    if m.axes > 2 then lines[#lines + 1] = page and "  " .. page_text(P, page) or "  ..." end
    if page then
      rule("┌", "┬", "┐")
      for i, row in ipairs(drawn(m.rows, MOST)) do
        if i > 1 then rule("├", "┼", "┤") end
        local cells = {}
        for k, column in ipairs(shown) do
          local text = row and column and tostring(m.rank(page, row, column)) or "..."
          local left = (width - #text) // 2
          cells[k] = (" "):rep(left) .. text .. (" "):rep(width - #text - left)
        end
        lines[#lines + 1] = "  │" .. table.concat(cells, "│") .. "│"
      end
      rule("└", "┴", "┘")
    end
  end
  return table.concat(lines, "\n") .. "\n"
end

local CELL <const>, LEFT <const> = 46, 28

local function svg_picture(P)
  local m, doc = mesh_of(P), paint.document("Placement: " .. paint.place(P))
  doc:text(LEFT, 34, "head", headline(P))
  doc:text(LEFT, 54, "faint", axes_text(m))
  local columns, y, right = drawn(m.columns, 12), 72, LEFT + 9.6 * #headline(P)
  for _, page in ipairs(drawn(m.pages, 4)) do
    if m.axes > 2 then
      doc:text(LEFT, y + 14, "faint", page and page_text(P, page) or "...")
      y = y + 22
    end
    for _, row in ipairs(page and drawn(m.rows, MOST) or {}) do
      for k, column in ipairs(columns) do
        local x = LEFT + (k - 1) * CELL
        right = math.max(right, x + CELL)
        if row and column then
          local rank = m.rank(page, row, column)
          doc:box(x, y, CELL - 5, CELL - 14, "r" .. (rank + rank // 8 + rank // 64) % 8, ("%s:%d"):format(P.device, rank))
          doc:text(x + (CELL - 5) / 2, y + 21, "mid", tostring(rank))
        else
          doc:text(x + (CELL - 5) / 2, y + 21, "mid faint", "...")
        end
      end
      y = y + CELL - 9
    end
    y = y + 10
  end
  return doc:finish(math.ceil(right + LEFT), y + 12)
end

return function(P, path)
  rille._show(path, function() return svg_picture(P) end, function(columns, color) return plain_picture(P, columns, color) end)
end
