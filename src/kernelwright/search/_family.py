"""Children that have the objective: forked from a template that loaded it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernelwright.process import Child
from kernelwright.process import ChildEnded
from kernelwright.process import ChildTimeout
from kernelwright.process import Limits
from kernelwright.process import Template
from kernelwright.search import _task
from kernelwright.search._objective import ObjectiveError
from kernelwright.search._objective import Parcel
from kernelwright.search._worker import last_lines

_HERE = Path(__file__).parent
_TASK = _HERE / "_task.py"
_LOAD_PATIENCE_S = 120.0
#: How often a wait looks up: at whether we are closing, at what there is to show, at how many processes run.
SLICE_S = 0.1


class Closing(Exception):
    """The worker is being closed while something is waited for."""


class Family:
    """A template with an objective, replaced when it dies, and its children. Used by several threads."""

    def __init__(self, packed: bytes) -> None:
        self.closing = threading.Event()
        self._parcel = Parcel(packed)
        self._lock = threading.Lock()
        self._template: Template | None = None

    def child(
        self, script: str, *arguments: str, limits: Limits, env: Mapping[str, str] | None = None
    ) -> Child:
        """A child that runs a script of this folder; `env` is added to our variables.

        Raises ChildEnded when the template died at once.
        """
        with self._lock:
            if self.closing.is_set():
                raise Closing
            if self._template is None or self._template.outcome is not None:
                environment = {**os.environ, _task.VARIABLE: self._parcel.path}
                self._template = Template([_TASK], env=environment)
            template = self._template
        return template.child(_HERE / script, *arguments, limits=limits, env={**os.environ, **(env or {})})

    def ready(self, child: Child) -> bool:
        """Wait until a child has the objective; whether that has stages.

        Raises ObjectiveError when it cannot be loaded there.
        """
        try:
            message = self.receive(child, _LOAD_PATIENCE_S)
        except ChildEnded as error:
            said = last_lines(error.outcome.stderr)
            raise ObjectiveError(
                f"the process that loads the objective {error.outcome.describe()}"
                + (f"\n{said}" if said else "")
            ) from None
        except ChildTimeout:
            raise ObjectiveError(
                f"the objective's module was not imported within {_LOAD_PATIENCE_S:.0f} s; move slow work "
                "from the top level of the module into the objective"
            ) from None
        if message["trouble"] is not None:
            raise ObjectiveError(
                f"the objective cannot be loaded in a worker: {message['trouble']}; what it needs has to be "
                "importable there, without what only this process has"
            )
        return bool(message["staged"])

    def receive(
        self, child: Child, timeout_s: float | None, look: Callable[[], None] | None = None
    ) -> dict[str, Any]:
        """The next message of a child, as `Child.receive`; `look` is called now and then meanwhile.

        Raises Closing when the worker is closed before it came.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left = SLICE_S if deadline is None else deadline - time.monotonic()
            try:
                return child.receive(max(0.0, min(left, SLICE_S)))
            except ChildTimeout:
                if self.closing.is_set():
                    raise Closing from None
                if look is not None:
                    look()
                if left <= SLICE_S and deadline is not None and time.monotonic() >= deadline:
                    raise

    def close(self) -> None:
        """End the template, and with it every child."""
        with self._lock:
            self.closing.set()
            if self._template is not None:
                self._template.close()
                self._template = None
        self._parcel.close()
