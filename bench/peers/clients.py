"""clients.py - clients of bench/serve.sh: print the new ids per second of a server with OpenAI's API.

    python3 bench/peers/clients.py PORT ROW [PID]

Waits until the server answers. Prints lines "ROW, number of clients, ids per second". With PID, seconds are processor time
of this process, the server.
"""
import http.client
import json
import os
import sys
import threading
import time

IDS = 32


def complete(port, text):
    """Returns the number of new ids of one completion."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    body = json.dumps({"prompt": text, "max_tokens": IDS, "temperature": 0})
    connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    if answer.status == 503:
        raise ConnectionError(text)
    if answer.status != 200:
        sys.exit(f"status {answer.status}: {text[:300]}")
    return json.loads(text)["usage"]["completion_tokens"]


def await_server(port):
    end = time.time() + 60
    while True:
        try:
            return complete(port, "first")
        except OSError:
            if time.time() > end:
                sys.exit("the server does not answer")
            time.sleep(0.2)


def clock(pid):
    """Returns seconds of wall-clock time; with a process, of its processor time."""
    if not pid:
        return time.time()
    with open(f"/proc/{pid}/stat") as file:
        words = file.read().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def measure(port, clients, pid):
    """Returns the ids per second of several clients together. Each client sends one request after another."""
    counts = [0] * clients

    def client(i):
        for k in range(max(2, 8 // clients)):
            counts[i] += complete(port, f"client {i} asks for text number {k}")

    threads = [threading.Thread(target=client, args=(i,)) for i in range(clients)]
    start = clock(pid)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / (clock(pid) - start)


if __name__ == "__main__":
    await_server(int(sys.argv[1]))
    for n in (1, 4, 16):
        print(sys.argv[2], n, f"{measure(int(sys.argv[1]), n, sys.argv[3] if len(sys.argv) > 3 else None):.2f}", sep="\t", flush=True)
