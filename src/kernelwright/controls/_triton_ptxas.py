"""Options of the ptxas that Triton runs, as that ptxas lists them."""

from __future__ import annotations

import re
from pathlib import Path

from kernelwright.controls._triton_options import ptxas_help
from kernelwright.space import Choice
from kernelwright.space import Flag
from kernelwright.space import Parameter
from kernelwright.space import Range

#: Cache operators of loads and stores, of those in the PTX manual that keep the meaning of any program.
_LOADS = Choice(["ca", "cg", "cs"])
_STORES = Choice(["wb", "cg", "cs"])
_SPEED: dict[str, Parameter] = {
    "--opt-level": Choice([1, 2, 3], default=3),
    "--register-usage-level": Range(0, 10, default=5),
    "--allow-expensive-optimizations": Flag(default=True),
    "--def-load-cache": _LOADS,
    "--def-store-cache": _STORES,
    "--force-load-cache": _LOADS,
    "--force-store-cache": _STORES,
    "--disable-optimizer-constants": Choice([True]),
    "--dont-merge-basicblocks": Choice([True]),
    "--return-at-end": Choice([True]),
}
#: Switches without a value.
BARE = frozenset(
    {
        "--disable-optimizer-constants",
        "--dont-merge-basicblocks",
        "--return-at-end",
        "--optimize-float-atomics",
    }
)
#: Options that change results; contraction is Triton's `enable_fp_fusion`.
_UNSAFE: dict[str, Parameter] = {"--optimize-float-atomics": Choice([True])}


def ptxas_options(ptxas: Path, *, unsafe: bool) -> dict[str, Parameter]:
    """The options that change speed alone (with `unsafe`, results too), of those that this ptxas has.

    Registers are capped by Triton's own `maxnreg`. Raises NoCompilerError when ptxas does not say.
    """
    listed = set(re.findall(r"^(--[\w-]+)", ptxas_help(ptxas), re.MULTILINE))
    known = {**_SPEED, **(_UNSAFE if unsafe else {})}
    return {name: one for name, one in known.items() if name in listed}
