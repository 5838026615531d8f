-- data-tokens.lua - tests windows of token ids. Each window must occur once per epoch, in an order that depends on
-- the seed and not on the layout. Also tests text files that are read as tensors.

local tap = dofile("t/lib/tap.lua")
local data = rille.data
local dir = tap.folder()

local function write(name, bytes) return tap.write(dir .. "/" .. name, bytes) end
local function token_file(name, from, to, wide)
  local out = {string.pack("<i4i4i4", wide and 20240801 or 20240520, wide and 7 or 1, to - from + 1) .. ("\0"):rep(1012)}
  for i = from, to do out[#out + 1] = string.pack(wide and "<I4" or "<I2", i) end
  return write(name, table.concat(out))
end
local function starts(d)
  local list = {}
  for x in d:batches() do
    for _, row in ipairs(x:totable()) do list[#list + 1] = row[1] end
  end
  return list
end
local function sorted(list)
  local copy = table.move(list, 1, #list, 1, {})
  table.sort(copy)
  return copy
end

tap.group("windows", function()
  for _, case in ipairs{{101, 10, 2}, {1000, 7, 5}, {17, 1, 4}, {65, 64, 1}, {300, 3, 8}} do
    local n, length, batch = table.unpack(case)
    local path = token_file("a.bin", 0, n - 1, n == 1000)
    local d = data.tokens(path, {batch = batch, length = length, seed = 3})
    local seen, windows, wrong = starts(d), (n - 1) // length, 0
    for i, start in ipairs(sorted(seen)) do
      if start % length ~= 0 or i > 1 and start == sorted(seen)[i - 1] then wrong = wrong + 1 end
    end
    tap.is({#seen, wrong}, {windows // batch * batch, 0}, ("%d ids, windows of %d: no window twice or across a boundary"):format(n, length))
    tap.is(#d, windows // batch, "#d is the number of batches")
  end
  local d = data.tokens({token_file("b.bin", 0, 50), token_file("c.bin", 100, 151)}, {batch = 1, length = 10, seed = 1})
  tap.is(sorted(starts(d)), {0, 10, 20, 30, 40, 100, 110, 120, 130, 140}, "no window crosses two files")
end)

tap.group("layouts", function()
  local path, want = token_file("l.bin", 0, 400), nil
  for _, how in ipairs{{{0}, "B"}, {{1, 0}, "S(0)"}, {{0, 1, 2}, "S(1)"}, {{{0, 1}, {2, 3}}, {"S(0)", "S(1)"}}, {{{0, 1}, {2, 3}}, {"S(0)", "B"}}} do
    local place, got = rille.placement("cpu", how[1]), {}
    local labels = {placement = rille.placement("cpu", {5}), sbp = "B"}
    local d = data.tokens(path, {batch = 4, length = 9, seed = 7, placement = place, sbp = how[2], labels = labels})
    local right = true
    for x, y in d:batches() do
      right = right and x.placement == place and y.placement == labels.placement
      got[#got + 1] = {x:totable(), y:totable()}
    end
    want = want or got
    tap.is(got, want, "the same batches on " .. tostring(place))
    tap.ok(right, "inputs and labels have the requested placements")
  end
end)

tap.group("invalid layouts", function()
  local path, place = token_file("l.bin", 0, 200), rille.placement("cpu", {0, 1})
  for name, case in pairs{placement = {{placement = 5}, "placement must be a rille.placement"},
    axis = {{placement = place, sbp = "S(2)"}, "splits axis 2"}, sbp = {{sbp = "Q"}, '"Q" is not an SBP'},
    labels = {{labels = {placement = place, sbp = "S(5)"}}, "splits axis 5"}} do
    case[1].batch, case[1].length = 3, 10
    tap.fails(function() data.tokens(path, case[1]) end, {"data-tokens.lua", "data.tokens", case[2]}, name .. ": refused before a batch is read")
  end
end)

tap.group("resuming", function()
  local path = token_file("g.bin", 0, 200)
  local function new(seed) return data.tokens(path, {batch = 3, length = 10, seed = seed}) end
  local a, b = new(1), new(2)
  for _ = 1, 8 do a:next() end
  b:load_state(a:state())
  local want, got = {}, {}
  for i = 1, 10 do want[i], got[i] = a:next():totable(), b:next():totable() end
  tap.is(got, want, "a loaded state gives the same batches, within an epoch and after it")
  tap.fails(function() data.tokens(path, {batch = 3, length = 20}):load_state(a:state()) end, {"10 rows", "20"}, "windows of another length are refused")
  local longer = token_file("g2.bin", 0, 205)
  for name, other in pairs{batch = {path, {batch = 4, length = 10}}, ids = {longer, {batch = 3, length = 10}},
    length = {token_file("g3.bin", 0, 220), {batch = 3, length = 11}},
    ids_digest = {token_file("g4.bin", 1, 201), {batch = 3, length = 10}}} do
    local reader, state = data.tokens(other[1], other[2]), a:state()
    tap.ok(not pcall(reader.load_state, reader, state), "a state of as many windows but another " .. name .. " is refused")
    for word in pairs(reader.same) do state[word] = word == name and state[word] or nil end
    tap.fails(function() reader:load_state(state) end, {name, tostring(state[name])}, "the error names the difference")
    state[name] = nil
    tap.ok(pcall(reader.load_state, reader, state), "older states without this field are loaded")
  end
end)

tap.group("reading ahead", function()
  local path, d = token_file("h.bin", 0, 200), nil
  d = data.tokens(path, {batch = 3, length = 10, seed = 1})
  tap.is(d:stats(), {depth = 2, read = 0, taken = 0, full = 0, waited = 0, wait = 0}, "nothing is read before the first batch is requested")
  for i = 1, 20 do
    d:next()
    -- waits until the source has read two batches more, like a step that takes longer than reading a batch
    repeat until d:stats().read == i + 2
  end
  local s = d:stats()
  tap.is({s.taken, s.read, s.waited <= 1}, {20, 22, true}, "the source waits for credits, also across epochs, and at most the first step waits for the source")
end)

tap.group("mistakes", function()
  local path = token_file("m.bin", 0, 100)
  tap.fails(function() data.tokens(path, {batch = 2, length = 200}) end, {"200", "101"}, "windows longer than the data")
  tap.fails(function() data.tokens(path, {batch = 2, length = math.maxinteger}) end, {"length " .. math.maxinteger .. " needs", "101"}, "windows of the largest length are refused")
  tap.fails(function() data.tokens(path, {batch = 20, length = 10}) end, {"20", "10 such windows", "batch = 10 would do", "length = 5"},
    "batches larger than an epoch are refused with sizes that fit")
  tap.ok(#data.tokens(path, {batch = 10, length = 10}) == 1 and #data.tokens(path, {batch = 20, length = 5}) == 1 and
    not pcall(data.tokens, path, {batch = 20, length = 6}), "the suggested sizes work, and longer windows do not")
  tap.fails(function() data.tokens(path, {batch = 200, length = 10}) end, {"200", "10 such windows; batch = 10 would do"}, "with too few ids only a batch size is suggested")
  tap.fails(function() data.tokens(path, {batch = 2}) end, {"length"}, "no length")
  for i, from in ipairs{path, {0, 1, 2, 3, 100, 4, 5, 6, 7}} do
    local d = data.tokens(from, {batch = 1, length = 4, vocab = 100})
    tap.fails(function() for _ in d:batches() do end end, {"tokens", i == 1 and "m.bin: id number 100 is 100" or "ids: id number 4 is 100", "vocabulary of 100"},
      "the error names an id beyond the vocabulary and its position")
    local all = data.tokens(from, {batch = 1, length = 4, vocab = 101})
    local n = 0
    for _ in all:batches() do n = n + 1 end
    tap.is(n, #all, "the last id of the vocabulary is accepted")
  end
  for _, wrong in ipairs{0, -1, 1.5, "9"} do
    tap.fails(function() data.tokens(path, {batch = 1, length = 4, vocab = wrong}) end, {"vocab"}, "an invalid vocabulary size: " .. tostring(wrong))
  end
  tap.fails(function() data.tokens(path, {batch = 2, length = 3, sed = 1}) end, {"'sed'"}, "an unknown option")
  tap.fails(function() data.tokens({path, 5}, {batch = 2, length = 3}) end, {"data-tokens.lua:", "files", "5"}, "a list of files with a number")
  tap.fails(function() data.tokens({1, -2}, {batch = 1, length = 1}) end, {"-2"}, "a negative id")
  tap.fails(function() data.tokens(dir .. "/none.bin", {batch = 1, length = 1}) end, {"none.bin"}, "a missing file")
  tap.fails(function() data.tokens(write("other.bin", ("x"):rep(2000)), {batch = 1, length = 1}) end, {"other.bin", "20240520"}, "a file of another kind")
  tap.fails(function() data.tokens(write("odd.bin", io.open(path, "rb"):read("a") .. "x"), {batch = 1, length = 1}) end,
    {"odd.bin", "101 tokens of 2 bytes", "but 203 bytes follow it"}, "one byte too many is reported")
  tap.fails(function() data.tokens(rille.zeros({4}), {batch = 1, length = 1}) end, {"i64"}, "a tensor of floats is refused")
  tap.is(data.tokens(rille.arange(9), {batch = 2, length = 4}):next().shape, {2, 4}, "a tensor of ids is accepted")
end)

tap.group("llm.c", function()
  local narrow, wide = token_file("n.bin", 0, 50), token_file("w.bin", 0, 50, true)
  tap.fails(function() data.tokens({narrow, wide}, {batch = 1, length = 4}) end, {"w.bin", "4 bytes", "n.bin have 2", "vocabularies"},
    "ids of two widths are not mixed")
  tap.is(rille.io.llmc.tokens(token_file("t.bin", 65530, 65540, true)):totable()[7], 65536, "tokens of 32 bits")
  local head = string.pack("<i4i4i4i4i4i4i4i4", 20240326, 5, 4, 3, 2, 1, 2, 3) .. ("\0"):rep(1024 - 32)
  local sizes = {6, 8, 4, 4, 24, 12, 8, 4, 4, 4, 32, 16, 32, 4, 2, 2}
  local count = tap.sum(sizes, function(n) return n end)
  local path = write("gpt.bin", head .. ("\0\0"):rep(count - 2) .. string.pack("<I2I2", 0x3f80, 0xc000))
  local t, config = rille.io.llmc.load(path)
  tap.is({t.lnfb.dtype, t.lnfb:totable(), t.qkvw.shape, config.num_layers, config.padded_vocab_size}, {"bf16", {1, -2}, {2, 6, 2}, 2, 3},
    "a checkpoint of version 5 has tensors under llm.c's names, and the sizes")
  tap.is(rille.io.llmc.load(path, {names = {"fcw"}, dtype = "f32"}).fcw.dtype, "f32", "rille.io.llmc.load accepts the options of rille.load")
  write("gpt.bin", head .. ("\0\0"):rep(count - 1))
  tap.fails(function() rille.io.llmc.load(path) end, {"io.llmc.load", "gpt.bin"}, "a truncated checkpoint is refused")
end)

tap.group("closed", function()
  local kept
  do
    local loader <close> = data.tokens({1, 2, 3, 4, 5}, {batch = 1, length = 2})
    loader:next()
    kept = loader
  end
  tap.fails(function() kept:next() end, {"the reader was closed"}, "a <close> variable closes its loader")
end)

tap.group("text files", function()
  local path = write("a.csv", 'a,"b c",d\r\n1,2.5,-3\r\n\r\n4,"5",6e2\r\n')
  local t, names = data.csv(path, {header = true})
  tap.is({t:totable(), names}, {{{1, 2.5, -3}, {4, 5, 600}}, {"a", "b c", "d"}}, "csv: returns a tensor and the column names")
  for _, by in ipairs{"\t", " "} do
    local quoted = write("q.csv", ('"a"|"b c"|d\n1|"2"|3\n'):gsub("|", by))
    t, names = data.csv(quoted, {header = true, separator = by})
    tap.is({t:totable(), names}, {{{1, 2, 3}}, {"a", "b c", "d"}}, "csv: quotes next to separators that are white space")
    tap.fails(function() data.csv(write("e.csv", ('1||"2"\n'):gsub("|", by)), {separator = by}) end, {"e.csv:1", "column 2", "''"},
      "an empty field is a field, and refused as a number")
  end
  tap.fails(function() data.csv(path) end, {"a.csv:1", "'a'", "header"}, "the error names a line without numbers")
  for _, dtype in ipairs{"i64", "i32", "u8"} do
    tap.fails(function() data.csv(write("w.csv", "1,2\n3,2.5\n"), {dtype = dtype}) end, {"w.csv:2: column 2: '2.5' is not an integer"}, dtype .. " from a fraction")
    tap.fails(function() data.csv(write("w.csv", "nan,2\n"), {dtype = dtype}) end, {"w.csv:1: column 1: 'nan' is not an integer"}, dtype .. " from nan")
    tap.is(data.csv(write("w.csv", "1e2,2.0\n"), {dtype = dtype}):totable(), {{100, 2}}, "whole numbers in any notation")
    local ends = ({i64 = {"-9223372036854775808", "9223372036854775807", "-9223372036854775809", "9223372036854775808"},
      i32 = {"-2147483648", "2147483647", "-2147483649", "2147483648"}, u8 = {"0", "255", "-1", "256"}})[dtype]
    tap.is(data.csv(write("w.csv", ends[1] .. "," .. ends[2] .. "\n"), {dtype = dtype}):totable(),
      {{math.tointeger(tonumber(ends[1])), math.tointeger(ends[2])}}, dtype .. " from its minimum to its maximum")
    for i = 3, 4 do
      tap.fails(function() data.csv(write("w.csv", "1,2\n3," .. ends[i] .. "\n"), {dtype = dtype}) end,
        {("w.csv:2: column 2: '%s' is out of range for %s"):format(ends[i], dtype)}, ("%s is out of range"):format(ends[i]))
    end
  end
  tap.fails(function() data.csv(write("b.csv", "1,2\n3\n")) end, {"b.csv:2", "the number of columns must be 2, as in the lines before, found 1"}, "the error names a line with another number of columns")
  tap.fails(function() data.csv(write("b.csv", "a,b\n1,2,3\n"), {header = true}) end, {"b.csv:2", "the number of columns must be 2, as in the header, found 3", "data-tokens.lua"},
    "the error names a header with another number of columns")
  tap.is(select(2, data.csv(write("b.csv", "\xEF\xBB\xBFa,\"b, and \"\"c\"\"\",\"\"\n1,2,\" 3\""), {header = true})), {"a", 'b, and "c"', ""},
    "quoted names may contain commas and quotes")
  tap.is(data.csv(write("b.csv", "\xEF\xBB\xBF1,2\n")):totable(), {{1, 2}}, "a byte order mark is skipped")
  tap.is(data.csv(write("b.csv", "nan,-inf\nNaN, Inf \n+NAN,infinity\n")):totable(),
    {{0 / 0, -math.huge}, {0 / 0, math.huge}, {0 / 0, math.huge}}, "nan and inf are numbers")
  tap.fails(function() data.csv(write("b.csv", "1,\n")) end, {"b.csv:1", "column 2", "''"}, "an empty field is not a number")
  for _, field in ipairs{"0x10", "0X1p4", "1e", "1 2", "--1", "1_000"} do
    tap.fails(function() data.csv(write("b.csv", "1,2\n3," .. field .. "\n")) end, {"b.csv:2", "column 2", "'" .. field .. "' is not a number"},
      field .. " is not a number")
  end
  for _, field in ipairs{"1e400", "-1e309"} do
    tap.fails(function() data.csv(write("b.csv", field .. ",2\n"), {dtype = "f64"}) end, {"b.csv:1", "column 1", "out of range for f64"},
      field .. " is refused, not read as infinity")
  end
  for _, s in ipairs{"a", "e", "5", "-", ".", '"', "\n", "", ",,", 3} do
    tap.fails(function() data.csv(write("b.csv", "1,2\n"), {separator = s}) end, {"data.csv", "separator", "such as"},
      ("%q is refused as a separator"):format(s))
  end
  tap.is(data.csv(write("b.csv", "1 2\n"), {separator = " "}):totable(), {{1, 2}}, "a space is accepted as a separator")
  tap.is(data.csv(write("b.csv", "1%2\n"), {separator = "%"}):totable(), {{1, 2}}, "a magic character of Lua patterns is accepted as a separator")
  tap.fails(function() data.csv("/tmp") end, {"data.csv", "/tmp", "data-tokens.lua"}, "a folder is refused")
  tap.fails(function() data.csv(write("b.csv", "1,2\n3,\0\n")) end, {"b.csv", "byte 6 is 0", "data-tokens.lua"}, "a zero byte is reported with its position")
  tap.fails(function() data.csv("/dev/zero") end, {"/dev/zero", "not a regular file"}, "an endless file is refused at once")
  tap.fails(function() data.csv("/tmp\0x") end, {"zero byte", "data-tokens.lua"}, "a path with a zero byte is refused")
  tap.is(data.csv(write("c.csv", "1;2\n"), {separator = ";", dtype = "i64"}):totable(), {{1, 2}}, "other separators and dtypes")
  tap.is(data.text(write("t.txt", "ab\0\255")):totable(), {97, 98, 0, 255}, "data.text returns the bytes of a file")
end)

tap.done()
