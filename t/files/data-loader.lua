-- Tests rille.data.loader. It must return each row once per epoch, in an order that depends on seed and epoch.
local tap = dofile("t/lib/tap.lua")
local data = rille.data
local P0, P1 = rille.placement("cpu", {0, 1}), rille.placement("cpu", {{2, 3}})

local function read(loader, epoch)
  local rows = {}
  for x in loader:epoch(epoch) do
    for _, v in ipairs(x:totable()) do rows[#rows + 1] = v end
  end
  return rows
end

tap.group("permutations", function()
  local good = true
  for n = 1, 40 do
    local seen, order = {}, data.permutation(n, n * 977)
    for _, i in ipairs(order) do seen[i] = true end
    for i = 0, n - 1 do good = good and seen[i] end
    good = good and #order == n
  end
  tap.ok(good, "a permutation has each position from 0 to n - 1 once")
  tap.is(data.permutation(9, 1), data.permutation(9, 1), "a permutation depends on its seed alone")
  local first = {}
  for seed = 1, 300 do
    local i = data.permutation(3, seed)[1]
    first[i] = (first[i] or 0) + 1
  end
  tap.ok(first[0] > 70 and first[1] > 70 and first[2] > 70, "each position is first with similar frequency",
    ("%d %d %d"):format(first[0], first[1], first[2]))
end)

tap.group("epochs", function()
  local x = rille.arange(10)
  for _, drop_last in ipairs{false, true} do
    for batch = 1, 10 do
      local loader = data.loader{x, batch = batch, shuffle = true, seed = 5, drop_last = drop_last}
      local rows, seen = read(loader, 0), {}
      for _, v in ipairs(rows) do seen[v] = (seen[v] or 0) + 1 end
      local once = true
      for _, n in pairs(seen) do once = once and n == 1 end
      local want = drop_last and 10 // batch * batch or 10
      tap.ok(once and #rows == want, ("batches of %d%s: %d rows, each once"):format(batch, drop_last and " that are full" or "", want))
      local n = 0
      for _ in loader:epoch(0) do n = n + 1 end
      tap.is(#loader, n, "#loader is the number of batches")
    end
  end
  local loader = data.loader{x, batch = 4, shuffle = true, seed = 5}
  tap.is(read(loader, 3), read(data.loader{x, batch = 4, shuffle = true, seed = 5}, 3), "an epoch depends on seed and number alone")
  tap.ok(table.concat(read(loader, 0), " ") ~= table.concat(read(loader, 1), " "), "two epochs differ")
  tap.is(read(data.loader{x, batch = 4}, 0), x:totable(), "without shuffle rows keep the order of the data")
  local loops = {}
  for pass = 1, 2 do
    for rows in loader do loops[#loops + 1] = rows:totable() end
    tap.is(#loops, 3 * pass, "a for loop over the loader reads one epoch")
  end
  tap.ok(table.concat(loops[1], " ") ~= table.concat(loops[4], " "), "the next loop reads the next epoch")
  local again = data.loader{x, batch = 4, shuffle = true, seed = 5}
  local good = true
  for i = 1, 6 do good = good and table.concat(again:next():totable(), " ") == table.concat(loops[i], " ") end
  tap.ok(good, "next() returns the same batches across epochs")
end)

tap.group("layouts", function()
  local x, y = rille.arange(12):reshape{6, 2}:to_global{placement = P0, sbp = "B"}, rille.arange(6):to_global{placement = P1, sbp = {"B", "B"}}
  for a, b in data.loader{x, y, batch = 4, shuffle = true, seed = 1} do
    tap.is({a.placement == P0, a.sbp, b.placement == P1, b.sbp}, {true, "B", true, "(B, B)"}, "a batch has the layout of its data")
    tap.is(a[{{}, 0}]:totable(), (b * 2):totable(), "rows of two tensors stay together")
  end
  local split = data.loader{x, batch = 4, sbp = "S(0)"}:next()
  tap.is({split.sbp, split:totable()}, {"S(0)", {{0, 1}, {2, 3}, {4, 5}, {6, 7}}}, "a batch has the layout that sbp names")

  local P4 = rille.placement("cpu", {{0, 1}, {2, 3}})
  local layouts = {{P0, "B", "S(0)", "S(1)", "S(-1)", "P"}, {P4, "(B, B)", "(S(0), B)", "(S(1), S(0))", "(S(0), S(0))",
    "(S(0), S(0)) order (1, 0)", "(B, P)", {"S(0)", "S(1)"}, {"S(0)", "S(0)", order = {1, 0}}, {"P", "S(0)"}}}
  for _, row in ipairs(layouts) do
    for i = 2, #row do
      local want = rille.zeros({6, 2}, {placement = row[1], sbp = row[i]}).sbp
      local data_lie = rille.arange(12):reshape{6, 2}:to_global{placement = row[1], sbp = row[i]}
      local as_data = data.loader{data_lie, batch = 5}:next()
      tap.is({as_data.sbp, as_data:totable()}, {want, data_lie[{{0, 5}}]:totable()}, want .. ": the layout of the data")
      for k = 2, #row do
        local asked = data.loader{data_lie:to_global{placement = row[1], sbp = row[k]}, batch = 5, sbp = row[i]}:next()
        tap.is({asked.sbp, asked:totable()}, {want, as_data:totable()}, ("%s: the layout that sbp names, from layout %d"):format(want, k - 2))
      end
    end
  end
end)

tap.group("resuming", function()
  local x = rille.arange(10)
  local function new(seed) return data.loader{x, batch = 3, shuffle = true, seed = seed} end
  local a, b = new(1), new(2)
  for _ = 1, 6 do a:next() end
  local state = a:state()
  local want = tap.list(9, function() return a:next():totable() end)
  b:load_state(state)
  local got = tap.list(9, function() return b:next():totable() end)
  tap.is(got, want, "a loaded state continues in the epoch, for any earlier seed")
  b:load_state(state)
  local n = 0
  for _ in b:batches() do n = n + 1 end
  tap.is(n, 2, "the first loop after a load finishes its epoch")
  n = 0
  for _ in b:batches() do n = n + 1 end
  tap.is(n, 4, "the loop after that reads a complete epoch")
  tap.fails(function() data.loader{rille.arange(9), batch = 3}:load_state(state) end, {"9 rows", "10"}, "a state of other data is refused")
  tap.fails(function() data.loader{x, batch = 4}:load_state(state) end, {"batch", "4", "3"}, "a state of another batch size is refused")
end)

tap.group("mistakes", function()
  local x = rille.arange(10)
  tap.fails(function() data.loader{x, batch = 4, shufle = true} end, {"shufle"}, "an unknown option")
  tap.fails(function() data.loader{x} end, {"batch"}, "no batch size")
  tap.fails(function() data.loader{x, rille.arange(9), batch = 2} end, {"9", "10"}, "different numbers of rows")
  for what, given in pairs{["entry 2 must be a tensor"] = {x, nil, x}, ["tensors must be entries 1, 2, ... of the table, found one at 0"] = {[0] = x, x},
    ["shuffle must be true or false, found \"no\""] = {x, shuffle = "no"}, ["drop_last must be true or false, found 0"] = {x, drop_last = 0},
    ["seed must be an integer, found 1.5"] = {x, shuffle = true, seed = 1.5}, ["seed must be an integer, found a"] = {x, seed = "a"}} do
    given.batch = 4
    tap.fails(function() data.loader(given) end, {"data.loader: " .. what:gsub(" a$", ' "a"')}, what)
  end
  for _, epoch in ipairs{-1, 1.5, "a", {}} do
    tap.fails(function() data.loader{x, batch = 4}:epoch(epoch) end, {"data.loader:epoch", "the epoch must be an integer"}, "an invalid epoch is refused")
  end
  for _, option in ipairs{"shuffle", "drop_last"} do
    tap.fails(function() data.loader{x, batch = 4}:load_state(data.loader{x, batch = 4, [option] = true}:state()) end,
      {("its %s is false here, true in the loaded state"):format(option)}, "a state with other order options is refused")
  end
  tap.fails(function() data.loader{x, batch = 4}:load_state{size = 9} end, {"data.loader", "seed"}, "an incomplete state is refused")
  local reader = data.loader{x, batch = 4, shuffle = true}
  reader:next()
  for name, wild in pairs{next_epoch = {-1, 3, math.maxinteger, math.mininteger, 0.5}, running = {-2, 1, math.mininteger},
    seed = {0.5, "5"}, at = {-1, 11}} do
    for _, value in ipairs(wild) do
      local state = reader:state()
      state[name] = value
      tap.fails(function() reader:load_state(state) end, {"data.loader", name == "seed" and "'seed'" or name == "at" and "row" or "epoch"}, ("a state whose %s is %s"):format(name, value))
    end
  end
end)

tap.done()
