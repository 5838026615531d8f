"""jupyter.py - tests the Jupyter kernel with the front end jupyter_client: jupyter.py path/to/rille. Prints TAP.

jupyter_client starts the kernel by the kernel specification that rille --jupyter-install wrote."""
import atexit, os, signal, subprocess, sys, tempfile, time

home = tempfile.mkdtemp()
os.environ.update(JUPYTER_DATA_DIR=home, HOME=home, XDG_CONFIG_HOME=home)
from jupyter_client.manager import KernelManager

count = failed = 0


def ok(name, passed, *found):
    global count, failed
    count += 1
    failed += not passed
    print(("ok" if passed else "not ok"), count, "-", name, flush=True)
    if not passed:
        print("#", *map(repr, found), flush=True)


rille = sys.argv[1]
told = subprocess.run([rille, "--jupyter-install"], capture_output=True, text=True)
ok("--jupyter-install prints the folder it wrote to", home in told.stdout and told.returncode == 0, told)

km = KernelManager(kernel_name="rille")
atexit.register(lambda: km.is_alive() and km.shutdown_kernel(now=True))
told = tempfile.TemporaryFile("w+")
km.start_kernel(stderr=told)
kc = km.client()
kc.start_channels()
kc.wait_for_ready(timeout=60)
ok("the kernel answers", True)


def collect(msg_id, until="idle", timeout=60):
    """Returns all messages that the kernel publishes for a request, with the times of their arrival."""
    got = []
    while True:
        m = kc.get_iopub_msg(timeout=timeout)
        if m["parent_header"].get("msg_id") != msg_id:
            continue
        got.append((m["msg_type"], m["content"], time.time()))
        if m["content"].get("execution_state") == until or m["msg_type"] == until:
            return got


def ask(msg_id):
    """Returns the kernel's reply to a request."""
    while True:
        m = kc.get_shell_msg(timeout=60)
        if m["parent_header"].get("msg_id") == msg_id:
            return m["content"]


def run(code, **options):
    msg_id = kc.execute(code, **options)
    got = collect(msg_id)
    return ask(msg_id), got


def said(got, kind):
    return [c for t, c, _ in got if t == kind]


def text(got):
    return "".join(c["text"] for c in said(got, "stream"))


def plain(got):
    return [c["data"]["text/plain"] for c in said(got, "execute_result")]


reply, got = run("1 + 1")
ok("the last expression is the result", reply["status"] == "ok" and plain(got) == ["2"], reply, got)
first = reply["execution_count"]
reply, got = run("x = 20\nlocal y = 2\nx + y, nil, 'two'")
ok("all values that are not nil are shown", plain(got) == ["22\ntwo"], got)
ok("cells are counted", reply["execution_count"] == first + 1, reply)
ok("a local persists in the next cell, and _ is the last value", plain(run("y + _")[1]) == ["24"])
ok("a trailing ; shows nothing", plain(run("x;")[1]) == [])
ok("printed output is a stream", text(run("print('é', 1)")[1]) == "é\t1\n")
got = run("io.stderr:write('oops\\n')")[1]
ok("stderr is a separate stream", said(got, "stream") == [{"name": "stderr", "text": "oops\n"}], got)
got = run("io.write('a\\xffb\\n')")[1]
ok("invalid UTF-8 is replaced", text(got) == "a\ufffdb\n", got)
got = run("for i = 1, 20000 do print(i) end")[1]
ok("long output arrives completely and in order", text(got) == "".join("%d\n" % i for i in range(1, 20001)))

reply, got = run("error('wrong')")
ok("an error is the reply", reply["status"] == "error" and "wrong" in reply["evalue"], reply)
ok("an error is published", "wrong" in said(got, "error")[0]["evalue"], got)
reply, got = run("x = = 1")
ok("a syntax error is the reply", reply["status"] == "error", reply)
reply, got = run("rille.ones(2, 3):matmul(rille.ones(2, 3))")
ok("an error of an operator names the operator and the cell", "matmul" in reply["evalue"] and "In[" in reply["evalue"], reply)
ok("cells run after errors", plain(run("2 + 2")[1]) == ["4"])

ids = [kc.execute("local t = rille.clock() while rille.clock() < t + 0.5 do end error('first')"), kc.execute("z = 1"), kc.execute("z = 2")]
for i in ids:
    collect(i)
states = [kc.get_shell_msg(timeout=60)["content"]["status"] for _ in ids]
ok("cells queued behind an error do not run", states == ["error", "aborted", "aborted"], states)
ok("later cells run", plain(run("tostring(rawget(_G, 'z'))")[1]) == ["nil"])

ok("a command works in a cell", "of kind cpu" in text(run(":devices")[1]))
ok("?name works in a cell", "matmul" in text(run("?matmul")[1]))
reply, got = run("?no_such_name")
ok("an unknown page is an error", reply["status"] == "error", reply)
reply, _ = run(":quit")
ok(":quit asks the front end to end", reply["payload"][0]["source"] == "ask_exit", reply)

