"""Makes a small recorded space in the format of the big ones: `python make_recorded.py FILE.json.gz`.

A made-up kernel with two tile sizes, a vector width, an unroll factor and two flags. Large tiles fail to
compile or to run; the time has an optimum inside, an interaction between tiles and width, and a little noise.
"""

from __future__ import annotations

import gzip
import itertools
import json
import math
import random
import sys
from pathlib import Path
from typing import Any

PARAMETERS: dict[str, list[int]] = {
    "tile_x": [8, 16, 32, 64, 128, 256],
    "tile_y": [1, 2, 4, 8, 16, 32],
    "width": [1, 2, 4, 8],
    "unroll": [0, 1, 2, 4],
    "shared": [0, 1],
    "layout": [0, 1, 2],
    "revision": [3],
}


def synthetic(seed: int = 0) -> dict[str, Any]:
    """The document: a record for each configuration whose tile has at most 2048 elements."""
    rng = random.Random(seed)
    cache = {}
    for values in itertools.product(*PARAMETERS.values()):
        record: dict[str, Any] = dict(zip(PARAMETERS, values, strict=True))
        size = record["tile_x"] * record["tile_y"]
        if size > 2048:
            continue
        time: float | str = _time(record, rng)
        if size * (1 + record["unroll"]) > 6000:
            time = "CompilationFailedConfig"
        elif size > 1024 and record["shared"]:
            time = "RuntimeFailedConfig"
        repeats = [time * rng.gauss(1, 0.01) for _ in range(4)] if isinstance(time, float) else []
        cache[",".join(map(str, values))] = {
            **record,
            "time": time,
            "times": repeats,
            "compile_time": 100.0 + 40.0 * record["unroll"] + 5.0 * record["width"] + rng.random(),
        }
    return {
        "device_name": "made up",
        "kernel_name": "synthetic",
        "problem_size": [4096, 4096],
        "tune_params_keys": list(PARAMETERS),
        "tune_params": PARAMETERS,
        "objective": "time",
        "cache": cache,
    }


def _time(record: dict[str, Any], rng: random.Random) -> float:
    x, y = math.log2(record["tile_x"]), math.log2(record["tile_y"])
    width = math.log2(record["width"])
    cost = 1.0 + 0.25 * (x - 6) ** 2 + 0.2 * (y - 2) ** 2 + 0.3 * (x - 5 - width) ** 2
    cost *= 1.4 - 0.15 * min(record["unroll"], 2) + 0.1 * max(record["unroll"] - 2, 0)
    cost *= 0.8 if record["shared"] and record["layout"] != 1 else 1.0
    cost *= (1.0, 1.3, 0.95)[record["layout"]]
    return float(cost * rng.uniform(0.99, 1.01))


def write(path: Path, seed: int = 0) -> Path:
    """Write the document, gzipped where the name says so."""
    text = json.dumps(synthetic(seed)).encode()
    path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)
    return path


if __name__ == "__main__":
    write(Path(sys.argv[1]))
