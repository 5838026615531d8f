# recurrent.py - writes t/golden/recurrent.lua: results and gradients of torch.nn.LSTM, GRU and RNN.
#
# Parameters and inputs are formulas, which t/nn/recurrent.lua repeats. A gradient is stored as two numbers: its sum
# and a weighted sum.  python3 t/golden/recurrent.py > t/golden/recurrent.lua   (PyTorch 2.15)
import torch

torch.set_default_dtype(torch.float64)


def wave(shape, phase):
    n = torch.Size(shape).numel()
    return (torch.sin(0.7 * torch.arange(n, dtype=torch.float64) + phase) * 0.6).reshape(shape)


def two(t):
    flat = t.reshape(-1)
    return [flat.sum().item(), (flat * wave(flat.shape, 2)).sum().item()]


def text(values):
    return "{" + ", ".join("%.9g" % v for v in values) + "}"


B, T, I, H = 3, 5, 4, 3
LENGTHS = [5, 2, 3]
cases = []
for kind in ["LSTM", "GRU", "RNN", "RNN relu"]:
    for layers, both, bias, states, packed in [(1, 0, 1, 0, 0), (1, 0, 0, 1, 1), (2, 1, 1, 1, 0), (2, 1, 1, 1, 1), (1, 1, 1, 0, 1)]:
        cls = getattr(torch.nn, kind.split()[0])
        more = {"nonlinearity": "relu"} if "relu" in kind else {}
        net = cls(I, H, num_layers=layers, bidirectional=bool(both), bias=bool(bias), batch_first=True, **more)
        with torch.no_grad():
            for i, p in enumerate(net.parameters()):
                p.copy_(wave(p.shape, i))
        n = layers * (1 + both)
        x = wave((B, T, I), 0.5).requires_grad_()
        h0 = wave((n, B, H), 1.5).requires_grad_() if states else None
        c0 = wave((n, B, H), 2.5).requires_grad_() if states and kind == "LSTM" else None
        first = (h0, c0) if c0 is not None else h0
        if packed:
            seq = torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor(LENGTHS), batch_first=True, enforce_sorted=False)
            y, last = net(seq, first)
            y, _ = torch.nn.utils.rnn.pad_packed_sequence(y, batch_first=True, total_length=T)
        else:
            y, last = net(x, first)
        h, c = last if kind == "LSTM" else (last, None)
        loss = (y * wave(y.shape, 3)).sum() + (h * wave(h.shape, 4)).sum()
        if c is not None:
            loss = loss + (c * wave(c.shape, 5)).sum()
        loss.backward()
        grads = [x] + [t for t in (h0, c0) if t is not None] + list(net.parameters())
        names = " ".join(k for k, _ in net.named_parameters())
        cases.append(
            '  {kind = "%s", layers = %d, both = %s, bias = %s, states = %s, packed = %s, names = "%s",\n   y = %s,\n   h = %s, c = %s,\n   grads = {%s}},'
            % (kind, layers, *(str(bool(v)).lower() for v in (both, bias, states, packed)), names, text(y.reshape(-1).tolist()), text(two(h)),
               text(two(c)) if c is not None else "nil", ", ".join(text(two(t.grad)) for t in grads)))
print("-- recurrent.lua - written by t/golden/recurrent.py with PyTorch %s.\nreturn {\n%s\n}" % (torch.__version__.split("+")[0], "\n".join(cases)))
