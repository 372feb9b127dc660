"""Native kernels: from a configuration to an artifact, from a call to its description."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import kernelwright as kw
from kernelwright import build
from kernelwright import machine
from kernelwright.dispatch import Call
from kernelwright.dispatch import TensorInfo
from kernelwright.errors import BackendUnavailableError
from kernelwright.errors import KernelCallError
from kernelwright.errors import KernelwrightError
from kernelwright.errors import NoCompilerError
from kernelwright.errors import UnsupportedCallError
from kernelwright.kernels.cpu import native_kernels

OPERATORS = sorted(native_kernels())


def info(tensor: torch.Tensor, device: str = "cpu") -> TensorInfo:
    return TensorInfo(tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()), device, False)


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_tier_has_a_section_with_its_own_flags(operator: str) -> None:
    sections = native_kernels()[operator].build_file.tiers(operator)
    assert set(sections) == {tier.name for tier in machine.TIERS}
    assert len({tuple(section.cxx_flags) for section in sections.values()}) == len(sections)


@pytest.mark.parametrize("operator", OPERATORS)
def test_defaults_are_those_of_the_sources(operator: str) -> None:
    """The macros of the default configuration and the source's own `#ifndef` values give the same code."""
    kernel = native_kernels()[operator]
    plain = build.BuildRequest(kernel.build_file.tiers(operator)["generic"], kernel.folder, {})
    with_macros, without = build.build_many([kernel.request({}, "generic"), plain])
    assert isinstance(with_macros, build.Artifact)
    assert isinstance(without, build.Artifact)
    assert with_macros.build_key != without.build_key
    assert with_macros.code_key == without.code_key


def test_a_configuration_names_its_artifact() -> None:
    kernel = native_kernels()["rms_norm"]
    default = kernel.request({})
    assert kernel.request(kernel.default).key == default.key
    assert kernel.request({"unroll": 1}).key != default.key
    assert kernel.request({"cxx_level": "-O2"}).key != default.key
    assert "-O2" in kernel.request({"cxx_level": "-O2"}).flags


def test_a_configuration_outside_the_space_is_refused_by_name() -> None:
    kernel = native_kernels()["rms_norm"]
    with pytest.raises(KernelwrightError, match="unroll"):
        kernel.request({"unrol": 2})
    with pytest.raises(KernelwrightError, match="unroll"):
        kernel.request({"unroll": 1000})


def test_a_lower_tier_serves_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = native_kernels()["softmax"]
    monkeypatch.setenv("KERNELWRIGHT_TIER", "generic")
    assert kernel.tier() == "generic"
    assert kernel.bind({}).tier == "generic"


def test_buffers_reach_from_the_first_element_to_the_last() -> None:
    kernel = native_kernels()["rms_norm"]
    x = torch.zeros(3, 10, dtype=torch.bfloat16)[:, :4]
    out = torch.empty(3, 4, dtype=torch.bfloat16)
    call = kernel.describe({"x": x, "weight": torch.ones(4, dtype=torch.bfloat16), "eps": 1e-6}, out)
    assert [(one.name, one.nbytes, one.output) for one in call.buffers] == [
        ("x", 2 * 24, False),
        ("weight", 2 * 4, False),
        ("out", 2 * 12, True),
    ]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"x": torch.zeros(2, 4, dtype=torch.float64), "weight": torch.ones(4).double()}, "float64"),
        ({"x": torch.zeros(2, 4), "weight": torch.ones(4).bfloat16()}, "one dtype"),
        ({"x": torch.zeros(2, 4), "weight": torch.ones(5)}, "last dimension"),
        ({"x": torch.zeros(4, 2).t(), "weight": torch.ones(4)}, "strides"),
    ],
)
def test_what_the_kernel_does_not_take_has_a_reason(arguments: dict[str, torch.Tensor], reason: str) -> None:
    kernel = native_kernels()["rms_norm"]
    call = Call(
        "rms_norm", {name: info(value) for name, value in arguments.items()}, {"eps": 1e-6}, None, False
    )
    assert reason in (kernel.supports(call) or "")
    with pytest.raises(UnsupportedCallError, match=reason):
        kernel.describe({**arguments, "eps": 1e-6})


