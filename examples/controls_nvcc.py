"""Search nvcc's options together with a kernel's own parameters.

`kernelwright controls canary examples/controls_nvcc.py` proves that the options arrive.
"""

import sys
from pathlib import Path

from kernelwright.controls import canary
from kernelwright.controls import ControlsObjective
from kernelwright.controls import CudaTarget
from kernelwright.controls import NvccSearchSpace
from kernelwright.controls import search_controls
from kernelwright.search import Search
from kernelwright.search import SearchConfiguration

sys.path.insert(0, str(Path(__file__).parent / "kernels"))
import cuda_kernels

KERNELS = Path(__file__).parent / "kernels"


def make_target(kernel: str = "matmul") -> CudaTarget:
    """What is compiled and timed."""
    if kernel == "matmul":
        variant, parameters, run = "attention", cuda_kernels.MATMUL_PARAMETERS, cuda_kernels.MATMUL
    else:
        variant, parameters, run = "memory_bound", cuda_kernels.RMS_NORM_PARAMETERS, cuda_kernels.RMS_NORM
    provider = NvccSearchSpace(variant=variant, architecture="sm_90")
    return CudaTarget(KERNELS / f"{kernel}.cu", kernel, provider, parameters=parameters, run=run)


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
