"""Which of the options that ptxas and nvcc list are searched: what each is for, and its values."""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass

from kernelwright.controls._cuda_help import HelpOption
from kernelwright.controls._provider import Variant
from kernelwright.controls._provider import VARIANTS
from kernelwright.space import Choice
from kernelwright.space import Parameter
from kernelwright.space import Range

_ALL = VARIANTS
#: The cache operators of PTX's plain loads and stores; which of them the tool takes is asked of it.
_LOADS = Choice(["ca", "cg", "cs", "lu", "cv"])
_STORES = Choice(["wb", "cg", "cs", "wt"])
_REGISTERS = Range(32, 248, 8, default=128)


@dataclass(frozen=True)
class Offer:
    """What is known of one option: the variants that it is in, and values where the tool states none."""

    variants: Sequence[str]
    values: Parameter | None = None
    #: Whether it may change results: floating point, or what threads see of each other's stores.
    unsafe: bool = False


PTXAS_OFFERS: Mapping[str, Offer] = {
    "--opt-level": Offer(_ALL, Range(1, 3, default=3)),
    "--maxrregcount": Offer(_ALL, _REGISTERS),
    "--register-usage-level": Offer(_ALL),
    "--allow-expensive-optimizations": Offer(_ALL),
    "--def-load-cache": Offer(("default", "memory_bound", "wide"), _LOADS),
    "--def-store-cache": Offer(("default", "memory_bound", "wide"), _STORES),
    "--minnctapersm": Offer(("attention", "memory_bound", "wide"), Range(1, 8)),
    "--disable-optimizer-constants": Offer(("attention", "wide")),
    "--dont-merge-basicblocks": Offer(("attention", "wide")),
    "--fmad": Offer(_ALL, unsafe=True),
    "--optimize-float-atomics": Offer(_ALL, unsafe=True),
    "--force-load-cache": Offer(("memory_bound", "wide"), _LOADS, unsafe=True),
    "--force-store-cache": Offer(("memory_bound", "wide"), _STORES, unsafe=True),
}
NVCC_OFFERS: Mapping[str, Offer] = {
    "--maxrregcount": Offer(_ALL, _REGISTERS),
    "--extra-device-vectorization": Offer(_ALL),
    "--jump-table-density": Offer(("wide",), Range(0, 101, default=101)),
    "--dlink-time-opt": Offer(("wide",)),
    "--Ofast-compile": Offer(("wide",)),
    "--fmad": Offer(_ALL, unsafe=True),
    "--ftz": Offer(_ALL, unsafe=True),
    "--prec-div": Offer(_ALL, unsafe=True),
    "--prec-sqrt": Offer(_ALL, unsafe=True),
    "--use_fast_math": Offer(_ALL, unsafe=True),
    # The programmer's word that no two pointers of a kernel overlap: wrong where they do.
    "--restrict": Offer(_ALL, unsafe=True),
}
#: Options of nvcc that nvcc hands on to ptxas itself, so that they are offered once.
NVCC_HANDS_ON = ("--maxrregcount", "--fmad", "--Ofast-compile")

#: What an option that we know nothing of is not about when it is offered in `wide`. `unroll` is not among
#: these: a tool that lists an option about it has it searched.
_OTHER = re.compile(
    r"access|annotat|apply|arch|bar-warp|bounds|check|compile-(as|only)|compress|concat|debug|device-function"
    r"|double|entr|error|exit|file|func-clone|help|info|input|jobserver|line|list|machine|name|ntid|output"
    r"|override|patch|preserve|position-independent|protector|sanitize|split|suppress|verbos|version|warn"
    r"|whole-program"
)
#: Of nvcc only these are about device code; the rest steers phases, files and the host's compiler.
_NVCC_ABOUT = re.compile(r"unroll|vectori|device-opt|inline|schedul")


def ptxas_offers(listed: Mapping[str, HelpOption], variant: Variant, *, unsafe: bool) -> dict[str, Parameter]:
    """The options of ptxas to try, by their long names, with the values that may be tried."""
    return _offered(listed, PTXAS_OFFERS, variant, unsafe, lambda name: not _OTHER.search(name))


def nvcc_offers(listed: Mapping[str, HelpOption], variant: Variant, *, unsafe: bool) -> dict[str, Parameter]:
    """The options of nvcc's own to try, by their long names, with the values that may be tried."""
    return _offered(listed, NVCC_OFFERS, variant, unsafe, lambda name: bool(_NVCC_ABOUT.search(name)))


def _offered(
    listed: Mapping[str, HelpOption],
    offers: Mapping[str, Offer],
    variant: Variant,
    unsafe: bool,
    may_be_tried: Callable[[str], bool],
) -> dict[str, Parameter]:
    found: dict[str, Parameter] = {}
    for name in (*(known for known in offers if known in listed), *listed):
        if name in found:
            continue
        offer = offers.get(name)
        if offer is None:
            known = Offer(("wide",)) if may_be_tried(name) and "deprecated" not in listed[name].text else None
        else:
            known = offer
        if known is None or variant not in known.variants or (known.unsafe and not unsafe):
            continue
        values = known.values or listed[name].parameter()
        if values is not None:
            found[name] = values
    return found
