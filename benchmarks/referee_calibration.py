"""How often the referee is wrong: identical kernels, and kernels made slower by a known little.

    python benchmarks/referee_calibration.py --what aa       [--rows 1 32 512] [--count 200] [--busy]
    python benchmarks/referee_calibration.py --what slower3  [--rows 1] [--count 50]
    python benchmarks/referee_calibration.py --what slower1  [--rows 1 32 512] [--count 200]
    python benchmarks/referee_calibration.py --summary

Each comparison is one verdict of the public judge, by default `confirm`: fresh processes, fresh data, check,
then raced (`--judge race`: races within one judge; `--judge contract`: `kernelwright bench baseline.py` on a
kernel called from Python). Comparisons go round the rows named. Each is written to the file of results as it
ends, with what else the machine did, and those that are there already are not made again: stop it and start
it again as you like, in pieces.

The kernel is rms_norm in bf16, 4096 wide. The slower one is built from the same source and takes some steps
of a chain of multiplications first, each of which waits for the one before, between two fences, so that what
they cost is proportional to their number. How many make 3% follows from a number that makes it about twice as
slow, which long races measure well; what 3% comes out as in a long race, and in a plain loop that knows
nothing of the referee, is in the results.

On a machine with many cores, several of these can run side by side, each on cores of its own:

    python benchmarks/referee_calibration.py --what slower3 --count 0 --json part0.json   # plants
    for i in 1 2 3; do cp part0.json part$i.json; done
    for i in 0 1 2 3; do taskset -c $((2*i)),$((2*i+1)) python … --count 50 --json part$i.json & done; wait
    python benchmarks/referee_calibration.py --join part*.json --json all.json

`--busy` keeps one core busy meanwhile. The limits: at most 10 of 200 identical kernels `faster` or `slower`,
idle or busy, and idle at most 40 `ambiguous` or `noisy`; 3% found in at least 45 of 50 at each of 1, 32 and
512 rows; at most 4 of 200 verdicts `faster` for a kernel that is 1% slower.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import math
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

import kernelwright
from kernelwright import build
from kernelwright import dispatch
from kernelwright import machine
from kernelwright import settings
from kernelwright import space
from kernelwright.files import write_atomic
from kernelwright.kernels.cpu import native_kernels
from kernelwright.kernels.cpu import NativeKernel
from kernelwright.ops import OperatorSpec
from kernelwright.ops import Workload
from kernelwright.referee import confirm
from kernelwright.referee import Contest
from kernelwright.referee import Mode
from kernelwright.referee import NativeEntrant
from kernelwright.referee import NativeJudge
from kernelwright.referee import Regime
from kernelwright.referee import Verdict

WIDTH = 4096
ROWS = (1, 32, 512)
SLOWER = {"slower3": 0.03, "slower1": 0.01}
COUNTS = {"aa": 200, "slower3": 50, "slower1": 200}
#: Measuring time of the races that find how many steps make the slowdown wanted.
LONG_S = 6.0
#: The slowdown that a long race can measure well, and that the wanted one is reckoned from.
GREAT = (0.5, 4.0)
_RESULTS = Path(__file__).parent / "results" / "referee-calibration.json"
_SOURCE = """
#include <time.h>
#include "rms_norm.cpp"

#ifndef KW_EXTRA_STEPS
#define KW_EXTRA_STEPS 0
#endif

static inline void kw_fence(void) {
#if defined(__x86_64__)
  __asm__ volatile("lfence" ::: "memory");
#elif defined(__aarch64__)
  __asm__ volatile("isb" ::: "memory");
#endif
}

// The chain begins when the call before has ended, and the kernel when the chain has, in every variant:
// otherwise the processor would take the steps beside other work.
KW_EXPORT int32_t kw_planted(const kw_call *call, const void *x, const void *weight, void *y) {
  kw_fence();
#if KW_EXTRA_STEPS
  float value = 1.0f;
  for (long step = 0; step < KW_EXTRA_STEPS; ++step) {
    value = value * 1.0000001f;
    __asm__ volatile("" : "+x"(value));
  }
#endif
  kw_fence();
  return kw_rms_norm(call, x, weight, y);
}

