"""The child's end of a channel to the process that started it; standard library only.

`child_script` starts `python -I -S _channel.py SCRIPT ARGUMENT...`, which runs SCRIPT with this module
importable as `kernelwright_channel`, without kernelwright, torch or site-packages; a child that has
kernelwright finds `connect` in this room:

    from kernelwright_channel import connect

    channel = connect()
    while (message := channel.receive()) is not None:
        channel.send({"answer": message["question"]})

A message is four bytes of length, big end first, then that many bytes of JSON: an object.
"""

from __future__ import annotations

import json
import os
import sys

VARIABLE = "KERNELWRIGHT_CHANNEL"


class Channel:
    """Messages to and from the parent over one file descriptor."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def send(self, message: dict[str, object]) -> None:
        """Send one message; BrokenPipeError when the parent is gone."""
        body = json.dumps(message).encode()
        data = memoryview(len(body).to_bytes(4, "big") + body)
        while data:
            data = data[os.write(self._handle, data) :]

    def receive(self) -> dict[str, object] | None:
        """Wait for one message; None when the parent has closed the channel."""
        head = self._exactly(4)
        if head is None:
            return None
        body = self._exactly(int.from_bytes(head, "big"))
        if body is None:
            return None
        message: dict[str, object] = json.loads(body)
        return message

    def _exactly(self, count: int) -> bytes | None:
        parts = []
        while count:
            part = os.read(self._handle, min(count, 1 << 20))
            if not part:
                return None
            parts.append(part)
            count -= len(part)
        return b"".join(parts)


def connect() -> Channel:
    """The channel that the parent opened; RuntimeError when there is none."""
    handle = os.environ.get(VARIABLE)
    if handle is None:
        raise RuntimeError(f"{VARIABLE} is not set: this script is meant to be started as a child")
    os.set_inheritable(int(handle), False)
    return Channel(int(handle))


def run_script() -> None:
    """Run the script named on the command line as `__main__`."""
    import io

    path = sys.argv[1]
    sys.argv = sys.argv[1:]
    sys.modules["kernelwright_channel"] = sys.modules["__main__"]
    with io.open_code(path) as stream:
        code = compile(stream.read(), path, "exec")
    exec(code, {"__name__": "__main__", "__file__": path, "__builtins__": __builtins__})


if __name__ == "__main__":
    run_script()
