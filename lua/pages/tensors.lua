-- tensors.lua - pages of a tensor's methods and fields that are no operators.

return {
  backward = {
    sign = "y:backward({retain_graph = false})",
    text = [[
Computes the gradients of a scalar with respect to the parameters, and adds them to their .grad.
Afterwards the saved tensors are freed, unless retain_graph is true.]],
    args = "retain_graph: boolean, default false; true if backward will be called again through the same operators",
    returns = "nothing",
    errors = "y must have one element and depend on a tensor with requires_grad; a second call needs retain_graph",
    code = [[
x = rille.tensor(3.0, {requires_grad = true})
y = x * x
y:backward()]],
    shows = "x.grad:item()",
    gives = "6.0",
    see = "grad optimizer.step optimizer.zero_grad tensor.grad",
    words = "gradient autograd backpropagation backprop",
  },
  clone = {
    is = "tensor",
    sign = "x:clone()",
    text = "Copies a tensor; gradients pass through the copy.",
    returns = "a variable, to which values can be assigned; a leaf if x needs no gradient",
    errors = "no argument is accepted",
    shows = "rille.ones(2):clone():sum():item()",
    gives = "2.0",
    see = "detach copy_",
  },
  copy_ = {
    is = "tensor",
    sign = "x:copy_(y), x:add_(y), x:fill_(v), ...",
    text = [[
Overwrites a variable with the values of another tensor, in place.
Other operators have this form, too: x:add_(y). Values computed before keep the old value of x.
Gradients pass through the assignment to y and to the old value of x, which then is no leaf.]],
    args = "y: tensor of a shape that broadcasts to that of x",
    returns = "x",
    errors = [[
x must be a variable: made by a creation function, load, detach or clone
x and y must not both require a gradient: assign to parameters in rille.no_grad(fn)]],
    shows = "rille.ones(2):copy_(rille.zeros(2)):sum():item()",
    gives = "0.0",
    see = "fill_ index tensor.is_leaf",
    words = "assign update inplace",
  },
  detach = {
    is = "tensor",
    sign = "x:detach()",
    text = "Returns the same values without the history of gradients.",
    returns = "a leaf that requires no gradient",
    errors = "no argument is accepted",
    shows = "rille.ones({2}, {requires_grad = true}):detach().requires_grad",
    gives = "false",
    see = "no_grad clone",
    words = "stop gradient",
  },
  fill_ = {
    is = "tensor",
    sign = "x:fill_(v), x:zero_()",
    text = "Sets all elements of a variable to a number, in place.",
    args = "v: number",
    returns = "x",
    errors = "v must be a number that the dtype can hold; x must be a variable, not the result of an operator",
    shows = "rille.ones(2):fill_(3):sum():item()",
    gives = "6.0",
    see = "zero_ copy_ full",
  },
  hist = {
    sign = "x:hist(bins = 30)",
    text = "Counts the values of a tensor in equal intervals: a histogram.",
    args = "bins: integer, default 30",
    returns = "a table {min =, max =, counts =} that prints as bars",
    errors = "bins must be an integer of at least 1; x must have values: it must not be on meta devices",
    shows = "#rille.ones(4):hist(5).counts",
    gives = "5",
    see = "stats plot",
    words = "histogram distribution",
  },
  index = {
    sign = "x[i], x[{...}]",
    text = [[
Reads or assigns elements by position, range, mask or index tensor, as NumPy does.
x[i] is entry i of axis 0. x[{...}] has an entry per axis: a position, a range {start, stop, step} (a negative step
runs backwards), {} for all, a list of positions {{2, 0, 1}}, an integer tensor,
a mask (a bool tensor that takes as many axes as it has), rille.newaxis, or "..." for all axes that are not named.
Index tensors and lists broadcast together. x[{rille.arange(n), ids}] selects an entry of each of n rows, which
stay split over ranks and micro-batches.
x[{...}] = v assigns in place; of repeated positions the last value stays. Gradients pass to v and the rest of x.
Positions count from 0, negative ones from the end.]],
    returns = "a tensor",
    errors = [[
a position must be within the axis; only variables can be assigned to
in a compiled step shapes must not depend on data: use rille.where or x:masked_fill with a mask]],
    shows = "rille.tensor{3, 7, 5}[{{1, 3}}]:sum():item()",
    gives = "12.0",
    see = "slice index_select index_put_ masked_select nonzero item",
    words = "indexing slicing element subscript mask boolean fancy advanced ellipsis negative step",
  },
  index_put_ = {
    is = "tensor",
    sign = "x:index_put_(key, v, {accumulate = false})",
    text = "Assigns v to x[key] in place, or adds v to it.",
    args = [[
key: as in x[key]
v: tensor that broadcasts to x[key], number or list
accumulate: boolean, default false; true adds the values, also those of repeated positions]],
    returns = "x",
    errors = "x must be a variable; x and v must not both require a gradient",
    shows = "rille.zeros(2):index_put_({{{0, 0}}}, 1, {accumulate = true}):sum():item()",
    gives = "2.0",
    see = "index scatter_add copy_",
    words = "scatter accumulate histogram",
  },
  item = {
    sign = "x:item()",
    text = "Returns the number in a tensor of one element.",
    returns = "a number or boolean",
    errors = "the tensor must have one element; inside a compiled step there is no value to read",
    shows = "rille.tensor(2.5):item()",
    gives = "2.5",
    see = "totable live",
    words = "scalar value",
  },
  masked_fill = {
    is = "tensor",
    sign = "x:masked_fill(mask, v)",
    text = "Returns x with v where a mask is true.",
    args = [[
mask: bool tensor that broadcasts with x
v: number, or tensor without dimensions]],
    returns = "a tensor of x's dtype",
    errors = [[
mask must be a bool tensor that broadcasts with x;
v must be a number or a tensor without dimensions]],
    shows = "rille.ones(2):masked_fill(rille.tensor{true, false}, 5):sum():item()",
    gives = "6.0",
    see = "where masked_select index",
    words = "mask replace",
  },
  masked_fill_ = {
    is = "tensor",
    sign = "x:masked_fill_(mask, v)",
    text = "Writes v into x where a mask is true.",
    args = [[
mask: bool tensor that broadcasts to x
v: number, or tensor without dimensions]],
    returns = "x",
    errors = "x must be a variable; mask must be a bool tensor that broadcasts to x",
    shows = "rille.ones(2):masked_fill_(rille.tensor{true, false}, 5):sum():item()",
    gives = "6.0",
    see = "masked_fill index_put_ index",
    words = "mask replace in place",
  },
  masked_select = {
    is = "tensor",
    sign = "x:masked_select(mask)",
    text = "Returns the elements at which a mask is true, in row-major order.",
    args = "mask: bool tensor that broadcasts with x",
    returns = "a tensor of one dimension",
    errors = "not in a compiled step, because the size depends on data: use rille.where or x:masked_fill",
    shows = "rille.tensor{3, 7}:masked_select(rille.tensor{false, true}):item()",
    gives = "7.0",
    see = "index nonzero masked_fill",
    words = "mask filter boolean",
  },
  nonzero = {
    is = "tensor",
    sign = "x:nonzero()",
    text = "Returns the positions of the elements that are not 0, in row-major order.",
    returns = "an i64 tensor {number of elements, number of dimensions}",
    errors = "not in a compiled step, because the size depends on data",
    shows = "rille.tensor{0, 7}:nonzero():item()",
    gives = "1",
    see = "index masked_select",
    words = "positions true where argwhere",
  },
  numel = {
    sign = "x:numel()",
    text = "Returns the number of elements.",
    returns = "an integer",
    errors = "no argument is accepted",
    shows = "rille.ones(2, 3):numel()",
    gives = "6",
    see = "tensor.shape",
    words = "size count",
  },
  register_hook = {
    is = "tensor",
    sign = "x:register_hook(fn)",
    text = [[
Calls fn with the gradient of x in each backward pass through x.
A tensor that fn returns replaces the gradient. Hooks run in the order in which they were registered.
A compiled step records the operators that fn calls. A hook of a parameter sees the gradient of the whole
batch, before it is added to .grad; another hook gets the rows of one micro-batch.]],
    args = "fn: function(gradient)",
    returns = "a handle; handle:remove() removes the hook",
    errors = "x must require a gradient; the new gradient must have the shape of x",
    code = [[
x = rille.ones({2}, {requires_grad = true})
y = x * 3
handle = y:register_hook(function(g) return g * 10 end)
y:sum():backward()]],
    shows = "x.grad:sum():item()",
    gives = "60.0",
    see = "retain_grad func nn.Module.register_full_backward_hook optim.clip_grad_norm",
    words = "hook gradient change inspect clip",
  },
  requires_grad_ = {
    is = "tensor",
    sign = "x:requires_grad_(on = true)",
    text = "Makes a leaf collect gradients, or stop to (freezing), in place.",
    args = "on: boolean, default true",
    returns = "x",
    errors = "x must be a float leaf",
    shows = "rille.ones(2):requires_grad_().requires_grad",
    gives = "true",
    see = "tensor.requires_grad nn.Parameter backward",
    words = "freeze trainable gradient fine-tune finetune",
  },
  retain_grad = {
    is = "tensor",
    sign = "y:retain_grad()",
    text = "Lets backward set y.grad for the result of an operator, as for a parameter.",
    returns = "y",
    errors = "y must require a gradient; backward must not have passed through y",
    code = [[
x = rille.ones({2}, {requires_grad = true})
y = (x * 3):retain_grad();
(y * y):sum():backward()]],
    shows = "y.grad:sum():item()",
    gives = "12.0",
    see = "tensor.grad register_hook backward",
    words = "intermediate activation gradient",
  },
  shards = {
    sign = "x:shards()",
    text = "Lists the shards of a tensor: rank, shape and offset of each, in mesh order.",
    returns = "a list of {rank =, shape =, offset =}",
    errors = "no argument is accepted",
    code = "P = rille.placement('cpu', {0, 1})",
    shows = "#rille.ones({4}, {placement = P, sbp = 'S(0)'}):shards()",
    gives = "2",
    see = "to_local show sbp",
    words = "sharding local",
  },
  show = {
    sign = 'x:show(["file.svg"])',
    text = [[
Draws the distribution of a tensor over its mesh, in the terminal or as an SVG file.
Tiles have the numbers of their ranks; replicas are stacked sheets.]],
    args = "file: string, optional; path of an .svg file",
    returns = "nothing",
    errors = "file must be a string that ends in .svg, a path that can be written",
    code = "P = rille.placement('cpu', {0, 1})",
    shows = "rille.ones({4}, {placement = P, sbp = 'S(0)'}):show()",
    gives = "nil",
    see = "shards explain placement.show",
    words = "picture draw layout visualize",
  },
  stats = {
    sign = "x:stats()",
    text = [[
Summarises the values of a tensor: range, mean, deviation, and the count of NaN and infinities.
min, max, mean and std leave out NaN and infinite values.]],
    returns = "a table {numel =, nan =, inf =, zeros =, min =, max =, mean =, std =} that prints as text",
    errors = "x must have values: inside a compiled step, and on meta devices, it has none",
    shows = "rille.ones(4):stats().max",
    gives = "1.0",
    see = "hist var graph",
    words = "nan inf infinite explode exploding debug check",
  },
  to = {
    is = "tensor",
    first = "f32|f64|bf16|f16|i32|i64|u8|bool",
    sign = "x:to(dtype)",
    text = "Converts a tensor to another dtype.",
    args = 'dtype: "f32", "f64", "bf16", "f16", "i32", "i64", "u8" or "bool"',
    returns = "a tensor of the same shape and layout",
    errors = "dtype must be one of the eight names",
    shows = "rille.ones(2):to('f64').dtype",
    gives = "f64",
    see = "cast to_global autocast",
    words = "convert float half type device float16 float32 bfloat16",
  },
  to_local = {
    is = "tensor",
    sign = "x:to_local(rank)",
    text = [[
Returns the shard of one rank as a tensor on that device alone. Differentiable.
If x requires a gradient, x is moved to the rank and sliced; x:detach():to_local(rank) moves nothing.]],
    args = "rank: integer; device number",
    returns = "a tensor",
    errors = "the rank must be in the placement of x",
    code = "P = rille.placement('cpu', {0, 1})",
    shows = "#rille.ones({4}, {placement = P, sbp = 'S(0)'}):to_local(0)",
    gives = "2",
    see = "shards to_global from_local per_rank",
  },
  totable = {
    sign = "x:totable()",
    text = "Returns the values as nested Lua tables.",
    returns = "a table: the global value; bools as Lua booleans",
    errors = "x must have values: inside a compiled step, and on meta devices, it has none",
    shows = "rille.ones(2, 3):totable()[2][3]",
    gives = "1.0",
    see = "item tensor",
    words = "list array values",
  },
  zero_ = {
    is = "tensor",
    sign = "x:zero_()",
    text = "Sets all elements of a variable to 0, in place.",
    returns = "x",
    errors = "x must be a variable, not the result of an operator",
    shows = "rille.ones(2):zero_():sum():item()",
    gives = "0.0",
    see = "fill_ zeros",
  },
  ["tensor.device"] = {
    sign = "x.device",
    text = 'Is the kind of device that holds the tensor: "cpu", "cuda" or "meta".',
    returns = "a string",
    errors = "the field is read-only",
    code = [[
P = rille.placement('cpu', {0, 1})
x = rille.ones({4, 2}, {placement = P, sbp = 'S(0)'})]],
    shows = "x.device",
    gives = "cpu",
    see = "tensor.placement placement devices",
    words = "cpu cuda device gpu",
  },
  ["tensor.dtype"] = {
    sign = "x.dtype",
    text = 'Is the element type: "f32", "f64", "bf16", "f16", "i32", "i64", "u8" or "bool".',
    returns = "a string",
    errors = "the field is read-only; x:to(dtype) converts",
    shows = "rille.arange(3).dtype",
    gives = "i64",
    see = "to cast",
    words = "type",
  },
  ["tensor.grad"] = {
    is = "tensor",
    sign = "x.grad",
    text = "Is the gradient that backward() accumulated for this leaf; nil before.",
    returns = "a tensor of x's shape, or nil",
    errors = [[
an assigned gradient must have the shape and the placement of x, and must not be partial;
x must be a variable]],
    code = [[
x = rille.tensor(3.0, {requires_grad = true})
y = x * x
y:backward()]],
    shows = "x.grad:item()",
    gives = "6.0",
    see = "backward optimizer.zero_grad",
    words = "gradient",
  },
  ["tensor.is_leaf"] = {
    sign = "x.is_leaf",
    text = "Is true for variables without a recorded gradient: tensors made by creation, load or detach.",
    returns = "a boolean",
    errors = "the field is read-only",
    shows = "(rille.ones(2) + 1).is_leaf",
    gives = "false",
    see = "detach nn.Parameter",
  },
  ["tensor.name"] = {
    sign = "x.name",
    text = "Is the name that messages use; nil without one.",
    returns = "a string or nil",
    errors = "an assigned name must be a string",
    code = "x = rille.ones({2}, {name = 'w'})",
    shows = "x.name",
    gives = "w",
    see = "tensor",
  },
  ["tensor.ndim"] = {
    sign = "x.ndim",
    text = "Is the number of axes.",
    returns = "an integer",
    errors = "the field is read-only",
    code = "x = rille.ones(4, 2)",
    shows = "x.ndim",
    gives = "2",
    see = "tensor.shape",
    words = "dimensions rank",
  },
  ["tensor.placement"] = {
    is = "placement",
    sign = "x.placement",
    text = "Is the mesh of devices that holds the tensor.",
    returns = "a placement",
    errors = "the field is read-only; x:to_global moves",
    code = [[
P = rille.placement('cpu', {0, 1})
x = rille.ones({4, 2}, {placement = P, sbp = 'S(0)'})]],
    shows = "x.placement == P",
    gives = "true",
    see = "placement to_global tensor.sbp",
    words = "mesh device",
  },
  ["tensor.requires_grad"] = {
    sign = "x.requires_grad",
    text = "Is true if backward() computes a gradient for this tensor.",
    returns = "a boolean",
    errors = "an assigned value must be a boolean; x must be a variable of a float dtype",
    shows = "rille.ones({2}, {requires_grad = true}).requires_grad",
    gives = "true",
    see = "requires_grad_ tensor.grad",
    words = "gradient freeze",
  },
  ["tensor.sbp"] = {
    sign = "x.sbp",
    text = 'Is the layout over the mesh, as a string: "S(0)", "B", "P", "(B, S(0))".',
    returns = "a string",
    errors = "the field is read-only; x:to_global redistributes",
    code = [[
P = rille.placement('cpu', {0, 1})
x = rille.ones({4, 2}, {placement = P, sbp = 'S(0)'})]],
    shows = "x.sbp",
    gives = "S(0)",
    see = "sbp to_global explain",
    words = "layout sharding",
  },
  ["tensor.shape"] = {
    sign = "x.shape",
    text = [[
Is the list of sizes, one per axis; it prints and compares as {4, 2}.
Each access makes a new table. Changing it changes no tensor: use reshape.]],
    returns = "a list of integers",
    errors = "the field is read-only",
    code = "x = rille.ones(4, 2)",
    shows = "x.shape[2]",
    gives = "2",
    see = "reshape tensor.ndim numel",
    words = "size dimensions",
  },
}
