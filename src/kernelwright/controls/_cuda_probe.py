"""Which options a tool takes: asked of the tool, by compiling a tiny kernel with them."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path

from kernelwright.controls._codec import Controls
from kernelwright.controls._codec import encode_controls
from kernelwright.controls._cuda_compile import compile_cuda
from kernelwright.controls._cuda_compile import compile_ptx
from kernelwright.controls._errors import ControlsError
from kernelwright.controls._target import BuildFailure
from kernelwright.errors import NoCompilerError
from kernelwright.machine import CudaTool
from kernelwright.space import Choice
from kernelwright.space import Flag
from kernelwright.space import Parameter
from kernelwright.space import Range
from kernelwright.space import Value

_PTX = """
.version 6.3
.target sm_75
.address_size 64
.visible .entry probe(.param .u64 out) {
  .reg .u64 %rd<4>;
  .reg .f32 %f<4>;
  ld.param.u64 %rd1, [out];
  cvta.to.global.u64 %rd2, %rd1;
  ld.global.f32 %f1, [%rd2];
  fma.rn.f32 %f2, %f1, %f1, %f1;
  st.global.f32 [%rd2+4], %f2;
  ret;
}
"""
_CUDA = """
extern "C" __global__ void probe(float* out) { out[1] = out[0] * out[0] + out[0]; }
"""
#: What a tool says of an option that it takes and does not heed.
_UNHEEDED = ("ignor", "deprecated", "no longer functional", "not fully implemented", "not supported")
#: What a part of nvcc says of an option that it is handed and does not know, while nvcc goes on.
_LOST = "Unknown command line argument"

#: Options that are tried by themselves, since with some of the others they mean nothing or something else.
_ALONE = (
    "--minnctapersm",
    "--use_fast_math",
    "--dlink-time-opt",
    "--Ofast-compile",
    "--force-load-cache",
    "--force-store-cache",
)

Word = Callable[[str, Value], str]


def accepted(
    tool: CudaTool, architecture: str, parameters: Mapping[str, Parameter], word: Word
) -> dict[str, Parameter]:
    """The parameters that the tool takes, with the values that it takes.

    Of a choice each value is tried, of a range its ends. An option that is taken with a
    warning that it is not heeded counts as refused.
    """
    tried = {name: _values(one) for name, one in parameters.items()}
    taken: set[str] = set()
    # Options are tried together, each with one of its values, and apart only where that fails.
    for turn in range(max(map(len, tried.values()), default=0)):
        words = {name: word(name, values[turn]) for name, values in tried.items() if turn < len(values)}
        together = tuple(text for name, text in words.items() if name not in _ALONE)
        for batch in (together, *((words[name],) for name in _ALONE if name in words)):
            taken |= _taken(tool, architecture, batch)
    found = {}
    for name, one in parameters.items():
        kept = [value for value in tried[name] if word(name, value) in taken]
        if len(kept) == len(tried[name]):
            found[name] = one
        elif kept and isinstance(one, Choice | Flag):
            found[name] = Choice(kept)  # type: ignore[arg-type]
    return found


def _values(one: Parameter) -> Sequence[Value]:
    if isinstance(one, Range):
        return [one.low, one.high]
    return one.values() or (one.default,)


@functools.lru_cache(maxsize=4096)
def _taken(tool: CudaTool, architecture: str, words: tuple[str, ...]) -> frozenset[str]:
    """The words that the tool takes: all of them, or what is left of each half."""
    if not words:
        return frozenset()
    if takes(tool, architecture, words):
        return frozenset(words)
    if len(words) == 1:
        return frozenset()
    half = len(words) // 2
    return _taken(tool, architecture, words[:half]) | _taken(tool, architecture, words[half:])


def takes(tool: CudaTool, architecture: str, words: Iterable[str]) -> bool:
    """Whether the tool compiles a tiny kernel with these options, and heeds them as far as it says."""
    config = encode_controls(Controls(tool.name, tuple(words)))
    with tempfile.TemporaryDirectory(prefix="kernelwright-probe-") as name:
        folder = Path(name)
        try:
            if tool.name == "ptxas":
                source = folder / "probe.ptx"
                source.write_text(_PTX)
                log = compile_ptx(tool, source, folder, config, architecture=architecture).log
            else:
                source = folder / "probe.cu"
                source.write_text(_CUDA)
                log = compile_cuda(tool, source, folder, config, architecture=architecture).log
        except (BuildFailure, NoCompilerError, ControlsError):
            return False
    warned = [line for line in log.splitlines() if "warning" in line]
    return _LOST not in log and not any(mark in line for line in warned for mark in _UNHEEDED)
