"""Undoes what a process changed on a GPU when that process is gone before it did so itself.

Run as a program of its own, with nothing but the standard library: `python -I -S THIS PID`. It reads one JSON
list of words a line, each a command that undoes something, `drop` to forget the last of them, and `done` when
there is nothing left to undo. Any other end of its input or of the process PID (a signal, `os._exit`, the
kernel's out-of-memory killer) makes it run the commands, the last one first.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time

#: A command that the process had under way when it died may still take effect; after so long all is undone
#: once more.
_AGAIN_S = 1.0
_COMMAND_S = 30.0


def main(pid: int) -> None:
    """Watch, and undo where that is needed."""
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, signal.SIG_IGN)
    watched = os.pidfd_open(pid)
    sys.stdout.write("watching\n")
    sys.stdout.flush()
    # A child that the process forked may hold the other end of our input: the process's own end counts too.
    poll = select.poll()
    for handle in (0, watched):
        poll.register(handle, select.POLLIN)
    undo: list[list[str]] = []
    text = b""
    while True:
        ready = {handle for handle, _ in poll.poll()}
        part = os.read(0, 1 << 16) if 0 in ready else b""
        text += part
        *lines, text = text.split(b"\n")
        for line in lines:
            if line == b"done":
                return
            if line == b"drop":
                undo.pop()
                continue
            undo.append(json.loads(line))
        if not part and ready:
            break
    for pause in (0.0, _AGAIN_S):
        if undo:
            time.sleep(pause)
        for command in reversed(undo):
            # Nobody is left to be told of a failure; the next command is tried all the same.
            try:
                subprocess.run(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    timeout=_COMMAND_S,
                    check=False,
                )
            except (OSError, subprocess.TimeoutExpired):
                continue


if __name__ == "__main__":
    main(int(sys.argv[1]))
