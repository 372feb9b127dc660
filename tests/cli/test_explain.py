"""`kernelwright explain`."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from kernelwright import dispatch
from kernelwright import machine
from kernelwright.cli._app import app


def explain(*words: str):
    return CliRunner().invoke(app, ["explain", *words])


def test_it_says_who_serves_and_why_the_others_do_not():
    result = explain("rms_norm", "--shape", "2x16", "--backend", "torch")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "2x16:fp32",
        "  rms_norm: torch (backend torch), by backend=",
        "    not cpu: backend 'torch' was asked for (backend=)",
    ]


def test_shapes_that_are_served_alike_are_shown_together():
    result = explain("softmax", "--shape", "2x16:bf16", "--shape", "3x8", "--backend", "torch")
    assert result.stdout.splitlines()[0] == "2x16:bf16 3x8:fp32"


@pytest.mark.parametrize("tier", ["generic", "avx2"])
def test_where_only_a_lower_tier_can_run_it_is_named(tier, monkeypatch):
    if tier not in machine.available_tiers():
        pytest.skip(f"this machine has no {tier}")
    monkeypatch.setenv("KERNELWRIGHT_TIER", tier)
    dispatch.clear_plans()
    result = explain("rms_norm", "--shape", "2x16", "--backend", "cpu")
    dispatch.clear_plans()  # nobody after this test is served by the lower tier
    assert result.exit_code == 0, result.output
    assert f"rms_norm: cpu (backend cpu, tier {tier})" in result.stdout


def test_without_a_shape_all_workloads_are_explained_and_no_memory_is_touched():
    result = explain("silu_and_mul", "--dtype", "bf16", "--backend", "torch", "--json")
    document = json.loads(result.stdout)
    assert list(document) == ["1x11008:bf16", "32x11008:bf16", "512x11008:bf16", "4096x11008:bf16"]
    assert {one["because"] for one in document.values()} == {"backend="}


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["rmsnorm"], "did you mean 'rms_norm'"),
        (["rms_norm", "--backend", "touch"], "did you mean 'torch'"),
        (["rms_norm", "--dtype", "bf61"], "did you mean 'bf16'"),
        (["rms_norm", "--shape", "4k"], "unknown workload of rms_norm '4k'"),
        (["rms_norm", "--shape", "1x2x3"], "sizes are rowsxhidden"),
        (["rms_norm", "--shape", "1x16", "--backend", "cutile"], "no implementation is registered for it"),
    ],
)
def test_bad_input_ends_with_the_nearest_names_and_code_2(words, text):
    result = explain(*words)
    assert result.exit_code == 2
    assert text in result.stderr
    assert "Traceback" not in result.output
