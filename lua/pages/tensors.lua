-- tensors.lua - pages of a tensor's methods and fields that are no operators'.

return {
  backward = {
    sign = "y:backward()",
    text = "adds the gradient of y to grad of the leaves with requires_grad",
    code = [[
x = rille.tensor(3.0, {requires_grad = true})
y = x * x
y:backward()]],
    shows = "x.grad:item()",
    gives = "6.0",
  },
  clone = {
    is = "tensor",
    sign = "x:clone()",
    text = "a copy, through which gradients pass; of a tensor without gradient a leaf",
    shows = "rille.ones(2):clone():sum():item()",
    gives = "2.0",
  },
  copy_ = {
    is = "tensor",
    sign = "x:copy_(y), x:add_(y), x:fill_(v), ...",
    text = "in place, on variables; what was computed from the old value keeps it",
    shows = "rille.ones(2):copy_(rille.zeros(2)):sum():item()",
    gives = "0.0",
  },
  detach = {
    is = "tensor",
    sign = "x:detach()",
    text = "the same values, a leaf without gradient",
    shows = "rille.ones({2}, {requires_grad = true}):detach().requires_grad",
    gives = "false",
  },
  fill_ = {
    is = "tensor",
    sign = "x:fill_(v), x:zero_()",
    text = "in place, on variables",
    shows = "rille.ones(2):fill_(3):sum():item()",
    gives = "6.0",
  },
  hist = {
    sign = "x:hist(bins = 30)",
    text = "{min =, max =, counts =}: how many lie in each of equal parts; prints as bars",
    shows = "#rille.ones(4):hist(5).counts",
    gives = "5",
  },
  index = {
    sign = "x[i]",
    text = [[
entry i of axis 0;  x[{i, {a, b}, {}}]   a position, a range before b, all, for each axis;
x[{...}] = v   in place. Positions count from 0, negative ones from the end.]],
    shows = "rille.tensor{3, 7, 5}[{{1, 3}}]:sum():item()",
    gives = "12.0",
  },
  item = {
    sign = "x:item()",
    text = "the number in a tensor of one element",
    shows = "rille.tensor(2.5):item()",
    gives = "2.5",
  },
  numel = {
    sign = "x:numel()",
    text = "how many elements",
    shows = "rille.ones(2, 3):numel()",
    gives = "6",
  },
  requires_grad_ = {
    is = "tensor",
    sign = "x:requires_grad_(on = true)",
    text = "whether backward fills x.grad; gives x",
    shows = "rille.ones(2):requires_grad_().requires_grad",
    gives = "true",
  },
  shards = {
    sign = "x:shards()",
    text = "in mesh order {rank =, shape =, offset =}",
    code = "P = rille.placement('cpu', {0, 1})",
    shows = "#rille.ones({4}, {placement = P, sbp = 'S(0)'}):shards()",
    gives = "2",
  },
  show = {
    sign = 'x:show(["file.svg"])',
    text = [[
draws how x is cut over its mesh: tiles with their ranks, replicas as
stacked sheets, addends of P side by side.
rille.boxing{...}:show(["file.svg"]) draws a move, its name and its bytes.]],
    code = "P = rille.placement('cpu', {0, 1})",
    shows = "rille.ones({4}, {placement = P, sbp = 'S(0)'}):show()",
    gives = "nil",
  },
  stats = {
    sign = "x:stats()",
    text = [[
{numel =, nan =, inf =, zeros =, min =, max =, mean =, std =} of all values; prints
min, max, mean and std are of those that are neither nan nor infinite]],
    shows = "rille.ones(4):stats().max",
    gives = "1.0",
  },
  to = {
    is = "tensor",
    first = "f32|f64|bf16|f16|i32|i64|u8|bool",
    sign = "x:to(dtype)",
    text = "the same values in another dtype: x:cast(dtype)",
    shows = "rille.ones(2):to('f64').dtype",
    gives = "f64",
  },
  to_local = {
    is = "tensor",
    sign = "x:to_local(rank)",
    text = "the part at that rank, a tensor on that device alone",
    code = "P = rille.placement('cpu', {0, 1})",
    shows = "#rille.ones({4}, {placement = P, sbp = 'S(0)'}):to_local(0)",
    gives = "2",
  },
  totable = {
    sign = "x:totable()",
    text = "the values as nested tables: the global view",
    shows = "rille.ones(2, 3):totable()[2][3]",
    gives = "1.0",
  },
  zero_ = {
    is = "tensor",
    sign = "x:zero_(), x:fill_(v)",
    text = "in place, on variables",
    shows = "rille.ones(2):zero_():sum():item()",
    gives = "0.0",
  },
}
