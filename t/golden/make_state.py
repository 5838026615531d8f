#!/usr/bin/env python3
"""Writes state.pt, a state dict of torch.save, and pickles, the inputs of the fuzzer's subject `torch`.

    pip install torch
    python3 t/golden/make_state.py [FOLDER of the pickles]
"""
import collections
import io
import os
import sys
import zipfile

import torch

here = os.path.dirname(os.path.abspath(__file__))
x = torch.arange(12, dtype=torch.float32).reshape(3, 4)
state = collections.OrderedDict(x=x, turned=torch.nn.Parameter(x.t()), small=torch.tensor([-1, 2], dtype=torch.int8), half=x[1:].bfloat16())
torch.save({**state, "epoch": 3, "inner": {"list": [x[0], 1.5, "text", None, True]}}, f"{here}/state.pt")
if len(sys.argv) > 1:
    inner = {"list": [x[0], 1.5, "text", None, True]}
    for name, value, more in (("state", {**state, "inner": inner}, {}), ("ordered", state, {}), ("one", x, {}),
                              ("protocol4", {"x": x}, {"pickle_protocol": 4}), ("small", {"x": x.to(torch.float8_e4m3fn), "y": x.to(torch.uint16)}, {}),
                              ("module", torch.nn.Linear(2, 2), {})):
        memory = io.BytesIO()
        torch.save(value, memory, **more)
        members = zipfile.ZipFile(memory)
        with open(f"{sys.argv[1]}/{name}", "wb") as f:
            f.write(members.read(next(n for n in members.namelist() if n.endswith("data.pkl"))))
