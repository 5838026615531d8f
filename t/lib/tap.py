"""tap.py - the functions of a test in Python: ok, equal, raises, skip, share, group, finish. Prints TAP.

A check's name is a sentence that states the expected fact. A failed check prints what was found.
"""

import os
import traceback

count = failed = 0


def ok(name, fact, found=""):
    """Prints the result of a check."""
    global count, failed
    count += 1
    failed += not fact
    print(f"{'ok' if fact else 'not ok'} {count} - {name}", flush=True)
    for line in [] if fact else str(found).splitlines():
        print(f"# {line}")


def equal(name, found, expected):
    """Checks that two values are equal."""
    ok(name, found == expected, f"found:    {found!r}\nexpected: {expected!r}")


def raises(name, call, kind, message):
    """Checks that a call raises an exception of the class `kind` with the message in its text."""
    try:
        found = f"no exception, the result {call()!r}"
    except Exception as e:
        found = f"{type(e).__name__}: {e}"
        if isinstance(e, kind) and message in str(e):
            found = None
    ok(name, found is None, f"found:    {found}\nexpected: {kind.__name__}: {message}")


def skip(name, why):
    """Prints a check that cannot run here."""
    ok(f"{name} # SKIP {why}", True)


def group(*functions):
    """Runs functions with checks; an exception is a failed check."""
    for function in functions:
        try:
            function()
        except Exception:
            ok(f"{function.__name__} ends without an exception", False, traceback.format_exc())


def share(i):
    """Returns True if this run tests case i of an exhaustive loop (SHARE, as in t/lib/tap.sh)."""
    if "/" not in os.environ.get("SHARE", ""):
        return True
    k, n = map(int, os.environ["SHARE"].split("/"))
    return i == 0 or i * 2654435761 // 8192 % n == k


def finish():
    """Prints the plan; returns the exit status."""
    print(f"1..{count}")
    return int(failed > 0)