got = run("rille.ones({4, 4}, {placement = rille.placement('cpu', {0, 1}), sbp = 'S(0)'}):show()")[1]
shown = said(got, "display_data")
ok("a drawing is shown as SVG and as text", len(shown) == 1 and "<svg" in shown[0]["data"]["image/svg+xml"]
   and shown[0]["data"]["text/plain"], got)


c = ask(kc.complete("é = rille.matm", 14))
ok("names are completed, with positions in characters", "matmul" in c["matches"] and c["cursor_start"] == 10
   and c["cursor_end"] == 14, c)
ok("a name has a page", "matmul" in ask(kc.inspect("rille.matmul(a, b)", 9))["data"]["text/plain"])
run("layer = rille.nn.Linear(2, 2)")
ok("a variable's value has a page", "nn.Linear(in, out" in ask(kc.inspect("layer"))["data"]["text/plain"])
ok("inspecting an unknown name is no error", ask(kc.inspect("no_such_name"))["found"] is False)
for code, status in (("x = 1", "complete"), ("for i = 1, 2 do", "incomplete"), ("x = = 1", "invalid"),
                     (":whos", "complete")):
    ok("%r is %s" % (code, status), ask(kc.is_complete(code))["status"] == status)
h = ask(kc.history(raw=True, output=False, hist_access_type="tail", n=2))["history"]
ok("the tail of the history is returned", [e[2] for e in h][-1] == ":quit" or len(h) == 2, h)
h = ask(kc.history(raw=True, output=False, hist_access_type="range", start=first, stop=first + 1))["history"]
ok("a range of the history is returned", [e[2] for e in h] == ["1 + 1"], h)
h = ask(kc.history(raw=True, output=False, hist_access_type="search", pattern="*matmul*", n=9))["history"]
ok("a search in the history works", len(h) == 2, h)

# ---- while a cell runs

msg_id = kc.execute("print('before'); while true do end")
collect(msg_id, until="stream")
ok("output arrives while the cell runs", True)
kc.control_channel.send(kc.session.msg("interrupt_request", {}))
got = collect(msg_id)
reply = ask(msg_id)
ok("the control socket interrupts a run", reply["status"] == "error" and "interrupted" in reply["evalue"], reply)
ok("the interrupt is answered", kc.get_control_msg(timeout=60)["msg_type"] == "interrupt_reply")
ok("cells run after an interrupt", plain(run("x")[1]) == ["20"])

msg_id = kc.execute("name = io.read(); n = io.read('n'); print(name, n)", allow_stdin=True)
for value in ("Ada", "36"):
    kc.get_stdin_msg(timeout=60)
    kc.input(value)
ok("io.read asks the front end", text(collect(msg_id)) == "Ada\t36\n" and ask(msg_id)["status"] == "ok")
msg_id = kc.execute("io.read()", allow_stdin=True)
kc.get_stdin_msg(timeout=60)
kc.control_channel.send(kc.session.msg("interrupt_request", {}))
collect(msg_id)
ok("a cell that waits for input can be interrupted", "interrupted" in ask(msg_id)["evalue"])
kc.get_control_msg(timeout=60)
kc.input("too late")
msg_id = kc.execute("io.read()", allow_stdin=True)
kc.get_stdin_msg(timeout=60)
kc.input("in time")
ok("input that arrives too late is discarded", plain(collect(msg_id)) == ["in time"] and ask(msg_id)["status"] == "ok")
reply, _ = run("io.read()", allow_stdin=False)
ok("io.read is an error if the front end accepts no input requests", reply["status"] == "error", reply)

msg_id = kc.execute("while true do end")
collect(msg_id, until="execute_input")
kc.control_channel.send(kc.session.msg("kernel_info_request", {}))
ok("kernel_info is answered during a run", kc.get_control_msg(timeout=60)["content"]["implementation"] == "rille")
kc.control_channel.send(kc.session.msg("interrupt_request", {}))
collect(msg_id), ask(msg_id), kc.get_control_msg(timeout=60)

good = 0
for i in range(100):
    msg_id = kc.execute("for i = 1, %d do end _ = rille.ones{40, 40}:matmul(rille.ones{40, 40}):sum():item() done = %d" % (i * 4000, i))
    for _ in range(1 + i % 3):
        kc.control_channel.send(kc.session.msg("interrupt_request", {}))
    collect(msg_id)
    reply = ask(msg_id)
    good += reply["status"] == "ok" or "interrupted" in reply["evalue"]
    for _ in range(1 + i % 3):
        kc.get_control_msg(timeout=60)
ok("an interrupt at any time stops the run, or arrives after its end", good == 100, good)
ok("the session works after many interrupts", plain(run("rille.ones{40, 40}:sum():item()")[1]) == ["1600.0"])

