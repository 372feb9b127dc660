"""A child is talked to over a channel, and never outlives the conversation."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kernelwright.process import Child
from kernelwright.process import child_script
from kernelwright.process import ChildEnded
from kernelwright.process import ChildGarbled
from kernelwright.process import ChildTimeout
from kernelwright.process import End
from kernelwright.process import Limits

from .watching import alive
from .watching import gone

LIMITS = Limits(wall_s=100.0)

ECHO = """
from kernelwright_channel import connect
channel = connect()
while (message := channel.receive()) is not None:
    channel.send({"echo": message})
"""


@pytest.fixture
def script(tmp_path):
    def write(code: str) -> list[str]:
        path = tmp_path / "child.py"
        path.write_text(code)
        return child_script(path)

    return write


def test_messages_go_both_ways(script):
    with Child(script(ECHO), limits=LIMITS) as child:
        for message in ({"a": 1}, {"text": "größer", "list": [1.5, None, True]}, {}):
            child.send(message)
            assert child.receive(60.0) == {"echo": message}
    assert child.outcome is not None
    assert child.outcome.end is End.STOPPED


def test_large_messages_arrive_whole(script):
    message = {"data": "x" * 3_000_000}
    with Child(script(ECHO), limits=LIMITS) as child:
        child.send(message)
        assert child.receive(60.0) == {"echo": message}


def test_a_script_child_has_neither_kernelwright_nor_site_packages(script):
    code = """
from kernelwright_channel import connect
import sys
found = []
for name in ("kernelwright", "torch", "numpy"):
    try:
        __import__(name)
        found.append(name)
    except ImportError:
        pass
connect().send({"found": found, "arguments": sys.argv[1:]})
"""
    with Child([*script(code), "one", "two"], limits=LIMITS) as child:
        assert child.receive(60.0) == {"found": [], "arguments": ["one", "two"]}


def test_a_late_child_is_left_running(script):
    with Child(script("import time; time.sleep(60)"), limits=LIMITS) as child:
        with pytest.raises(ChildTimeout, match=r"0\.2 s"):
            child.receive(0.2)
        assert child.outcome is None
        assert child.pid is not None
        assert alive(child.pid)
    assert not alive(child.pid)


def test_a_child_that_does_not_listen_cannot_block_us(script, monkeypatch):
    monkeypatch.setattr("kernelwright.process._child._SEND_PATIENCE_S", 0.3)
    with (
        Child(script("import time; time.sleep(60)"), limits=LIMITS) as child,
        pytest.raises(ChildTimeout, match="not read"),
    ):
        child.send({"data": "x" * 5_000_000})


def test_whether_a_message_was_taken_is_seen_from_this_side(script):
    with Child(script("import time; time.sleep(60)"), limits=LIMITS) as child:
        assert not child.unread()
        child.send({})
        assert child.unread()
    with Child(script(ECHO), limits=LIMITS) as child:
        child.send({})
        child.receive(60.0)
        assert not child.unread()


def test_a_child_that_crashes_ends_the_conversation(script):
    code = "import ctypes\nfrom kernelwright_channel import connect\nconnect().receive()\nctypes.string_at(0)"
    with Child(script(code), limits=LIMITS) as child:
        child.send({})
        with pytest.raises(ChildEnded) as caught:
            child.receive(60.0)
        assert caught.value.outcome.end is End.SIGNALLED
        assert caught.value.outcome.signal == signal.SIGSEGV
        with pytest.raises(ChildEnded):
            child.send({})


def test_a_message_sent_before_dying_is_still_received(script):
    code = "from kernelwright_channel import connect\nconnect().send({'last': 1})\nraise SystemExit(4)"
    with Child(script(code), limits=LIMITS) as child:
        assert child.receive(60.0) == {"last": 1}
        with pytest.raises(ChildEnded) as caught:
            child.receive(60.0)
    assert caught.value.outcome.returncode == 4


def test_the_time_limit_ends_the_conversation(script):
    with Child(script("while True: pass"), limits=Limits(wall_s=0.3)) as child:
        with pytest.raises(ChildEnded) as caught:
            child.receive(60.0)
        assert caught.value.outcome.end is End.TIMED_OUT


def test_a_child_that_closes_its_channel_and_lives_on_is_killed(script):
    code = "import os, time\nos.close(int(os.environ['KERNELWRIGHT_CHANNEL']))\ntime.sleep(60)"
    with Child(script(code), limits=LIMITS) as child:
        with pytest.raises(ChildEnded) as caught:
            child.receive(60.0)
        assert caught.value.outcome.end is End.STOPPED


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff", b"\0\0\0\x02xx", b"\0\0\0\x02[]", b"\0\0\0\x01\xff"])
def test_garbage_is_refused_and_its_sender_killed(script, data):
    code = f"import os, time\nos.write(int(os.environ['KERNELWRIGHT_CHANNEL']), {data!r})\ntime.sleep(60)"
    with Child(script(code), limits=LIMITS) as child:
        with pytest.raises(ChildGarbled):
            child.receive(60.0)
        assert child.outcome is not None


def test_descriptors_are_handed_on(script):
    handle = os.memfd_create("shared")
    os.write(handle, b"hello")
    code = f"""
