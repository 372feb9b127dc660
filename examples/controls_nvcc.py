"""Search nvcc's options together with a kernel's own parameters.

`kernelwright controls canary examples/controls_nvcc.py` proves that the options arrive.
"""

import sys
from pathlib import Path

from kernelwright import space
from kernelwright.controls import canary
from kernelwright.controls import ControlsObjective
from kernelwright.controls import CudaTarget
from kernelwright.controls import KernelRun
from kernelwright.controls import NvccSearchSpace
from kernelwright.controls import search_controls
from kernelwright.search import Search
from kernelwright.search import SearchConfiguration

SOURCE = Path(__file__).parent / "kernels" / "matmul.cu"
M = N = K = 4096

#: Macros of the source, whose defaults these are. Static shared memory holds 48 KiB.
PARAMETERS = space.Space(
    {
        "BM": space.choice([64, 128], default=128),
        "BN": space.choice([64, 128], default=128),
        "BK": space.choice([16, 32, 64], default=32),
        "STAGES": space.choice([2, 3, 4], default=2),
    },
    ["STAGES * (BM + BN) * (BK + 8) * 2 <= 48 * 1024"],
)


def inputs(seed):
    """The kernel's arguments, in order: a, b (transposed), c, m, n, k."""
    import torch

    generator = torch.Generator("cuda").manual_seed(seed)
    a, b = (torch.randn(size, generator=generator, device="cuda").bfloat16() for size in ((M, K), (N, K)))
    return a, b, torch.empty(M, N, device="cuda", dtype=torch.bfloat16), M, N, K


def expected(a, b, c, m, n, k):
    """What c must be."""
    return a.float() @ b.float().T


def grid(parameters):
    """Blocks along n and m."""
    return N // parameters["BN"], M // parameters["BM"]


def make_target() -> CudaTarget:
    """What is compiled and timed."""
    run = KernelRun(inputs, expected, outputs=[2], grid=grid, block=[256], atol=0.1)
    provider = NvccSearchSpace(variant="attention", architecture="sm_90")
    return CudaTarget(SOURCE, "matmul", provider, parameters=PARAMETERS, run=run)


if __name__ == "__main__":
    target = make_target()
    import torch

    if torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0):
        found = search_controls(
            target,
            constraints=["spills == 0"],
            search_config=SearchConfiguration(
                generations=4, pool_size=10, problem_type="min", normalize=True
            ),
        )
        best = found.result.get_best_result()
        print(found.counts)
        print(
            f"best: {best['norm_score']:.3f} of the baseline's time, not yet validated, with {best['params']}"
        )
        sys.exit()
    for stage in canary(target, measure=False).check().stages:
        print(f"canary, {stage.name}: {stage.said}")
    objective = ControlsObjective(target, constraints=["spills == 0"])
    for config in Search(objective, objective.search_space).sample(4):
        artifact = objective.build(config)
        needs = artifact.resources
        print(
            f"{config[0]}: {needs['registers']} registers, {needs['spills']} bytes spilled, "
            f"occupancy {needs['occupancy']:.0%}, {needs['instructions_tensor']} tensor instructions"
        )
    print("no sm_90 GPU here, so none was timed")
