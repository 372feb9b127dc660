"""The process between this one and untrusted work; run as `python -I -S _supervisor.py`, never imported.

It starts the target in a process group of its own, adopts what the target leaves behind (it is a subreaper),
and kills all of it when the target ends, when time is up, when told to, and when its own parent dies by any
means. `_work.py` beside it does that; this file reads the command line:

    NAME=VALUE... -- PROGRAM ARGUMENT...
"""

# ruff: noqa: PTH120 - pathlib would lengthen every start
from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kernelwright.process import _work
else:
    sys.path.insert(0, os.path.dirname(__file__))
    import _work


def main() -> None:
    """Read the words on the command line, supervise, report."""
    split = sys.argv.index("--")
    words = dict(word.split("=", 1) for word in sys.argv[1:split])
    argv = sys.argv[split + 1 :]
    handed_on = [int(number) for number in words.pop("handed_on").split(",") if number]
    asked = words.pop("sandbox", None)
    confinement = None
    if asked is not None:
        if TYPE_CHECKING:
            from kernelwright.process import _confine
        else:
            import _confine  # only now: it would lengthen every start

        confinement = _confine.Confinement(asked, words)
    _work.supervise(words, handed_on, lambda: os.execvp(argv[0], argv), confinement)


if __name__ == "__main__":
    main()
