"""The child's end of the channel: one answer for each message, and nothing else on it.

`serve` maps operations to functions. It lives in a process whose other code is not trusted, so what it needs
later, it takes when it is imported. A message is as in `kernelwright.process`: four bytes of length, big end
first, then JSON. Each has an `id`, which the answer repeats: one that was not asked for is seen.
"""

from __future__ import annotations

import json
import mmap
import os
import traceback
from collections.abc import Callable
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_VARIABLE = "KERNELWRIGHT_CHANNEL"
MAX_ANSWER = 4 << 20
"""Bytes of the longest answer."""
CHANNEL_GONE = 93
"""Exit code of a child whose end of the channel was closed under it."""
FORKED = 94
"""Exit code of a fork of a child, when it is about to answer."""
_MAX_TEXT = 2000

_read = os.read
_write = os.write
_loads = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
_make_encoder = json.encoder.c_make_encoder  # type: ignore[attr-defined]
_getpid = os.getpid
_exit = os._exit
_tracebacks = traceback.walk_tb
_syntax_error = SyntaxError

Operation = Callable[[dict[str, Any]], Mapping[str, Any]]


def _not_json(value: object) -> object:
    raise TypeError(f"{type(value)} is not JSON")


def _make_dumps() -> Callable[[object], str]:
    """A JSON writer that looks nothing up later."""
    if _make_encoder is None:
        return json.JSONEncoder().encode
    quote = json.encoder.encode_basestring_ascii
    write = _make_encoder(None, _not_json, quote, None, ":", ",", False, False, True)
    join = "".join
    return lambda value: join(write(value, 0))


_dumps = _make_dumps()


def board_words(arguments: list[str]) -> tuple[int, int]:
    """Descriptor and size of the board, from the command line of a script that a `Handle` started."""
    word = next(one for one in arguments if one.startswith("--board="))
    descriptor, size = word.removeprefix("--board=").split(",")
    return int(descriptor), int(size)


def open_board(arguments: list[str]) -> mmap.mmap:
    """Map the board and close its descriptor, so that nothing else in this process finds it open."""
    descriptor, size = board_words(arguments)
    file = os.fstat(descriptor)
    mapping = mmap.mmap(descriptor, size)
    # Python's mapping keeps a duplicate, for operations (resizing, its size) that are not used here.
    for entry in [*Path("/proc/self/fd").iterdir()]:
        try:
            same = os.path.samestat(os.fstat(int(entry.name)), file)
        except OSError:
            continue  # that of the listing
        if same:
            os.close(int(entry.name))
    return mapping


def describe_error(error: BaseException, folders: tuple[str, ...] = ()) -> dict[str, Any]:
    """An exception as data: type, bases, message, and where in a file below `folders` it came from."""
    try:
        return _describe_error(error, folders)
    except BaseException:  # noqa: BLE001 - a class of the candidate's may do anything when it is looked at
        return {"type": "an exception that cannot be described", "bases": [], "message": "", "where": ""}


def _describe_error(error: BaseException, folders: tuple[str, ...]) -> dict[str, Any]:
    kind = type(error)
    message = str(error)
    where = ""
    for frame, line in _tracebacks(error.__traceback__):
        name = frame.f_code.co_filename
        if not folders or any(name.startswith(folder) for folder in folders):
            where = f"{name}:{line}"
    if isinstance(error, _syntax_error) and error.filename:
        where = f"{error.filename}:{error.lineno}"
    return {
        "type": str(kind.__name__)[:200],
        "bases": [str(base.__name__)[:200] for base in kind.__mro__[1:10]],
        "message": message[:_MAX_TEXT],
        "where": where[:_MAX_TEXT],
    }


class Desk:
    """The channel, answered; afterwards the environment does not name it to others.

    Raises RuntimeError when there is none.
    """

    def __init__(self) -> None:
        handle = os.environ.pop(_VARIABLE, None)
        if handle is None:
            raise RuntimeError(f"{_VARIABLE} is not set: this script is meant to be started as a child")
        self._handle = int(handle)
        os.set_inheritable(self._handle, False)
        self._process = _getpid()

    def serve(self, operations: Mapping[str, Operation], folders: Callable[[], tuple[str, ...]]) -> None:
        """Answer until the parent closes the channel. Whatever an operation raises is its answer.

        `folders` says where the code lies whose lines are named for what it raised.
        """
        try:
            self._serve(operations, folders)
        except OSError:
            _exit(CHANNEL_GONE)

    def _serve(self, operations: Mapping[str, Operation], folders: Callable[[], tuple[str, ...]]) -> None:
        while (message := self._receive()) is not None:
            try:
                answer = dict(operations[message["op"]](message))
            except BaseException as error:  # noqa: BLE001 - SystemExit of a candidate is an answer, too
                answer = {"error": describe_error(error, folders())}
            if _getpid() != self._process:
                _exit(FORKED)  # a candidate forked, and its fork came back to us: one answers
            answer["id"] = message["id"]
            self._send(answer)

    def _send(self, message: dict[str, Any]) -> None:
        body = _dumps(message).encode()
        if len(body) > MAX_ANSWER:
            body = _dumps({"id": message["id"], "too_long": len(body)}).encode()
        data = memoryview(len(body).to_bytes(4, "big") + body)
        while data:
            data = data[_write(self._handle, data) :]

    def _receive(self) -> dict[str, Any] | None:
        head = self._exactly(4)
        if head is None:
            return None
        body = self._exactly(int.from_bytes(head, "big"))
        if body is None:
            return None
        message: dict[str, Any] = _loads(body.decode(), 0)[0]
        return message

    def _exactly(self, count: int) -> bytes | None:
        parts = []
        while count:
            part = _read(self._handle, min(count, 1 << 20))
            if not part:
                return None
            parts.append(part)
            count -= len(part)
        return b"".join(parts)
