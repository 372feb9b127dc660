"""What a child that makes no progress is seen to do, from outside."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from kernelwright.process import Child
from kernelwright.process import child_script
from kernelwright.process import Limits
from kernelwright.referee._child import describe_doing

READS = "something else in it reads the judge's channel"
CHILDREN = {
    "sleeps": ("connect(); time.sleep(60)", False, ""),
    "waits for us": ("connect().receive(); time.sleep(60)", False, ""),
    "takes our messages": (
        (
            "c = connect(); threading.Thread(target=c.receive, daemon=True).start()\n"
            "time.sleep(0.3); c.receive()"
        ),
        True,
        READS,
    ),
    "waits at a socket of its own, and did not read": (
        "connect(); a, b = socket.socketpair(); a.recv(1)",
        True,
        "",
    ),
    "stops itself": ("connect(); os.kill(os.getpid(), signal.SIGSTOP)", False, "stopped by a signal"),
}


@pytest.mark.parametrize("which", CHILDREN)
def test_what_can_be_seen_is_said(which: str, tmp_path: Path) -> None:
    code, speaks, said = CHILDREN[which]
    script = tmp_path / "child.py"
    script.write_text(
        f"import os, signal, socket, threading, time\nfrom kernelwright_channel import connect\n{code}\n"
    )
    with Child(child_script(script), limits=Limits(wall_s=60.0)) as child:
        if speaks:
            child.send({})
        deadline = time.monotonic() + (20.0 if said else 1.5)
        while time.monotonic() < deadline:
            time.sleep(0.1)
            found = "; ".join(describe_doing(child))
            if said and said in found:
                return
    assert not said, f"nothing of it was said; but: {found!r}"
    assert READS not in found or which == "waits for us"
