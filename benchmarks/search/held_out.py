"""Whether a search's settings hold for kernels that they were not chosen on: one family of kernels left out.

For each family (convolution, dedispersion, gemm, …), the search with the best mean score on all other
families is chosen, and scored on the family left out. Where that is about what the chosen settings reach with
every family seen, the settings are not fitted to these kernels.

    python benchmarks/search/compare.py auto auto:beta=3 auto:start=8 --json SETTINGS.json
    python benchmarks/search/held_out.py SETTINGS.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, help="JSON of compare.py, of several settings of one search")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    searches = json.loads(arguments.file.read_text())["searches"]
    scores = {
        name: {space: row["score"] for space, row in result["spaces"].items()}
        for name, result in searches.items()
    }
    spaces = sorted(set.intersection(*(set(one) for one in scores.values())))
    families = sorted({space.split("_")[0] for space in spaces})
    default = next(iter(scores))
    chosen: dict[str, str] = {}
    held: dict[str, float] = {}
    for family in families:
        kept = [space for space in spaces if space.split("_")[0] != family]
        best = max(scores, key=lambda name: np.mean([scores[name][space] for space in kept]))
        chosen[family] = best
        held |= {space: scores[best][space] for space in spaces if space not in kept}
        left = [space for space in spaces if space not in kept]
        print(
            f"without {family:14} {best:24} there {np.mean([held[space] for space in left]):+.3f}, "
            f"{default} {np.mean([scores[default][space] for space in left]):+.3f}"
        )
    means = {name: float(np.mean([one[space] for space in spaces])) for name, one in scores.items()}
    print(f"chosen without the family it is scored on: {np.mean(list(held.values())):+.3f}")
    for name, mean in sorted(means.items(), key=lambda item: -item[1]):
        print(f"    {name:26} {mean:+.3f} on all")
    if arguments.json:
        document = {"chosen": chosen, "held_out": held, "mean": float(np.mean(list(held.values())))}
        arguments.json.write_text(json.dumps({**document, "on_all": means}, indent=1) + "\n")


if __name__ == "__main__":
    main()
