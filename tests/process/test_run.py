"""A program is run, limited, and described by its outcome."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kernelwright.process import End
from kernelwright.process import Limits
from kernelwright.process import run
from kernelwright.process import TAIL_BYTES
from kernelwright.process._outcome import classify

from .watching import alive

SOON = Limits(wall_s=100.0)


def python(code: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", code]


def test_output_and_return_code_are_reported():
    outcome = run(["sh", "-c", "echo out; echo err >&2; exit 3"], limits=SOON)
    assert (outcome.end, outcome.returncode, outcome.signal) == (End.EXITED, 3, None)
    assert (outcome.stdout, outcome.stderr) == ("out\n", "err\n")
    assert not outcome.ok
    assert outcome.describe() == "exited with code 3: err"


def test_success_is_ok():
    assert run(["true"], limits=SOON).ok


def test_input_environment_and_folder_are_passed_on(tmp_path):
    big = "x" * 300_000
    outcome = run(
        ["sh", "-c", "pwd; echo $COLOUR; wc -c"],
        limits=SOON,
        cwd=tmp_path,
        env={"COLOUR": "green", "PATH": os.environ["PATH"]},
        input=big,
    )
    assert outcome.stdout.split() == [str(tmp_path), "green", "300000"]


def test_input_that_nobody_reads_does_not_block():
    assert run(["true"], limits=SOON, input=b"x" * 1_000_000).ok


def test_no_input_means_end_of_file():
    assert run(["cat"], limits=SOON).ok


def test_a_program_that_does_not_exist_raises():
    with pytest.raises(FileNotFoundError, match="no-such-program"):
        run(["no-such-program"], limits=SOON)


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL, signal.SIGFPE])
def test_a_crash_is_a_signal(number):
    outcome = run(["sh", "-c", f"kill -{int(number)} $$"], limits=SOON)
    assert (outcome.end, outcome.signal, outcome.returncode) == (End.SIGNALLED, number, None)
    assert number.name in outcome.describe()


def test_a_real_segmentation_fault_is_a_signal_and_leaves_no_core(tmp_path):
    outcome = run(python("import ctypes; ctypes.string_at(0)"), limits=SOON, cwd=tmp_path)
    assert (outcome.end, outcome.signal) == (End.SIGNALLED, signal.SIGSEGV)
    assert list(tmp_path.iterdir()) == []


def test_a_hang_is_killed_at_the_limit():
    started = time.monotonic()
    outcome = run(python("while True: pass"), limits=Limits(wall_s=0.3))
    assert outcome.end is End.TIMED_OUT
    assert 0.3 <= outcome.wall_s < 30.0
    assert time.monotonic() - started < 40.0


def test_a_program_that_ignores_every_polite_signal_is_killed_too():
    code = "import signal,time\nfor n in (1,2,15): signal.signal(n, signal.SIG_IGN)\ntime.sleep(60)"
    assert run(python(code), limits=Limits(wall_s=0.3)).end is End.TIMED_OUT


def test_grandchildren_die_at_the_limit():
    outcome = run(
        ["sh", "-c", "sleep 60 & echo $!; setsid sleep 60 & echo $!; wait"], limits=Limits(wall_s=1.5)
    )
    pids = [int(word) for word in outcome.stdout.split()]
    assert outcome.end is End.TIMED_OUT
    assert len(pids) == 2
    assert not any(map(alive, pids))


def test_grandchildren_die_when_their_parent_exits_and_do_not_hold_up_the_result():
    outcome = run(["sh", "-c", "sleep 60 & echo $!; setsid sleep 60 & echo $!"], limits=SOON)
    assert outcome.ok
    assert outcome.wall_s < 40.0
    assert not any(alive(int(word)) for word in outcome.stdout.split())


def test_a_daemon_that_left_the_group_and_the_session_dies_too():
    code = """
import os, sys, time
begun, begins = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print(os.getpid(), flush=True)
        os.close(begins)
        time.sleep(60)
    os._exit(0)
os.close(begins)
os.read(begun, 1)
"""
    outcome = run(python(code), limits=SOON)
    assert outcome.ok
    assert not alive(int(outcome.stdout))


def test_guards_that_start_each_other_anew_die_too(tmp_path):
    # Two processes in sessions of their own, each of which replaces the other when that dies.
    script = tmp_path / "guard.py"
    script.write_text("""
import os, subprocess, sys, time
log = open(sys.argv[1], "a")
while True:
    if len(sys.argv) > 2:
        other = subprocess.Popen([sys.executable, "-I", "-S", __file__, sys.argv[1]], start_new_session=True)
    else:
        other = subprocess.Popen(["sleep", "60"], start_new_session=True)
    print(os.getpid(), other.pid, file=log, flush=True)
    other.wait()
