"""Times as they are written on a command line."""

from __future__ import annotations

import re

_NUMBER = r"(\d+(?:\.\d+)?)"
_TIME = re.compile(rf"(?:{_NUMBER} *h)? *(?:{_NUMBER} *m(?:in)?(?!s))? *(?:{_NUMBER} *(s|ms)?)?")


def parse_seconds(text: str) -> float:
    """Seconds of `90`, `1.5s`, `500ms`, `5m`, `1min`, `1h` or `1m30s`. Raises UsageError."""
    from kernelwright.errors import UsageError

    match = _TIME.fullmatch(text.strip().lower())
    if match is None or not any(match.groups()):
        raise UsageError(
            f"a budget is written as 60s, 5m or 1h; got {text!r} (500ms, 2s or 1min and 1m30s are times, too)"
        )
    hours, minutes, seconds, unit = match.groups()
    factor = 1e-3 if unit == "ms" else 1.0
    return 3600 * float(hours or 0) + 60 * float(minutes or 0) + factor * float(seconds or 0)
