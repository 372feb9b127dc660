"""Whatever becomes of a performer is a failure with a status and a reason, in bounded time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from kernelwright.process import Limits
from kernelwright.process import Sandbox
from kernelwright.process import Template
from kernelwright.referee._child import RefereeError
from kernelwright.referee._verdict import Status
from kernelwright.referee.contract._handle import Handle
from kernelwright.referee.contract._stage import Candidate
from kernelwright.referee.contract._stage import Deadlines
from kernelwright.referee.contract._stage import Performer
from kernelwright.referee.contract._stage import PerformerFailure

Perform = Callable[..., Performer]


def failure_of(performer: Performer, **options: Any) -> PerformerFailure:
    """Of one call."""
    with pytest.raises(PerformerFailure) as caught:
        performer.call([performer.board.put(torch.ones(4), grad="grad_outputs" in options)], **options)
    return caught.value


ENDS = {
    "os._exit(0)": (Status.CRASHED, "the candidate ended its process itself with exit code 0"),
    "os._exit(5)": (Status.CRASHED, "ended its process itself with exit code 5"),
    "os.execv('/bin/true', ['true'])": (Status.CRASHED, "ended its process itself with exit code 0"),
    "os.abort()": (Status.CRASHED, "SIGABRT"),
    "os.kill(os.getpid(), 11)": (Status.CRASHED, "SIGSEGV"),
    "os.closerange(3, 256)": (Status.CRASHED, "closed the judge's channel"),
}


@pytest.mark.parametrize("act", ENDS)
def test_the_end_of_the_process_is_named(loaded: Perform, act: str) -> None:
    failure = failure_of(loaded(f"import os\n\ndef kernel(x):\n    {act}\n"))
    assert failure.status is ENDS[act][0]
    assert ENDS[act][1] in failure.reason
    assert not failure.alive


RAISES = {
    "raise NotImplementedError('no fp64')": (Status.UNSUPPORTED, "NotImplementedError: no fp64"),
    "raise MemoryError": (Status.OUT_OF_MEMORY, "MemoryError"),
    "torch.empty(1 << 50)": (Status.OUT_OF_MEMORY, "allocate memory"),
    "sys.exit(0)": (Status.CRASHED, "ended its process itself with exit code 0: sys.exit when calling it"),
    "raise KeyboardInterrupt": (Status.CRASHED, "KeyboardInterrupt"),
    "x.view(3)": (Status.CRASHED, "RuntimeError: shape '[3]' is invalid for input of size 4"),
    "raise Evil": (Status.CRASHED, "cannot be described"),
}


@pytest.mark.parametrize("act", RAISES)
def test_what_is_raised_is_told_with_its_place_and_the_performer_lives(loaded: Perform, act: str) -> None:
    performer = loaded(
        f"""
        import sys
        import torch

        calls = 0

        class Evil(Exception):
            def __str__(self):
                raise ValueError

        def kernel(x):
            global calls
            calls += 1
            if calls == 1:
                {act}
            return x + 1
        """
    )
    failure = failure_of(performer)
    assert failure.status is RAISES[act][0]
    assert RAISES[act][1] in failure.reason
    assert failure.alive
    assert failure.raised is not None
    if "Evil" not in act:
        assert failure.raised.where.endswith("candidate/__init__.py:15")
    assert performer.call([performer.board.put(torch.ones(4))]).facts[0].plain


def test_the_bases_of_an_exception_are_told(loaded: Perform) -> None:
    performer = loaded(
        "class Refusal(NotImplementedError):\n    pass\n\ndef kernel(x):\n    raise Refusal('odd strides')\n"
    )
    failure = failure_of(performer)
    assert failure.status is Status.UNSUPPORTED
    assert failure.raised is not None
    assert failure.raised.bases[:2] == ("NotImplementedError", "RuntimeError")


QUICK = Deadlines(first_s=20.0, idle_s=1.5, call_s=3.0, batch_s=3.0)


@pytest.mark.parametrize("act", ["time.sleep(1000)", "os.kill(os.getpid(), 19)", "os.killpg(0, 19)"])
def test_a_call_that_does_nothing_is_hung_before_its_time_is_up(loaded: Perform, act: str) -> None:
    performer = loaded(f"import os\nimport time\n\ndef kernel(x):\n    {act}\n", deadlines=QUICK)
    begin = time.monotonic()
    failure = failure_of(performer)
    assert failure.status is Status.HUNG
    assert "none of its processes used the processor for 1.5 s" in failure.reason
    assert time.monotonic() - begin < 15


def test_a_first_call_may_take_its_time_and_a_later_one_may_not(loaded: Perform) -> None:
    performer = loaded(
        """
        import time

        calls = 0

        def kernel(x):
            global calls
            calls += 1
            end = time.monotonic() + (2.0 if calls == 1 else 1000.0)
            while time.monotonic() < end:
                pass
            return x + 1
        """,
        deadlines=Deadlines(first_s=60.0, idle_s=20.0, call_s=1.0),
    )
    performer.call([performer.board.put(torch.ones(4))])
    failure = failure_of(performer)
    assert failure.status is Status.HUNG
    assert failure.reason == "the candidate had not answered after 1 s"


def test_an_import_that_hangs_is_hung(perform: Perform) -> None:
    performer = perform("import time\ntime.sleep(1000)\n", deadlines=QUICK)
    with pytest.raises(PerformerFailure, match="no progress") as caught:
        performer.load()
    assert caught.value.status is Status.HUNG


def test_a_balloon_is_out_of_memory(loaded: Perform) -> None:
    performer = loaded(
        "kept = []\n\ndef kernel(x):\n    while True:\n        kept.append(bytearray(1 << 24))\n",
        limits=Limits(wall_s=60.0, memory_bytes=2 << 30),
    )
    assert failure_of(performer).status is Status.OUT_OF_MEMORY


def test_a_failed_performer_is_gone_and_says_so_again(loaded: Perform) -> None:
    performer = loaded("import os\n\ndef kernel(x):\n    os._exit(3)\n")
    failure_of(performer)
    with pytest.raises(PerformerFailure, match="exit code 3"):
        performer.call([])
    assert performer.acts() == ()


# The channel.

CHANNEL = """
    import json
    import os
    import stat

    def channel():
        for name in os.listdir("/proc/self/fd"):
            try:
                if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                    return int(name)
            except OSError:
                pass

    def say(said):
        body = json.dumps(said).encode()
        os.write(channel(), len(body).to_bytes(4, "big") + body)

    def kernel(x):
        {act}
        return x + 1