// Nanoseconds of `times` calls, for a measurement that owes nothing to the referee.
KW_EXPORT double kw_plain_loop(const kw_call *call, const void *x, const void *weight, void *y, long times) {
  struct timespec before, after;
  clock_gettime(CLOCK_MONOTONIC, &before);
  for (long k = 0; k < times; ++k) kw_planted(call, x, weight, y);
  clock_gettime(CLOCK_MONOTONIC, &after);
  return (after.tv_sec - before.tv_sec) * 1e9 + (double)(after.tv_nsec - before.tv_nsec);
}
"""
_BASELINE = """
import torch

WIDTH, ROWS = {width}, {rows}

def get_inputs():
    return [torch.randn(ROWS, WIDTH).to(torch.bfloat16), torch.randn(WIDTH).to(torch.bfloat16)]

def get_reference_output(x, weight):
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, 1e-6)
"""
_CANDIDATE = """
import torch

def rms_norm(x, weight):
    out = torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, 1e-6)
    for _ in range({steps}):
        pass
    return out
"""


class Planted:
    """Builds the kernel with any number of extra steps, and describes its calls."""

    def __init__(self, folder: Path) -> None:
        own = native_kernels()["rms_norm"]
        include = Path(kernelwright.__file__).parent / "kernels" / "cpu" / "include"
        flags = own.build_file.tiers("rms_norm")[own.tier()].cxx_flags
        (folder / "planted.cpp").write_text(_SOURCE)
        (folder / "build.toml").write_text(
            '[general]\nname = "rms_norm"\nversion = 1\nedition = 5\nbackends = ["cpu"]\n\n'
            f'[kernel.rms_norm_{own.tier()}]\nbackend = "cpu"\ndepends = []\nsrc = ["planted.cpp"]\n'
            f'include = ["{own.folder}", "{include}"]\ncxx-flags = {json.dumps(list(flags))}\n'
        )
        tunables = space.Space({"extra_steps": space.range(0, 1 << 24)})
        self.kernel = NativeKernel("rms_norm", folder, tunables)
        self.folder = folder
        spec = dispatch.spec("rms_norm")
        assert spec is not None
        self.spec: OperatorSpec = spec

    def library(self, steps: int) -> Path:
        return build.build(self.kernel.request({"extra_steps": steps})).library

    def entrant(self, name: str, steps: int) -> NativeEntrant:
        """An entrant with a library file of its own, whatever else it shares."""
        copy = self.folder / f"{name}-{steps}.so"
        if not copy.exists():
            shutil.copy(self.library(steps), copy)
        return NativeEntrant(name, copy, "kw_planted")

    def workload(self, rows: int) -> Workload:
        return self.spec.workload(rows, WIDTH, dtype=torch.bfloat16)

    def plain_ns(self, steps: list[int], rows: int, blocks: int = 40) -> list[float]:
        """Times of a call on cached data by number of steps: lower quartiles of alternating blocks."""
        inputs = self.spec.inputs(self.workload(rows), torch.Generator().manual_seed(0))
        out = torch.empty_like(inputs["x"])
        threads = settings.threads() or torch.get_num_threads()
        call = self.kernel.describe(inputs, out, threads=threads)
        block = ctypes.create_string_buffer(call.block, len(call.block))
        addresses = [inputs["x"].data_ptr(), inputs["weight"].data_ptr(), out.data_ptr()]
        loops = []
        for number in steps:
            loop = ctypes.CDLL(str(self.library(number))).kw_plain_loop
            loop.restype = ctypes.c_double
            loop.argtypes = [ctypes.c_void_p] * 4 + [ctypes.c_long]
            loops.append(loop)
        times = max(20, math.ceil(2e6 / (loops[0](ctypes.addressof(block), *addresses, 20) / 20)))
        taken: list[list[float]] = [[] for _ in steps]
        for _ in range(blocks):
            for loop, found in zip(loops, taken, strict=True):
                found.append(loop(ctypes.addressof(block), *addresses, times) / times)
        return [statistics.quantiles(found, n=4)[0] for found in taken]


class Native:
    """Comparisons by the native judge: of the kernel without extra steps and one with them."""

    def __init__(self, planted: Planted, asked: argparse.Namespace) -> None:
        self._planted = planted
        self._processes, self._looks = asked.processes, asked.looks
        self._how = asked.judge
        self._mode = asked.mode
        self._budget_s = asked.budget
        self._judge: NativeJudge | None = None

    def compare(self, rows: int, steps: int, seed: int, budget_s: float | None = None) -> dict[str, Any]:
        planted, budget = self._planted, budget_s or self._budget_s
        sides = planted.entrant("baseline", 0), planted.entrant("candidate", steps)
        workload, describe = planted.workload(rows), planted.kernel.describe
        if self._how == "confirm":
            verdict = confirm(
                planted.spec,
                workload,
                *sides,
                describe=describe,
                budget_s=budget,
                modes=[self._mode],
                regimes=[Regime.PREALLOCATED],
                processes=self._processes,
                looks=self._looks,
            )
            return record(verdict.contests[0] if verdict.contests else verdict)
        self._judge = self._judge or NativeJudge()
        baseline, candidate = sides
        result = self._judge.race(
            planted.spec,
            workload,
            baseline,
            [candidate],
            describe=describe,
            mode=self._mode,
            budget_s=budget,
            seed=seed,
        )
        found: Contest | Verdict | None = result.contests.get("candidate")
        return record(found or result.verdicts["candidate"])

    def describe_slowdown(self, rows: int, steps: int) -> dict[str, Any]:
        base, slower = self._planted.plain_ns([0, steps], rows)
        return {"plain_base_ns": base, "plain_slower_ns": slower, "plain_slowdown": slower / base - 1.0}

    def first_guess(self, rows: int) -> int:
        """Steps that make it about a third slower."""
        base, slower = self._planted.plain_ns([0, 2000], rows, blocks=10)
        return max(10, round(0.3 * base / max((slower - base) / 2000, 1e-3)))

    def close(self) -> None:
        if self._judge is not None:
            self._judge.close()


class Contract:
    """Comparisons by the command line, of a kernel called from Python."""

    def __init__(self, folder: Path, mode: Mode, budget_s: float) -> None:
        self._folder = folder
        self._mode = mode
        self._budget_s = budget_s

    def compare(self, rows: int, steps: int, seed: int, budget_s: float | None = None) -> dict[str, Any]:
        package = self._folder / f"steps{steps}" / "planted"
        package.mkdir(parents=True, exist_ok=True)
        (package / "__init__.py").write_text(_CANDIDATE.format(steps=steps))
        baseline = self._folder / f"baseline{rows}.py"
        baseline.write_text(_BASELINE.format(width=WIDTH, rows=rows))
        command = [sys.executable, "-m", "kernelwright", "bench", str(baseline), "--json"]
        command += ["--kernel-package", "planted", "--op", "planted.rms_norm", "--mode", str(self._mode)]
        command += ["--budget", f"{budget_s or self._budget_s}s", "--seed", str(seed)]
        environment = {**os.environ, "PYTHONPATH": str(package.parent)}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if done.returncode not in (0, 1):
            raise SystemExit(f"`{' '.join(command)}` ended with {done.returncode}:\n{done.stderr[-2000:]}")
        found = json.loads(done.stdout)
        return {
            "status": found["status"],
            "comparison": found.get("comparison"),
            "ratio": found.get("ratio"),
            "interval": found.get("interval"),
            "reason": found.get("reason", ""),
        }

    def describe_slowdown(self, rows: int, steps: int) -> dict[str, Any]:
        return {}

    def first_guess(self, rows: int) -> int:
        return 200 * max(1, rows // 8)

    def close(self) -> None:
        """Nothing is kept."""


def record(found: Contest | Verdict) -> dict[str, Any]:
    """What a comparison is remembered by."""
    if isinstance(found, Verdict):
        return {"status": str(found.status), "comparison": None, "reason": found.reason}
    return {
        "status": "passed",
        "comparison": str(found.comparison),
        "ratio": found.ratio,
        "interval": list(found.interval),
        "pairs": found.blocks,
        "baseline_ns": found.baseline_time.median_ns,
        "relative_sd": found.baseline_time.relative_sd,
        "ratios": found.conditions.get("ratios"),
    }


def find_steps(judge: Native | Contract, rows: int, wanted: float) -> dict[str, Any]:
    """How many steps make the kernel slower by `wanted`: in proportion to what many of them cost.

    What a step costs in comparison with a call depends on the mode and the number of threads, so it is asked
    of the judge; the steps found are raced, too, and the result says what they came out as.
    """
    many = judge.first_guess(rows)
    tries: list[dict[str, Any]] = []
    for _ in range(10):
        slowdown = _slowdown(judge, rows, many, tries)
        if slowdown is not None and GREAT[0] <= slowdown <= GREAT[1]:
            steps = max(1, round(many * wanted / slowdown))
            found = _slowdown(judge, rows, steps, tries)
            planted = {"wanted": wanted, "steps": steps, "slowdown": found, "many": many, "great": slowdown}
            return {**planted, **judge.describe_slowdown(rows, steps), "tries": tries}
        if slowdown is not None:
            aim = math.sqrt(GREAT[0] * GREAT[1])
            many = round(many * min(max(aim / max(slowdown, 0.05), 0.1), 10.0))
    raise SystemExit(f"no number of steps slowed {rows} rows by {GREAT}; too noisy: {json.dumps(tries)}")


def _slowdown(judge: Native | Contract, rows: int, steps: int, tries: list[dict[str, Any]]) -> float | None:
    found = judge.compare(rows, steps, seed=90_000 + len(tries), budget_s=LONG_S)
    slowdown = 1.0 / found["ratio"] - 1.0 if found.get("ratio") is not None else None
    tries.append({"steps": steps, "slowdown": slowdown, "interval": found.get("interval")})
    return slowdown


#: Work that goes on until the process that started it is gone, by whatever means.
_BUSY = """
import os, sys
while os.getppid() == int(sys.argv[1]):
    for _ in range(100_000):
        pass
