"""clients.py - clients of bench/serve.sh: print the new ids per second of a server with OpenAI's API.

    python3 bench/peers/clients.py PORT ROW

Waits until the server answers. Prints lines "ROW, number of clients, ids per second".
"""
import http.client
import json
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


def measure(port, clients):
    """Returns the ids per second of several clients together. Each client sends one request after another."""
    counts = [0] * clients

    def client(i):
        for k in range(max(2, 8 // clients)):
            counts[i] += complete(port, f"client {i} asks for text number {k}")

    threads = [threading.Thread(target=client, args=(i,)) for i in range(clients)]
    start = time.time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.time() - start)


if __name__ == "__main__":
    await_server(int(sys.argv[1]))
    for n in (1, 4, 16):
        print(sys.argv[2], n, f"{measure(int(sys.argv[1]), n):.2f}", sep="\t", flush=True)