"""


@pytest.mark.parametrize(
    "act",
    [
        "say({'id': 'guessed', 'value': 1})",
        "say({})",
        "say([])",
        "os.write(channel(), b'no message at all, but many bytes of text')",
        "os.write(channel(), (1 << 31).to_bytes(4, 'big'))",
        "os.write(channel(), b'\\x00\\x00\\x00\\x02[[')",
    ],
)
def test_who_writes_to_the_channel_is_found(loaded: Perform, act: str) -> None:
    performer = loaded(CHANNEL.format(act=act))
    failure = failure_of(performer)
    assert failure.status is Status.CHEATED
    assert failure.act is not None
    assert failure.act.act == "channel"
    assert "wrote to the judge's channel" in failure.reason
    assert failure.act in performer.acts()


FORGE = """
    import sys

    from candidate import say

    LARGE = {"t": "tensor", "dtype": "uint8", "shape": [60 << 20], "strides": [1]}

    def answer(said):
        frame = sys._getframe(1)
        while frame is not None:
            message = frame.f_locals.get("message")
            if isinstance(message, dict) and "id" in message:
                say({"id": message["id"], **eval(f"dict({said})", {"message": message, "LARGE": LARGE})})
                return
            frame = frame.f_back
"""


def forger(loaded: Perform, said: str) -> Performer:
    """A candidate that finds the judge's question in its callers' frames, and answers it."""
    act = f"from candidate.forge import answer; answer({said!r})"
    return loaded({"__init__.py": CHANNEL.format(act=act), "forge.py": FORGE})


def test_an_answer_given_before_the_call_is_done_is_found_at_the_next_question(loaded: Perform) -> None:
    performer = forger(loaded, "value={'t': 'value', 'v': 1}, facts=[]")
    forged = performer.call([performer.board.put(torch.ones(4))])
    assert forged.value == {"t": "value", "v": 1}
    assert performer._child is not None
    assert performer._child.receive(10.0)["id"]  # the true answer is on its way, if not there yet
    performer = forger(loaded, "value={'t': 'value', 'v': 1}, facts=[]")
    performer.call([performer.board.put(torch.ones(4))])
    failure = failure_of(performer)
    assert failure.status is Status.CHEATED
    assert "an answer that nobody had asked for" in failure.reason


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("{'t': 'tensor', 'dtype': 'float32', 'shape': [4], 'strides': [1], 'at': 0}", "outside"),
        ("{'t': 'value', 'v': []}", "node of kind 'value'"),
        ("None", "NoneType"),
        ("{'t': 'list', 'items': [{**LARGE, 'at': message['at']}] * 4000}", "more bytes than there is room"),
        ("{'t': 'tensor', 'missing': ''}", "without the gradients"),
    ],
)
def test_an_answer_that_means_nothing_is_no_output(loaded: Perform, answer: str, says: str) -> None:
    failure = failure_of(forger(loaded, f"value={answer}, facts=[{{}}], gradients=[]"), grad_outputs=[None])
    assert failure.status is Status.CHEATED
    assert says in failure.reason


def test_an_output_that_changes_its_form_after_the_return_is_no_confusion(loaded: Perform) -> None:
    performer = loaded(
        """
        import threading
        import time

        def kernel(x):
            out = [x + 1, x + 2]

            def shrink():
                time.sleep(0.02)
                out.pop()

            threading.Thread(target=shrink).start()
            return out
        """
    )
    result = performer.call([performer.board.put(torch.ones(4))], settle_ms=300)
    assert [one is None for one in result.tensors] == [False, False]
    assert result.settled is not None
    assert [one is None for one in result.settled] == [False, True]
    assert [one is None for one in performer.recopy(result.number)] == [False, True]


def test_what_the_candidate_writes_over_its_notes_is_no_confusion(loaded: Perform) -> None:
    performer = loaded(
        """
        import ctypes
        import json

        def kernel(x):
            with open("/proc/self/maps") as maps:
                board = next(line for line in maps if "kernelwright-board" in line)
            notes = [{"act": "opened", "what": "a", "said": "b"}, {"act": "none"}, [], "[" * 3000]
            text = b"\\xff\\n" + b"\\n".join(json.dumps(one).strip('"').encode() for one in notes)
            ctypes.memmove(int(board.split("-")[0], 16), text, len(text))
            return x + 1
        """
    )
    performer.call([performer.board.put(torch.ones(4))])
    assert [(act.what, act.deceives) for act in performer.acts()] == [("a", False)]


def test_a_fork_that_comes_back_does_not_answer_twice(loaded: Perform) -> None:
    performer = loaded("import os\n\ndef kernel(x):\n    os.fork()\n    return x + 1\n")
    for _ in range(3):
        performer.call([performer.board.put(torch.ones(4))])


def test_a_flood_of_output_does_not_block_the_channel(loaded: Perform) -> None:
    performer = loaded(
        "import os\n\ndef kernel(x):\n    for _ in range(200):\n        os.write(1, b'x' * 100000)\n"
        "        os.write(2, b'y' * 100000)\n    return x + 1\n"
    )
    assert performer.call([performer.board.put(torch.ones(4))]).facts[0].plain


def test_a_long_answer_is_cut(loaded: Perform) -> None:
    performer = loaded("def kernel(x):\n    return ['x' * 4000] * 4000\n")
    failure = failure_of(performer)
    assert failure.alive
    assert "too long" in failure.reason


def test_a_process_has_no_descriptors_but_its_own(loaded: Perform) -> None:
    performer = loaded(
        """
        import os

        def names():
            for number in os.listdir("/proc/self/fd"):
                try:
                    yield os.readlink(f"/proc/self/fd/{number}")
                except FileNotFoundError:
                    pass  # that of the listing itself

        def kernel(x):
            return [*names()]
        """
    )
    result = performer.call([performer.board.put(torch.ones(1))])
    names = [one["v"].partition(":")[0] for one in result.value["items"]]
    assert names.count("socket") == 1
    assert not [name for name in names if "memfd" in name]


def test_the_environment_does_not_name_the_channel(loaded: Perform) -> None:
    performer = loaded("import os\n\ndef kernel(x):\n    return [n for n in os.environ if 'WRIGHT' in n]\n")
    seen = {one["v"] for one in performer.call([performer.board.put(torch.ones(1))]).value["items"]}
    assert seen <= set(os.environ)


# What goes on when nobody asks.


@pytest.mark.serial
def test_what_works_on_after_the_return_is_seen_from_outside(loaded: Perform) -> None:
    performer = loaded(
        """
        import threading

        def burn():
            while True:
                pass

        def kernel(x):
            threading.Thread(target=burn, daemon=True).start()
            return x + 1
        """
    )
    performer.call([performer.board.put(torch.ones(4))])
    assert performer.settled(grace_s=0.2, watch_s=0.2) > 0.03
    assert performer.threads() > 1


@pytest.mark.serial
def test_an_idle_candidate_has_settled(loaded: Perform) -> None:
    performer = loaded("import torch\n\ndef kernel(x):\n    return x @ x\n")
    performer.call([performer.board.put(torch.ones(500, 500))], threads=2)
    begin = time.monotonic()
    assert performer.settled(grace_s=3.0, watch_s=0.05) < 0.002
    assert time.monotonic() - begin < 2.5


def test_the_processor_time_of_a_batch_is_counted(loaded: Perform) -> None:
    performer = loaded(
        "import time\n\ndef kernel(x):\n    end = time.process_time() + 0.1\n"
        "    while time.process_time() < end:\n        pass\n    return x + 1\n"
    )
    performer.arrange([([performer.board.put(torch.ones(1))], {})])
    batch = performer.batch([0, 0])
    assert batch.cpu_ns > 0.12e9
    assert batch.wall_ns > batch.own_ns > 0.19e9


# Handles.


def test_a_sandboxed_candidate_says_what_guards_it(loaded: Perform, tmp_path: Path) -> None:
    secret = tmp_path / "baseline.py"
    secret.write_text("the answer\n")
    performer = loaded(
        f"""
        import os

        def kernel(x):
            return [open({str(secret)!r}).read(), os.getcwd()]
        """,
        sandbox=Sandbox(tmp_path / "scratch", hidden=(secret,), readable=(tmp_path,)),
    )
    guards = performer.guards()
    if guards.get("mount_namespace"):
        pytest.skip(guards["mount_namespace"])
    said = performer.call([performer.board.put(torch.ones(1))]).value["items"]
    assert said[0]["v"] == ""
    assert said[1]["v"] == str(tmp_path / "scratch")


def test_without_a_template_an_interpreter_is_started(perform: Perform) -> None:
    performer = perform("def kernel(x):\n    return x + 1\n", template=None)
    performer.load()
    assert performer.call([performer.board.put(torch.ones(2))]).facts[0].plain


def test_closing_ends_the_process(loaded: Perform) -> None:
    performer = loaded("import os\n\ndef kernel(x):\n    return os.getpid()\n")
    pid = performer.call([performer.board.put(torch.ones(1))]).value["v"]
    assert Path(f"/proc/{pid}").exists()
    performer.close()
    assert not Path(f"/proc/{pid}").exists()
    performer.close()


def test_a_template_that_is_gone_is_no_fault_of_the_candidates(tmp_path: Path) -> None:
    gone = Template(["json"])
    gone.close()
    with (
        Performer(Candidate("candidate", "kernel"), template=gone) as performer,
        pytest.raises(RefereeError, match=r"could not be started|did not start"),
    ):
        performer.load()


def test_a_handle_serves_other_scripts(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        "from kernelwright.referee.contract._desk import Desk, open_board\n"
        "board = open_board(sys.argv)\n"
        "def add(message):\n    board[70000] = 5\n    return {'sum': message['a'] + message['b']}\n"
        "Desk().serve({'add': add}, lambda: ())\n"
    )
    with Handle(script, who="the adder", board_bytes=1 << 20, env=dict(os.environ)) as handle:
        assert handle.ask("add", within_s=40.0, a=2, b=3)["sum"] == 5
        node = {"dtype": "uint8", "shape": [1], "strides": [1], "at": 70000, "lo": 70000, "nbytes": 1}
        assert handle.board.copy(node).item() == 5
        with pytest.raises(PerformerFailure, match=r"the adder.*KeyError"):
            handle.ask("subtract", a=1)