"""


@contextlib.contextmanager
def busy_core(wanted: bool) -> Iterator[None]:
    """One core kept busy by a process that does nothing else, if wanted."""
    command = [sys.executable, "-c", _BUSY, str(os.getpid())]
    worker = subprocess.Popen(command) if wanted else None
    try:
        yield
    finally:
        if worker is not None:
            worker.kill()
            worker.wait()


def circumstances() -> dict[str, Any]:
    here = machine.current()
    return {
        "date": time.strftime("%Y-%m-%d"),
        "versions": {
            "python": platform.python_version(),
            **{name: metadata.version(name) for name in ("torch", "numpy")},
            "kernelwright": kernelwright.__version__,
            "compiler": str(machine.find_compiler()),
        },
        "machine": {
            "cpu": here.cpu.model,
            "cores": here.cores,
            "threads": here.threads,
            "fingerprint": machine.fingerprint(),
        },
    }


def load_results(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_text()) if path.exists() else {"planted": {}, "comparisons": {}}
    here = circumstances()
    known = found.get("machine", here["machine"])
    if known["fingerprint"] != here["machine"]["fingerprint"]:
        raise SystemExit(
            f"{path} holds results of another machine ({known['cpu']}); name another with --json"
        )
    return {**here, **found, "versions": here["versions"]}


def run(asked: argparse.Namespace) -> None:
    path: Path = asked.json
    results = load_results(path)
    condition = "busy" if asked.busy else "idle"
    with tempfile.TemporaryDirectory(prefix="kw-calibration-") as name:
        folder = Path(name)
        judge: Native | Contract
        if asked.judge == "contract":
            judge = Contract(folder, asked.mode, asked.budget)
        else:
            judge = Native(Planted(folder), asked)
        try:
            steps = {rows: _steps(judge, results, path, asked, rows) for rows in asked.rows}
            with busy_core(asked.busy):
                group = f"{asked.judge} {asked.mode} {asked.what} {condition}"
                done = results["comparisons"].setdefault(group, [])
                _same_settings(results, group, _settings(asked), path)
                per_rows = Counter(one["rows"] for one in done)
                left = [rows for rows in _round_robin(asked.rows, asked.count) if not _had(per_rows, rows)]
                for rows in left:
                    with machine.watch() as seen:
                        found = judge.compare(rows, steps[rows], seed=len(done))
                    done.append({"rows": rows, **found, **_seen(seen)})
                    write_atomic(path, json.dumps(results, indent=1) + "\n")
                    print(_line(group, done[-1], len(done)), flush=True)
        finally:
            judge.close()
    show(results)


def _settings(asked: argparse.Namespace) -> dict[str, Any]:
    """What a comparison's cost and certainty hang on."""
    own = {"budget_s": asked.budget}
    if asked.judge == "confirm":
        own |= {"processes": asked.processes, "looks": asked.looks}
    return own


