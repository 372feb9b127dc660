"""Every error that the project raises on purpose: what happened, with which value, and what to do next."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def nearest(name: str, known: Iterable[str], limit: int = 3) -> list[str]:
    """The names in `known` closest to `name`, best first; empty when none is close."""
    return difflib.get_close_matches(name.lower(), sorted(known), n=limit, cutoff=0.5)


class KernelwrightError(Exception):
    """Base of all errors raised on purpose; its text is meant for the person at the terminal."""


class UnknownNameError(KernelwrightError, LookupError):
    """A name that is not known: an operator, workload, dtype, backend, run or parameter."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        options = sorted(known)
        self.kind = kind
        self.name = name
        self.nearest = nearest(name, options)
        hint = f"did you mean {' or '.join(map(repr, self.nearest))}?" if self.nearest else ""
        listed = ", ".join(options) if options else "none is registered"
        super().__init__(f"unknown {kind} {name!r}; {hint + ' ' if hint else ''}known: {listed}")


class ArgumentTypeError(KernelwrightError, TypeError):
    """An argument of the wrong type; the text names operator, argument, what was wanted and what came."""


class UnknownKeywordError(UnknownNameError, TypeError):
    """A keyword that neither the operator nor any of its implementations declares."""

    def __init__(self, operator: str, keyword: str, declared: Mapping[str, str]) -> None:
        """`declared` maps each keyword that exists to who declares it."""
        super().__init__(f"keyword of {operator!r}", keyword, declared)
        who = "; ".join(f"{name!r} is declared by {declared[name]}" for name in self.nearest)
        if who:
            self.args = (f"{self.args[0]} ({who})",)


class BackendUnavailableError(KernelwrightError):
    """A backend that exists but cannot be used here, with the reason."""

    def __init__(self, backend: str, reason: str) -> None:
        self.backend = backend
        self.reason = reason
        super().__init__(f"backend {backend!r} is not available here: {reason}")


class UnsupportedCallError(KernelwrightError, TypeError):
    """No implementation that may be used supports this call; `refusals` says why for each."""

    def __init__(self, operator: str, refusals: Sequence[tuple[str, str]]) -> None:
        self.operator = operator
        self.refusals = tuple(refusals)
        reasons = "; ".join(f"{who}: {why}" for who, why in refusals) or "no implementation is registered"
        super().__init__(f"no implementation of {operator!r} supports this call ({reasons})")


class KernelCallError(KernelwrightError, RuntimeError):
    """A native kernel returned an error code."""


class MissingExtraError(KernelwrightError, ImportError):
    """An optional package is needed; `extra` is what to install."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        self.extra = extra
        super().__init__(f"{package} is needed {purpose}: pip install 'kernelwright[{extra}]'")


class NoCompilerError(KernelwrightError):
    """No usable C++ compiler was found."""


class BuildError(KernelwrightError):
    """A kernel that did not build. `status` is `build_failed` or `build_timeout`; `log` is the full output.

    The text shows the log from its first error on, with the line before, which says where it happened.
    """

    def __init__(self, status: str, what: str, command: str, log: str) -> None:
        self.status = status
        self.command = command
        self.log = log
        lines = log.strip().splitlines()
        marks = ("error:", "undefined reference")
        start = next((number for number, line in enumerate(lines) if any(mark in line for mark in marks)), 0)
        first = "\n".join(lines[max(0, start - 1) :][:12])
        super().__init__(f"{what}: {status.replace('_', ' ')}\n{first}\ncommand: {command}")


class FileFormatError(KernelwrightError):
    """A file of ours that cannot be read: cut short, of another schema, or not ours at all."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path}: {reason}")


class JournalBusyError(KernelwrightError):
    """A journal that another process is writing."""

    def __init__(self, path: Path, holder: str) -> None:
        self.path = path
        super().__init__(f"{path} is being written by process {holder}; wait for it or end it first")


class SpaceError(KernelwrightError, ValueError):
    """A search space or configuration that makes no sense; the text names the parameter or constraint."""


class NotRepresentableError(SpaceError):
    """Something in a space that a format cannot hold: a callable in JSON, a permutation in T1."""


class UnreadableError(KernelwrightError):
    """A file of ours that may be whole, but that the system does not let be read now."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path = path
        super().__init__(
            f"{path} cannot be read now ({reason}); check its permissions and the disk, try again"
        )


class UsageError(KernelwrightError, ValueError):
    """A call or command line that makes no sense; the text says what would."""


class EvaluationFailedError(KernelwrightError, RuntimeError):
    """An evaluation failed in a search that was to stop at the first failure; `evaluation` is that one."""

    def __init__(self, evaluation: Any, why: str) -> None:
        self.evaluation = evaluation
        super().__init__(why)


class BaselineError(EvaluationFailedError):
    """The baseline, by which scores were to be divided, has no score above zero."""


class RunMismatchError(KernelwrightError, ValueError):
    """A run that this search cannot go on with: it was begun with another space or other objectives."""


class NoScoreError(KernelwrightError, LookupError):
    """A search has nothing to choose from: no evaluation has the score that was asked for."""
