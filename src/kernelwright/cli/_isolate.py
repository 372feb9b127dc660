"""Keeps the judge's process away from the folders in which candidates lie.

Candidates are found through PYTHONPATH and the current directory. Python itself would search both before the
standard library and before installed packages, so a candidate's folder with a `typer.py` or a `numpy/` would
run inside the judge. Hence the command starts itself again without them (`python -E -P`), before it imports
anything that could come from there. PYTHONPATH stays in the environment: it is the search path of the
candidate's process, which reads it by itself.

What this cannot undo: a `sitecustomize` on PYTHONPATH, or a module there that hides one of the few that the
interpreter itself and this file need, runs before the first line of this program, as it does in every Python
program. It is gone after the restart, unless it kept the restart from happening.
"""

# pathlib and what it imports could come from the folders that are shut out here.
# ruff: noqa: PTH100, PTH109, PTH110, PTH113, PTH118, PTH119, PTH120

from __future__ import annotations

import os
import sys

#: Run by the new interpreter. Where this package was found is put behind everything else: an entry that holds
#: an installation, such as `src` of a checkout, must be searched, and must hide nothing.
_PROGRAM = """
import sys
sys.argv[0], home, *entries = {words!r}
if home not in sys.path:
    sys.path.append(home)
sys.path += [entry for entry in entries if entry not in sys.path]
from kernelwright.cli import main
main()
"""


def isolate() -> None:
    """Start this program again with nothing of PYTHONPATH or the current directory to import from.

    Returns at once where that is so already: a process started with `python -E -P` or `-I`, or one without
    PYTHONPATH whose first place to search is the folder of its script. Costs one start of a bare interpreter.
    """
    if sys.flags.ignore_environment and sys.flags.safe_path:
        return
    if not os.environ.get("PYTHONPATH") and not _searches_here():
        return
    words = [sys.argv[0] if os.path.basename(sys.argv[0]) != "__main__.py" else "kernelwright"]
    words += [_home(), *_installations()]
    program = _PROGRAM.format(words=words)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, "-E", "-P", "-c", program, *sys.argv[1:]])


def candidate_path() -> tuple[str, ...]:
    """Where a candidate is looked for, in order, before installed packages: PYTHONPATH, then the current
    directory. Absolute, without what is not there."""
    entries = [*os.environ.get("PYTHONPATH", "").split(os.pathsep), ""]
    absolute = [os.path.abspath(entry) for entry in entries[:-1] if entry] + [os.getcwd()]
    return tuple(dict.fromkeys(entry for entry in absolute if os.path.exists(entry)))


def _searches_here() -> bool:
    """Whether the current directory is searched, as `python -m` and `python -c` do."""
    here = os.getcwd()
    # The folder of the console script may be the current directory: then it is in use as an installation.
    return bool(sys.path) and sys.path[0] in ("", here) and not sys.flags.safe_path


def _home() -> str:
    """The folder in which this package lies."""
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def _installations() -> list[str]:
    """Entries of PYTHONPATH that hold torch where no other folder that is searched does."""
    given = [os.path.abspath(entry) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    rest = [entry for entry in sys.path if entry and os.path.abspath(entry) not in given]
    if any(_holds_torch(entry) for entry in rest):
        return []
    return [entry for entry in given if _holds_torch(entry)]


def _holds_torch(entry: str) -> bool:
    return os.path.isfile(os.path.join(entry, "torch", "__init__.py"))
