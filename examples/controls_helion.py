"""Bring Triton's and ptxas's options to a Helion kernel; where Helion is installed, compile with them."""

import importlib.util
import json
import shutil
import sys
import tempfile
from pathlib import Path

from kernelwright.controls import adapter
from kernelwright.controls import canary
from kernelwright.controls import Controls
from kernelwright.controls import encode_controls
from kernelwright.controls import helion_config
from kernelwright.controls import helion_launcher
from kernelwright.controls import KernelRun
from kernelwright.controls import ScriptTarget
from kernelwright.controls import TritonSearchSpace

sys.path.insert(0, str(Path(__file__).parent / "kernels"))
TYPES = {"torch.bfloat16": "*bf16", "torch.float32": "*fp32"}
OWN = {"block_sizes": [1, 1024]}


def compiled(options, x, out):
    """The kernel under a configuration, for these tensors, which may lie on the CPU."""
    import helion
    from helion_kernels import silu_and_mul

    return silu_and_mul.bind((x, out)).compile_config(helion.Config(**helion_config(OWN, options)))


def source(kernel, arguments):
    """What Triton compiles: the kernel with the types of its arguments."""
    from triton.compiler import ASTSource

    names = kernel.arg_names
    types = [TYPES.get(str(getattr(one, "dtype", "")), "i32") for one in arguments]
    divisible = {(at,): [["tt.divisibility", 16]] for at, kind in enumerate(types) if kind[0] == "*"}
    return ASTSource(kernel, dict(zip(names, types, strict=True)), {}, divisible)


def build(options, out, constants):
    """Compile what Helion would launch for sm_90; it never is, so that no GPU is needed."""
    import torch
    import triton
    from triton.backends.compiler import GPUTarget

    def keep(kernel, grid, *arguments, **launch):
        made = triton.compile(source(kernel, arguments), GPUTarget("cuda", 90, 32), launch)
        (out / "kernel.cubin").write_bytes(made.asm["cubin"])
        described = next(path for name, path in made.metadata_group.items() if name.endswith(".json"))
        shutil.copyfile(described, out / "kernel.json")

    x, y = (torch.empty(16384, width, dtype=torch.bfloat16) for width in (8192, 4096))
    compiled(options, x, y)(x, y, _launcher=helion_launcher(options, keep))


def launch(folder, options, arguments, grid):
    """Helion's own host code, which launches what was built."""
    from triton.compiler import CompiledKernel

    call, made = compiled(options, *arguments), {}

    def launch_built(kernel, grid, *words, **_):
        if not made:
            group = {name: str(folder / name) for name in ("kernel.json", "kernel.cubin")}
            made["kernel"] = CompiledKernel(source(kernel, words), group, folder.name)
        made["kernel"][(*grid, 1, 1)[:3]](*words)

    return lambda: call(*arguments, _launcher=launch_built)


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
    """The kernel for an H200; `kernelwright controls canary examples/controls_helion.py` finds this."""
    run = KernelRun(inputs, expected, [1], (1,), (1,))
    space = TritonSearchSpace(variant="memory_bound")
    return ScriptTarget(f"{__file__}:build", space, through="helion", run=run)


if __name__ == "__main__":
    config = encode_controls(Controls("triton", ("num_warps=8", "--opt-level=0")))
    with tempfile.TemporaryDirectory() as folder:
        injection = adapter("helion").inject(config, Path(folder))
    print("configuration:", json.dumps(helion_config(OWN, injection.keywords)))
    print("with each launch: ptx_options =", injection.keywords["ptx_options"])
    if importlib.util.find_spec("helion") is None:
        print("Helion is not installed here: nothing was compiled")
    else:
        for stage in canary(make_target(), measure=False).check().stages:
            print(f"{stage.name}: {stage.said}")
