"""`check` and `bench` with a baseline.py, as a person runs them, with a package on PYTHONPATH."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

BASELINE = """
import torch


def get_inputs():
    return [torch.randn(48, 512), torch.randn(512)]


def get_reference_output(x, weight):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight
"""
HONEST = """
import torch


def rms_norm(x, weight):
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, eps=1e-6)


def zeros(x, weight):
    return torch.zeros_like(x)


def lies(x, weight):
    import json, os, sys
    verdict = {"status": "passed", "comparison": "faster", "ratio": 9.0, "interval": [8.0, 10.0]}
    for out in (sys.stdout, sys.stderr):
        print(json.dumps(verdict), file=out, flush=True)
    os._exit(0)


def slow(x, weight):
    for _ in range(8):
        out = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight
    return out
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "baseline.py").write_text(BASELINE)
    package = tmp_path / "packages" / "my_kernel"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(HONEST)
    return tmp_path


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kernelwright", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder / "packages")},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )


def bench(folder: Path, op: str, *words: str, code: int) -> dict[str, Any]:
    kernel = ["--kernel-package", "my_kernel", "--op", f"my_kernel.{op}"]
    done = run(folder, "bench", "baseline.py", *kernel, "--json", *words)
    document: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == (1 if document["status"] == "noisy" else code), done.stderr
    return document


@pytest.mark.serial
def test_a_right_kernel_gets_a_ratio_with_an_interval(folder: Path) -> None:
    started = time.monotonic()
    document = bench(folder, "rms_norm", "--budget", "10s", "--processes", "2", code=0)
    assert time.monotonic() - started < 60
    if document["status"] == "noisy":
        pytest.skip(f"the machine cannot time anything now: {document['reason']}")
    assert document["status"] == "passed"
    assert document["comparison"] in ("faster", "same", "ambiguous")
    low, high = document["interval"]
    assert low <= document["ratio"] <= (high or document["ratio"])
    assert document["times"]["candidate"]["median_ns"] > 0
    assert document["evidence"]["guards"]


@pytest.mark.serial
def test_a_slow_kernel_is_right_and_exit_code_1(folder: Path) -> None:
    for _ in range(2):
        document = bench(folder, "slow", "--budget", "10s", "--processes", "2", code=1)
        if document["status"] != "noisy":
            break
    else:
        pytest.skip(f"the machine cannot time anything now: {document['reason']}")
    assert (document["status"], document["comparison"]) == ("passed", "slower")


def test_a_wrong_kernel_has_no_time(folder: Path) -> None:
    document = bench(folder, "zeros", code=1)
    assert document["status"] == "wrong"
    assert [document[key] for key in ("comparison", "ratio", "interval", "times")] == [None] * 4


def test_a_verdict_that_a_kernel_prints_and_exit_code_0_are_not_the_command_s(folder: Path) -> None:
    document = bench(folder, "lies", code=1)
    assert document["status"] == "crashed"
    assert "ended its process itself with exit code 0" in document["reason"]
    assert document["ratio"] is None


#: Run before the command: as root, without the capabilities to give the candidate a user of its own.
WITHOUT_A_GUARD = """
import ctypes, os, runpy, struct, sys
if os.geteuid() == 0:
    libc, kept = ctypes.CDLL(None), 0xA80425FB  # what containers are given
    for capability in range(64):
        if not kept >> capability & 1:
            libc.prctl(24, capability, 0, 0, 0)
    rights = struct.pack("=6I", kept, kept, 0, 0, 0, 0)
    assert libc.capset(struct.pack("=Ii", 0x20080522, 0), rights) == 0
    libc.prctl(4, 1, 0, 0, 0)
sys.argv = ["kernelwright", *sys.argv[1:]]
runpy.run_module("kernelwright", run_name="__main__", alter_sys=True)
"""


def test_a_guard_that_is_missing_is_named_in_the_verdict_with_the_reason(folder: Path) -> None:
    words = ["check", "baseline.py", "--kernel-package", "my_kernel", "--op", "my_kernel.zeros"]
    done = subprocess.run(
        [sys.executable, "-P", "-c", WITHOUT_A_GUARD, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder / "packages")},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    missing = [line for line in lines if "no guard: " in line]
    assert any("no guard: user: " in line for line in missing), done.stdout
    assert any("returned zeros everywhere" in line for line in lines), "a verdict all the same"


def test_what_lies_beside_a_candidate_does_not_reach_the_judge(folder: Path) -> None:
    for name in ("typer", "rich", "scipy", "psutil"):
        (folder / "packages" / f"{name}.py").write_text("raise SystemExit('imported')\n")
        (folder / f"{name}.py").write_text("raise SystemExit('imported')\n")
    assert bench(folder, "zeros", code=1)["status"] == "wrong"


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("import torch\n", 2, "get_inputs"),
        (BASELINE.replace("get_reference_output", "reference"), 2, "get_reference_output"),
        (BASELINE.replace("return x *", "raise RuntimeError('mine')\n    return x *"), 3, "mine"),
    ],
    ids=["no inputs", "no reference", "raises"],
)
def test_a_baseline_that_is_none_is_no_verdict(folder: Path, text: str, code: int, said: str) -> None:
    (folder / "baseline.py").write_text(text)
    document = bench(folder, "rms_norm", code=code)
    assert document["status"] is None
    assert said in document["reason"]


def test_one_screen_for_a_person(folder: Path) -> None:
    done = run(folder, "check", "baseline.py", "--kernel-package", "my_kernel", "--op", "rms_norm")
    assert done.returncode == 0, done.stderr
    assert "my_kernel.rms_norm against baseline.py" in done.stdout
    assert "passed" in done.stdout
    assert len(done.stdout.splitlines()) < 30
