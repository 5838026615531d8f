-- guide.lua - runs the blocks of a page of docs/guide, and compares what they print with the page.
--
--   rille t/lib/guide.lua program PAGE             prints the page's blocks as one Lua program
--   rille t/lib/guide.lua compare PAGE OUTPUT      prints each difference between the page and the program's output
--   rille t/lib/guide.lua write PAGE OUTPUT        replaces the outputs on the page that differ
--
-- A block of a page begins with its language:
--
--   lua            part of the page's program; blocks run in order and share locals
--   sh             runs in sh, in its place between the Lua blocks; it must succeed, unless its output is shown
--   LANGUAGE FILE  is written to FILE
--   text           the output of the block before it; "..." stands for any text. After "text within 20 %" numbers
--                  may differ by up to 20 %
--   console        is not run: the test has no such machine
--
-- `--> TEXT` at the end of a line in a Lua block states the next line that the block prints. If the second column of a
-- table is headed "Rille", each piece of code in that column runs after all blocks.

local START <const> = "\1"

-- Returns the page as a list of pieces. A piece is {language =, file =, lines =} for a block, {line} for a line of
-- prose.
local function read(path)
  local pieces, block, fence = {}, nil, nil
  for line in io.lines(path) do
    local marks, info = line:match("^(````*)%s*(.-)%s*$")
    if block and marks == fence and info == "" then
      pieces[#pieces + 1], block = block, nil
    elseif block then
      table.insert(block.lines, line)
    elseif marks then
      local language, file = info:match("^(%S*)%s*(%S*)")
      fence, block = marks, {language = language, file = language ~= "text" and file ~= "" and file or nil, info = info, fence = marks, lines = {}}
    else
      pieces[#pieces + 1] = {line}
    end
  end
  assert(not block, path .. ": a block has no end")
  return pieces
end

-- Returns the cells of a table's row without the outer bars; nil if the line is no row.
local function cells(line)
  if not line:find("^|.*|%s*$") then return nil end
  local list, text = {}, line:gsub("\\|", "\2")
  for cell in text:sub(2):gmatch("([^|]*)|") do list[#list + 1] = (cell:gsub("\2", "|"):match("^%s*(.-)%s*$")) end
  return list
end

-- Calls fn(code) for each piece of code in the second column of a table, if that column is headed "Rille".
local function rows(pieces, fn)
  local on = false
  for _, piece in ipairs(pieces) do
    local row = piece[1] and cells(piece[1])
    if not row then
      on = false
    elseif row[2] == "Rille" then
      on = true
    elseif on then
      for code in row[2]:gmatch("`([^`]+)`") do fn(code) end
    end
  end
end

-- Returns the block that shows the output of piece i; nil if no such block follows.
local function output_of(pieces, i)
  repeat i = i + 1 until not pieces[i] or not pieces[i][1] or pieces[i][1]:find("%S")
  return pieces[i] and pieces[i].language == "text" and pieces[i] or nil
end

local function quoted(text) return (("%q"):format(text):gsub("\\\n", "\\n")) end

-- Joins the Lua blocks into a program. Line numbers count only the lines of Lua blocks, so that a change of the prose
-- does not change messages.
local function program(path)
  local parts, pieces = {}, read(path)
  local function put(...) parts[#parts + 1] = (...):format(select(2, ...)) end
  for i, piece in ipairs(pieces) do
    local text = piece.lines and table.concat(piece.lines, "\n") .. "\n"
    if text and piece.file then
      put("do local f <close> = assert(io.open(%s, 'w')) f:write(%s) end ", quoted(piece.file), quoted(text))
    elseif piece.language == "lua" or piece.language == "sh" then
      put("io.write('%s%d%s') io.flush(); ", START, i, START)
      local command = ("os.execute(%s)"):format(quoted("exec 2>&1\n" .. text))
      put("%s", piece.language == "lua" and text or (output_of(pieces, i) and "%s; " or "assert(%s); "):format(command))
    end
  end
  rows(pieces, function(code)
    local value = load("return " .. code) and code
    assert(value or load(code), path .. ": no Lua: " .. code)
    local run = not value and code or code:find("^[%w_.]+$") and ("assert(%s ~= nil, 'nil')"):format(code) or "return " .. code
    put("do local good, why = pcall(function() %s end) if not good then io.write('%srow%s', %s, ': ', tostring(why), '\\n') end end ",
      run, START, START, quoted(code))
  end)
  put("io.write('%send%s')", START, START)
  return table.concat(parts)
end

-- Returns two values: the output of each block, by block number; and the list of error messages. A message is about
-- the code of a table's row, or about a program that ended early.
local function outputs(file)
  local handle <close> = assert(io.open(file))
  local text, by, wrong = handle:read("a"), {}, {}
  for key, printed in (text .. START):gmatch(START .. "(%w+)" .. START .. "([^" .. START .. "]*)") do
    if key == "row" then wrong[#wrong + 1] = printed
    else by[tonumber(key) or key] = printed end
  end
  if not by["end"] then wrong[#wrong + 1] = "the program ended early\n" end
  return by, wrong
end

-- Returns the text in which a mark replaces each number, and the list of numbers.
local function numbers(text)
  local list = {}
  return text:gsub("%d+%.?%d*", function(n) list[#list + 1] = tonumber(n); return "\3" end), list
end

-- Returns true if the texts are equal except for numbers, and each number of one differs from its counterpart by at
-- most the share `within`.
local function near(got, want, within)
  local a, x = numbers(got)
  local b, y = numbers(want)
  for i = 1, a == b and #x or 0 do
    if math.abs(x[i] - y[i]) > within * y[i] then return false end
  end
  return a == b
end

-- Returns true if text equals the shown lines, in which "..." stands for anything.
local function alike(text, lines)
  local want = table.concat(lines, "\n") .. (#lines > 0 and "\n" or "")
  local pattern = want:gsub("%p", "%%%0"):gsub("%%%.%%%.%%%.", ".-")
  return text:find("^" .. pattern .. "$") ~= nil
end

-- Returns the lines of a text, without trailing blanks and without empty lines at the end.
local function split(text)
  local list = {}
  for line in (text:match("^(.-)%s*$") .. "\n"):gmatch("([^\n]*)\n") do list[#list + 1] = (line:match("^(.-)%s*$")) end
  return list
end

-- Compares the output shown on the page with the program's output. If they differ, calls wrong(got, want), and
-- replaces the output in the block.
local function settle(block, shown, printed, wrong)
  local lines = split(printed)
  if shown then
    local clean = table.concat(lines, "\n") .. (#lines > 0 and "\n" or "")
    local within = shown.info:match("within (%d+)")
    if not alike(clean, shown.lines) and not (within and near(clean, table.concat(shown.lines, "\n") .. "\n", within / 100)) then
      wrong(clean, table.concat(shown.lines, "\n"))
      shown.lines = lines
    end
    return
  end
  local next_line = 0
  for i, line in ipairs(block.language == "lua" and block.lines or {}) do
    local code, want = line:match("^(.-)%-%-> ?(.*)$")
    if code then
      next_line = next_line + 1
      local got = lines[next_line] or ""
      if not alike(got .. "\n", {want}) then
        wrong(got, want)
        block.lines[i] = code .. "--> " .. got
      end
    end
  end
end

local function compare(path, file, wrong)
  local pieces, by_block, messages = read(path), outputs(file)
  for _, message in ipairs(messages) do wrong(message) end
  for i, piece in ipairs(pieces) do
    if by_block[i] then
      settle(piece, output_of(pieces, i), by_block[i], function(got, want) wrong(("printed:\n%s\nthe page shows:\n%s"):format(got, want)) end)
    end
  end
  return pieces
end

local function write(path, pieces)
  local file <close> = assert(io.open(path, "w"))
  for _, piece in ipairs(pieces) do
    if piece[1] then
      file:write(piece[1], "\n")
    else
      file:write(piece.fence, piece.info, "\n", #piece.lines > 0 and table.concat(piece.lines, "\n") .. "\n" or "", piece.fence, "\n")
    end
  end
end

local what, page, output = arg[1], arg[2], arg[3]
if what == "program" then
  io.write(program(page))
elseif what == "compare" then
  local differences = 0
  compare(page, output, function(text) differences = differences + 1; print(text) end)
  os.exit(differences == 0)
else
  write(page, compare(page, output, function(text) print(text) end))
end
