"""What TARGET means: operators of ours, or a `baseline.py` with the kernel of anyone."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernelwright.cli._isolate import candidate_path
from kernelwright.errors import UsageError


def contract_fields(
    targets: Sequence[str],
    *,
    package: str | None,
    op: str | None,
    atol: float | None,
    rtol: float | None,
    operator_options: Mapping[str, Any],
) -> dict[str, Any] | None:
    """The fields of a `ContractTarget` that the command line names; None when it names operators.

    `operator_options` are options that a baseline.py has no use for, by name, None where not given. Raises
    UsageError. Looks only at names of files: nothing of the user is run here.
    """
    files = [target for target in targets if target.endswith(".py") or "/" in target]
    kernel_options = {"--kernel-package": package, "--op": op, "--atol": atol, "--rtol": rtol}
    if not files:
        given = [name for name, value in kernel_options.items() if value is not None]
        if given:
            raise UsageError(
                f"{', '.join(given)}: only with a baseline.py as TARGET, as in "
                "`kernelwright bench baseline.py --kernel-package my_kernel --op my_kernel.rms_norm`; "
                f"got {' '.join(targets)}"
            )
        return None
    if len(targets) > 1:
        raise UsageError(f"one baseline.py at a time, and no operators beside it; got {' '.join(targets)}")
    given = [name for name, value in operator_options.items() if value is not None]
    if given:
        raise UsageError(
            f"{', '.join(given)}: only for operators; a baseline.py says the same with WORKLOADS and "
            "get_inputs()"
        )
    return {
        "baseline": _baseline(files[0]),
        **_kernel(package, op),
        "atol": _tolerance("--atol", atol),
        "rtol": _tolerance("--rtol", rtol),
    }


def _baseline(word: str) -> Path:
    path = Path(word).absolute()
    if path.is_dir() and (path / "baseline.py").is_file():
        path /= "baseline.py"
    if not path.is_file():
        raise UsageError(
            f"{word}: no such file; name a baseline.py that defines get_inputs(), or an operator"
        )
    return path


def _kernel(package: str | None, op: str | None) -> dict[str, Any]:
    if op is None:
        raise UsageError("which kernel? name it with --kernel-package my_kernel --op my_kernel.rms_norm")
    parts = op.split(".")
    if not all(part.isidentifier() for part in parts):
        raise UsageError(f"--op is PACKAGE.FUNCTION, as in my_kernel.rms_norm; got {op!r}")
    package = package or parts[0]
    if len(parts) == 1 and parts[0] == package:
        raise UsageError(f"--op {op} names the package; name its function, too: --op {op}.FUNCTION")
    if not all(part.isidentifier() for part in package.split(".")):
        raise UsageError(f"--kernel-package is the name of a package, as it is imported; got {package!r}")
    path = tuple(Path(entry) for entry in candidate_path())
    if not _importable(package, path):
        looked = ", ".join(str(entry) for entry in path)
        raise UsageError(
            f"there is no package {package!r} on PYTHONPATH, here, or among what is installed (looked in "
            f"{looked}); set PYTHONPATH to the folder that holds it"
        )
    return {"package": package, "op": op, "path": path}


def _importable(package: str, path: Sequence[Path]) -> bool:
    """Whether the package's top level can be found; finding it does not run it."""
    import importlib.util
    from importlib.machinery import PathFinder

    top = package.partition(".")[0]
    if PathFinder.find_spec(top, [str(entry) for entry in path]) is not None:
        return True
    return importlib.util.find_spec(top) is not None


def _tolerance(name: str, value: float | None) -> float | None:
    if value is not None and not 0 <= value < float("inf"):
        raise UsageError(f"{name} is a number of at least 0; got {value}")
    return value
