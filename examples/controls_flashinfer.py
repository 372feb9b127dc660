"""Bring nvcc's options to FlashInfer's kernels; where FlashInfer is installed, compile one with them."""

import importlib.util
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from kernelwright.controls import adapter
from kernelwright.controls import canary
from kernelwright.controls import Controls
from kernelwright.controls import encode_controls
from kernelwright.controls import KernelRun
from kernelwright.controls import NvccSearchSpace
from kernelwright.controls import ScriptTarget
from kernelwright.machine import find_cuda_tool
from kernelwright.process import Limits


def build(options, out, constants):
    """Compile FlashInfer's silu_and_mul for sm_90 and take the cubins out of the library."""
    os.environ.setdefault("CUDA_HOME", str(find_cuda_tool("nvcc").path.parent.parent))
    os.environ["FLASHINFER_CUDA_ARCH_LIST"] = "9.0a"
    from flashinfer.jit.activation import gen_act_and_mul_module

    made = gen_act_and_mul_module("silu")
    folder = made.jit_library_path.parent
    try:
        made.build(verbose=False)
        shutil.copyfile(made.jit_library_path, out / "kernel.so")
    except RuntimeError:
        # Linking needs the driver's library, which a machine without a GPU does not have: the object does.
        if not list(folder.glob("*.cuda.o")):
            raise
    [object_file] = folder.glob("*.cuda.o")
    extract = [str(find_cuda_tool("cuobjdump").path), "--extract-elf", "all", str(object_file)]
    subprocess.run(extract, cwd=out, check=True, capture_output=True)


def launch(folder, options, arguments, grid):
    """The library that was built, as FlashInfer loads it."""
    import tvm_ffi

    call = tvm_ffi.load_module(str(folder / "kernel.so")).silu_and_mul
    x, out = arguments
    return lambda: call(out, x, False)


def inputs(seed):
    """16384 rows of 2 · 4096 on the current GPU, and the result."""
    import torch

    seeded = torch.Generator("cuda").manual_seed(seed)
    x = torch.randn(16384, 2 * 4096, device="cuda", generator=seeded).bfloat16()
    return [x, torch.empty(16384, 4096, device="cuda", dtype=torch.bfloat16)]


def expected(x, _):
    """In single precision."""
    import torch

    gate, value = x.float().chunk(2, dim=-1)
    return gate * torch.sigmoid(gate) * value


def make_target() -> ScriptTarget:
    """The kernel for an H200; `kernelwright controls canary examples/controls_flashinfer.py` finds this."""
    run = KernelRun(inputs, expected, [1], (1,), (1,))
    limits = Limits(wall_s=600.0)
    space = NvccSearchSpace()
    return ScriptTarget(f"{__file__}:build", space, through="flashinfer", run=run, build_limits=limits)


if __name__ == "__main__":
    config = encode_controls(Controls("nvcc", ("--maxrregcount=64", "-Xptxas=--opt-level=0")))
    with tempfile.TemporaryDirectory() as folder:
        injection = adapter("flashinfer").inject(config, Path(folder))
    print("FLASHINFER_EXTRA_CUDAFLAGS =", injection.environment["FLASHINFER_EXTRA_CUDAFLAGS"])
    if importlib.util.find_spec("flashinfer") is None:
        print("FlashInfer is not installed here: nothing was compiled")
    else:
        for stage in canary(make_target(), measure=False).check().stages:
            print(f"{stage.name}: {stage.said}")
