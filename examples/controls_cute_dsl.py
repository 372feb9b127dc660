"""Bring ptxas's options to a CuTe DSL kernel; where CuTe DSL is installed, compile with them."""

import functools
import importlib.util
import tempfile
from pathlib import Path

from kernelwright.controls import adapter
from kernelwright.controls import canary
from kernelwright.controls import Controls
from kernelwright.controls import cute_options
from kernelwright.controls import encode_controls
from kernelwright.controls import KernelRun
from kernelwright.controls import PtxasSearchSpace
from kernelwright.controls import ScriptTarget

ROWS, WIDTH, THREADS = 16384, 4096, 256


def compiled(options, folder):
    """SiLU of one half of a row, times the other, compiled for sm_90; its cubin is left in the folder."""
    import cutlass
    from cutlass import cute
    from cutlass.cute.runtime import make_fake_compact_tensor

    @cute.kernel
    def silu_and_mul(x: cute.Tensor, out: cute.Tensor):
        thread, _, _ = cute.arch.thread_idx()
        block, row, _ = cute.arch.block_idx()
        column = block * THREADS + thread
        gate = x[row, column].to(cutlass.Float32)
        value = x[row, column + WIDTH].to(cutlass.Float32)
        out[row, column] = (gate / (1.0 + cute.exp(-gate)) * value).to(cutlass.BFloat16)

    @cute.jit
    def host(x: cute.Tensor, out: cute.Tensor):
        silu_and_mul(x, out).launch(grid=(WIDTH // THREADS, ROWS, 1), block=(THREADS, 1, 1))

    x, out = (
        make_fake_compact_tensor(cutlass.BFloat16, (ROWS, width), stride_order=(1, 0))
        for width in (2 * WIDTH, WIDTH)
    )
    own = f"--gpu-arch sm_90a --keep-cubin --dump-dir {folder}"
    return cute.compile(host, x, out, options=cute_options(own, options))


def build(options, out, constants):
    """Compile; the cubin is what `--keep-cubin` leaves."""
    compiled(options, out)


@functools.cache
def loaded(folder, options):
    """CuTe DSL loads only what it compiled itself: compiled again, once a process, and compared."""
    from kernelwright.controls import cubin_key

    with tempfile.TemporaryDirectory() as again:
        call = compiled(dict(options), again)
        [made], [built] = Path(again).glob("*.cubin"), folder.glob("*.cubin")
        if cubin_key(made) != cubin_key(built):
            raise RuntimeError(f"{folder}: compiled again, the code is another")
    return call


def launch(folder, options, arguments, grid):
    """What was built, for these tensors."""
    from cutlass.cute.runtime import from_dlpack

    call = loaded(folder, tuple(options.items()))
    words = [from_dlpack(one, assumed_align=16) for one in arguments]
    return lambda: call(*words)


def inputs(seed):
    """Rows of two halves on the current GPU, and the result."""
    import torch

    seeded = torch.Generator("cuda").manual_seed(seed)
    x = torch.randn(ROWS, 2 * WIDTH, device="cuda", generator=seeded).bfloat16()
    return [x, torch.empty(ROWS, WIDTH, device="cuda", dtype=torch.bfloat16)]


def expected(x, _):
    """In single precision."""
    import torch

    gate, value = x.float().chunk(2, dim=-1)
    return gate * torch.sigmoid(gate) * value


def make_target() -> ScriptTarget:
    """The kernel for an H200; `kernelwright controls canary examples/controls_cute_dsl.py` finds this."""
    run = KernelRun(inputs, expected, [1], (1,), (1,))
    return ScriptTarget(f"{__file__}:build", PtxasSearchSpace(), through="cute_dsl", run=run)


if __name__ == "__main__":
    config = encode_controls(Controls("ptxas", ("--opt-level=0", "--maxrregcount=64")))
    with tempfile.TemporaryDirectory() as folder:
        injection = adapter("cute_dsl").inject(config, Path(folder))
    own = "--opt-level 3 --ptxas-options '--register-usage-level=7'"
    print("cute.compile(…, options=" + repr(cute_options(own, injection.keywords)) + ")")
    if importlib.util.find_spec("cutlass") is None:
        print("CuTe DSL is not installed here: nothing was compiled")
    else:
        for stage in canary(make_target(), measure=False).check().stages:
            print(f"{stage.name}: {stage.said}")
