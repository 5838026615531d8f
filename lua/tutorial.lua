-- tutorial.lua - :tutorial, ten short steps on the devices of this session. A step is a title, a text, and lines that
-- the shell runs for the user, so that their variables exist afterwards. A line is {line} or {line, its result as
-- text}; t/shell/tutorial.lua checks the results. look = true: the line only shows something, and is skipped if the
-- user starts at a later step.

return {
  {"Tensors",
    [[
A tensor has a shape, a dtype and a place. Operators are functions and methods of the same name; a line that ends in an
expression prints it. Inside tensors everything counts from 0.]],
    {"x = rille.tensor({{1, 2}, {3, 4}})"},
    {"x"},
    {"x:matmul(x):sum():item()", "54.0"},
    {"x[0]:totable()", "{1.0, 2.0}"},
  },
  {"Placements",
    [[
A placement is a mesh of devices. A tensor on it is one tensor, however many devices hold it; how it lies over them is its
sbp, a text for each mesh axis. "S(0)" is split along axis 0: each device has some of the rows.]],
    {'P = rille.placement("cpu", {0, 1})'},
    {'a = rille.randn({4, 6}, {placement = P, sbp = "S(0)"})'},
    {"a:show()", look = true},
    {"a:to_local(1).shape", "{2, 6}"},
  },
  {"Split, broadcast, partial",
    [[
"B" is broadcast: each device has the whole. "P" is partial: each has an addend, and the whole is their sum. Whatever the
layout, the values that you see are those of the whole.]],
    {'b = rille.ones({6, 2}, {placement = P, sbp = "B"})'},
    {"b:to_local(0).shape, b:to_local(1).shape", "{6, 2}\n{6, 2}"},
    {"s = a:sum(0)"},
    {"s.sbp", "P"},
    {"(s - a:to_global{sbp = 'B'}:sum(0)):abs():max():item() < 1e-5", "true"},
  },
  {"Layouts are derived",
    [[
You say where leaves lie; what is computed follows. Rows that are split stay split; a product whose contracted dimension is
split is partial. rille.explain tells what was chosen, what else there was, and what it costs.]],
    {"y = a:matmul(b)"},
    {"y.sbp", "S(0)"},
    {"c = a:transpose(0, 1):matmul(a)"},
    {"c.sbp", "P"},
    {"rille.explain(c)"},
  },
  {"Boxing",
    [[
To move a tensor from one layout to another is boxing; to_global asks for it, operators that need it do it by themselves.
No device receives more than it would in the best sequence of collectives: the bound beside the bytes is proven.]],
    {'whole = c:to_global{sbp = "B"}'},
    {"move = rille.explain(whole).boxing[1]"},
    {"move.bytes, move.bound", "288\n288"},
    {"move:show()", look = true},
  },
  {"Gradients",
    [[
backward() fills grad of the leaves with requires_grad. The parameter is whole on each device, the batch is split: so its
gradient comes as a partial sum, and is added up when it is used.]],
    {'w = rille.randn({6, 3}, {placement = P, sbp = "B", requires_grad = true})'},
    {"loss = a:matmul(w):square():mean()"},
    {"loss:backward()"},
    {"w.grad.shape, w.grad.sbp", "{6, 3}\nP"},
  },
  {"Modules and optimisers",
    [[
rille.nn has layers, rille.optim what trains them. No layer knows how it is split: net:to_global moves all of it.]],
    {"nn, optim = rille.nn, rille.optim"},
    {"rille.manual_seed(1)"},
    {"net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))"},
    {'net:to_global{placement = P, sbp = "B"}'},
    {"opt = optim.Adam(net:parameters(), {lr = 0.01})"},
    {"target = a:sum(1):reshape{4, 1}:detach()"},
    {"function train() loss = net(a):mse_loss(target); loss:backward(); opt:step(); opt:zero_grad(); return loss end"},
    {"before = train():item()"},
    {"for i = 1, 50 do train() end"},
    {"train():item() < before", "true"},
  },
  {"Graphs",
    [[
rille.graph compiles a function: the first call traces it, and later calls run its plan - tasks on devices, registers that
they pass on, memory that was laid out before. The numbers are the same.]],
    {"step = rille.graph(train)"},
    {"step():item() < before", "true"},
    {"for i = 1, 50 do step() end"},
    {"step():item() < before / 2", "true"},
    {"#step:explain().ops"},
    {"step:stats().step_time"},
  },
  {"Pipelines",
    [[
A stage is a placement: parameters lie there, and activations are moved to it. A step that is cut into micro-batches works
on several of them at once. step:show() draws which device did what when.]],
    {'P0, P1 = rille.placement("cpu", {0, 1}), rille.placement("cpu", {2, 3})'},
    {"l1, l2 = nn.Linear(32, 32), nn.Linear(32, 1)"},
    {'l1:to_global{placement = P0, sbp = "B"}; l2:to_global{placement = P1, sbp = "B"};'},
    {"opt = optim.SGD({l1.weight, l1.bias, l2.weight, l2.bias}, {lr = 0.01})"},
    {'function forward(x) return l2(l1(x):relu():to_global{placement = P1, sbp = "S(0)"}):square():mean() end'},
    {"function two(x) local l = forward(x); l:backward(); opt:step(); opt:zero_grad(); return l end"},
    {'pipe = rille.graph(two, {micro_batches = 4, schedule = "1f1b"})'},
    {'x = rille.randn({64, 32}, {placement = P0, sbp = "S(0)"})'},
    {"pipe(x):item() > pipe(x):item()", "true"},
    {"pipe:show()", look = true},
  },
  {"Where to go on",
    [[
Recipes lay a whole model out: data, tensor, pipeline parallelism, ZeRO. The planner does it by itself, and proves how good
its plan is. ?name is a page with an example for everything; Tab completes; :whos, :devices, :mem show what there is.
examples/ has programs; `rille launch -n 2 script.lua` runs one on several processes.]],
    {"block = nn.TransformerBlock(16, 2)"},
    {'mesh = rille.placement("cpu", {{0, 1}, {2, 3}})'},
    {'block:to_global{placement = mesh, sbp = {"B", "B"}};'},
    {"rille.parallel(block, {data = 0, tensor = 1})"},
    {"block.fc1.weight.sbp", "(B, S(0))"},
    {'auto = rille.graph(function(x) return (x:matmul(w) + 1):sum() end, {auto_parallel = true})'},
    {"auto(a):item() == auto(a):item()", "true"},
    {"auto:explain().gap == 0", "true"},
  },
}
