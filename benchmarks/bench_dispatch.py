"""What a call costs before its kernel runs.

Three questions, each answered by batches of the two sides in turn, and the median of the paired differences:
what `kw.ops.rms_norm(x, w)` adds to calling its plan directly; what it adds where three shapes take turns,
and where two dtypes of one shape do, so that the exact key serves; and how far a whole call of 1 x 4096 with
`out=` is from the raw native call with its arguments prepared. The last one needs a kernel that is built
here.

    python benchmarks/bench_dispatch.py [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import kernelwright as kw
from kernelwright.dispatch import dispatch
from kernelwright.dispatch import implementations
from kernelwright.dispatch import register_impl

CALLS = 500
BATCHES = 300


def batch(function: Callable[..., Any], arguments: list[tuple[Any, ...]], words: dict[str, Any]) -> float:
    """Nanoseconds a call, over `CALLS` calls that take the arguments in turn."""
    turns = arguments * (CALLS // len(arguments))
    start = time.perf_counter_ns()
    for one in turns:
        function(*one, **words)
    return (time.perf_counter_ns() - start) / len(turns)


def difference(
    one: Callable[..., Any],
    other: Callable[..., Any],
    arguments: tuple[list[Any], list[Any]],
    words: tuple[dict[str, Any], dict[str, Any]] = ({}, {}),
) -> dict[str, float]:
    """Medians of both sides and of their paired difference with its 5th and 95th percentile, nanoseconds."""
    for _ in range(3):
        batch(one, arguments[0], words[0])
        batch(other, arguments[1], words[1])
    pairs = []
    for number in range(BATCHES):
        if number % 2:
            first = batch(one, arguments[0], words[0])
            pairs.append((first, batch(other, arguments[1], words[1])))
        else:
            second = batch(other, arguments[1], words[1])
            pairs.append((batch(one, arguments[0], words[0]), second))
    gaps = sorted(first - second for first, second in pairs)
    return {
        "call_ns": statistics.median(first for first, _ in pairs),
        "direct_ns": statistics.median(second for _, second in pairs),
        "added_ns": statistics.median(gaps),
        "added_p05_ns": gaps[len(gaps) // 20],
        "added_p95_ns": gaps[-len(gaps) // 20],
    }


def empty_operator() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """An operator with the signature of rms_norm whose plan does nothing, and that plan."""

    def plan(x: Any, weight: Any, eps: Any, out: Any) -> Any:
        return out

    class Bound:
        def specialize(self, _call: Any) -> Callable[..., Any]:
            return plan

    @dispatch("empty_rms_norm")
    def empty_rms_norm(x: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6) -> torch.Tensor: ...

    register_impl("empty_rms_norm", "empty", bind=lambda _: Bound())
    return empty_rms_norm, plan


def native_calls() -> tuple[Callable[..., Any], Callable[..., Any], torch.Tensor] | str:
    """`kw.ops.rms_norm(..., out=)` at 1 x 4096 and the bare ctypes call of the same kernel, or why not."""
    import ctypes

    from kernelwright.kernels.cpu import native_kernels

    kernel = native_kernels()["rms_norm"]
    native = next((one for one in implementations("rms_norm") if one.name == "cpu"), None)
    if native is None or (reason := native.available()) is not None:
        return "no native kernel here" if native is None else reason
    x, weight, out = torch.randn(1, 4096), torch.randn(4096), torch.empty(1, 4096)
    description = kernel.describe({"x": x, "weight": weight, "eps": 1e-6}, out)
    block = ctypes.create_string_buffer(description.block, len(description.block))
    library = ctypes.CDLL(str(kernel.artifact(kernel.default).library))
    function = library[kernel.symbol]
    function.argtypes = [ctypes.c_void_p] * 4
    places = [ctypes.c_void_p(ctypes.addressof(block))]
    places += [ctypes.c_void_p(one.data_ptr()) for one in (x, weight, out)]

    def raw(_keep: Any = (block, x, weight, out)) -> int:
        return int(function(*places))

    def whole() -> torch.Tensor:
        return kw.ops.rms_norm(x, weight, out=out)

    assert raw() == 0
    expected = out.clone()
    torch.testing.assert_close(whole(), expected)
    return whole, raw, out


def measure() -> dict[str, Any]:
    """Every row, in nanoseconds."""
    torch.set_num_threads(1)
    call, plan = empty_operator()
    weight = torch.randn(4096)
    shapes = [torch.randn(rows, 4096) for rows in (1, 2, 3)]
    rows: dict[str, Any] = {}
    for name, mode in (("eager", torch.enable_grad), ("inference", torch.inference_mode)):
        with mode():
            one = ([(shapes[0], weight)], [(shapes[0], weight, 1e-6, None)])
            rows[f"hit, {name}"] = difference(call, plan, one)
            out = torch.empty(1, 4096)
            same = ([(shapes[0], weight)], [(shapes[0], weight, 1e-6, out)])
            rows[f"hit with out, {name}"] = difference(call, plan, same, ({"out": out}, {}))
            three = ([(x, weight) for x in shapes], [(x, weight, 1e-6, None) for x in shapes])
            rows[f"three shapes in turn, {name}"] = difference(call, plan, three)
            two = [(x, weight) for x in (shapes[0], shapes[0].double())]
            direct = [(x, weight, 1e-6, None) for x, _ in two]
            rows[f"two dtypes in turn, {name}"] = difference(call, plan, (two, direct))
    native = native_calls()
    if isinstance(native, str):
        rows["1x4096 with out, native"] = {"not measured": native}
    else:
        whole, raw, _ = native
        with torch.inference_mode():
            rows["1x4096 with out, native"] = difference(whole, raw, ([()], [()]))
    return rows


def main() -> None:
    """Print the table, and write it as JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    options = parser.parse_args()
    rows = measure()
    print(f"{'':<34}{'call':>9}{'direct':>9}{'added':>9}   p05 to p95   (ns, medians)")
    for name, row in rows.items():
        if "added_ns" not in row:
            print(f"{name:<34}not measured: {row['not measured']}")
            continue
        span = f"{row['added_p05_ns']:.0f} to {row['added_p95_ns']:.0f}"
        print(f"{name:<34}{row['call_ns']:>9.0f}{row['direct_ns']:>9.0f}{row['added_ns']:>9.0f}   {span}")
    if options.json:
        about = {"torch": torch.__version__, "python": platform.python_version()}
        options.json.write_text(
            json.dumps({**about, "batches": BATCHES, "calls": CALLS, "rows": rows}, indent=1)
        )


if __name__ == "__main__":
    main()
