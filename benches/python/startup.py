"""The time of `import packhorse`: that of an interpreter which imports it, less that of one which does nothing.

    python benches/python/startup.py

The best of `--rounds` alternating rounds, for the modules in the table; one that is not installed is left out.
"""

import argparse
import importlib.util
import subprocess
import sys
import time

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--rounds", type=int, default=10)
arguments = parser.parse_args()


def run(program):
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", program], check=True)
    return time.perf_counter() - begin


subprocess.run(
    [sys.executable, "-c", "import packhorse, sys; sys.exit(any(name in sys.modules for name in ('numpy', 'torch')))"], check=True
)
modules = [name for name in ("packhorse", "numpy", "webdataset", "torch") if importlib.util.find_spec(name)]
best = {"": float("inf")} | {name: float("inf") for name in modules}
for _ in range(arguments.rounds + 1):
    for name in best:
        best[name] = min(best[name], run(f"import {name}" if name else ""))

print(f"best of {arguments.rounds} rounds; a bare interpreter takes {best[''] * 1000:.1f} ms")
for name in modules:
    taken = best[name] - best[""]
    print(f"import {name:12} {taken * 1000:8.1f} ms  {taken / (best['packhorse'] - best['']):7.2f} times that of packhorse")
