"""A process that outlives this one, to undo what this one changed and could not change back."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

_CHILD = Path(__file__).with_name("_clock_guardian_child.py")


class Guardian:
    """Knows the commands that undo things; runs them when this process ends without having said `done`.

    A context manager; leaving it without `done` makes it run them, too. It is in a session of its own, so
    that no signal for our process group ends it with us.
    """

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_CHILD), str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()  # it watches, so that from now on nothing can be left undone

    def add(self, command: Sequence[str]) -> None:
        """Undo with this command, before those that were added earlier."""
        self._say(json.dumps(list(command)))

    def drop(self) -> None:
        """Forget the last command: what it undoes was never done."""
        self._say("drop")

    def done(self) -> None:
        """All is undone."""
        with contextlib.suppress(BrokenPipeError):  # somebody has ended it, and it is of no more use
            self._say("done")

    def __enter__(self) -> Guardian:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()
