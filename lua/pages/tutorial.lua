-- tutorial.lua - :tutorial, ten short steps on the devices of this session. A step is a title, a text, and lines that
-- the shell runs for the user, so that their variables exist afterwards. A line is {line} or {line, its result as
-- text}; t/repl/tutorial.lua checks the results. look = true: the line only displays a value; it is skipped if the
-- user starts at a later step.

return {
  {"Tensors",
    [[
A tensor has a shape, a dtype and a placement. Every operator is a function and a method of the same name. A line that
ends in an expression prints the value. Positions inside tensors count from 0.]],
    {"x = rille.tensor({{1, 2}, {3, 4}})"},
    {"x"},
    {"x:matmul(x):sum():item()", "54.0"},
    {"x[0]:totable()", "{1.0, 2.0}"},
  },
  {"Placements",
    [[
A placement is a mesh of devices. A tensor on a placement is one tensor, however many devices store it. Its sbp says how
the tensor is distributed, with one entry per mesh axis. "S(0)" splits axis 0: each device stores some of the rows.]],
    {'P = rille.placement("cpu", {0, 1})'},
    {'a = rille.randn({4, 6}, {placement = P, sbp = "S(0)"})'},
    {"a:show()", look = true},
    {"a:to_local(1).shape", "{2, 6}"},
  },
  {"Split, broadcast, partial",
    [[
"B" is broadcast: each device stores the complete tensor. "P" is partial: each device stores an addend, and the tensor is
the sum of the addends. In every layout, reading a tensor shows its global value.]],
    {'b = rille.ones({6, 2}, {placement = P, sbp = "B"})'},
    {"b:to_local(0).shape, b:to_local(1).shape", "{6, 2}\n{6, 2}"},
    {"s = a:sum(0)"},
    {"s.sbp", "P"},
    {"(s - a:to_global{sbp = 'B'}:sum(0)):abs():max():item() < 1e-5", "true"},
  },
  {"Layouts are derived",
    [[
You give the layouts of data and parameters; Rille derives the layouts of all results. Split rows stay split. A product
whose contracted dimension is split is partial. rille.explain shows the chosen layouts, the alternatives and their costs.]],
    {"y = a:matmul(b)"},
    {"y.sbp", "S(0)"},
    {"c = a:transpose(0, 1):matmul(a)"},
    {"c.sbp", "P"},
    {"rille.explain(c)"},
  },
  {"Redistribution (boxing)",
    [[
Boxing moves a tensor from one layout to another. You call to_global, or Rille inserts the move before an operator that
needs it. `bytes` is what the devices receive in total, and `bound` is a proven minimum for any such move.]],
    {'whole = c:to_global{sbp = "B"}'},
    {"move = rille.explain(whole).boxing[1]"},
    {"move.bytes, move.bound", "288\n288"},
    {"move:show()", look = true},
  },
  {"Gradients",
    [[
backward() sets grad of each leaf with requires_grad. Here each device stores the complete parameter, and the batch is
split. So the gradient is partial: a sum with one addend per device, which is computed when the gradient is used.]],
    {'w = rille.randn({6, 3}, {placement = P, sbp = "B", requires_grad = true})'},
    {"loss = a:matmul(w):square():mean()"},
    {"loss:backward()"},
    {"w.grad.shape, w.grad.sbp", "{6, 3}\nP"},
  },
  {"Modules and optimisers",
    [[
rille.nn has layers, and rille.optim has optimisers. No layer contains a layout: net:to_global lays out all of its
parameters.]],
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
rille.graph compiles a function. The first call traces the function and makes a plan: tasks on devices, and memory for
all their results. Later calls run the plan, with the same results as the function.]],
    {"step = rille.graph(train)"},
    {"step():item() < before", "true"},
    {"for i = 1, 50 do step() end"},
    {"step():item() < before / 2", "true"},
    {"#step:explain().ops"},
    {"step:stats().step_time"},
  },
  {"Pipelines",
    [[
A pipeline stage is a placement: it stores the parameters of some layers, and to_global moves the activations to it. The
batch is cut into micro-batches, so that the stages work at the same time. step:show() draws the work of each device.]],
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
  {"Where to continue",
    [[
A recipe lays out a complete model: data, tensor and pipeline parallelism, ZeRO. The planner chooses all layouts itself,
and proves how close its plan is to the best one. ?name shows a help page with an example; Tab completes names; :whos,
:devices and :mem list variables, devices and memory. The folder examples has programs. `rille launch -n 2 script.lua`
runs a script on two processes.]],
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
