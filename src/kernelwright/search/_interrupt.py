"""Ctrl-C, heard once: the search stops in good order; heard twice, at once."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from types import TracebackType
from typing import Any


class Interrupts:
    """While this is entered, the first SIGINT sets `heard`; the second raises KeyboardInterrupt.

    Outside the main thread, where Python delivers no signal, nothing changes.
    """

    heard = False

    def __enter__(self) -> Interrupts:
        self._before: Any = None
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._hear)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.heard:
            raise KeyboardInterrupt
        self.heard = True
