"""What can be chosen for a kernel, and that the ends of it are right."""

from __future__ import annotations

import pytest
import torch

from kernelwright import dispatch
from kernelwright.build import Artifact
from kernelwright.build import build_many
from kernelwright.kernels.cpu import native_kernels
from kernelwright.referee import assert_within_budget

OPERATORS = sorted(native_kernels())

#: What a parameter chooses, by the part of its name that says so.
WHAT_MATTERS = ("unroll", "stream", "rows_per_task", "prefetch", "parallel")


@pytest.mark.parametrize("operator", OPERATORS)
def test_what_matters_can_be_chosen_and_flags_are_a_part_of_their_own(operator: str) -> None:
    names = list(native_kernels()[operator].tunables.parameters)
    for part in WHAT_MATTERS:
        assert any(part in name for name in names), part
    flags = [name for name in names if name.startswith("cxx_")]
    assert len(flags) >= 2
    assert len(names) > len(flags)


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_ends_of_the_space_are_right(operator: str) -> None:
    """All parameters at their first values, and all at their last ones."""
    kernel = native_kernels()[operator]
    parameters = {name: list(one.values()) for name, one in kernel.tunables.parameters.items()}
    configurations = [{name: values[end] for name, values in parameters.items()} for end in (0, -1)]
    built = build_many([kernel.request(one) for one in configurations])
    assert len({one.build_key for one in built if isinstance(one, Artifact)}) == 2, built
    spec = dispatch.spec(operator)
    for configuration in configurations:
        bound = kernel.bind(configuration)
        for rows, width in ((1, 1), (7, 333), (260, 1500)):
            for dtype in spec.dtypes:
                workload = spec.workload(rows, width, dtype=dtype)
                arguments = spec.inputs(workload, torch.Generator().manual_seed(rows))
                assert_within_budget(bound(**arguments), operator, **arguments)
