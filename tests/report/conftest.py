"""Runs for the report to show: journals as a tuning run writes them, with made-up numbers."""

from __future__ import annotations

import random
from collections.abc import Callable
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kernelwright.machine import Ceiling
from kernelwright.machine import Ceilings
from kernelwright.search import Journal

WORKLOADS = ("1x4096:bf16", "32x4096:bf16", "512x4096:bf16", "4096x4096:bf16")
DEFAULT = {"accumulators": 4, "unroll": 2, "nontemporal_kib": 1024, "prefetch": False, "cxx_opt": "-O3"}
FINGERPRINT = "0123456789abcdef"
#: What a hostile kernel could make a compiler say: the page must show it, not run it.
HOSTILE = (
    "rms.cpp:3:1: error: '</script><script>document.title=\"owned\"</script>'\n<img src=x onerror=alert(1)>"
)

RunMaker = Callable[..., Path]


@pytest.fixture
def make_run(tmp_path: Path) -> RunMaker:
    """Writes the journal of a run into a fresh folder and returns it."""

    def make(
        name: str = "20260101-120000-rms_norm-ab12",
        *,
        wins: bool = True,
        cut: str | None = None,
        **first: Any,
    ) -> Path:
        folder = tmp_path / "runs" / name
        with Journal(folder / "journal.sqlite", create=True) as journal:
            for kind, body in _events(wins, first):
                journal.append(kind, body)
                if kind == cut:
                    break
        return folder

    return make


@pytest.fixture
def ceilings() -> Ceilings:
    """Ceilings of the machine that the runs say they were made on."""
    common = {"threads": 2, "tier": "avx512_bf16", "when": "2026-01-01T11:00:00Z"}
    entries = []
    for level, value in (("L1", 410e9), ("L2", 205e9), ("L3", 88e9), ("DRAM", 31e9)):
        for stores in ("plain", "nontemporal"):
            rate = value * (0.8 if (stores == "nontemporal") is not (level == "DRAM") else 1.0)
            entries.append(
                Ceiling(
                    "copy",
                    rate,
                    rate * 0.97,
                    rate * 1.02,
                    "B/s",
                    level=level,
                    stores=stores,
                    reads_per_write=1,
                    **common,
                )
            )
    entries.append(
        Ceiling("flops", 180e9, 177e9, 182e9, "FLOP/s", dtype="fp32", instruction="vfmadd", **common)
    )
    entries.append(
        Ceiling("flops", 350e9, 340e9, 352e9, "FLOP/s", dtype="bf16", instruction="vdpbf16ps", **common)
    )
    return Ceilings(FINGERPRINT, tuple(entries), {})


def contest(workload: str, ratio: float, baseline_ns: float, **words: str) -> dict[str, Any]:
    """A contest as the journal holds it."""
    low, high = ratio / 1.012, ratio * 1.013
    verdict = "faster" if low > 1.01 else "slower" if high < 0.99 else "same"

    def time(median: float) -> dict[str, float]:
        return {
            "median_ns": median,
            "p05_ns": median * 0.98,
            "p95_ns": median * 1.06,
            "samples": 400,
            "relative_sd": 0.02,
        }

    return {
        "candidate": "#7",
        "baseline": "default",
        "workload": workload,
        "mode": "cold",
        "regime": "preallocated",
        "comparison": verdict,
        "ratio": ratio,
        "interval": [low, high],
        "candidate_time": time(baseline_ns / ratio),
        "baseline_time": time(baseline_ns),
        "blocks": 40,
        "conditions": {
            "wall_s": 1.0,
            "load_before": 1.5,
            "load_after": 1.75,
            "steal": 0.004,
            "busy": 0.5,
            "threads": 2,
            "affinity": [0, 1],
        },
        "stage": "confirmed",
        **words,
    }


