-- serve.lua - rille serve FOLDER: serves a language model over HTTP, with OpenAI's API.

local rille = require "rille"
local check = require "rille.base.check"
local json = require "rille.json"
local optional = require "rille.models.loading.optional"

local help = [[
usage: rille serve FOLDER [options]
Serves the language model of a Hugging Face folder or of a .gguf file over HTTP, with the API of OpenAI: completions, chat
completions, models. /health and /metrics are for monitors. SIGTERM finishes the running requests, then exits.

      --host ADDRESS     numeric address to listen on (default 127.0.0.1: this host only)
      --port N           port; 0: any free port (default 8000)
      --name NAME        name of the model for clients (default: the folder's name)
  -d, --devices LIST     devices of this process, as in rille --help
      --placement P      devices of the model: cpu:0,1 or a mesh, cpu:2x2 (default: the first device, or all
                         devices with a recipe)
      --recipe R         layout of the model, a recipe of rille.parallel: "tensor = 0", "data = 0, tensor = 1"
      --dtype D          dtype of the weights: f32, bf16, f16 (default: as in the files)
      --quantize Q       int8, int4: weights of 8 or 4 bits; keep: the blocks of a .gguf file
      --slots N          sequences that are generated at the same time (default 8)
      --length N         most tokens of a prompt and its completion (default: the model's length, at most 4096)
      --chunk N          most tokens of a prompt that one step reads (default 64)
      --queue N          most requests that wait for a slot; further requests get status 503 (default 256)
      --draft FOLDER     draft model for speculative decoding: a smaller model with the same vocabulary
      --draft-tokens N   tokens that the draft model proposes per step (default 4)
]]

local BODY <const> = 4 << 20 -- maximum bytes of a request
local CONNECTIONS <const> = 512

local function that(good, format, ...)
  if not good then error(("serve: " .. format):format(...), 0) end
end

-- ---- loading the model to serve ----

-- Converts "cpu:0,1" or "cpu:2x2" to a placement.
local function read_placement(text)
  local kind, rest = text:match("^(%a+):([%dx,]+)$")
  that(kind, "--placement must be like cpu:0,1 or cpu:2x2, found '%s'", text)
  local ranks, sizes = {}, {}
  if not rest:find("x") then
    for rank in rest:gmatch("%d+") do ranks[#ranks + 1] = math.tointeger(rank) end
    return rille.placement(kind, ranks)
  end
  for size in rest:gmatch("%d+") do sizes[#sizes + 1] = math.tointeger(size) end
  local next_rank = -1
  local function mesh(axis)
    if axis > #sizes then
      next_rank = next_rank + 1
      return next_rank
    end
    local list = {}
    for i = 1, sizes[axis] do list[i] = mesh(axis + 1) end
    return list
  end
  return rille.placement(kind, mesh(1))
end

-- Parses a recipe: the fields of a Lua table of numbers, strings and lists.
local function read_recipe(text)
  local fn = load("return {" .. text .. "}", "=--recipe", "t", {})
  local good, recipe = pcall(fn or error, "")
  that(fn and good, "--recipe must be like \"tensor = 0\" or \"data = 0, tensor = 1\", found '%s'", text)
  return recipe
end

-- Returns a placement of one axis over all GPUs of the session, or over all its CPU devices if there is no GPU.
local function all_devices()
  local kind, ranks = pcall(rille.placement, "cuda", {0}) and "cuda" or "cpu", {}
  while pcall(rille.placement, kind, {#ranks}) do ranks[#ranks + 1] = #ranks end
  return rille.placement(kind, ranks)
end

local function given(text) return text ~= "" and text or nil end

local function load_model(o)
  local recipe = given(o.recipe) and read_recipe(o.recipe)
  local placement = given(o.placement) and read_placement(o.placement) or recipe and all_devices() or nil
  return rille.models.load(o.folder, {placement = placement, parallel = recipe, dtype = given(o.dtype), quantize = given(o.quantize)}):eval()
end

-- Returns the ids that end a text, from generation_config.json; if it has none, from config.json. Leaves out ids
-- outside the vocabulary.
local function stops_of(model, folder)
  local path, list = folder .. "/generation_config.json", {}
  local own = optional(path)
  local ids = own and own.eos_token_id
  if ids == nil or ids == json.null then ids, path = model.config.eos_token_id, "config.json" end
  for _, id in ipairs(type(ids) == "table" and ids or {ids}) do
    that(math.type(id) == "integer", "%s: eos_token_id must be an integer or a list of integers, found %s", path, check.shown(id))
    if id >= 0 and id < model.config.vocab then list[#list + 1] = id end
  end
  return list
end

-- Returns the tokenizer of a folder or of a .gguf file.
local function tokenizer_of(folder)
  if folder:find("%.gguf$") then return rille.tokenizer(folder) end
  for _, name in ipairs{"tokenizer.json", "tekken.json", "tokenizer.model"} do
    if rille._kind(folder .. "/" .. name) then return rille.tokenizer(folder .. "/" .. name) end
  end
  that(false, "%s has no tokenizer; expected tokenizer.json, tekken.json or tokenizer.model", folder)
end

-- ---- running the command ----

local defaults = {"folder", host = "127.0.0.1", port = 8000, name = "", placement = "", recipe = "", dtype = "", quantize = "", slots = 8,
  length = 0, chunk = 64, queue = 256, draft = "", ["draft-tokens"] = 0}

local function read_options(words)
  words[0] = "rille serve"
  for _, word in ipairs(words) do
    if word == "--help" then
      io.write(help)
      return nil
    end
  end
  local o = rille.args(words, defaults)
  that(o.port >= 0 and o.port < 1 << 16, "--port must be from 0 to 65535, found %d", o.port)
  for _, name in ipairs{"slots", "chunk"} do that(o[name] > 0, "--%s must be at least 1, found %d", name, o[name]) end
  for _, name in ipairs{"length", "queue", "draft-tokens"} do that(o[name] >= 0, "--%s must be at least 0, found %d", name, o[name]) end
  that(o["draft-tokens"] == 0 or o.draft ~= "", "--draft-tokens needs --draft FOLDER, the draft model")
  return o
end

local function open_http(o)
  local new_http = rawget(rille, "_http")
  that(new_http, "this build has no HTTP server; install libmicrohttpd-dev (Debian), run cmake again, and build")
  local http, why = new_http{host = o.host, port = o.port, body = BODY, queue = 2 * o.queue + 64, connections = CONNECTIONS}
  that(http, "cannot listen on %s, port %d: %s", o.host, o.port, why)
  return http
end

return function(...)
  local o = read_options{...}
  if not o then return end
  rille.stopping{signals = {"TERM"}}
  -- opens the server before the model is loaded, so that an address in use is reported at once
  local http = open_http(o)
  local model = load_model(o)
  that(model.config.length, "%s: the model generates no text; expected a language model", o.folder)
  local tokenizer = tokenizer_of(o.folder)
  local draft = given(o.draft) and load_model{folder = o.draft, recipe = "", placement = "", dtype = o.dtype, quantize = ""}
  local scheduler = model:scheduler{slots = o.slots, chunk = o.chunk, draft = draft or nil, draft_tokens = o["draft-tokens"] > 0 and o["draft-tokens"] or nil,
    length = o.length > 0 and o.length or math.min(model.config.length, 4096)}
  local name = given(o.name) or o.folder:gsub("/+$", ""):match("[^/]+$")
  local server = require("rille.serve.server"){http = http, scheduler = scheduler, tokenizer = tokenizer, model = name,
    vocab = model.config.vocab, stops = stops_of(model, o.folder), queue = o.queue}
  print(("serving %s at http://%s:%d/v1"):format(name, o.host:find(":") and "[" .. o.host .. "]" or o.host, http:port()))
  io.stdout:flush()
  server:run(rille.stopping)
end
