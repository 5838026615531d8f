-- json_numbers.lua - grammars (json_automaton.lua) of JSON numbers between two bounds.
--
-- Bounds are integers; nil: none. Numbers between bounds have no exponent.

local automaton = require "rille.models.generation.json_automaton"

local choice, many, optional = automaton.choice, automaton.many, automaton.optional
local sequence, set, text = automaton.sequence, automaton.set, automaton.text

local numbers = {}

local digit, zero = set "%d", text "0"
local fraction = optional(sequence(text ".", digit, many(digit)))
local zero_fraction = optional(sequence(text ".", zero, many(zero)))
local positive_fraction = sequence(text ".", many(zero), set "[1-9]", many(digit))

-- Returns an expression that reads the numbers from a to b. a, b: texts of equally many digits.
local function between(a, b)
  if a == "" then return sequence() end
  local first, last, n, out = a:byte(), b:byte(), #a - 1, choice()
  local zeros, nines, any = ("0"):rep(n), ("9"):rep(n), sequence()
  for i = 1, n do any[i] = digit end
  if first == last then return sequence(text(a:sub(1, 1)), between(a:sub(2), b:sub(2))) end
  if a:sub(2) ~= zeros then
    out[#out + 1] = sequence(text(string.char(first)), between(a:sub(2), nines))
    first = first + 1
  end
  if b:sub(2) ~= nines then
    out[#out + 1] = sequence(text(string.char(last)), between(zeros, b:sub(2)))
    last = last - 1
  end
  if first <= last then out[#out + 1] = sequence(set(("[%c-%c]"):format(first, last)), any) end
  return out
end

-- Returns an expression that reads the integers from a to b; 0 <= a.
local function naturals(a, b)
  local out, first, last = choice(), tostring(a), b and tostring(b)
  for n = #first, #(last or first) do
    local low, high = n == #first and first or "1" .. ("0"):rep(n - 1), n == #(last or "") and last or ("9"):rep(n)
    if low <= high then out[#out + 1] = between(low, high) end
  end
  if not b then out[#out + 1] = sequence(set "[1-9]", between(("0"):rep(#first), ("9"):rep(#first)), many(digit)) end
  return out
end

-- Returns an expression that reads the decimal numbers from a to b; 0 <= a. above, below: true excludes a or b.
local function decimals(a, b, above, below)
  if a == b then return sequence(text(tostring(a)), zero_fraction) end
  local out = choice(sequence(text(tostring(a)), above and positive_fraction or fraction))
  if not b or a + 1 < b then out[2] = sequence(naturals(a + 1, b and b - 1), fraction) end
  if b and not below then out[#out + 1] = sequence(text(tostring(b)), zero_fraction) end
  return out
end

-- Returns an expression that reads the integers from least to most.
function numbers.integers(least, most)
  local out = choice()
  if not most or most >= 0 then out[1] = naturals(math.max(least or 0, 0), most) end
  if not least or least < 0 then
    out[#out + 1] = sequence(text "-", naturals(math.max(1, -(most or -1)), least and -least))
  end
  return out
end

-- Returns an expression that reads the numbers from least to most. above, below: true excludes a bound.
function numbers.decimals(least, most, above, below)
  local out = choice()
  if not most or most > 0 or most == 0 and not below then
    local inside = least and least >= 0
    out[1] = decimals(inside and least or 0, most, inside and above, below)
  end
  if not least or least < 0 then
    local inside = most and most < 0
    out[#out + 1] = sequence(text "-", decimals(inside and -most or 0, least and -least, not inside or below, above))
  end
  return out
end

return numbers
