"""process.py - tests of the Python package that need a process: ends, fork, other libraries, example, notebook, page, wheel."""

import contextlib
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

import tap

import rille

BUILD = pathlib.Path(os.environ["RILLE_BUILD"])


def run(*command, **how):
    """Runs Python; returns the status and the output with errors."""
    done = subprocess.run([sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, **how)
    return done.returncode, done.stdout


# Programs that end in different ways while tensors, steps and shared memory are in use. The first word of a program
# is the program's
# name.
ENDS = """
normally:    pass
closed:      rille.close()
cycle:       t.__class__.kept = [t, step]; held = [t]; held.append(held)
thread:      import threading; threading.Thread(target=lambda: rille.adopt() or t.tolist()).start()
exported:    import numpy; array = numpy.from_dlpack(t); capsule = t.__dlpack__()
exported late: import numpy; array = numpy.from_dlpack(t); rille.close(); assert array.tolist() == [1, 1]
"""
BEGIN = "import rille; t = rille.ones((2,)); step = rille.graph(lambda x: x + rille.live(lambda: 1)); step(t)\n"


def ends():
    for i, case in enumerate(ENDS.strip().splitlines()):
        name, code = case.split(":", 1)
        if not tap.share(i):
            continue
        tap.equal(f"a program ends without a word: {name}", run("-c", BEGIN + code.strip()), (0, ""))
    status, said = run("-c", BEGIN + "rille.close()\nt.tolist()")
    tap.ok("a tensor of a closed session is refused by name", status == 1 and "the session is closed" in said, said)
    code = BEGIN + "rille.close(); rille.open(devices='cpu:1'); assert step(rille.ones((2,))).tolist() == [2, 2]; del t"
    tap.equal("after close, a new session can be opened, and steps are recorded again", run("-c", code), (0, ""))


def waiting():
    code = "import os, rille; print(sorted(os.environ.keys() & {'OMP_WAIT_POLICY', 'GOMP_SPINCOUNT'}))"
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}
    for name, given, spins in ("sleep", {}, 0), ("poll as the user sets", {"GOMP_SPINCOUNT": "7"}, 7):
        said = run("-c", code, env={**clean, **given, "OMP_DISPLAY_ENV": "verbose"})[1]
        tap.ok(f"idle threads of oneDNN {name}", f"GOMP_SPINCOUNT = '{spins}'" in said, said)
        tap.equal(f"they {name}; the environment stays the same", said.splitlines()[-1], str(list(given)))


FORK = """
import os, rille
t = rille.ones((2,))
t.tolist()
child = os.fork()
if child == 0:
    calls = [lambda: t + t, t.tolist, lambda: t.shape, lambda: rille.zeros((2,)), lambda: repr(t), rille.wait]
    wrong = 0
    for call in calls:
        try:
            call()
            wrong += 1
        except rille.Error as e:
            wrong += "fork" not in str(e)
    rille.open(devices="cpu:1")
    wrong += rille.zeros((2,)).tolist() != [0, 0]
    del t
    raise SystemExit(wrong)
_, status = os.waitpid(child, 0)
assert (t + t).tolist() == [2, 2]
raise SystemExit(os.waitstatus_to_exitcode(status))
"""


def fork():
    tap.equal("the child of fork refuses its parent's session by name, and opens one of its own", run("-W", "ignore", "-c", FORK), (0, ""))


def libraries():
    status, said = run("-c", "import rille", env={**os.environ, "RILLE_LIBRARY": "/none/librille.so"})
    tap.ok("a missing library is an ImportError with the remedy", status == 1 and "set RILLE_LIBRARY to the path" in said, said)
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "other.c").write_text('const char *rille_version(void) { return "9.1.0"; }')
        made = subprocess.run(["cc", "-shared", "-fPIC", "-o", f"{folder}/other.so", f"{folder}/other.c"])
        status, said = run("-c", "import rille", env={**os.environ, "RILLE_LIBRARY": f"{folder}/other.so"})
    tap.ok("a library of another version is refused", made.returncode == 0 and "or a later patch of it, found 9.1.0" in said, said)


def example():
    embed = BUILD / "examples/embed"
    if not embed.exists():
        tap.skip("the example prints the losses of examples/embed.c", "this build has no examples")
        return
    for i, how in enumerate(([], ["--plain"])):
        if not tap.share(i):
            continue
        wanted = subprocess.run([embed, *how], capture_output=True, text=True, timeout=300).stdout
        found = run("python/examples/mlp.py", *how)
        tap.equal(f"the example {how} prints the losses of examples/embed.c, bit by bit", found, (0, wanted))


def printed(programs, name):
    """Runs programs that share their variables. Returns their outputs. name: format of the file name of program n in errors."""
    names, found = {}, []
    for n, program in enumerate(programs, 1):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exec(compile(program, name % n, "exec"), names)
        found.append(said.getvalue())
    rille.close()
    return found


def page():
    blocks = re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", pathlib.Path("docs/python.md").read_text(), re.M | re.S)
    found = printed([program for program, _ in blocks], "block%d")
    tap.equal("each block of docs/python.md prints what the page shows", found, [said for _, said in blocks])
    tap.ok("the page has at least 4 blocks", len(blocks) >= 4)


def notebook():
    cells = [c for c in json.loads(pathlib.Path("python/examples/layouts.ipynb").read_text())["cells"] if c["cell_type"] == "code"]
    found = printed(["".join(cell["source"]) for cell in cells], "In[%d]")
    wanted = ["".join(text for output in cell["outputs"] for text in output["text"]) for cell in cells]
    tap.equal("each cell of the notebook prints what the notebook shows", found, wanted)


def wheel():
    name = "the tree makes a wheel that runs from a folder"
    try:
        import setuptools
        from setuptools import build_meta
    except ImportError:
        setuptools = None
    if not setuptools or tuple(map(int, setuptools.__version__.split(".")[:2])) < (70, 1):
        tap.skip(name, "there is no setuptools 70.1")
        return
    with tempfile.TemporaryDirectory() as folder, moved(folder):
        shutil.copytree(HOME / "python", "source")
        os.chdir("source")
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            made = build_meta.build_wheel("..")
        os.chdir("..")
        zipfile.ZipFile(made).extractall("installed")
        code = "import rille; print(rille.__file__, rille.ones((2,)).sum().item())"
        place = {**os.environ, "PYTHONPATH": f"{folder}/installed"}
        tap.equal(name, run("-c", code, env=place), (0, f"{folder}/installed/rille/__init__.py 2.0\n"))


@contextlib.contextmanager
def moved(folder):
    """Changes the current folder for the body of a `with` statement."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


HOME = pathlib.Path.cwd()
# run in shares, because each case starts processes, which need 0.3 s to import the package
cases = [ends, fork, waiting, libraries, example, notebook, page, wheel]
tap.group(*[case for i, case in enumerate(cases) if tap.share(i)])
sys.exit(tap.finish())
