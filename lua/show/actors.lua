-- actors.lua - :actors [STEP]: the actors of a plan, their acts in the last run, and what each actor waits for.
-- Actors that differ only in their rank share a line.

local paint = require "rille.show.paint"

local ROWS <const> = 60

-- Groups neighbouring actors that differ only in their device.
local function groups(list)
  local all, last = {}, nil
  for _, a in ipairs(list) do
    local state = a.state:gsub(" on %w+:%d+", "")
    local key = ("%s\0%s\0%s\0%s\0%d\0%d\0%d\0%s"):format(a.name, a.kind, a.phase, a.line, a.stage, a.begun, a.acts, state)
    if last and last.key == key then
      last.n, last.bytes, last.to = last.n + 1, last.bytes + a.bytes, a.device
    else
      last = {key = key, n = 1, bytes = a.bytes, from = a.device, to = a.device, actor = a, state = state}
      all[#all + 1] = last
    end
  end
  return all
end

local function row(g)
  local a = g.actor
  return {a.name, g.from == g.to and g.from or g.from .. " - " .. g.to:match("%d+$"),
    a.micro_batches > 1 and ("%d %s"):format(a.stage, a.phase) or "", ("%d of %d"):format(a.begun, a.acts),
    g.bytes > 0 and paint.bytes(g.bytes) or "", g.state, a.line}
end

return function(list, columns)
  if #list == 0 then return "  no plan has run yet, or the last one was freed; :actors STEP shows a compiled step's\n" end
  local rows, all = {{"what", "device", list[1].micro_batches > 1 and "stage" or "", "acts", "registers", "state", "line"}}, groups(list)
  -- Waiting actors come first, because these actors matter most after a failed run.
  for k, g in ipairs(all) do g.order = (g.state:find("waits") and 0 or #all) + k end
  table.sort(all, function(x, y) return x.order < y.order end)
  for k = 1, math.min(#all, ROWS) do rows[#rows + 1] = row(all[k]) end
  local text = paint.table(rows, columns, {5, 3, 4})
  if #all > ROWS then text = text .. ("  ... and %d more\n"):format(#all - ROWS) end
  local hosts, shown = list[1].hosts, list[1].shown
  local where = hosts == 1 and "" or shown == hosts and (" on %d hosts"):format(hosts) or (" on %d of %d hosts"):format(shown, hosts)
  return text .. ("  %d actor%s%s\n"):format(#list, #list == 1 and "" or "s", where)
end
