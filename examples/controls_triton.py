"""Search Triton's launch options and ptxas's for a kernel, as far as that goes without a GPU."""

import sys
from pathlib import Path

from kernelwright import space
from kernelwright.controls import Controls
from kernelwright.controls import encode_controls
from kernelwright.controls import KernelRun
from kernelwright.controls import TritonSearchSpace
from kernelwright.controls import TritonTarget
from kernelwright.process import Limits

sys.path.insert(0, str(Path(__file__).parent / "kernels"))
import triton_kernels

KERNELS = Path(__file__).parent / "kernels" / "triton_kernels.py"


def make_target(kernel: str = "silu_and_mul") -> TritonTarget:
    """The kernel for an H200; `kernelwright controls canary examples/controls_triton.py` finds this."""
    if kernel == "silu_and_mul":
        return TritonTarget(
            f"{KERNELS}:silu_and_mul",
            TritonSearchSpace(variant="memory_bound"),
            signature={"x": "*bf16", "out": "*bf16", "width": "i32"},
            constants={"BLOCK": 1024},
            divisible=["x", "out", "width"],
            parameters=space.Space({"BLOCK": space.Choice([512, 1024, 2048, 4096], default=1024)}),
            run=KernelRun(
                triton_kernels.silu_inputs, triton_kernels.silu_expected, [1], triton_kernels.silu_grid, (1,)
            ),
        )
    return TritonTarget(
        f"{KERNELS}:matmul",
        TritonSearchSpace(variant="attention"),
        signature={"a": "*bf16", "b": "*bf16", "c": "*bf16", "m": "i32", "n": "i32", "k": "i32"},
        constants={"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64},
        divisible=["a", "b", "c", "m", "n", "k"],
        options={"num_warps": 8},
        run=KernelRun(
            triton_kernels.matmul_inputs,
            triton_kernels.matmul_expected,
            [2],
            triton_kernels.matmul_grid,
            (1,),
            atol=4e-3,
        ),
        build_limits=Limits(wall_s=30.0),  # it takes two; some options make ptxas think for minutes
    )


if __name__ == "__main__":
    target = make_target()
    print(target.provider)
    baseline = target.build({})
    print(f"no controls: code {baseline.code_key[:12]}, {baseline.resources['registers']} registers")
    lowest = target.build(target.provider.level("lowest"))
    print(f"--opt-level=0 makes other code, {lowest.code_key[:12]}")
    capped = target.build([{"BLOCK": 4096}, encode_controls(Controls("triton", ("maxnreg=32",)))])
    print(f"4096 at a time with 32 registers: {capped.resources['spill_stores']} bytes spilled")
