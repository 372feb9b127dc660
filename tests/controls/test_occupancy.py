"""The occupancy bound: NVIDIA's own examples of how registers, shared memory and blocks limit a kernel."""

from __future__ import annotations

import pytest

from kernelwright.controls import occupancy
from kernelwright.controls._occupancy import blocks_resident
from kernelwright.errors import UnknownNameError


@pytest.mark.parametrize(
    ("architecture", "registers", "shared", "threads", "blocks", "share"),
    [
        ("sm_90", 32, 0, 256, 8, 1.0),  # all warps
        ("sm_90", 32, 0, 32, 32, 0.5),  # 32 blocks at most
        ("sm_90", 124, 0, 256, 2, 0.25),  # 128 registers a thread, as they are given out
        ("sm_90", 128, 0, 256, 2, 0.25),
        ("sm_90", 129, 0, 256, 1, 0.125),
        ("sm_90", 40, 0, 1024, 1, 0.5),
        ("sm_90", 255, 0, 1024, 0, 0.0),  # does not fit at all
        ("sm_90", 32, 40960, 256, 5, 0.625),  # 228 KiB of shared memory, 1 KiB of each block reserved
        ("sm_80", 32, 40960, 256, 4, 0.5),
        ("sm_100", 32, 40960, 256, 5, 0.625),
        ("sm_90a", 32, 227 << 10, 128, 1, 0.0625),
        ("sm_86", 32, 0, 128, 12, 1.0),
        ("sm_75", 32, 32 << 10, 256, 2, 0.5),
    ],
)
def test_the_scarcest_resource_limits(
    architecture: str, registers: int, shared: int, threads: int, blocks: int, share: float
) -> None:
    wanted = {"registers": registers, "shared": shared, "threads": threads}
    assert blocks_resident(architecture, **wanted) == blocks
    assert occupancy(architecture, **wanted) == share


def test_an_architecture_that_is_not_known_is_said() -> None:
    with pytest.raises(UnknownNameError, match="unknown GPU architecture 'sm_42'"):
        occupancy("sm_42", registers=32, shared=0, threads=32)
