"""Importing the package is cheap, needs torch alone, and promises what one page of names says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import kernelwright as kw


def python(code: str, **environment: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", kw.__all__)
def test_every_public_name_is_there_and_documented(name):
    value = getattr(kw, name)
    assert value.__doc__
    assert name in dir(kw)


def test_a_name_that_is_not_public_is_an_ordinary_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'tunee'"):
        _ = kw.tunee


def test_dispatch_is_both_the_room_and_its_decorator():
    from kernelwright.dispatch import dispatch

    assert kw.dispatch.dispatch is dispatch
    assert callable(kw.dispatch)


def test_the_bare_import_loads_nothing_heavy():
    heavy = ("torch", "numpy", "typer", "pydantic")
    code = f"import kernelwright, sys; print([name for name in {heavy} if name in sys.modules])"
    assert python(code).strip() == "[]"


def test_importing_the_operators_loads_no_kernel_compiler_or_optional_package():
    code = (
        "import torch, sys; before = set(sys.modules); import kernelwright as kw; kw.ops.rms_norm;"
        "print(sorted({n.partition('.')[0] for n in set(sys.modules) - before}));"
        "print([n for n in sys.modules if n.startswith(('kernelwright.kernels', 'kernelwright.build'))])"
    )
    loaded, kernels = python(code).splitlines()
    for heavy in ("triton", "ray", "scipy", "plotly", "pydantic", "typer", "rich"):
        assert f"'{heavy}'" not in loaded
    assert kernels == "[]"


def test_without_a_compiler_torch_serves_and_says_why(tmp_path: Path):
    code = """
import json, torch
import kernelwright as kw
from kernelwright.errors import KernelwrightError
x, w = torch.randn(2, 8), torch.randn(8)
torch.testing.assert_close(kw.ops.rms_norm(x, w), torch.nn.functional.rms_norm(x, (8,), w, 1e-6))
e = kw.explain("rms_norm", x, w)
try:
    kw.ops.rms_norm(x, w, backend="cpu")
except KernelwrightError as error:
    print(json.dumps([e.backend, e.refusals["cpu"], str(error)]))
"""
    (tmp_path / "bin").mkdir()
    out = python(code, PATH=str(tmp_path / "bin"), CXX="", KERNELWRIGHT_CACHE=str(tmp_path / "cache"))
    backend, refusal, error = json.loads(out.splitlines()[-1])
    assert backend == "torch"
    assert "compiler" in refusal
    assert "compiler" in error


@pytest.mark.serial
def test_the_import_adds_less_than_150_ms_to_torch():
    code = (
        "import torch, time; t = time.perf_counter(); import kernelwright as kw; kw.ops; "
        "print(time.perf_counter() - t)"
    )
    best = min(float(python(code)) for _ in range(3))
    assert best < 0.150
