"""PTX and CUDA sources to cubins: one call of ptxas or nvcc, with limits, in a folder of its own."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelwright.controls._codec import compiler_arguments
from kernelwright.controls._codec import decode_controls
from kernelwright.controls._cuda_adapters import NvccAdapter
from kernelwright.controls._cuda_adapters import PtxasAdapter
from kernelwright.controls._cuda_words import FOR_PTXAS
from kernelwright.controls._cuda_words import nvcc_subject
from kernelwright.controls._target import build_status
from kernelwright.controls._target import BuildFailure
from kernelwright.errors import NoCompilerError
from kernelwright.machine import CudaTool
from kernelwright.machine import HOW_TO_INSTALL_CUDA
from kernelwright.process import End
from kernelwright.process import Limits
from kernelwright.process import Outcome
from kernelwright.process import run

LIMITS = Limits(wall_s=120.0)
"""Of one compilation."""
_LTO = "--dlink-time-opt"
#: What nvcc's own options are called where nvlink has them as well.
_LINKED = ("--maxrregcount", "--Ofast-compile")


@dataclass(frozen=True)
class Compiled:
    """A cubin, what the tools said (`ptxas -v` among it), and what it took."""

    path: Path
    log: str
    seconds: float


def compile_ptx(
    tool: CudaTool,
    source: Path,
    folder: Path,
    config: str | Mapping[str, Any],
    *,
    architecture: str,
    entry: str | None = None,
    limits: Limits = LIMITS,
) -> Compiled:
    """The cubin that ptxas makes of PTX under a configuration, at a fresh path in `folder`.

    With `entry` only that kernel is compiled. Raises BuildFailure, and ControlsError for a configuration that
    cannot reach ptxas.
    """
    with _fresh(folder) as place:
        injected = PtxasAdapter(tool).inject(config, place)
        out = place / f"{source.stem}.cubin"
        wanted = () if entry is None else (f"--entry={entry}",)
        argv = [str(tool.path), "-v", f"-arch={architecture}", *wanted, str(source.absolute())]
        return _finished([_call([*argv, "-o", str(out), *injected.arguments], place, limits)], out)


def compile_cuda(
    tool: CudaTool,
    source: Path,
    folder: Path,
    config: str | Mapping[str, Any],
    *,
    architecture: str,
    flags: Sequence[str] = (),
    limits: Limits = LIMITS,
) -> Compiled:
    """The cubin that nvcc makes of a CUDA source under a configuration, at a fresh path in `folder`.

    With `--dlink-time-opt` it is made by nvlink from intermediate code, optimised as a whole program. Raises
    BuildFailure, ControlsError for a configuration that cannot reach nvcc, and NoCompilerError where nvlink
    or libnvvm is wanted and not there.
    """
    with _fresh(folder) as place:
        out = place / f"{source.stem}.cubin"
        injected = NvccAdapter(tool).inject(config, place)
        words = _words(config)
        argv = [str(tool.path), *flags, *injected.arguments, str(source.absolute()), "-o"]
        if not any(nvcc_subject(word) == _LTO for word in words):
            made = _call([*argv, str(out), "-cubin", f"-arch={architecture}", "-Xptxas=-v"], place, limits)
            return _finished([made], out)
        nvlink = tool.beside("nvlink")
        if nvlink is None:
            raise NoCompilerError(f"{_LTO} needs nvlink beside {tool.path}: {HOW_TO_INSTALL_CUDA}")
        middle = place / f"{source.stem}.ltoir"
        target = architecture.replace("sm_", "lto_").replace("compute_", "lto_")
        first = _call([*argv, str(middle), "--ltoir", f"-arch={target}"], place, limits)
        if not middle.is_file():
            return _finished([first], out)
        linked = [word for word in words if word.startswith(FOR_PTXAS) or nvcc_subject(word) in _LINKED]
        argv = [str(nvlink), "-dlto", f"-arch={architecture}", f"-nvvmpath={_nvvm(tool, place)}", *linked]
        second = _call([*argv, "-Xptxas=-v", str(middle), "-o", str(out)], place, limits)
        return _finished([first, second], out)


@contextlib.contextmanager
def _fresh(folder: Path) -> Iterator[Path]:
    """A new folder in `folder`, which stays where the build succeeds: the cubin is in it."""
    folder.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix="build-", dir=folder)).absolute()
    try:
        yield place
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise


def _words(config: str | Mapping[str, Any]) -> list[str]:
    if isinstance(config, str) and decode_controls(config) is None:
        return []
    return compiler_arguments(config)


def _call(argv: Sequence[str], place: Path, limits: Limits) -> Outcome:
    env = {**os.environ, "TMPDIR": str(place), "LC_ALL": "C"}
    return run(argv, limits=limits, cwd=place, env=env)


def _finished(outcomes: Sequence[Outcome], out: Path) -> Compiled:
    """What was compiled. Raises BuildFailure where the last tool to run did not do it."""
    log = "".join(one.stdout + one.stderr for one in outcomes)
    last = outcomes[-1]
    if last.ok and out.is_file():
        return Compiled(out, log, sum(one.wall_s for one in outcomes))
    if last.end is End.TIMED_OUT:
        status = "build_timeout"
    elif last.end is End.EXITED and last.returncode is not None and 0 < last.returncode < 128:
        status = build_status("build_failed", log)
    elif last.end is End.EXITED and re.search(r"\b(error|fatal)\b", log):
        # ptxas exits with 255 for an error of the source.
        status = build_status("build_failed", log)
    else:
        status = "compiler_crashed"
    said = [line for line in log.splitlines() if re.search(r"\b(error|fatal)\b", line)]
    raise BuildFailure(status, said[0] if said else last.describe(), log)


def _nvvm(tool: CudaTool, place: Path) -> Path:
    """A folder in which nvlink finds libnvvm: the toolkit's own, else one made of what the wheels have."""
    root = tool.path.resolve().parent.parent
    if (root / "nvvm" / "lib64" / "libnvvm.so").exists():
        return root / "nvvm"
    library = next(
        (found for folder in ("lib", "lib64") for found in (root / folder).glob("libnvvm.so*")), None
    )
    if library is None:
        raise NoCompilerError(f"{_LTO} needs libnvvm, and there is none in {root}: {HOW_TO_INSTALL_CUDA}")
    made = place / "nvvm"
    (made / "lib64").mkdir(parents=True)
    (made / "lib64" / "libnvvm.so").symlink_to(library)
    (made / "libdevice").symlink_to(root / "nvvm" / "libdevice")
    return made