def _same_settings(results: dict[str, Any], group: str, own: dict[str, Any], path: Path) -> None:
    known = results.setdefault("settings", {}).setdefault(group, own)
    if known != own:
        raise SystemExit(f"{path} holds `{group}` made with {known}, not {own}; name another with --json")


def _steps(
    judge: Native | Contract, results: dict[str, Any], path: Path, asked: argparse.Namespace, rows: int
) -> int:
    if asked.what == "aa":
        return 0
    key = f"{asked.judge} {asked.mode} {asked.what} {rows}"
    if key not in results["planted"]:
        results["planted"][key] = find_steps(judge, rows, SLOWER[asked.what])
        write_atomic(path, json.dumps(results, indent=1) + "\n")
    found = results["planted"][key]
    seen = "unknown" if found["slowdown"] is None else f"{found['slowdown']:.2%}"
    print(f"{key} rows: {found['steps']} steps; a long race finds {seen}", flush=True)
    return int(found["steps"])


def _round_robin(rows: list[int], count: int) -> list[int]:
    return [rows[index % len(rows)] for index in range(count)]


def _had(left: Counter[int], rows: int) -> bool:
    """Whether one comparison at `rows` is there already; counts it off."""
    left[rows] -= 1
    return left[rows] >= 0


def _seen(conditions: machine.Conditions) -> dict[str, Any]:
    seen = conditions.as_dict()
    return {name: seen.get(name) for name in ("wall_s", "load_before", "steal", "busy", "pressure")}


