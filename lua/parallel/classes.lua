-- classes.lua - the roles that a class of modules gives its layers for recipes of tensor parallelism.
--
-- A class of modules names the roles of its parts in its field `parallel`; layers contain no other code for recipes:
--
--   Block.parallel = {column = {"fc1"}, row = {"fc2"}, norm = "norm1", stream = true}
--
-- Roles of parts, each a name or a list of names (paths, such as "mlp.fc1"):
--   column, row   layers whose weight is sharded by output and by input features; a chain is column first, then row
--   head          a column layer that computes logits
--   embedding     a table of vectors, sharded by rows      positions   a table of vectors for positions
--   norm          a norm before column layers
--   expert        parameters, sharded along dimension 0 (experts)
-- Properties of the class:
--   stream = true   the module's result is a stream (batch, ..., width), which every block reads and writes
--   heads = {k_proj = "kv_heads", out_proj = "heads"}   column layers whose output consists of heads, row layers whose
--                   input does, and the field with their number. No head is divided: if the ranks do not divide the
--                   number of heads, shards have different numbers. A column layer with too few heads is replicated.
-- Layers without a role are replicated on tensor axes.

local check = require "rille.base.check"

local classes = {}

classes.roles = {"column", "embedding", "expert", "head", "norm", "positions", "row"}
local is_role = {}
for _, role in ipairs(classes.roles) do is_role[role] = true end

local function list_of(v) return type(v) == "table" and v or {v} end

-- Checks a role; `where` begins the message.
function classes.check_role(where, role)
  check.that(is_role[role], "%s: unknown role '%s'; expected one of: %s", where, tostring(role), table.concat(classes.roles, ", "))
end

local function check_field(where, key, value)
  if key == "stream" then return check.flag(where, "stream", value) end
  if key == "heads" then
    check.that(type(value) == "table", "%s: heads must be a table, {k_proj = \"kv_heads\"}, found %s", where, check.shown(value))
    for layer, field in pairs(value) do
      check.that(type(layer) == "string" and type(field) == "string",
        "%s: heads must map names of layers to names of fields, found %s = %s",
        where, check.shown(layer), check.shown(field))
    end
    return
  end
  check.that(is_role[key], "%s: unknown role '%s'; expected one of: %s, stream, heads", where, tostring(key),
    table.concat(classes.roles, ", "))
  for _, name in ipairs(list_of(value)) do
    check.that(type(name) == "string", "%s: %s must be a name or a list of names, found %s", where, key, check.shown(name))
  end
end

local function check_roles(class, roles)
  local where = ("parallel: %s.parallel"):format(tostring(rawget(class, "__name")))
  check.that(type(roles) == "table", "%s must be a table, {column = \"fc1\", row = \"fc2\"}, found %s", where, check.shown(roles))
  for key, value in pairs(roles) do check_field(where, key, value) end
  return roles
end

-- Returns the roles that a class names. If the class names none, returns those of its nearest base class with roles;
-- nil: none.
function classes.of(class)
  while type(class) == "table" do
    local roles = rawget(class, "parallel")
    if roles ~= nil then return check_roles(class, roles) end
    local above = getmetatable(class)
    class = above and rawget(above, "__index")
  end
end

-- Calls visit(name, role) for each part of a class with a role.
function classes.each(roles, visit)
  for _, role in ipairs(classes.roles) do
    for _, name in ipairs(list_of(roles[role])) do visit(name, role) end
  end
end

-- rille.parallel.class(Class[, roles]): returns the roles of a class; if `roles` is given, sets them first.
function classes.class(class, roles)
  check.that(type(class) == "table" and rawget(class, "__name"), "parallel.class: expected a class of modules, found %s", check.shown(class))
  if roles ~= nil then rawset(class, "parallel", check_roles(class, roles)) end
  return classes.of(class)
end

return classes
