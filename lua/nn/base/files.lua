-- files.lua - saves and loads a module: rille.save(path, net), net:load(path).

local rille = require "rille"
local check = require "rille.base.check"
local layout = require "rille.base.layout"

local files = {}

-- Returns the tensors to save for a module: a tensor with two or more names is saved once, under its first name.
function files.saved(module)
  local state = {}
  for name, t in module:named_parameters() do state[name] = t end
  for name, t in module:named_buffers() do state[name] = t end
  return state
end

-- Loads a file; each tensor is read in the layout that it has in the module. Fails before any tensor changes if a
-- tensor has another shape; unless options.strict is false, also if a tensor is missing or unknown. Returns the
-- module, and {missing =, unexpected =}.
function files.load(module, path, options)
  check.that(type(path) == "string", "%s:load: expected the name of a file, found %s", module.__name, check.shown(path))
  local state, shapes = module:state_dict(), {}
  check.that(not path:find("%.npy$"), "%s:load: %s: a .npy file holds one tensor without a name; a module needs .safetensors, .npz, .gguf, .pt, .pth or .bin", module.__name, path)
  for _, entry in ipairs((rille._contents(path, nil, module.__name .. ":load"))) do shapes[entry.name] = entry.shape end
  -- Returns true if a tensor has as many dimensions as in the module, so that it can be read in the module's layout.
  -- A wrong shape is reported after all tensors are read; until then, such a tensor is read in any layout.
  local function fits(name) return state[name] and #shapes[name] == state[name].ndim end
  return module:__take("load: " .. path, rille.load(path, {
    placement = function(name) return fits(name) and state[name].placement or nil end,
    sbp = function(name) return fits(name) and state[name].sbp or nil end,
    dtype = function(name) return state[name] and layout.is_float(state[name]) and state[name].dtype or nil end,
  }), options)
end

return files
