#!/usr/bin/env python3
# shell.py - measures how long a user waits at a prompt: for the start, a completion, a printed value, a require.
# Compares rille with lua5.4 and python3, on the same terminal, in turns in one run. Prints medians.
#
#   bench/shell.py [build/release]      omits the rows of programs that are not installed
import os, pty, select, shutil, statistics, subprocess, sys, time

build = sys.argv[1] if len(sys.argv) > 1 else "build/release"
rille = os.path.join(build, "rille")
ROUNDS = 25
env = dict(os.environ, TERM="xterm", HISTFILE="/dev/null", XDG_STATE_HOME="/tmp", PYTHONSTARTUP="")


class Prompt:
    """A program with a prompt, on a terminal of its own."""

    def __init__(self, argv, prompt):
        self.text = b""
        start = time.perf_counter()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execvpe(argv[0], argv, env)
        self.wait(prompt)
        self.ready = time.perf_counter() - start

    def wait(self, word, seconds=20):
        end = time.perf_counter() + seconds
        while word not in self.text:
            if not select.select([self.fd], [], [], max(0, end - time.perf_counter()))[0]:
                raise RuntimeError(f"no {word!r} in {self.text[-300:]!r}")
            self.text += os.read(self.fd, 65536)

    def ask(self, keys, answer):
        """Sends the keys. Returns the time until the answer appears, s."""
        time.sleep(0.01)
        while select.select([self.fd], [], [], 0)[0]:
            os.read(self.fd, 65536)
        self.text = b""
        start = time.perf_counter()
        os.write(self.fd, keys)
        self.wait(answer)
        return time.perf_counter() - start

    def close(self):
        os.kill(self.pid, 9)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


shells = {
    "rille": ([rille, "--no-init", "-d", "cpu:2"], b"rille> "),
    "lua5.4": (["lua5.4", "-i"], b"> "),
    "python3": (["python3", "-q"], b">>> "),
}
shells = {name: s for name, s in shells.items() if shutil.which(s[0][0])}


def row(name, values, limit):
    cells = "".join(f"{values[s] * 1e3:12.2f}" if s in values else f"{'-':>12}" for s in ("rille", "lua5.4", "python3"))
    print(f"{name:<44}{cells}  {limit}")


def by_turns(measure):
    """Returns the median of measure(shell) by shell. measure() returns None if the shell lacks the feature."""
    found = {name: [] for name in shells}
    for _ in range(ROUNDS):
        for name in shells:
            value = measure(name)
            if value is not None:
                found[name].append(value)
    return {name: statistics.median(v) for name, v in found.items() if v}


def ready(name):
    p = Prompt(*shells[name])
    p.close()
    return p.ready


def script(name):
    argv = {"rille": [rille, "--no-init", "-e", ""], "lua5.4": ["lua5.4", "-e", ""], "python3": ["python3", "-c", ""]}[name]
    start = time.perf_counter()
    child = subprocess.Popen(argv)
    _, status, used = os.wait4(child.pid, 0)
    assert status == 0
    cpu.setdefault(name, []).append(used.ru_utime + used.ru_stime)
    return time.perf_counter() - start


def at_prompt(questions):
    """Returns the median time of an answer at the prompt, by shell. questions: shell -> (lines to type first, keys, answer)."""
    open_shells = {}
    for name, (first, _, _) in questions.items():
        if name in shells:
            open_shells[name] = Prompt(*shells[name])
            for line in first:
                open_shells[name].ask(line + b"\r", shells[name][1])
    values = {name: [] for name in open_shells}
    for _ in range(ROUNDS):
        for name, p in open_shells.items():
            _, keys, answer = questions[name]
            values[name].append(p.ask(keys, answer))
            p.ask(b"\x15\r", shells[name][1])  # Ctrl-U empties the line
    for p in open_shells.values():
        p.close()
    return {name: statistics.median(v) for name, v in values.items()}


print(f"{'milliseconds, medians of %d' % ROUNDS:<44}{'rille':>12}{'lua5.4':>12}{'python3':>12}  limit")
cpu = {}
row("prompt ready", by_turns(ready), "15 ms")
row("a script of nothing, from start to end", by_turns(script), "")
row("    of it on a core", {name: statistics.median(v) for name, v in cpu.items()}, "")
row("one line and its value: 1 + 1", at_prompt({
    "rille": ([], b"1 + 1\r", b"2\r\n"), "lua5.4": ([], b"1 + 1\r", b"2\r\n"), "python3": ([], b"1 + 1\r", b"2\r\n")}), "")
row("Tab: a name of the module", at_prompt({
    "rille": ([], b"rille.index_sel\t", b"index_select"), "python3": ([b"import os"], b"os.getlogi\t", b"getlogin")}), "1 ms + terminal")
row("Tab: a method behind an index", at_prompt({
    "rille": ([b"x = rille.ones{4, 4};"], b"x[0]:cumsu\t", b"cumsum")}), "1 ms + terminal")
row("print f32{8000, 8000} S(0) on 2 devices", at_prompt({
    "rille": ([b"P = rille.placement('cpu', {0, 1}); x = rille.zeros({8000, 8000}, {placement = P, sbp = 'S(0)'}); x:add_(1); x:sum():item();"],
              b"x\r", b"...")}), "10 ms")
row("print 1,000 numbers", at_prompt({
    "rille": ([b"x = rille.arange(1000); x:sum():item();"], b"x\r", b"999"),
    "python3": ([b"x = list(range(1000))"], b"x\r", b"999]")}), "")

module = os.path.join(build, "lua", "rille.so")
if os.path.exists(module) and shutil.which("lua5.4"):
    path = f"package.cpath = '{build}/lua/?.so;' .. package.cpath "
    line = path + "local t = os.clock() require 'rille' io.write(os.clock() - t)"
    times = [float(subprocess.run(["lua5.4", "-e", line], check=True, capture_output=True).stdout) for _ in range(ROUNDS)]
    row("lua5.4: require 'rille'", {"lua5.4": statistics.median(times)}, "")