def test_other_devices_are_refused() -> None:
    call = Call("softmax", {"x": info(torch.zeros(2, 4), "cuda:0")}, {}, None, False)
    assert "cuda:0" in (native_kernels()["softmax"].supports(call) or "")


def test_a_bound_kernel_can_be_called_without_dispatch() -> None:
    bound = native_kernels()["rms_norm"].bind({})
    x, weight = torch.randn(5, 33), torch.randn(33)
    expected = torch.nn.functional.rms_norm(x, (33,), weight, 1e-6)
    torch.testing.assert_close(bound(x, weight, eps=1e-6), expected)
    torch.testing.assert_close(bound(weight=weight, eps=1e-6, x=x), expected)
    torch.testing.assert_close(bound(x, weight), expected)
    with pytest.raises(UnsupportedCallError, match="weight"):
        bound(x)
    with pytest.raises(UnsupportedCallError, match="bias"):
        bound(x, weight, bias=x)
    out = torch.empty_like(x)
    assert bound(x, weight, eps=1e-6, out=out) is out
    torch.testing.assert_close(out, expected)


def test_a_status_of_the_kernel_becomes_an_error() -> None:
    bound = native_kernels()["softmax"].bind({})
    x = info(torch.zeros(2, 4))
    plan = bound.specialize(Call("softmax", {"x": x}, {}, info(torch.zeros(3, 4)), False))
    with pytest.raises(KernelCallError, match="layout"):
        plan(torch.zeros(2, 4), torch.zeros(3, 4))


@pytest.mark.parametrize(
    ("rows", "given", "fresh"), [(2048, False, False), (4096, False, True), (4096, True, False)]
)
def test_only_large_outputs_that_are_allocated_for_the_call_are_fresh(
    rows: int, given: bool, fresh: bool
) -> None:
    x = TensorInfo(torch.bfloat16, (rows, 4096), (4096, 1), "cpu", False)
    call = Call("softmax", {"x": x}, {}, x if given else None, False)
    plan = native_kernels()["softmax"].bind({}).specialize(call)
    assert bool(plan.by_address.block.flags) == fresh  # type: ignore[attr-defined]


@pytest.mark.parametrize("operator", OPERATORS)
def test_large_allocated_outputs_are_right(operator: str) -> None:
    spec = kw.dispatch.spec(operator)
    workload = spec.workload(4100, 4097, dtype=torch.bfloat16)
    arguments = spec.inputs(workload, torch.Generator().manual_seed(0))
    torch.testing.assert_close(
        getattr(kw.ops, operator)(**arguments, backend="cpu"),
        spec.reference(**arguments),
        rtol=2**-7,
        atol=1e-6,
    )


def test_building_can_be_forbidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path))
    monkeypatch.setenv("KERNELWRIGHT_BUILD", "never")
    kernel = native_kernels()["rms_norm"]
    assert "kernelwright build" in (kernel.available() or "")
    with pytest.raises(BackendUnavailableError, match="kernelwright build rms_norm"):
        kernel.artifact({})


def test_without_a_compiler_only_what_is_built_can_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = native_kernels()["rms_norm"]
    kernel.artifact({})

    def none_found() -> machine.Compiler:
        raise NoCompilerError("no C++ compiler was found; install g++")

    monkeypatch.setattr(machine, "find_compiler", none_found)
    assert kernel.available() is None
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path))
    assert "install g++" in (kernel.available() or "")


def test_an_odd_width_cannot_be_halved() -> None:
    with pytest.raises(KernelwrightError, match=r"even.*\(3, 3\)"):
        kw.ops.silu_and_mul(torch.zeros(3, 3))


@pytest.mark.parametrize("operator", OPERATORS)
def test_dispatch_prefers_the_native_kernel(operator: str) -> None:
    spec = kw.dispatch.spec(operator)
    workload = spec.workload(4, 64, dtype=torch.bfloat16)
    arguments = spec.inputs(workload, torch.Generator().manual_seed(0))
    explanation = kw.explain(operator, **arguments)
    assert "cpu" in str(explanation)