import os
from kernelwright_channel import connect
connect().send({{"data": os.pread({handle}, 5, 0).decode()}})
"""
    with Child(script(code), limits=LIMITS, pass_fds=(handle,)) as child:
        assert child.receive(60.0) == {"data": "hello"}
    os.close(handle)


def test_killing_twice_is_harmless(script):
    child = Child(script(ECHO), limits=LIMITS)
    assert child.kill() == child.kill()


def test_a_child_that_does_not_exist_raises():
    with pytest.raises(FileNotFoundError), Child(["no-such-program"], limits=LIMITS) as child:
        child.receive(60.0)


FAMILY = """
import os, subprocess, sys, time
from kernelwright_channel import connect
same = subprocess.Popen(["sleep", "300"])
other = subprocess.Popen(["sleep", "300"], start_new_session=True)
connect().send({"pids": [os.getpid(), same.pid, other.pid]})
time.sleep(300)
"""


def test_leaving_the_block_ends_the_whole_family(tmp_path):
    path = tmp_path / "family.py"
    path.write_text(FAMILY)
    with Child([sys.executable, "-I", *child_script(path)[3:]], limits=LIMITS) as child:
        pids = child.receive(60.0)["pids"]
        assert all(map(alive, pids))
    assert gone(pids)


PARENT = """
import os, sys, time
from pathlib import Path
from kernelwright.process import Child, Limits, child_script
child = Child(child_script(Path(sys.argv[1])), limits=Limits(wall_s=300.0))
pids = child.receive(60.0)["pids"]
if sys.argv[2] == "fork" and os.fork() == 0:
    time.sleep(30)  # a fork that holds a copy of every descriptor must not keep the family alive
    os._exit(0)
print(*pids, flush=True)
if sys.argv[2] == "exit":
    os._exit(0)
time.sleep(300)
"""


def family_of_a_parent(tmp_path: Path, manner: str) -> tuple[subprocess.Popen[str], list[int]]:
    (tmp_path / "family.py").write_text(FAMILY)
    (tmp_path / "parent.py").write_text(PARENT)
    parent = subprocess.Popen(
        [sys.executable, str(tmp_path / "parent.py"), str(tmp_path / "family.py"), manner],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    pids = [int(word) for word in parent.stdout.readline().split()]
    assert len(pids) == 3
    return parent, pids


@pytest.mark.parametrize("manner", ["stay", "fork"])
def test_no_orphan_is_left_when_the_parent_is_killed(tmp_path, manner):
    parent, pids = family_of_a_parent(tmp_path, manner)
    assert all(map(alive, pids))
    parent.kill()
    assert gone(pids, within_s=20.0)
    parent.wait()


def test_no_orphan_is_left_when_the_parent_exits_without_a_word(tmp_path):
    parent, pids = family_of_a_parent(tmp_path, "exit")
    parent.wait()
    assert gone(pids)


def supervisor_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_a_supervisor_that_is_killed_takes_its_target_along(script):
    with Child(script(ECHO), limits=LIMITS) as child:
        assert child.pid is not None
        os.kill(supervisor_of(child.pid), signal.SIGKILL)
        with pytest.raises(ChildEnded) as caught:
            child.receive(60.0)
        assert caught.value.outcome.end is End.SIGNALLED
        assert gone([child.pid])


def test_a_supervisor_that_is_asked_to_stop_ends_everything(script):
    with Child(script(FAMILY), limits=LIMITS) as child:
        pids = child.receive(60.0)["pids"]
        os.kill(supervisor_of(pids[0]), signal.SIGTERM)
        with pytest.raises(ChildEnded):
            child.receive(60.0)
        assert gone(pids)


def test_what_was_said_before_a_message_is_there_with_it(script):
    code = """
import sys
from kernelwright_channel import connect
channel = connect()
while (message := channel.receive()) is not None:
    sys.stdout.write(message["say"])
    sys.stdout.flush()
    sys.stderr.write("heard " + message["say"][:5])
    sys.stderr.flush()
    channel.send({})
"""
    with Child(script(code), limits=LIMITS) as child:
        mark = (0, 0)
        for number in range(50):
            child.send({"say": f"{number:5d}" * 4000})
            child.receive(60.0)
            out, err, mark = child.said(mark)
            assert (out, err) == (f"{number:5d}" * 4000, f"heard {number:5d}")
        assert child.said(mark)[:2] == ("", "")
        assert child.said()[0].endswith(f"{49:5d}")
    assert child.said(mark)[:2] == ("", "")
    assert child.said()[1].endswith(f"heard {49:5d}")


def test_its_processes_are_counted_from_outside(script):
    code = """
import subprocess
from kernelwright_channel import connect
channel = connect()
while (message := channel.receive()) is not None:
    subprocess.Popen(["sleep", "300"], start_new_session=True)
    channel.send({})
"""
    with Child(script(code), limits=LIMITS) as child:
        assert child.pid is not None
        assert child.processes() == 1
        for count in (2, 3):
            child.send({})
            child.receive(60.0)
            assert child.processes() == count
    assert child.processes() == 0
