"""Bring options to ptxas, prove that they arrive, and time what they give where there is a GPU.

`kernelwright controls canary examples/controls_ptxas.py` does the second of these for the `target` below.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from kernelwright.controls import adapter
from kernelwright.controls import canary
from kernelwright.controls import Controls
from kernelwright.controls import ControlsObjective
from kernelwright.controls import encode_controls
from kernelwright.controls import PtxasSearchSpace
from kernelwright.controls import PtxTarget
from kernelwright.controls import resources_of
from kernelwright.controls import search_controls
from kernelwright.machine import find_cuda_tool
from kernelwright.search import Search
from kernelwright.search import SearchConfiguration

sys.path.insert(0, str(Path(__file__).parent / "kernels"))
import cuda_kernels

KERNELS = Path(__file__).parent / "kernels"
RUNS = {"rms_norm": cuda_kernels.RMS_NORM, "matmul": cuda_kernels.MATMUL}
VARIANTS = {"rms_norm": "memory_bound", "matmul": "attention"}


def ptx(kernel: str = "rms_norm") -> Path:
    """The kernel as PTX; any will do: a file of your own, or what Triton keeps in its cache."""
    path = Path(tempfile.gettempdir()) / f"kernelwright-{kernel}.ptx"
    nvcc = find_cuda_tool("nvcc")
    subprocess.run([nvcc.path, "-ptx", "-arch=sm_90", KERNELS / f"{kernel}.cu", "-o", path], check=True)
    return path


def make_target(kernel: str = "rms_norm", source: Path | None = None) -> PtxTarget:
    """What is compiled and timed."""
    provider = PtxasSearchSpace(variant=VARIANTS[kernel], architecture="sm_90")
    return PtxTarget(source or ptx(kernel), kernel, provider, run=RUNS[kernel])


def by_hand(source: Path, config) -> str:
    """Compile with a configuration in an objective of your own: an adapter says what ptxas is given."""
    with tempfile.TemporaryDirectory() as folder:
        cubin = Path(folder) / "rms_norm.cubin"
        injection = adapter("ptxas").inject(config, Path(folder))
        command = [find_cuda_tool("ptxas").path, "-arch=sm_90", source, "-o", cubin, *injection.arguments]
        subprocess.run(command, check=True)
        needs = resources_of(cubin)
    return f"{needs.registers} registers, {needs.spills} bytes spilled, occupancy {needs.occupancy:.0%}"


if __name__ == "__main__":
    source = ptx()
    print("no controls:", by_hand(source, {}))
    capped = encode_controls(Controls("ptxas", ("--maxrregcount=24", "--override-directive-values")))
    print("capped at 24 registers:", by_hand(source, capped))

    target = make_target(source=source)
    import torch

    here = torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)
    if here:
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
    for config in Search(objective, target.provider).sample(20):
        objective(config)  # builds and prunes; measuring fails, for want of a GPU
    print(
        f"{objective.counts.evaluations} configurations gave {objective.counts.distinct} distinct binaries, "
        f"{objective.counts.pruned} of them pruned; no sm_90 GPU here, so none was timed"
    )
