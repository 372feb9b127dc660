"""How near the kernels come to what memory allows, on large workloads with outputs given.

Three things take turns, in random order, in one process: the kernel on data that no cache holds; a copy with
non-temporal stores that reads and writes as many bytes in the same proportion; and the kernel on data that
the second-level caches hold, which is what its arithmetic allows. Each round gives one time of each; the
fraction is the kernel's speed over the lower one of the other two, paired by round.

    python benchmarks/bench_roofline.py [--rows 4096] [--rounds 25] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path
from typing import Any

import torch

from kernelwright import build
from kernelwright import dispatch
from kernelwright import machine
from kernelwright.cli import _probes
from kernelwright.kernels.cpu import Buffer
from kernelwright.kernels.cpu import CallBlock
from kernelwright.kernels.cpu import native_kernels
from kernelwright.kernels.cpu import NativeCall
from kernelwright.ops import dtype_name
from kernelwright.ops import OperatorSpec
from kernelwright.ops import Workload
from kernelwright.referee import Mode
from kernelwright.referee import NativeEntrant
from kernelwright.referee import NativeJudge
from kernelwright.referee._statistics import estimate

#: What must be reached, by operator.
WANTED = {"rms_norm": 0.85, "softmax": 0.70, "silu_and_mul": 0.70}
WIDTHS = {"rms_norm": 4096, "softmax": 4096, "silu_and_mul": 11008}
BUDGET_S = 0.12


def copy_entrant(reads: int) -> NativeEntrant:
    """The copy that reads `reads` bytes for each that it writes past the caches."""
    tiers = machine.supported_tiers(machine.current().cpu.features)
    tier = next(one for one in ("avx512", "avx2", "generic") if one in tiers)
    requests = build.requests_of(build.read_build_file(_probes.FOLDER))
    wanted = next(one for one in requests if one.section.name == f"bandwidth_{tier}")
    return NativeEntrant(f"copy {reads}:1", build.build(wanted).library, f"kw_copy_{reads}_nontemporal")


def copy_call(area: int, threads: int) -> NativeCall:
    block = CallBlock(abi_version=1, tensors=1, threads=threads)
    block.scalar[0] = 1
    block.tensor[0].ndim = 1
    block.tensor[0].size[0] = area
    block.tensor[0].stride[0] = 1
    return NativeCall(bytes(block), (Buffer("area", area, True),))


def kernel_call(spec: OperatorSpec, workload: Workload) -> tuple[NativeCall, dict[str, torch.Tensor]]:
    """The native call of a workload, and its tensors."""
    inputs = spec.inputs(workload, torch.Generator().manual_seed(0))
    out = torch.empty_like(spec.reference(**inputs))
    call = native_kernels()[spec.name].describe(inputs, out)
    return call, {name: inputs[name] for name in spec.tensors}


def cached_rows(spec: OperatorSpec, width: int, dtype: torch.dtype) -> int:
    """As many rows as half of all second-level caches hold."""
    room = machine.current().cache_bytes(2) // 2
    return max(1, room // spec.cost(spec.workload(1, width, dtype=dtype)).bytes)


def measure(judge: NativeJudge, operator: str, dtype: torch.dtype, rows: int, rounds: int) -> dict[str, Any]:
    spec = dispatch.spec(operator)
    kernel = native_kernels()[operator]
    entrant = NativeEntrant(operator, kernel.artifact({}).library, kernel.symbol)
    width, threads = WIDTHS[operator], machine.current().threads
    large = spec.workload(rows, width, dtype=dtype)
    small = spec.workload(cached_rows(spec, width, dtype), width, dtype=dtype)
    reads = 2 if operator == "silu_and_mul" else 1
    area = spec.cost(large).bytes // (4096 * threads) * 4096 * threads
    copied = _probes.moved_bytes(area, threads, reads + 1)
    calls = {one.name: kernel_call(spec, one) for one in (large, small)}
    sides = {
        "kernel": (entrant, *calls[large.name], Mode.COLD, spec.cost(large).bytes),
        "copy": (copy_entrant(reads), copy_call(area, threads), None, Mode.COLD, copied),
        "cached": (entrant, *calls[small.name], Mode.WARM, spec.cost(small).bytes),
    }
    rates: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name in random.sample(list(sides), len(sides)):
            who, call, inputs, mode, moved = sides[name]
            tensors = (
                None if inputs is None else {k: v for k, v in inputs.items() if isinstance(v, torch.Tensor)}
            )
            found = judge.time(who, call, mode=mode, budget_s=BUDGET_S, inputs=tensors, threads=threads)
            rates[name].append(moved / found.median_ns)
    lower = [min(pair) for pair in zip(rates["copy"], rates["cached"], strict=True)]
    found = estimate([1 / one for one in lower], [1 / one for one in rates["kernel"]], seed=0)
    medians = {name: sorted(values)[rounds // 2] for name, values in rates.items()}
    return {
        "operator": operator,
        "dtype": dtype_name(dtype),
        "workload": large.name,
        "gb_per_s": medians,
        "fraction": found.ratio,
        "interval": found.interval,
        "wanted": WANTED[operator],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = []
    print(f"{'':22}{'kernel':>9}{'copy':>9}{'cached':>9}   GB/s    fraction of the lower")
    with machine.watch() as conditions, NativeJudge() as judge:
        for operator in WANTED:
            for dtype in (torch.bfloat16, torch.float32):
                one = measure(judge, operator, dtype, options.rows, options.rounds)
                found.append(one)
                rates = "".join(f"{one['gb_per_s'][name]:9.1f}" for name in ("kernel", "copy", "cached"))
                low, high = one["interval"]
                print(
                    f"{operator + ' ' + one['dtype']:22}{rates}           "
                    f"{one['fraction']:.3f} [{low:.3f}, {high:.3f}], wanted {one['wanted']}",
                    flush=True,
                )
    print(conditions)
    if options.json:
        report = {"machine": machine.current().as_dict(), "conditions": conditions.as_dict(), "rows": found}
        options.json.write_text(json.dumps(report, indent=1, default=str) + "\n")


if __name__ == "__main__":
    main()
