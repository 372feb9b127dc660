"""`kernelwright list`."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from kernelwright.cli._app import app


def test_it_shows_operators_implementations_workloads_and_backends():
    result = CliRunner().invoke(app, ["list"])
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert "rms_norm(x, weight, eps)" in lines
    assert "  workloads 1x4096 32x4096 512x4096 4096x4096 (rows x hidden)" in lines
    assert "  torch    backend torch, available, gradient" in lines
    assert "  cutile   not available: no implementation is registered for it" in lines


def test_one_operator_as_json():
    result = CliRunner().invoke(app, ["list", "softmax", "--json"])
    document = json.loads(result.stdout)
    assert list(document["operators"]) == ["softmax"]
    about = document["operators"]["softmax"]
    assert about["dtypes"] == ["fp32", "bf16", "fp16"]
    assert {one["backend"] for one in about["implementations"]} >= {"torch", "cpu"}
    assert document["backends"]["torch"] is None


def test_an_unknown_operator_names_the_nearest():
    result = CliRunner().invoke(app, ["list", "sofmax"])
    assert result.exit_code == 2
    assert "did you mean 'softmax'" in result.stderr