# ---- two front ends

other = km.client()
other.session = type(kc.session)(key=kc.session.key, session="another", username="b")
for channel in ("shell", "iopub", "stdin", "control", "hb"):
    setattr(other, "_%s_channel" % channel, None)
other.start_channels()
other.wait_for_ready(timeout=60)
other.execute("shared = 7")
ok("a second front end has the same globals", other.get_shell_msg(timeout=60)["content"]["status"] == "ok"
   and plain(run("shared")[1]) == ["7"])
msg_id = kc.execute("io.read()", allow_stdin=True)
kc.get_stdin_msg(timeout=60)
other.input("of another")
other.execute("shared = 8")
kc.input("of the first")
got = collect(msg_id)
ok("a second front end cannot answer the first one's input request", plain(got) == ["of the first"] and ask(msg_id)["status"] == "ok", got)
ok("the second front end's cell runs afterwards", other.get_shell_msg(timeout=60)["content"]["status"] == "ok" and plain(run("shared")[1]) == ["8"])
other.stop_channels()

# ---- wrong messages

key, kc.session.key = kc.session.key, b"another key"
kc.execute("forged = true")
kc.session.key = key
ok("a message with a wrong signature is refused", plain(run("tostring(rawget(_G, 'forged'))")[1]) == ["nil"])
told.seek(0)
ok("a refused message is reported on the kernel's stderr", "a message was refused: its signature is wrong" in told.read())
kc.shell_channel.socket.send_multipart([b"nonsense"])
ok("a malformed message is ignored", plain(run("3")[1]) == ["3"])
whole = kc.session.serialize(kc.session.msg("execute_request", {"code": "forged = true"}))
socket = kc.shell_channel.socket
for n in range(1, len(whole)):
    socket.send_multipart(whole[:n])
    socket.send_multipart(whole[n:])
for n in (40, 1000):
    socket.send_multipart([b"x"] * n + whole)
socket.send_multipart([b""])
ok("messages with missing or extra frames are ignored", plain(run("tostring(rawget(_G, 'forged'))")[1]) == ["nil"])


def signed(header, content):
    parts = [header, b"{}", b"{}", content]
    socket.send_multipart([b"<IDS|MSG>", kc.session.sign(parts)] + parts)


header = b'{"msg_type": "execute_request", "msg_id": "1"}'
for content in (b"", b"[]", b"3", b"null", b"{", b"[" * 100000, b'{"code": 3}', b'{"code": null, "silent": 7}', b'{"code": "\\ud800"}',
                b'\xff\xfe', b'{"code": {"code": {}}}'):
    signed(header, content)
for header in (b"[]", b"{}", b'{"msg_type": 7}', b'{"msg_type": "execute_reply"}', b'{"msg_type": ""}', b'{"msg_type": "\\u0000"}'):
    signed(header, b'{"code": "forged = true"}')
reply, got = run("tostring(rawget(_G, 'forged'))")
ok("messages with unexpected JSON are ignored", plain(got) == ["nil"], got)
reply, _ = run("forged = 1 --\0 forged = 2")
ok("a zero byte in a cell is an error", reply["status"] == "error" and "zero byte" in reply["evalue"], reply)
big = "x" * 5000000
ok("a cell of 5 MB runs", plain(run("#'%s'" % big)[1]) == ["5000000"])
ok("a cell prints 5 MB", text(run("print(('y'):rep(5000000))")[1]) == "y" * 5000000 + "\n")
for code, at in (("rille.", 10 ** 15), ("rille.", -5), ("", 3), ("é" * 50, 77)):
    c = ask(kc.complete(code, at))
    ok("a cursor at %d of %d letters" % (at, len(code)), c["status"] == "ok" and ask(kc.inspect(code, at))["status"] == "ok", c)

kc.shutdown()
for _ in range(600):
    if not km.is_alive():
        break
    time.sleep(0.1)
ok("shutdown ends the program", not km.is_alive())
kc.stop_channels()
km.cleanup_resources()
if km.is_alive():
    km.shutdown_kernel(now=True)

for name, code in (("a loop", "while true do end"), ("a cell that asks", "io.read()"),
                   ("a run", "for i = 1, 1e9 do rille.ones{200, 200}:matmul(rille.ones{200, 200}):sum():item() end")):
    km = KernelManager(kernel_name="rille")
    km.start_kernel()
    kc = km.client()
    kc.start_channels()
    kc.wait_for_ready(timeout=60)
    collect(kc.execute(code, allow_stdin=True), until="execute_input")
    kc.shutdown()
    for _ in range(600):
        if not km.is_alive():
            break
        time.sleep(0.1)
    ok("shutdown ends %s, and the program" % name, not km.is_alive())
    kc.stop_channels()
    if km.is_alive():
        km.shutdown_kernel(now=True)
print("1..%d" % count)
sys.exit(failed > 0)
