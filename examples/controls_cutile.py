"""Search cuTile's hints for a kernel, as far as that goes without a GPU."""

import sys
from pathlib import Path

from kernelwright.controls import KernelRun
from kernelwright.controls import TileSearchSpace
from kernelwright.controls import TileTarget

sys.path.insert(0, str(Path(__file__).parent / "kernels"))
import tile_kernels

KERNELS = Path(__file__).parent / "kernels" / "tile_kernels.py"


def make_target(kernel: str = "silu_and_mul") -> TileTarget:
    """The kernel for an H200; `kernelwright controls canary examples/controls_cutile.py` finds this."""
    if kernel == "silu_and_mul":
        return TileTarget(
            f"{KERNELS}:silu_and_mul",
            TileSearchSpace(),
            signature={"x": "bf16[2]", "out": "bf16[2]"},
            constants={"width": 4096, "BLOCK": 1024},
            run=KernelRun(
                tile_kernels.silu_inputs, tile_kernels.silu_expected, [1], tile_kernels.silu_grid, (1,)
            ),
        )
    return TileTarget(
        f"{KERNELS}:matmul",
        TileSearchSpace(variant="wide"),
        signature={"a": "bf16[2]", "b": "bf16[2]", "c": "bf16[2]"},
        constants={"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 32},
        run=KernelRun(
            tile_kernels.matmul_inputs,
            tile_kernels.matmul_expected,
            [2],
            tile_kernels.matmul_grid,
            (1,),
            atol=4e-3,
        ),
    )


if __name__ == "__main__":
    target = make_target()
    print(target.provider)
    baseline = target.build({})
    print(f"no controls: code {baseline.code_key[:12]}, {baseline.resources['registers']} registers")
    lowest = target.build(target.provider.level("lowest"))
    print(f"opt_level=0 makes other code, {lowest.code_key[:12]}: {lowest.resources['registers']} registers")
