"""Say a thing once: what takes a person by surprise, such as a build at first use."""

from __future__ import annotations

import logging
import threading

_log = logging.getLogger("kernelwright")
_said: set[str] = set()
_lock = threading.Lock()


def announce(text: str) -> None:
    """Log `text` as a warning of the logger `kernelwright`, once a process.

    Warnings reach stderr unless the application configured logging otherwise.
    """
    with _lock:
        if text in _said:
            return
        _said.add(text)
    _log.warning(text)
