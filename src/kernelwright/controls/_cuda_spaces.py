"""The options of ptxas and nvcc as search spaces."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from pathlib import Path

from kernelwright.controls._codec import Controls
from kernelwright.controls._codec import decode_controls
from kernelwright.controls._codec import encode_controls
from kernelwright.controls._cuda_help import ON
from kernelwright.controls._cuda_help import read_help
from kernelwright.controls._cuda_offers import NVCC_HANDS_ON
from kernelwright.controls._cuda_offers import nvcc_offers
from kernelwright.controls._cuda_offers import ptxas_offers
from kernelwright.controls._cuda_probe import accepted
from kernelwright.controls._cuda_words import FOR_PTXAS
from kernelwright.controls._cuda_words import OVERRIDE
from kernelwright.controls._provider import CompilerSearchSpace
from kernelwright.controls._provider import Level
from kernelwright.controls._provider import selected
from kernelwright.controls._provider import Variant
from kernelwright.machine import CudaTool
from kernelwright.machine import find_cuda_tool
from kernelwright.space import Configuration
from kernelwright.space import Constraint
from kernelwright.space import Parameter
from kernelwright.space import Value

_LEVEL = "--opt-level"
#: Caps that `__launch_bounds__` beats without a word, unless the tool is told otherwise.
_CAPS = ("--maxrregcount", "--minnctapersm")


class _CudaSearchSpace(CompilerSearchSpace):
    """What ptxas and nvcc have in common: caps come with the option that makes them count."""

    _override: str

    def __init__(
        self,
        tool: CudaTool,
        architecture: str,
        parameters: Mapping[str, Parameter],
        levels: Mapping[Level, tuple[str, ...]],
        overrides: bool,
        *,
        variant: Variant,
        unsafe_math: bool,
        knockout_prob: float,
    ) -> None:
        self.architecture = architecture
        self._overrides = overrides
        self._capped = tuple(name for name in parameters if name.removeprefix(FOR_PTXAS) in _CAPS)
        named = {name.removeprefix(FOR_PTXAS): name for name in parameters}
        apart = [
            Constraint(rule, f"not both: {' and '.join(pair)}").with_scope(tuple(named[one] for one in pair))
            for pair, rule in _APART.items()
            if named.keys() >= {*pair}
        ]
        super().__init__(
            tool.path,
            f"{tool} ({architecture})",
            parameters,
            levels,
            variant=variant,
            unsafe_math=unsafe_math,
            knockout_prob=knockout_prob,
            constraints=apart,
        )

    def render(self, configuration: Configuration) -> str:
        """The hex string of the options that are there, in the order of the space."""
        words = [self._word(name, value) for name, value in configuration.items() if value is not None]
        if self._overrides and any(configuration.get(name) is not None for name in self._capped):
            words.append(self._override)
        return encode_controls(Controls(self.tool, tuple(words)))

    def _word(self, name: str, value: Value) -> str:
        return word_of(name, value)

    def parse(self, text: str) -> Configuration:
        """The configuration whose options are these, in any order; see CompilerSearchSpace."""
        controls = decode_controls(text)
        if controls is not None and controls.tool == self.tool and self._override not in self._kinds:
            kept = tuple(option for option in controls.options if option != self._override)
            text = encode_controls(Controls(self.tool, kept))
        return super().parse(text)


def word_of(name: str, value: Value) -> str:
    """The option that sets a parameter: `--name` for True of a switch without values, else `--name=value`."""
    if isinstance(value, bool):
        return f"{name}={str(value).lower()}"
    return name if value == ON else f"{name}={value}"


def _never(first: object, second: object) -> bool:
    return False


def _not_fast(other: object, fast: str) -> bool:
    return fast == "0"


#: Of these two ptxas heeds the first alone, or refuses both.
_APART: Mapping[tuple[str, str], Callable[..., bool]] = {
    ("--maxrregcount", "--minnctapersm"): _never,
    ("--def-load-cache", "--force-load-cache"): _never,
    ("--def-store-cache", "--force-store-cache"): _never,
    (_LEVEL, "--Ofast-compile"): _not_fast,
    ("--allow-expensive-optimizations", "--Ofast-compile"): _not_fast,
}


class PtxasSearchSpace(_CudaSearchSpace):
    """The options of the ptxas that is here, as it lists them itself: a provider for `Search`.

    A configuration says for each option what it shall be, or nothing (ptxas's own setting stays). The
    objective gets a hex string, which `adapter("ptxas").inject` turns into a file for `ptxas
    --options-file`; where everything is knocked out, `{}`. Each option, and each value that ptxas does not
    state itself, was tried on a tiny kernel and is left out where it was refused or not heeded. A cap on
    registers or blocks comes with `--override-directive-values`, without which `__launch_bounds__` wins.

    Args:
        compiler: a path; else the one that `kernelwright.machine.find_cuda_tool` finds.
        variant: `default`; `attention` (main loops: registers, scheduling), `memory_bound` (cache policies),
            `wide` (all that ptxas lists and that does not change what a kernel means).
        architecture: what is compiled for, such as `sm_90`.
        options: names such as `--maxrregcount`, to search these alone.
        unsafe_math: also the options that change results: contraction of products and sums, and cache
            policies forced on loads and stores that ask for another.
        knockout_prob: the chance of each option to be left alone.

    Raises NoCompilerError when there is no ptxas here, UnknownNameError for an option that it does not have.
    """

    tool = "ptxas"
    title = "ptxas"
    _override = OVERRIDE

    def __init__(
        self,
        compiler: Path | str | None = None,
        *,
        variant: Variant = "default",
        architecture: str = "sm_90",
        options: Iterable[str] | None = None,
        unsafe_math: bool = False,
        knockout_prob: float = 0.5,
    ) -> None:
        found = find_cuda_tool("ptxas", compiler)
        listed = read_help(found)
        offered = ptxas_offers(listed, "wide" if options else variant, unsafe=unsafe_math)
        offered = selected(offered, options, f"{found}, {architecture}")
        super().__init__(
            found,
            architecture,
            accepted(found, architecture, offered, word_of),
            _levels("", listed[_LEVEL].default),
            OVERRIDE in listed,
            variant=variant,
            unsafe_math=unsafe_math,
            knockout_prob=knockout_prob,
        )


class NvccSearchSpace(_CudaSearchSpace):
    """The options of the nvcc that is here, and of its ptxas, as they list them: a provider for `Search`.

    Those of ptxas are called `-Xptxas=--name`. What `PtxasSearchSpace` says holds here as well; the hex
    string is for `adapter("nvcc").inject`, which makes a file for `nvcc --options-file`. The help of nvcc
    lists nothing about unrolling: let a macro of the kernel choose it, as a parameter beside this space.

    Args:
        compiler: a path; else the one that `kernelwright.machine.find_cuda_tool` finds.
        variant: as for ptxas; `wide` has link-time optimisation of device code, which `CudaTarget` compiles
            in two steps and a plain `nvcc -cubin` refuses.
        architecture: what is compiled for, such as `sm_90`.
        options: names such as `--maxrregcount` or `-Xptxas=--def-load-cache`, to search these alone.
        unsafe_math: also the options that change results: fast mathematics, contraction, flushed denormals,
            `--restrict`, and those of ptxas.
        knockout_prob: the chance of each option to be left alone.

    Raises NoCompilerError when nvcc, or ptxas beside it, is not here; UnknownNameError for an option that
    they do not have.
    """

    tool = "nvcc"
    title = "nvcc"
    _override = FOR_PTXAS + OVERRIDE

    def __init__(
        self,
        compiler: Path | str | None = None,
        *,
        variant: Variant = "default",
        architecture: str = "sm_90",
        options: Iterable[str] | None = None,
        unsafe_math: bool = False,
        knockout_prob: float = 0.5,
    ) -> None:
        found = find_cuda_tool("nvcc", compiler)
        ptxas = find_cuda_tool("ptxas", found.beside("ptxas"))
        listed = read_help(ptxas)
        known = "wide" if options else variant
        own = nvcc_offers(read_help(found), known, unsafe=unsafe_math)
        theirs = ptxas_offers(listed, known, unsafe=unsafe_math)
        handed = {FOR_PTXAS + name: one for name, one in theirs.items() if name not in NVCC_HANDS_ON}
        offered = selected(own | handed, options, f"{found}, {architecture}")
        # What nvcc hands on unseen is asked of ptxas, which answers thirty times as fast.
        own = {name: one for name, one in offered.items() if name not in handed}
        theirs = {name.removeprefix(FOR_PTXAS): one for name, one in offered.items() if name in handed}
        taken = accepted(found, architecture, own, word_of)
        for name, one in accepted(ptxas, architecture, theirs, word_of).items():
            taken[FOR_PTXAS + name] = one
        super().__init__(
            found,
            architecture,
            taken,
            _levels(FOR_PTXAS, listed[_LEVEL].default),
            OVERRIDE in listed,
            variant=variant,
            unsafe_math=unsafe_math,
            knockout_prob=knockout_prob,
        )


def _levels(prefix: str, default: str | None) -> dict[Level, tuple[str, ...]]:
    """The levels by which a canary sees whether options arrive; the baseline's is what the help states."""
    return {
        "lowest": (f"{prefix}{_LEVEL}=0",),
        "baseline": (f"{prefix}{_LEVEL}={default or 3}",),
        "highest": (f"{prefix}{_LEVEL}=3",),
    }