def _line(group: str, found: Mapping[str, Any], number: int) -> str:
    outcome = found["comparison"] or found["status"]
    ratio = "" if found.get("ratio") is None else f" {found['ratio']:.4f} {_interval(found['interval'])}"
    steal = "" if found["steal"] is None else f", steal {found['steal']:.1%}"
    return f"{group} {number}: {found['rows']} rows {outcome}{ratio} in {found['wall_s']:.1f} s{steal}"


def _interval(interval: list[float]) -> str:
    return f"[{interval[0]:.4f}, {interval[1]:.4f}]"


def join(parts: list[Path], path: Path) -> None:
    """The comparisons of several files, made on one machine, in one."""
    results = load_results(path)
    for part in parts:
        found = load_results(part)
        for group, done in found["comparisons"].items():
            results["comparisons"].setdefault(group, []).extend(done)
            _same_settings(results, group, found.get("settings", {}).get(group, {}), part)
        for key, planted in found["planted"].items():
            known = results["planted"].setdefault(key, planted)
            if known != planted:
                raise SystemExit(f"{part} planted {key!r} otherwise; plant once, then copy that file")
    write_atomic(path, json.dumps(results, indent=1) + "\n")
    show(results)


def show(results: Mapping[str, Any]) -> None:
    """Counts by group, and whether they keep the limits so far."""
    for group, done in results["comparisons"].items():
        counts = Counter(one["comparison"] or one["status"] for one in done)
        print(f"\n{group}: {len(done)} comparisons: {dict(counts.most_common())}")
        for text, held in _limits(group, done):
            print(f"  {'kept' if held else 'BROKEN'}: {text}")
        if " slower" in group:
            for rows in sorted({one["rows"] for one in done}):
                own = [1 / one["ratio"] - 1 for one in done if one["rows"] == rows and one.get("ratio")]
                print(f"  {rows} rows: all comparisons together are {statistics.median(own):.2%} slower")
        for name in ("steal", "busy"):
            known = [one[name] for one in done if one.get(name) is not None]
            if known:
                print(f"  {name}: median {statistics.median(known):.1%}, most {max(known):.1%}")


