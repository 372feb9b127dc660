"""The kernels on processors that this machine is not: AVX2 without AVX512, and neither.

One emulated process a processor imports torch (which takes a while there) and checks every operator and dtype
on a handful of shapes through `kernelwright.ops`. The kernels are compiled natively before: what runs under
emulation is what a user's machine of that kind would run.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

import kernelwright
from kernelwright import machine
from kernelwright.build import Artifact
from kernelwright.build import build_many
from kernelwright.kernels.cpu import native_kernels
from kernelwright.ops import DTYPES

pytestmark = [pytest.mark.qemu, pytest.mark.timeout(600)]

QEMU = "qemu-x86_64"
PROCESSORS = {"Haswell-noTSX": "avx2", "Nehalem": "generic"}
SHAPES = ((0, 64), (3, 0), (1, 1), (19, 1), (7, 17), (5, 111), (99, 192), (2, 760), (2, 3584))

PROGRAM = """
import json, sys
import torch
import kernelwright as kw
from kernelwright import machine
from kernelwright.dispatch import spec
from typer.testing import CliRunner
from kernelwright.cli._app import app

shapes = json.loads(sys.argv[1])
faults, checked, served = [], 0, set()

def judge(title, operator, arguments, out):
    # As `ErrorBudget` says: within twice torch's own error in this dtype and one unit of the output's scale.
    exact = operator.reference(**{k: v.double() if torch.is_tensor(v) else v for k, v in arguments.items()})
    peer = operator.reference(**arguments).double()
    got = out.double()
    if got.shape != exact.shape or out.dtype != arguments["x"].dtype:
        return faults.append(f"{title}: {tuple(got.shape)} {out.dtype} instead of {tuple(exact.shape)}")
    if exact.numel() == 0:
        return
    budget = operator.budget
    unit = torch.finfo(out.dtype).eps * exact.abs().max()
    limit = budget.factor * (peer - exact).abs().max() + budget.floor_ulps * unit
    error = (got - exact).abs().max()
    if not error <= limit:
        faults.append(f"{title}: off by {error.item():.3g}, allowed {limit.item():.3g}")

for name in kw.operators():
    operator, function = spec(name), getattr(kw.ops, name)
    if operator is None:
        continue
    for dtype in operator.dtypes:
        generator = torch.Generator().manual_seed(0)
        for sizes in shapes:
            workload = operator.workload(*sizes, dtype=dtype)
            arguments = operator.inputs(workload, generator)
            title = f"{name} {workload.name}"
            out = function(**arguments, backend="cpu")
            judge(title, operator, arguments, out)
            # Rows apart from each other in the input, and a given output.
            x = arguments["x"]
            wide = torch.full((x.shape[0], x.shape[1] + 13), float("nan"), dtype=dtype)
            wide[:, : x.shape[1]] = x
            arguments["x"] = wide[:, : x.shape[1]]
            given = torch.full_like(out, float("nan"))
            if function(**arguments, backend="cpu", out=given) is not given:
                faults.append(f"{title}: out= is not what came back")
            judge(f"{title}, strided", operator, arguments, given)
            checked += 2
        explanation = kw.explain(name, **arguments, backend="cpu")
        served.add((name, explanation.tier, explanation.backend))

doctor = CliRunner().invoke(app, ["doctor", "--brief"])
print("RESULT " + json.dumps({
    "tiers": machine.available_tiers(),
    "faults": faults,
    "checked": checked,
    "served": sorted(served),
    "doctor": doctor.output,
    "doctor_exit": doctor.exit_code,
    "doctor_error": repr(doctor.exception),
    "torch": torch.backends.cpu.get_cpu_capability(),
}))
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the default kernels of both tiers, compiled natively."""
    if shutil.which(QEMU) is None:
        pytest.skip(f"{QEMU} is not installed (Debian, Ubuntu: apt install qemu-user)")
    session = tmp_path_factory.getbasetemp()
    shared = (session.parent if "PYTEST_XDIST_WORKER" in os.environ else session) / "kernels"
    requests = [
        kernel.request(kernel.default, tier)
        for kernel in native_kernels().values()
        for tier in PROCESSORS.values()
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KERNELWRIGHT_CACHE", str(shared))
        for result in build_many(requests):
            assert isinstance(result, Artifact), str(result)
    return shared


def emulate(processor: str, cache: Path, folder: Path) -> dict[str, Any]:
    """What the program said on one processor."""
    script = folder / "program.py"
    script.write_text(PROGRAM)
    paths = [str(Path(kernelwright.__file__).parent.parent), sysconfig.get_path("purelib")]
    environment = {
        **os.environ,
        "KERNELWRIGHT_CACHE": str(cache),
        "KERNELWRIGHT_DATA": str(folder),
        "KERNELWRIGHT_BUILD": "never",
        "PYTHONPATH": os.pathsep.join(paths),
        "OMP_NUM_THREADS": "2",
    }
    environment.pop("KERNELWRIGHT_TIER", None)
    environment.pop("KERNELWRIGHT_BACKEND", None)
    python = Path(sys.executable).resolve()
    command = [QEMU, "-cpu", processor, str(python), str(script), json.dumps(SHAPES)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=500)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert lines, f"ended with {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    result: dict[str, Any] = json.loads(lines[-1].removeprefix("RESULT "))
    return result


@pytest.mark.parametrize(("processor", "tier"), PROCESSORS.items())
def test_the_kernels_and_doctor_on(processor: str, tier: str, cache: Path, tmp_path: Path) -> None:
    """One test a processor: an emulated process takes most of a minute to import torch."""
    seen = emulate(processor, cache, tmp_path)

    assert seen["faults"] == []
    assert seen["checked"] == 2 * len(SHAPES) * sum(len(DTYPES) - 1 for _ in native_kernels())

    assert seen["tiers"][-1] == tier
    assert seen["served"] == [[name, tier, "cpu"] for name in sorted(native_kernels())]

    assert seen["doctor_exit"] in (0, 1), seen["doctor_error"]
    words = seen["doctor"].replace(",", " ").split()
    higher = {one.name for one in machine.TIERS} - set(seen["tiers"])
    assert tier in words
    assert not higher & set(words)
    assert "ceilings have not been measured" in seen["doctor"]  # emulated times would mean nothing
