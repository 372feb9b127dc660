"""Runs of searches by what a person calls them: an id, `latest`, a folder, a store, a CSV file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelwright.search import RunInfo
    from kernelwright.search import SearchResult

LATEST = "latest"
JOURNAL = "journal.sqlite"


@dataclass(frozen=True)
class Located:
    """A run: the store that has it, and its id in there."""

    store: Path
    run: str


def stores(store: Path | None = None) -> list[tuple[Path, list[RunInfo]]]:
    """All stores of searches under the runs folder, or the one named, with their runs, the oldest first.

    Tuning keeps its runs in the same folder, in journals of another kind: these are passed over.
    """
    from kernelwright import settings
    from kernelwright.errors import FileFormatError
    from kernelwright.search import read_runs

    if store is not None:
        return [(store, _runs_in(store))]
    found = []
    for path in settings.runs_dir().glob(f"*/{JOURNAL}"):
        try:
            found.append((path, read_runs(path)))
        except FileFormatError:
            continue
    return sorted(found, key=lambda pair: [info.created_at for info in pair[1]])


def locate(run: str = LATEST, store: Path | None = None) -> Located:
    """The run that is meant. Raises UnknownNameError, and UsageError for a store that is not there."""
    from kernelwright import settings
    from kernelwright.errors import UnknownNameError

    path = Path(run)
    if store is None and path.is_dir() and (path / JOURNAL).is_file():
        store, run = path / JOURNAL, LATEST
    elif store is None and path.is_file():
        store, run = path, LATEST
    known = [(info, where) for where, infos in stores(store) for info in infos]
    if run == LATEST and known:
        info, where = max(known, key=lambda pair: pair[0].created_at)
        return Located(where, info.id)
    for info, where in known:
        if info.id == run:
            return Located(where, run)
    raise UnknownNameError(
        f"search run in {store or settings.runs_dir()}", run, [info.id for info, _ in known]
    )


def load(run: str = LATEST, store: Path | None = None) -> SearchResult:
    """The result of a run, or of a CSV file that a search wrote."""
    from kernelwright.search import SearchResult

    if run.endswith(".csv"):
        path = Path(run)
        if not path.is_file():
            from kernelwright.errors import UsageError

            raise UsageError(f"there is no file {run}")
        return SearchResult.from_csv(path)
    found = locate(run, store)
    return SearchResult.from_journal(found.store, found.run)


def _runs_in(store: Path) -> list[RunInfo]:
    from kernelwright.errors import UsageError
    from kernelwright.search import read_runs

    if not store.is_file():
        raise UsageError(f"there is no store of searches at {store}")
    return read_runs(store)