def _limits(group: str, done: list[dict[str, Any]]) -> Iterator[tuple[str, bool]]:
    counts = Counter(one["comparison"] or one["status"] for one in done)
    total = len(done)
    if " aa " in group:
        wrong = counts["faster"] + counts["slower"]
        yield f"{wrong} of {total} faster or slower (at most 10 of 200)", wrong <= max(total / 20, 1)
        if group.endswith("idle"):
            unsure = counts["ambiguous"] + counts["noisy"]
            yield f"{unsure} of {total} ambiguous or noisy (at most a fifth)", unsure <= total / 5
    elif " slower3 " in group:
        for rows in sorted({one["rows"] for one in done}):
            own = [one["comparison"] for one in done if one["rows"] == rows]
            found = own.count("slower")
            yield f"{found} of {len(own)} found at {rows} rows (at least 45 of 50)", found >= 0.9 * len(own)
    else:
        wrong = counts["faster"]
        yield f"{wrong} of {total} of the wrong sign (at most 4 of 200)", wrong <= max(total / 50, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--what", choices=sorted(COUNTS), default="aa")
    parser.add_argument("--rows", type=int, nargs="+", default=list(ROWS))
    parser.add_argument(
        "--count", type=int, help="comparisons in all; 200 for aa and slower1, 50 for slower3"
    )
    parser.add_argument("--judge", choices=["confirm", "race", "contract"], default="confirm")
    parser.add_argument("--mode", type=Mode, choices=list(Mode), default=Mode.COLD)
    parser.add_argument("--budget", type=float, default=1.0, help="measuring seconds of a comparison")
    parser.add_argument("--processes", type=int, default=12, help="pairs of processes up to a first look")
    parser.add_argument("--looks", type=int, default=3, help="looks of a confirmation at most")
    parser.add_argument("--busy", action="store_true", help="keep one core busy meanwhile")
    parser.add_argument("--json", type=Path, default=_RESULTS)
    parser.add_argument("--summary", action="store_true", help="only show what is in the file of results")
    parser.add_argument("--join", type=Path, nargs="+", help="put these files of results into that of --json")
    asked = parser.parse_args()
    asked.count = COUNTS[asked.what] if asked.count is None else asked.count
    if asked.summary:
        show(load_results(asked.json))
    elif asked.join:
        join(asked.join, asked.json)
    else:
        run(asked)


if __name__ == "__main__":
    main()
