"""processor.py - times a function in processor time, and prints the line of bench/processor.lua. Drops the first `warm` runs."""
import time


def report(name, what, run, steps, warm):
    times = []
    for _ in range(steps + warm):
        start = time.process_time()
        run()
        times.append((time.process_time() - start) * 1e3)
    times = sorted(times[warm:])
    print(f"{name}\t{what}\t{times[0]:.2f}\t{times[len(times) // 2]:.2f}", flush=True)
