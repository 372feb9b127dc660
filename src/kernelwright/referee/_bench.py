"""`bench`: our operators against their peers, all called from Python, all under inference_mode."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from collections.abc import Generator
from collections.abc import Sequence
from typing import Any

import torch

from kernelwright import dispatch
from kernelwright import machine
from kernelwright.errors import UnknownNameError
from kernelwright.errors import UsageError
from kernelwright.ops import dtype_name
from kernelwright.ops import OperatorSpec
from kernelwright.ops import parse_dtype
from kernelwright.ops import Workload
from kernelwright.referee._bench_result import BenchReport
from kernelwright.referee._bench_result import BenchRow
from kernelwright.referee._bench_result import PeerResult
from kernelwright.referee._bench_runner import BenchSettings
from kernelwright.referee._bench_runner import compare_sides
from kernelwright.referee._bench_runner import Measured
from kernelwright.referee._bench_runner import Runner
from kernelwright.referee._bench_runner import Templates
from kernelwright.referee._peers import OURS
from kernelwright.referee._statistics import timing
from kernelwright.referee._verdict import Contest
from kernelwright.referee._verdict import Mode
from kernelwright.referee._verdict import Regime
from kernelwright.referee._verdict import Status


def bench(
    operators: Sequence[str] | str,
    *,
    against: Sequence[str] = ("eager", "compile"),
    workloads: Sequence[str] | None = None,
    dtypes: Sequence[str] = ("bf16", "fp32"),
    modes: Sequence[Mode | str] = tuple(Mode),
    regimes: Sequence[Regime | str] = (Regime.ALLOCATING, Regime.PREALLOCATED),
    budget_s: float = 1.5,
    backend: str | None = None,
    processes: int = 1,
    threads: int | None = None,
    minimum_effect: float = 0.01,
    cold_bytes: int | None = None,
    seed: int = 0,
    on_row: Callable[[BenchRow], None] | None = None,
    on_start: Callable[[str], None] | None = None,
) -> BenchReport:
    """Race operators against peers, called from Python under inference_mode on both sides.

    Args:
        operators: names of registered operators.
        against: `eager`, `compile`, `module:function`, or the path of a peer file.
        workloads: sizes such as `1x4096`, for every operator; default: the operator's own.
        dtypes: names of dtypes; a workload written as `1x4096:fp16` brings its own.
        modes: `cold`, `warm`.
        regimes: `allocating`, `preallocated`.
        budget_s: clock time for each row in each process; an ambiguous row is given more, up to three times.
        backend: passed on to our operators; default: whatever dispatch chooses.
        processes: fresh processes for each row and contestant; of several, each counts as one.
        threads: torch's number of threads; default: torch's own choice.
        minimum_effect: the smallest difference that counts.
        cold_bytes: memory walked through between two uses of a cold buffer; default: the machine's figure.
        seed: of inputs, orders and intervals.
        on_row: sees each row when it is done.
        on_start: told what is about to be measured.

    Raises UnknownNameError, UsageError or BackendUnavailableError before anything is measured.
    """
    settings = BenchSettings(
        tuple(dict.fromkeys(against)),
        tuple(_member(Mode, mode) for mode in modes),
        tuple(_member(Regime, regime) for regime in regimes),
        budget_s,
        backend,
        processes,
        threads,
        minimum_effect,
        cold_bytes,
        seed,
    )
    names = [operators] if isinstance(operators, str) else list(operators)
    planned = [_plan(name, workloads, dtypes) for name in names]
    if backend is not None:
        # Refused here, with its reason, rather than in each row.
        with dispatch.use_backend(backend):
            pass
    rows = []
    with Templates(settings.regimes) as templates:
        for spec, by_dtype in planned:
            for dtype, wanted in by_dtype.items():
                for regime in settings.regimes:
                    measuring = _rows(spec, dtype, wanted, regime, settings, templates, on_start or _ignore)
                    # Closed at once, children and all, when `on_row` ends the bench.
                    with contextlib.closing(measuring):
                        for row in measuring:
                            rows.append(row)
                            if on_row:
                                on_row(row)
    return BenchReport(tuple(rows), _machine(), {**vars(settings), "torch": torch.__version__})


def _ignore(text: str) -> None:
    del text


def _member(kind: Any, name: Any) -> Any:
    try:
        return kind(name)
    except ValueError:
        raise UnknownNameError(kind.__name__.lower(), str(name), [member.value for member in kind]) from None


def _plan(
    name: str, workloads: Sequence[str] | None, dtypes: Sequence[str]
) -> tuple[OperatorSpec, dict[torch.dtype, list[Workload]]]:
    spec = dispatch.spec(name)
    if spec is None:
        raise UsageError(
            f"operator {name!r} was registered without a spec: there is nothing to check it against"
        )
    parsed = [parse_dtype(dtype) for dtype in dtypes]
    if workloads is None:
        return spec, {dtype: list(spec.workloads(dtype)) for dtype in parsed}
    found: dict[torch.dtype, list[Workload]] = {}
    for dtype in parsed:
        for text in workloads:
            workload = spec.parse_workload(text, dtype)
            known = found.setdefault(workload.dtype, [])
            if workload not in known:
                known.append(workload)
    return spec, found


def _rows(
    spec: OperatorSpec,
    dtype: torch.dtype,
    workloads: Sequence[Workload],
    regime: Regime,
    settings: BenchSettings,
    templates: Templates,
    say: Callable[[str], None],
) -> Generator[BenchRow, None, None]:
    """Measure the workloads and modes of one operator, dtype and regime; yield each row when it is whole."""
    measured: dict[tuple[str, Mode], list[Measured]] = {}
    keys = [(workload, mode) for workload in workloads for mode in settings.modes]
    for process in range(settings.processes):
        runner = Runner(spec, dtype, regime, settings, settings.seed + 7919 * process, templates)
        try:
            for workload, mode in keys:
                say(f"{spec.name} {workload.name} {mode} {regime}")
                found = measured.setdefault((workload.name, mode), [])
                found.append(runner.measure(workload, mode))
                if process == settings.processes - 1:
                    yield _row(spec, workload, mode, regime, found, settings)
        finally:
            runner.close()


def _row(
    spec: OperatorSpec,
    workload: Workload,
    mode: Mode,
    regime: Regime,
    found: Sequence[Measured],
    settings: BenchSettings,
) -> BenchRow:
    """Put the processes of a row together."""
    last = found[-1]
    failed = next((one for one in found if one.status is not Status.PASSED), None)
    wrong = next((one.judgements[OURS]["problem"] for one in found if _problem(one, OURS)), "")
    status, reason = (failed.status, failed.reason) if failed else (Status.PASSED, "")
    if not failed and wrong:
        status, reason = Status.WRONG, wrong
    passed = status is Status.PASSED
    mine = [value for one in found for value in one.times_ns.get(OURS, [])] if passed else []
    peers = tuple(
        _peer_result(name, workload, mode, regime, found, passed, settings) for name in settings.against
    )
    median = timing(mine) if mine else None
    moved = spec.cost(workload).bytes
    speed = moved / (median.median_ns * 1e-9) if median and moved else None
    ceiling = _ceiling(spec, workload, mode) if speed else None
    return BenchRow(
        operator=spec.name,
        dtype=dtype_name(workload.dtype),
        workload=workload.shape_name,
        mode=mode,
        regime=regime,
        status=status,
        reason=reason,
        form=last.sides.get(OURS, {}).get("form", ""),
        time=median,
        peers=peers,
        bytes_per_second=speed,
        ceiling_fraction=speed / ceiling.value if speed and ceiling else None,
        served_by=last.begin.get("served_by", {}),
        evidence={
            "rotation": last.begin.get("rotation", {}),
            "calls_a_block": {name: side.get("calls") for name, side in last.sides.items()},
            "judgements": last.judgements,
            "processes": len(found),
            "ceiling": ceiling and {"level": ceiling.level, "bytes_per_second": ceiling.value},
        },
        conditions=last.conditions,
    )


def _problem(measured: Measured, name: str) -> str:
    return str(measured.judgements.get(name, {}).get("problem", ""))


def _peer_result(
    name: str,
    workload: Workload,
    mode: Mode,
    regime: Regime,
    found: Sequence[Measured],
    passed: bool,
    settings: BenchSettings,
) -> PeerResult:
    sides = [one.sides.get(name, {}) for one in found]
    side = next((one for one in sides if one.get("status") != Status.PASSED), sides[-1])
    form = side.get("form", "")
    status = Status(side.get("status", Status.UNSUPPORTED))
    reason = side.get("reason", "not reached")
    wrong = next((problem for one in found if (problem := _problem(one, name))), "")
    if wrong:
        status, reason = Status.WRONG, wrong
    if not passed or status is not Status.PASSED:
        return PeerResult(name, status, reason, form, None)
    mine = [value for one in found for value in one.times_ns[OURS]]
    theirs = [value for one in found for value in one.times_ns[name]]
    if not theirs:
        return PeerResult(name, Status.NOISY, "it was never timed in a whole round", form, None)
    comparison, ratio, interval = compare_sides(
        [(one.times_ns[name], one.times_ns[OURS]) for one in found], settings
    )
    contest = Contest(
        candidate=OURS,
        baseline=name,
        workload=workload.name,
        mode=mode,
        regime=regime,
        comparison=comparison,
        ratio=ratio,
        interval=interval,
        candidate_time=timing(mine),
        baseline_time=timing(theirs),
        blocks=len(mine),
        conditions=found[-1].conditions,
    )
    return PeerResult(name, status, "", form, contest)


def _ceiling(spec: OperatorSpec, workload: Workload, mode: Mode) -> machine.Ceiling | None:
    """The copy bandwidth that bounds a workload: of DRAM when cold, of the level that holds it when warm."""
    ceilings = machine.load_ceilings()
    cost = spec.cost(workload)
    if ceilings is None or not cost.bytes_written:
        return None
    ratio = max(1, round(cost.bytes_read / cost.bytes_written))
    level = "DRAM" if mode is Mode.COLD else _level(2 * cost.bytes)
    stores = "nontemporal" if level == "DRAM" else "plain"
    return ceilings.copy(level, stores=stores, reads_per_write=ratio) or ceilings.copy(level, stores=stores)


def _level(footprint: int) -> str:
    """The smallest cache level that holds `footprint` bytes, all cores together."""
    here = machine.current()
    for level in (1, 2):
        if footprint <= (here.cache_bytes(level) or 0) * here.cores:
            return f"L{level}"
    return "L3" if footprint <= here.llc_bytes else "DRAM"


def _machine() -> dict[str, Any]:
    here = machine.current()
    return {
        "fingerprint": machine.fingerprint(),
        "cpu": here.cpu.model,
        "threads": here.threads,
        "tiers": list(machine.available_tiers()),
        "llc_bytes": here.llc_bytes,
        "ceilings": machine.load_ceilings() is not None,
    }