def _events(wins: bool, first: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    rng = random.Random(3)
    clock = 0.0
    events: list[tuple[str, dict[str, Any]]] = [
        (
            "started",
            {
                "t": 0.0,
                "operator": "rms_norm",
                "dtype": "bf16",
                "workloads": list(WORKLOADS),
                "backends": ["cpu"],
                "budget_s": 60.0,
                "seed": 7,
                "machine": {
                    "fingerprint": FINGERPRINT,
                    "cpu": "Example Processor 6980P",
                    "cores": 2,
                    "threads": 2,
                    "memory_bytes": 24 << 30,
                    "tiers": ["generic", "avx2", "avx512", "avx512_bf16"],
                    "system": "Linux 6.12",
                },
                "versions": {
                    "python": "3.11.9",
                    "kernelwright": "0.1.0",
                    "torch": "2.13.0",
                    "numpy": "2.4.6",
                },
                "defaults": {"cpu": DEFAULT},
                "stored": {},
                "space_key": "feedfacefeedface",
                **first,
            },
        )
    ]
    bad = {3: ("wrong", "out[0, 17]: 0.0, expected 1.27; 4096 of 4096 elements beyond the budget", "checked")}
    bad[9] = ("build_failed", HOSTILE, "asked")
    bad[14] = ("build_failed", "rms.cpp:9:2: error: KW_UNROLL must be a power of two", "asked")
    bad[15] = ("crashed", "SIGSEGV at 0 of batch 3", "checked")
    bad[20] = ("hung", "no answer within 10 s", "checked")
    for number in range(1, 31):
        values = {
            "accumulators": rng.choice([1, 2, 4, 8]),
            "unroll": rng.choice([1, 2, 4]),
            "nontemporal_kib": rng.choice([256, 1024, 8192]),
            "prefetch": rng.random() < 0.5,
            "cxx_opt": rng.choice(["-O2", "-O3"]),
        }
        if number == 1:
            values = dict(DEFAULT)
        origin = (
            "default" if number == 1 else "designed" if number < 10 else "random" if number < 18 else "local"
        )
        clock += 0.4
        asked = {
            "t": clock,
            "number": number,
            "implementation": "cpu",
            "tier": "avx512_bf16",
            "origin": origin,
        }
        events.append(("asked", {**asked, "configuration": values}))
        status, reason, stage = bad.get(number, ("passed", "", "screened"))
        clock += 0.8
        if stage != "asked":
            details = {
                "compiler": "g++ 14.2.0",
                "cached": False,
                "flags": ["-std=c++17", "-O3", "-mavx512f", "-mavx512bf16"],
            }
            built = {
                "t": clock,
                "number": number,
                "build_key": f"{number:064x}",
                "code_key": f"{number * 7:064x}",
            }
            events.append(("built", {**built, "build_s": 0.8, "details": details}))
        gain = 0.05 * (values["accumulators"] >= 4) + 0.06 * (values["nontemporal_kib"] == 256) - 0.05
        ratios = {name: 1.0 if number == 1 else 1.0 + gain + rng.gauss(0, 0.03) for name in WORKLOADS}
        if status != "passed":
            ratios = {}
        intervals = {name: [value / 1.02, value * 1.02] for name, value in ratios.items()}
        clock += 0.3
        verdict = {
            "t": clock,
            "number": number,
            "status": status,
            "reason": reason,
            "stage": stage,
            "reused": None,
        }
        if number == 25:
            verdict["reused"] = 24
        events.append(("verdict", {**verdict, "ratios": ratios, "intervals": intervals}))
    default_ns = {WORKLOADS[0]: 1100.0, WORKLOADS[1]: 14000.0, WORKLOADS[2]: 290e3, WORKLOADS[3]: 2.4e6}
    for place, workload in enumerate(WORKLOADS):
        base = default_ns[workload]
        won = wins and place >= 2
        final = [contest(workload, 1.08 + 0.05 * won, base, stage="final")]
        final += [contest(workload, 0.97, base, stage="final", candidate="#12")]
        confirmed = [
            contest(workload, ratio, base * scale, mode=mode, regime=regime)
            for mode, scale in (("cold", 1.0), ("warm", 0.7))
            for regime, ratio in (
                ("preallocated", 1.124 if won else 1.002),
                ("allocating", 1.06 if won else 0.999),
            )
        ]
        rows = int(workload.partition("x")[0])
        outcome = (
            "#7 is faster than the default: faster, 1.124x"
            if won
            else "the default stands: #7 was not confirmed"
        )
        events.append(
            (
                "result",
                {
                    "t": clock + place,
                    "workload": workload,
                    "bucket": f"bf16-rows{rows}-hidden4096",
                    "winner": {**DEFAULT, "accumulators": 8, "nontemporal_kib": 256} if won else None,
                    "outcome": outcome,
                    "origin": "new" if won else "default",
                    "number": 7 if won else None,
                    "implementation": "cpu" if won else None,
                    "comparison": "faster" if won else None,
                    "contests": [*final, *confirmed] if won or place else [],
                    "cost": {
                        "bytes_read": (rows + 1) * 8192,
                        "bytes_written": rows * 8192,
                        "flops": 4 * rows * 4096,
                    },
                    "evidence": {"ratio": 1.124, "contests": confirmed} if won else {},
                },
            )
        )
        if won:
            bucket = f"bf16-rows{rows}-hidden4096"
            events.append(("stored", {"t": clock + place, "bucket": bucket, "workload": workload}))
    for workload in WORKLOADS:
        peers = [
            contest(
                workload,
                1.7 if baseline == "torch" else 1.2,
                default_ns[workload] * 1.6,
                baseline=baseline,
                candidate="cpu",
                stage="confirmed",
            )
            for baseline in ("torch", "compile")
        ]
        events.append(("peers", {"t": clock + 5, "workload": workload, "contests": peers}))
    events.append(("finished", {"t": clock + 6}))
    return events
