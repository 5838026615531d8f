-- public.lua - visits the public functions, classes and methods of Rille in sorted order.
local nn, optim = rille.nn, rille.optim
local public = {}

local function is_callable(v) return type(v) == "function" or type(v) == "table" and getmetatable(v) and getmetatable(v).__call end

-- Calls visit(prefix .. name, value) for the functions and classes in a table.
function public.each(t, prefix, visit)
  local names = {}
  for name, v in pairs(t) do
    if type(name) == "string" and name:sub(1, 1) ~= "_" and is_callable(v) then names[#names + 1] = name end
  end
  table.sort(names)
  for _, name in ipairs(names) do visit(prefix .. name, t[name]) end
end

-- Returns an object of each kind, by name.
function public.objects()
  local net, step = nn.Linear(2, 2), rille.graph(function(x) return x end)
  step(rille.ones{2})
  return {tensor = rille.ones{2, 2}, net = net, optimizer = optim.SGD(net:parameters(), {lr = 1}), graph = step,
    placement = rille.placement("cpu", {0}), tokenizer = rille.tokenizer.train({"a b a b"}, {size = 258}), experts = nn.MixtureOfExperts(4, 4, 2),
    loader = rille.data.loader{rille.ones{4}, batch = 2}, tokens = rille.data.tokens({1, 2, 3, 4, 5}, {batch = 1, length = 2}),
    model = rille.models.gpt2.new{vocab = 8, length = 4, layers = 1, heads = 1, width = 4},
    line = rille.train.progress{total = 2, file = io.tmpfile()}}
end

-- Calls visit(kind .. ":" .. name, method) once for each method of an object and of its classes.
function public.methods(kind, object, visit)
  local seen, t = {init = true, forward = true}, object
  for _, name in ipairs(kind == "placement" and {"show"} or kind == "tokenizer" and {"encode", "decode", "chat", "save"} or {}) do
    visit(kind .. ":" .. name, object[name])
  end
  while t do
    if type(t) == "table" then
      public.each(t, kind .. ":", function(name, fn)
        local method = name:match(":(.*)")
        if not seen[method] and type(fn) == "function" then visit(name, fn) end
        seen[method] = true
      end)
    end
    local meta = debug.getmetatable(t)
    t = meta and (rawget(meta, "__methods") or type(meta.__index) == "table" and meta.__index)
  end
end

return public
