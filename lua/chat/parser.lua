-- parser.lua - parses a chat template (Jinja) into a tree.
--
-- A node is a table with `kind` and `line`; evaluate.lua has a function for each kind. A block is a list of nodes.

local lexer = require "rille.chat.lexer"
local fail = lexer.fail

local parser = {}
parser.__index = parser

local DEEP <const> = 150 -- maximum depth of nesting

-- ---- reading tokens ----

function parser:line() return (self.tokens[self.at] or {}).line or self.line_of or 1 end

function parser:peek(kind, value)
  local t = self.tokens[self.at]
  return t and t.kind == kind and (value == nil or t.value == value) and t or nil
end

-- If the next token matches, returns it and moves past it.
function parser:take(kind, value)
  local t = self:peek(kind, value)
  if t then self.at = self.at + 1 end
  return t
end

function parser:expect(kind, value)
  local t = self:take(kind, value)
  if t then return t end
  local found = self.tokens[self.at]
  fail(self:line(), "expected %s, found %s", value and "'" .. value .. "'" or "a " .. kind,
    found and "'" .. tostring(found.value):sub(1, 40) .. "'" or "the end of the tag")
end

function parser:deeper()
  self.depth = self.depth + 1
  if self.depth > DEEP then fail(self:line(), "expressions or blocks are nested more than %d deep", DEEP) end
end

-- ---- parsing expressions ----

local words = {["true"] = true, ["True"] = true, ["false"] = false, ["False"] = false}

