"""What a compiler says of itself, however long that is."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from kernelwright.process import Limits
from kernelwright.process import Outcome
from kernelwright.process import run

_LIMITS = Limits(wall_s=20.0, file_bytes=16 << 20)


def ask(command: Sequence[str | Path]) -> tuple[Outcome, str]:
    """Run a compiler that is asked for something, in English: how that ended, and all that it printed.

    An outcome alone keeps the end of what was printed; a list of all options is longer.
    """
    with tempfile.TemporaryDirectory(prefix="kernelwright-ask-") as folder:
        path = Path(folder, "said")
        words = ["/bin/sh", "-c", 'exec "$@" >"$0"', str(path), *map(str, command)]
        outcome = run(words, limits=_LIMITS, env={**os.environ, "LC_ALL": "C"})
        return outcome, path.read_text(errors="replace") if path.exists() else ""
