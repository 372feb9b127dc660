"""How long a verdict on a quick kernel takes by command: `kernelwright check` and `kernelwright bench`.

    python benchmarks/referee_command.py [--times 5] [--json FILE]

The kernel is torch's rms_norm on four rows of 1024, some 15 to 20 us a call, judged against itself: the
hardest to decide. The time is that of the whole command, the start of Python and the import of torch in two
processes included. Limits: 3 s for a check, 5 s for a bench, on two cores. It wants an idle machine.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from kernelwright import machine

LIMITS_S = {"check": 3.0, "bench": 5.0}
_BASELINE = """
import torch

def get_inputs():
    return [torch.randn(4, 1024), torch.randn(1024)]

def get_reference_output(x, weight):
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight)
"""
_KERNEL = """
import torch

def rms_norm(x, weight):
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight)
"""


def command(folder: Path, word: str) -> tuple[float, dict[str, Any]]:
    """Seconds that the command took, and what it said."""
    call = [sys.executable, "-m", "kernelwright", word, "baseline.py", "--kernel-package", "quick"]
    began = time.perf_counter()
    done = subprocess.run(
        [*call, "--op", "quick.rms_norm", "--json"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    took = time.perf_counter() - began
    said: dict[str, Any] = json.loads(done.stdout)
    return took, said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "baseline.py").write_text(_BASELINE)
        (folder / "quick.py").write_text(_KERNEL)
        for word in LIMITS_S:
            for _ in range(asked.times):
                took, said = command(folder, word)
                rows.append(
                    {
                        "command": word,
                        "seconds": took,
                        "status": said["status"],
                        "comparison": said["comparison"],
                        "interval": said["interval"],
                        "load": os.getloadavg()[0],
                    }
                )
                print(f"{word} {took:.2f} s: {said['status']} {said['comparison'] or ''}", flush=True)
    for word, limit in LIMITS_S.items():
        took = [float(str(row["seconds"])) for row in rows if row["command"] == word]
        print(
            f"{word}: median {statistics.median(took):.2f} s, longest {max(took):.2f} s (limit {limit:g} s)"
        )
    if asked.json is not None:
        document = {"machine": machine.fingerprint(), "date": time.strftime("%Y-%m-%d"), "rows": rows}
        asked.json.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