function parser:list_until(close)
  local items = {}
  while not self:take("op", close) do
    if #items > 0 then
      self:expect("op", ",")
      if self:take("op", close) then break end
    end
    items[#items + 1] = self:expression()
  end
  return items
end

function parser:dict(line)
  local node = {kind = "dict", line = line, keys = {}, values = {}}
  while not self:take("op", "}") do
    if #node.keys > 0 then
      self:expect("op", ",")
      if self:take("op", "}") then break end
    end
    node.keys[#node.keys + 1] = self:expression()
    self:expect("op", ":")
    node.values[#node.values + 1] = self:expression()
  end
  return node
end

function parser:parenthesis(line)
  if self:take("op", ")") then return {kind = "list", tuple = true, line = line, items = {}} end
  local first = self:expression()
  if self:take("op", ")") then return first end
  self:expect("op", ",")
  local items = self:list_until(")")
  table.insert(items, 1, first)
  return {kind = "list", tuple = true, line = line, items = items}
end

function parser:primary()
  local line = self:line()
  local text = self:take("string")
  if text then
    local value = text.value
    while self:peek("string") do value = value .. self:take("string").value end
    return {kind = "value", line = line, value = value}
  end
  local number = self:take("number")
  if number then return {kind = "value", line = line, value = number.value} end
  local name = self:take("name")
  if name then
    if words[name.value] ~= nil then return {kind = "value", line = line, value = words[name.value]} end
    if name.value == "none" or name.value == "None" then return {kind = "none", line = line} end
    return {kind = "name", line = line, name = name.value}
  end
  if self:take("op", "(") then return self:parenthesis(line) end
  if self:take("op", "[") then return {kind = "list", line = line, items = self:list_until("]")} end
  if self:take("op", "{") then return self:dict(line) end
  local found = self.tokens[self.at]
  fail(line, "expected an expression, found %s", found and "'" .. tostring(found.value):sub(1, 40) .. "'" or "the end of the tag")
end

-- Reads the arguments of a call, after the opening parenthesis.
function parser:arguments()
  local args, named = {}, {}
  while not self:take("op", ")") do
    if #args + #named > 0 then
      self:expect("op", ",")
      if self:take("op", ")") then break end
    end
    local name = self:peek("name")
    local equals = self.tokens[self.at + 1]
    if name and equals and equals.kind == "op" and equals.value == "=" then
      self.at = self.at + 2
      named[#named + 1] = {name = name.value, value = self:expression()}
    else
      args[#args + 1] = self:expression()
    end
  end
  return args, named
end

function parser:subscript(of, line)
  local from, to, step, colon
  if not self:peek("op", ":") then from = self:expression() end
  if self:take("op", ":") then
    colon = true
    if not self:peek("op", ":") and not self:peek("op", "]") then to = self:expression() end
    if self:take("op", ":") and not self:peek("op", "]") then step = self:expression() end
  end
  self:expect("op", "]")
  if colon then return {kind = "slice", line = line, of = of, from = from, to = to, step = step} end
  return {kind = "item", line = line, of = of, key = from}
end

function parser:postfix(node)
  while true do
    local line = self:line()
    if self:take("op", ".") then
      local number = self:take("number")
      node = number and {kind = "item", line = line, of = node, key = {kind = "value", line = line, value = number.value}}
        or {kind = "attribute", line = line, of = node, name = self:expect("name").value}
    elseif self:take("op", "[") then
      node = self:subscript(node, line)
    elseif self:take("op", "(") then
      local args, named = self:arguments()
      node = {kind = "call", line = line, of = node, args = args, named = named}
    else
      return node
    end
  end
end

-- Reads the argument of a test that is written without parentheses: "x is divisibleby 3".
function parser:test_argument()
  for _, word in ipairs{"else", "or", "and", "is", "if", "in", "not"} do
    if self:peek("name", word) then return {}, {} end
  end
  local starts = self:peek("name") or self:peek("string") or self:peek("number") or self:peek("op", "[") or self:peek("op", "{")
  return starts and {self:postfix(self:primary())} or {}, {}
end

function parser:test(of, line)
  local negated = self:take("name", "not")
  local name, args, named = self:expect("name").value, nil, nil
  if self:take("op", "(") then args, named = self:arguments() else args, named = self:test_argument() end
  local node = {kind = "test", line = line, of = of, name = name, args = args, named = named}
  return negated and {kind = "not", line = line, of = node} or node
end

-- Reads the filters and tests that follow an expression.
function parser:filters(node)
  while true do
    local line = self:line()
    if self:take("op", "|") then
      local name, args, named = self:expect("name").value, {}, {}
      if self:take("op", "(") then args, named = self:arguments() end
      node = {kind = "filter", line = line, of = node, name = name, args = args, named = named}
    elseif self:take("name", "is") then
      node = self:test(node, line)
    elseif self:take("op", "(") then
      local args, named = self:arguments()
      node = {kind = "call", line = line, of = node, args = args, named = named}
    else
      return node
    end
  end
end

function parser:unary(bare)
  local line = self:line()
  self:deeper()
  local node
  if self:take("op", "-") then node = {kind = "minus", line = line, of = self:unary(true)}
  elseif self:take("op", "+") then node = self:unary(true)
  else node = self:postfix(self:primary()) end
  self.depth = self.depth - 1
  return bare and node or self:filters(node)
end

-- Returns a parser function for left-associative operators. `inner` is the parser function for their operands.
local function operators_of(inner, list)
  return function(self)
    local node = self[inner](self)
    while true do
      local line, found = self:line(), nil
      for _, op in ipairs(list) do found = found or self:take("op", op) end
      if not found then return node end
      node = {kind = "binary", line = line, op = found.value, left = node, right = self[inner](self)}
    end
  end
end

parser.power = operators_of("unary", {"**"})
parser.product = operators_of("power", {"*", "/", "//", "%"})
parser.concatenation = operators_of("product", {"~"})
parser.sum = operators_of("concatenation", {"+", "-"})

function parser:comparison_operator()
  for _, op in ipairs{"==", "!=", "<=", ">=", "<", ">"} do
    if self:take("op", op) then return op end
  end
  if self:take("name", "in") then return "in" end
  local next = self.tokens[self.at + 1]
  if self:peek("name", "not") and next and next.kind == "name" and next.value == "in" then
    self.at = self.at + 2
    return "not in"
  end
end

function parser:comparison()
  local line, first, rest = self:line(), self:sum(), {}
  local op = self:comparison_operator()
  while op do
    rest[#rest + 1] = {op = op, value = self:sum()}
    op = self:comparison_operator()
  end
  return #rest > 0 and {kind = "compare", line = line, first = first, rest = rest} or first
end

function parser:negation()
  local line = self:line()
  if not self:take("name", "not") then return self:comparison() end
  self:deeper()
  local node = {kind = "not", line = line, of = self:negation()}
  self.depth = self.depth - 1
  return node
end

local function words_of(inner, word)
  return function(self)
    local node = self[inner](self)
    while self:peek("name", word) do
      local line = self:take("name", word).line
      node = {kind = word, line = line, left = node, right = self[inner](self)}
    end
    return node
  end
end
parser.conjunction = words_of("negation", "and")
parser.disjunction = words_of("conjunction", "or")

function parser:expression()
  self:deeper()
  local node = self:disjunction()
  while self:peek("name", "if") do
    local line = self:take("name", "if").line
    local test = self:disjunction()
    local otherwise = self:take("name", "else") and self:expression() or nil
    node = {kind = "choice", line = line, test = test, left = node, right = otherwise}
  end
  self.depth = self.depth - 1
  return node
end

-- Reads an expression, or a list of expressions without parentheses: "a, b".
function parser:tuple()
  local line, first = self:line(), self:expression()
  if not self:peek("op", ",") then return first end
  local items = {first}
  while self:take("op", ",") do
    if self.tokens[self.at] then items[#items + 1] = self:expression() end
  end
  return {kind = "list", tuple = true, line = line, items = items}
end

-- ---- parsing statements ----

-- Reads the names that a value is assigned to: a, or a, b, or namespace.attribute.
function parser:targets()
  local list, paren = {}, self:take("op", "(")
  repeat
    local name = self:expect("name").value
    list[#list + 1] = {name = name, attribute = self:take("op", ".") and self:expect("name").value or nil}
  until not self:take("op", ",")
  if paren then self:expect("op", ")") end
  return list
end

local statements = {}

function statements.set(self, node)
  node.targets = self:targets()
  if self:take("op", "=") then
    node.value = self:tuple()
    return node
  end
  node.kind, node.filters = "capture", self:filters({kind = "captured", line = node.line})
  self:tag_end()
  node.body = self:block{"endset"}
  return node
end

statements["for"] = function(self, node)
  node.targets = self:targets()
  self:expect("name", "in")
  node.of = self:disjunction()
  if self:peek("op", ",") then
    node.of = {kind = "list", tuple = true, line = node.line, items = {node.of}}
    while self:take("op", ",") do node.of.items[#node.of.items + 1] = self:disjunction() end
  end
  if self:take("name", "if") then node.filter = self:expression() end
  node.recursive = self:take("name", "recursive") and true
  self:tag_end()
  local ended
  node.body, ended = self:block{"else", "endfor"}
  if ended == "else" then
    self:tag_end()
    node.otherwise = self:block{"endfor"}
  end
  return node
end

statements["if"] = function(self, node)
  node.branches = {}
  local ended = "if"
  while ended == "if" or ended == "elif" do
    local test = self:expression()
    self:tag_end()
    local body
    body, ended = self:block{"elif", "else", "endif"}
    node.branches[#node.branches + 1] = {test = test, body = body}
  end
  if ended == "else" then
    self:tag_end()
    node.otherwise = self:block{"endif"}
  end
  return node
end

function parser:parameters()
  local list = {}
  self:expect("op", "(")
  while not self:take("op", ")") do
    if #list > 0 then self:expect("op", ",") end
    list[#list + 1] = {name = self:expect("name").value, default = self:take("op", "=") and self:expression() or nil}
  end
  return list
end

function statements.macro(self, node)
  node.name, node.parameters = self:expect("name").value, self:parameters()
  self:tag_end()
  node.body = self:block{"endmacro"}
  return node
end

function statements.call(self, node)
  node.kind, node.parameters = "callblock", self:peek("op", "(") and self:parameters() or {}
  node.call = self:expression()
  self:tag_end()
  node.body = self:block{"endcall"}
  return node
end

function statements.filter(self, node)
  node.kind = "capture"
  table.insert(self.tokens, self.at, {kind = "op", value = "|", line = node.line})
  node.filters = self:filters({kind = "captured", line = node.line})
  self:tag_end()
  node.body = self:block{"endfilter"}
  return node
end

statements["with"] = function(self, node)
  node.sets = {}
  while self:peek("name") do
    local targets = self:targets()
    self:expect("op", "=")
    node.sets[#node.sets + 1] = {targets = targets, value = self:expression()}
    if not self:take("op", ",") then break end
  end
  self:tag_end()
  node.body = self:block{"endwith"}
  return node
end

-- Parses a generation block, by which trainers find the assistant's text. The block's result is the text of its body.
function statements.generation(self, node)
  self:tag_end()
  node.body = self:block{"endgeneration"}
  return node
end

statements["break"] = function(_, node) return node end
statements["continue"] = statements["break"]

-- Moves to the token after the current tag; fails if the tag has further tokens.
function parser:tag_end()
  if self.tokens[self.at] then fail(self:line(), "unexpected '%s'", tostring(self.tokens[self.at].value):sub(1, 40)) end
  self.tokens, self.at = {}, 1
end

function parser:statement(part, stops)
  self.tokens, self.at = part.tokens, 1
  self.line_of = part.line
  local word = self:take("name")
  if not word then fail(part.line, "a statement must begin with a word") end
  for _, stop in ipairs(stops) do
    if word.value == stop then return nil, stop end
  end
  local read = statements[word.value]
  if not read then
    local wanted = #stops > 0 and ("; expected %s before the end"):format(stops[#stops]) or ""
    fail(part.line, "unknown statement '%s'%s", word.value:sub(1, 40), wanted)
  end
  return read(self, {kind = word.value, line = part.line})
end

-- Reads nodes up to one of the statements named in `stops`. Returns the nodes, and the statement that ended them.
function parser:block(stops)
  local nodes = {}
  local begun = self.parts[self.part] and self.parts[self.part].line or 1
  self:deeper()
  while true do
    self.part = self.part + 1
    local part = self.parts[self.part]
    if not part then
      if #stops > 0 then fail(begun, "the block that begins here has no %s", stops[#stops]) end
      break
    end
    local node, ended
    if part.text then
      node = {kind = "text", line = part.line, text = part.text}
    elseif part.open == "{{" then
      self.tokens, self.at = part.tokens, 1
      self.line_of = part.line
      if #part.tokens == 0 then fail(part.line, "expected an expression, found an empty tag") end
      node = {kind = "output", line = part.line, value = self:tuple()}
      self:tag_end()
    else
      node, ended = self:statement(part, stops)
      if ended then
        self.depth = self.depth - 1
        return nodes, ended
      end
      self:tag_end()
    end
    nodes[#nodes + 1] = node
  end
  self.depth = self.depth - 1
  return nodes
end

-- Parses a template into a block.
function parser.parse(text)
  local self = setmetatable({parts = lexer.read(text), part = 0, tokens = {}, at = 1, depth = 0}, parser)
  return self:block{}
end

return parser