""")
    log = tmp_path / "log"
    argv = [sys.executable, "-I", "-S", str(script), str(log), "first"]
    outcome = run(argv, limits=Limits(wall_s=2.0))
    assert outcome.end is End.TIMED_OUT
    pids = [int(word) for word in log.read_text().split()]
    assert len(pids) >= 3
    assert not any(map(alive, pids))
    time.sleep(0.2)
    assert not [name for name in map(command_line, all_pids()) if str(script) in name]


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
def test_a_compilers_own_children_die_with_it(tmp_path):
    # g++ runs cc1plus, which is the one that loops: templates that nest for ever.
    source = tmp_path / "slow.cpp"
    source.write_text(
        "template<unsigned long a, unsigned long b> struct F {\n"
        "  static constexpr unsigned long v = F<a-1, b>::v + F<a-1, b+1>::v; };\n"
        "template<unsigned long b> struct F<0, b> { static constexpr unsigned long v = b; };\n"
        "int main() { return F<800, 0>::v; }\n"
    )
    argv = ["g++", "-ftemplate-depth=100000", "-c", str(source), "-o", str(tmp_path / "slow.o")]
    outcome = run(argv, limits=Limits(wall_s=0.7))
    assert outcome.end is End.TIMED_OUT
    assert not [name for name in map(command_line, all_pids()) if str(source) in name]


def all_pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def test_a_flood_of_output_neither_blocks_nor_fills_memory():
    code = "import os\nfor i in range(400): os.write(1, b'a' * 65536); os.write(2, b'b' * 65536)\n"
    code += "os.write(1, b'end')"
    outcome = run(python(code), limits=SOON)
    assert outcome.ok
    assert outcome.stdout.endswith("aend")
    assert len(outcome.stdout) == len(outcome.stderr) == TAIL_BYTES


def test_output_that_is_not_text_is_no_error():
    assert "\ufffd" in run(["printf", "\\377\\376"], limits=SOON).stdout


def test_memory_beyond_the_limit_is_out_of_memory():
    outcome = run(python("x = bytearray(1 << 30)"), limits=Limits(wall_s=100.0, memory_bytes=256 << 20))
    assert outcome.end is End.OUT_OF_MEMORY
    assert outcome.describe().startswith("out of memory")


def test_memory_within_the_limit_is_fine():
    limits = Limits(wall_s=100.0, memory_bytes=1 << 30)
    outcome = run(python("x = bytearray(64 << 20)"), limits=limits)
    assert outcome.ok
    assert 64 << 20 < outcome.peak_bytes < 256 << 20


@pytest.mark.parametrize(
    "text", ["terminate called after throwing 'std::bad_alloc'", "cc1plus: out of memory allocating 9 bytes"]
)
def test_programs_that_say_they_ran_out_of_memory_are_believed_when_they_fail(text):
    assert run(["sh", "-c", f'echo "{text}" >&2; exit 1'], limits=SOON).end is End.OUT_OF_MEMORY
    assert run(["sh", "-c", f'echo "{text}" >&2'], limits=SOON).end is End.EXITED


@pytest.mark.parametrize(
    ("status", "stderr", "oom_killed", "end"),
    [
        (9, "", True, End.OUT_OF_MEMORY),
        (9, "", False, End.SIGNALLED),
        (11, "", True, End.SIGNALLED),
        (1 << 8, "g++: fatal error: Killed signal terminated program cc1plus", True, End.OUT_OF_MEMORY),
        (1 << 8, "g++: fatal error: Killed signal terminated program cc1plus", False, End.EXITED),
        (0, "Killed", True, End.EXITED),
    ],
)
def test_a_kill_while_the_kernel_counted_one_for_memory_is_out_of_memory(status, stderr, oom_killed, end):
    found, _, _ = classify("exited", status, stderr, oom_killed=oom_killed, cpu_s=0.1, limits=SOON)
    assert found is end


def test_processor_time_beyond_the_limit_is_a_timeout():
    outcome = run(python("while True: pass"), limits=Limits(wall_s=100.0, cpu_s=1.0))
    assert outcome.end is End.TIMED_OUT
    assert outcome.wall_s < 90.0


def test_files_beyond_the_limit_are_refused(tmp_path):
    target = tmp_path / "big"
    outcome = run(
        ["sh", "-c", f"head -c 2000000 /dev/zero > {target}"],
        limits=Limits(wall_s=100.0, file_bytes=1_000_000),
    )
    assert not outcome.ok
    assert target.stat().st_size <= 1_000_000


@pytest.mark.parametrize("bad", [{"wall_s": 0}, {"wall_s": 1, "memory_bytes": -1}, {"wall_s": float("nan")}])
def test_limits_that_make_no_sense_are_refused(bad):
    with pytest.raises(ValueError, match="above zero"):
        Limits(**bad)


def test_nothing_of_ours_leaks_into_the_program():
    outcome = run(["ls", "/proc/self/fd"], limits=SOON)
    assert sorted(outcome.stdout.split()) == ["0", "1", "2", "3"]  # 3 is the folder being listed


def test_no_descriptor_is_left_open_here():
    def count() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    run(["true"], limits=SOON)
    before = count()
    for _ in range(5):
        run(["true"], limits=SOON, input=b"x")
    with pytest.raises(OSError):  # noqa: PT011 - which error does not matter here
        run(["no-such-program"], limits=SOON)
    assert count() == before


@pytest.mark.serial
def test_starting_costs_little():
    """Starting a child is not much dearer than starting a bare interpreter, which supervises it."""
    times = {"run": [], "bare": []}
    for _ in range(15):
        started = time.perf_counter()
        run(["true"], limits=SOON)
        ran = time.perf_counter()
        subprocess.run([sys.executable, "-I", "-S", "-c", ""], check=True)
        times["run"].append(ran - started)
        times["bare"].append(time.perf_counter() - ran)
    # The least of each: what else the machine does is not what is tested.
    assert min(times["run"]) < 5 * min(times["bare"])
