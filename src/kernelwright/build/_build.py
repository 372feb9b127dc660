"""Requests to artifacts: found in the store, or compiled once however many processes ask."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from pathlib import Path

from kernelwright.build import _store
from kernelwright.build._artifact import Artifact
from kernelwright.build._code_key import code_key
from kernelwright.build._ninja import compile_all
from kernelwright.build._ninja import default_parallel
from kernelwright.build._ninja import dependencies
from kernelwright.build._ninja import Job
from kernelwright.build._ninja import Result
from kernelwright.build._request import BuildRequest
from kernelwright.errors import BuildError
from kernelwright.errors import NoCompilerError
from kernelwright.process import Limits

#: Beyond what any sound kernel takes: a search must survive the configurations that make a compiler explode.
DEFAULT_LIMITS = Limits(wall_s=120.0, memory_bytes=8 << 30)
#: How often a build starts over because its sources were edited meanwhile.
_ROUNDS = 3
#: How many compilations one run of ninja makes for each of its parallel places.
_WAVES = 4


def find(request: BuildRequest) -> Artifact | None:
    """The artifact of a request if it has been made; never compiles.

    Where there is no compiler, one made elsewhere from the same source and flags serves.
    """
    try:
        return _store.read(request.key)
    except NoCompilerError:
        for key in _store.keys_of_source(request.source_key):
            if artifact := _store.read(key):
                return artifact
        return None


def build(request: BuildRequest, *, limits: Limits | None = None) -> Artifact:
    """The artifact of a request, compiled unless it is there.

    Raises BuildError with the compiler's own message, NoCompilerError.
    """
    (result,) = build_many([request], limits=limits)
    if isinstance(result, BuildError):
        raise result
    return result


def build_many(
    requests: Sequence[BuildRequest], *, jobs: int | None = None, limits: Limits | None = None
) -> list[Artifact | BuildError]:
    """An artifact or an error for each request, in their order; what is missing is made, `jobs` at a time.

    One failure does not stop the others. `limits` are those of one request. Any number of processes may ask
    for the same artifact: one compiles it, and no process waits for a compilation that it has not asked for.
    Raises NoCompilerError when something has to be compiled and nothing can, BuildError when the cache cannot
    be written.
    """
    results: dict[int, Artifact | BuildError] = {}
    parallel = jobs or default_parallel()
    for _ in range(_ROUNDS):
        missing: dict[str, list[int]] = {}
        for index, request in enumerate(requests):
            if index in results:
                continue
            try:
                found = find(request)
                if found is None:
                    missing.setdefault(request.key, []).append(index)
                else:
                    results[index] = found
            except BuildError as error:
                results[index] = error
        if not missing:
            break
        _store.prepare()
        made = _make(
            {key: requests[indices[0]] for key, indices in missing.items()},
            limits or DEFAULT_LIMITS,
            parallel,
        )
        for key, result in made.items():
            for index in missing[key]:
                results[index] = result
    for index, request in enumerate(requests):
        if index not in results:
            log = "error: its files were edited during each of several builds; build again when they rest\n"
            results[index] = BuildError("build_failed", _what(request), "none was kept", log)
    return [results[index] for index in range(len(requests))]


def _make(wanted: dict[str, BuildRequest], limits: Limits, parallel: int) -> dict[str, Artifact | BuildError]:
    """Build or wait for each key; a key is absent from the answer when its sources changed meanwhile."""
    results: dict[str, Artifact | BuildError] = {}
    waiting = list(wanted)
    elsewhere: list[str] = []
    while waiting:
        # Piece by piece: what is done is there for others, and for a second try, before all of it is done.
        piece, waiting = waiting[: _WAVES * parallel], waiting[_WAVES * parallel :]
        elsewhere += _make_free({key: wanted[key] for key in piece}, results, limits, parallel)
        if not waiting and elsewhere:
            # No lock is held here: two processes that wait for each other's keys cannot lock each other up.
            _store.wait_until_free(elsewhere[0])
            waiting, elsewhere = elsewhere, []
    return results


def _make_free(
    wanted: dict[str, BuildRequest], results: dict[str, Artifact | BuildError], limits: Limits, parallel: int
) -> list[str]:
    """Build what nobody else is building; return the keys that somebody is."""
    busy: list[str] = []
    with contextlib.ExitStack() as locks:
        ours: dict[str, BuildRequest] = {}
        for key, request in wanted.items():
            if not locks.enter_context(_store.try_lock(key)):
                busy.append(key)
            elif found := _store.read(key):
                results[key] = found
            else:
                ours[key] = request
        if ours:
            with _store.scratch() as folder:
                plan = [Job(key, request, request.flags) for key, request in ours.items()]
                done = compile_all(folder, plan, limits, parallel)
                for job in plan:
                    result = _finish(folder / job.key, job, done[job.key])
                    if result is not None:
                        results[job.key] = result
    return busy


def _finish(folder: Path, job: Job, done: Result) -> Artifact | BuildError | None:
    """Publish what was compiled, or say why not; None when the sources are no longer those of the key."""
    request = job.request
    what = _what(request)
    if done.status is not None:
        return BuildError(done.status, what, done.command, done.log)
    try:
        if request.key != job.key:
            return None
    except BuildError as error:
        return error
    unknown = dependencies(folder) - {path.resolve() for path in request.files().values()}
    if unknown:
        names = ", ".join(map(str, sorted(unknown)))
        log = f"error: it includes {names}, which its key does not cover; name the folder in `include`\n"
        return BuildError("build_failed", what, done.command, log)
    compiler = request.chosen_compiler
    record = {
        "build_key": job.key,
        "source_key": request.source_key,
        "code_key": code_key(folder / _store.LIBRARY),
        "section": request.section.name,
        "tier": request.tier,
        "compiler": f"{compiler.kind} {compiler.version} {compiler.target}",
        "flags": list(job.flags),
        "macros": dict(request.macros),
        "command": done.command,
        "seconds": done.seconds,
        "log": done.log,
    }
    try:
        for path in folder.iterdir():
            if path.name != _store.LIBRARY:
                path.unlink()
        _store.publish(folder, job.key, record)
    except OSError as error:
        log = f"error: it was built, but could not be kept: {error}\n"
        return BuildError("build_failed", what, done.command, log)
    artifact = _store.read(job.key)
    if artifact is None:
        return BuildError("build_failed", what, done.command, f"error: {folder} could not be read back\n")
    return dataclasses.replace(artifact, cached=False)


def _what(request: BuildRequest) -> str:
    return f"section {request.section.name!r} of {request.root}"
