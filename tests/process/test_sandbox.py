"""A child in a sandbox can harm nobody, ends in bounded time whatever it does, and is described truly."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import kernelwright
from kernelwright.process import Child
from kernelwright.process import child_script
from kernelwright.process import ChildEnded
from kernelwright.process import End
from kernelwright.process import Limits
from kernelwright.process import Sandbox
from kernelwright.process import Template

LIMITS = Limits(wall_s=100.0, memory_bytes=1 << 30, cpu_s=10.0, file_bytes=1 << 24)
NAMES = {
    *("process_group", "user", "capabilities", "pid_namespace", "mount_namespace", "read_only", "network"),
    *("memory", "files", "cpu", "processes", "descriptors", "scratch"),
}
CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a child another user")


@pytest.fixture(scope="module")
def template():
    with Template(["json"], site=False) as template:
        yield template


@pytest.fixture(params=["program", "fork"])
def start(request, template):
    """Start a script in a sandbox, as a program of its own or as a fork of a template."""

    def start(path: Path, **options: object) -> Child:
        options = {"limits": LIMITS, **options}
        if request.param == "fork":
            return template.child(path, **options)
        return Child(child_script(path), **options)

    return start


@pytest.fixture
def box(tmp_path):
    return Sandbox(tmp_path / "scratch")


@pytest.fixture
def script(tmp_path):
    def write(code: str) -> Path:
        path = tmp_path / "script.py"
        path.write_text(code)
        return path

    return write


@pytest.fixture
def ask(start, script, box):
    """What expressions are worth in a sandbox; an exception is worth its type's name."""

    def ask(*expressions: str, **options: object) -> list[object]:
        path = script(f"""
import ctypes, os, signal, socket, subprocess, sys, tempfile
from pathlib import Path
from kernelwright_channel import connect
channel, answers = connect(), []
for expression in {expressions!r}:
    try:
        answers.append(eval(expression))
    except Exception as error:
        answers.append(type(error).__name__)
channel.send({{"answers": answers}})
""")
        with start(path, **{"sandbox": box, **options}) as child:
            return child.receive(60.0)["answers"]

    return ask


def processes_that_run(token: str) -> list[int]:
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                words = (path / "cmdline").read_bytes()
            except OSError:
                continue
            if token.encode() in words:
                found.append(int(path.name))
    return found


def gone(token: str, within_s: float = 30.0) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if not processes_that_run(token):
            return True
        time.sleep(0.02)
    return False


def test_every_guard_is_named(start, script, box):
    with start(script("import time; time.sleep(60)"), sandbox=box) as child:
        assert set(child.guards) == NAMES
        assert child.guards["process_group"] == ""
        assert child.guards["descriptors"] == ""


@as_root
def test_as_root_every_guard_holds(start, script, box):
    with start(script("import time; time.sleep(60)"), sandbox=box) as child:
        missing = {name: reason for name, reason in child.guards.items() if reason}
        # Where others may not read the interpreter, it keeps a power, and that is said.
        assert not missing or (list(missing) == ["capabilities"] and "CAP_DAC" in missing["capabilities"])


def test_limits_that_nobody_asked_for_are_not_claimed(start, script, box):
    with start(script("import time; time.sleep(60)"), sandbox=box, limits=Limits(wall_s=10.0)) as child:
        for name in ("memory", "files", "cpu"):
            assert child.guards[name] == "no limit was asked for"


def test_a_child_without_a_sandbox_has_no_guards(template, script):
    with template.child(script("import time; time.sleep(60)"), limits=LIMITS) as child:
        assert child.guards == {}


def test_a_sandbox_needs_a_process():
    with pytest.raises(ValueError, match="0 processes"):
        Sandbox(Path("scratch"), processes=0)


@as_root
def test_each_child_is_a_user_of_its_own_without_groups(start, script, tmp_path):
    path = script("""
import os, time
from kernelwright_channel import connect
connect().send({"it": [*os.getresuid(), *os.getresgid(), *os.getgroups()]})
time.sleep(60)
""")
    with (
        start(path, sandbox=Sandbox(tmp_path / "a")) as one,
        start(path, sandbox=Sandbox(tmp_path / "b")) as two,
    ):
        (first,), (second,) = set(one.receive(60.0)["it"]), set(two.receive(60.0)["it"])
    assert first != second
    assert 0 not in (first, second)


@as_root
def test_the_only_capability_is_to_read(ask):
    (status,) = ask("Path('/proc/self/status').read_text()")
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert fields["NoNewPrivs"] == "1"
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(fields[name], 16) in (0, 1 << 2)


def test_it_sees_and_reaches_no_process_but_its_own(ask):
    us = os.getpid()
    seen, judge, group, init = ask(
        "[int(name) for name in os.listdir('/proc') if name.isdigit()]",
        f"os.kill({us}, 0)",
        f"os.killpg({os.getpgid(0)}, 0)",
        "os.kill(1, signal.SIGKILL)",
    )
    assert set(seen) == {1, 2}
    assert judge == "ProcessLookupError"
    assert group == "ProcessLookupError"
    assert init in ("PermissionError", None)  # of its own user, the first process ignores it


def test_it_cannot_trace_its_first_process(ask):
    attach, memory = ask("ctypes.CDLL(None).ptrace(16, 1, 0, 0)", "len(open('/proc/1/mem', 'rb').read(0))")
    assert attach == -1
    assert memory == "PermissionError"


def test_only_the_scratch_folder_can_be_written_to(ask, box, tmp_path):
    beside = tmp_path / "beside"
    beside.write_text("ours")
    beside.chmod(0o666)
    tmp_path.chmod(0o777)
    answers = ask(
        f"open({str(beside)!r}, 'w')",
        f"os.mkdir({str(tmp_path / 'new')!r})",
        "open('/tmp/new', 'w')",
        f"open({kernelwright.__file__!r}, 'a')",
        "open('here', 'w').write('1')",
        "os.getcwd()",
    )
    assert set(answers[:4]) <= {"OSError", "PermissionError"}
    assert answers[0] == "OSError"  # of a file that anyone may write to, because the view is read-only
    assert answers[4:] == [1, str(box.scratch)]
    assert (box.scratch / "here").read_text() == "1"
    assert beside.read_text() == "ours"


def test_devices_can_be_written_to(ask):
    assert ask("open('/dev/null', 'w').write('x')") == [1]


def test_home_temporary_files_and_caches_are_in_the_scratch_folder(ask, box):
    home, temporary, *rest = ask(
        "str(Path.home())",
        "tempfile.mkstemp()[1]",
        "os.environ['XDG_CACHE_HOME']",
        "os.environ['TORCHINDUCTOR_CACHE_DIR']",
    )
    assert home == str(box.scratch)
    assert temporary.startswith(f"{box.scratch}/tmp/")
    assert all(path.startswith(f"{box.scratch}/cache") for path in rest)
    assert ask("__import__('getpass').getuser()") == ["kernelwright"]


def test_the_environment_is_what_was_asked_for_and_no_more(ask, monkeypatch):
    monkeypatch.setenv("API_TOKEN", "sesame")
    (names,) = ask("sorted(os.environ)", env={"COLOUR": "green"})
    assert set(names) - {"LC_CTYPE"} == {
        *("COLOUR", "HOME", "TMPDIR", "XDG_CACHE_HOME", "TORCHINDUCTOR_CACHE_DIR", "USER", "LOGNAME"),
        "KERNELWRIGHT_CHANNEL",
    }


def test_hidden_files_and_folders_are_empty(ask, tmp_path):
    file, folder = tmp_path / "baseline.py", tmp_path / "run"
    file.write_text("secret")
    folder.mkdir()
    (folder / "seed").write_text("secret")
    missing = tmp_path / "missing"
    box = Sandbox(tmp_path / "scratch", hidden=(file, folder, missing))
    answers = ask(
        f"open({str(file)!r}).read()",
        f"os.listdir({str(folder)!r})",
        f"os.path.exists({str(missing)!r})",
        f"os.unlink({str(file)!r})",
        sandbox=box,
    )
    assert answers[:3] == ["", [], False]
    assert answers[3] in ("OSError", "PermissionError")
    assert file.read_text() == "secret"


def test_hidden_files_stay_hidden_from_who_makes_namespaces_of_his_own(ask, tmp_path):
    file = tmp_path / "baseline.py"
    file.write_text("secret")
    file.chmod(0o666)
    box = Sandbox(tmp_path / "scratch", hidden=(file,))
    _, uncovered, opened, content, write = ask(
        f"ctypes.CDLL(None).unshare({CLONE_NEWNS | CLONE_NEWUSER})",
        f"ctypes.CDLL(None).umount2({os.fsencode(file)!r}, 2)",
        "ctypes.CDLL(None).mount(b'none', b'/', None, 32 | 4096, None)",
        f"open({str(file)!r}).read()",
        f"open({str(file)!r}, 'w')",
        sandbox=box,
    )
    assert (uncovered, opened) == (-1, -1)
    assert content in ("", "PermissionError")  # it is a user of another namespace now, who may see less
    assert write in ("OSError", "PermissionError")
    assert file.read_text() == "secret"


@as_root
def test_files_cannot_be_opened_by_handle(ask):
    refused = "ctypes.get_errno()"
    handle = "b'\\x08\\0\\0\\0\\1\\0\\0\\0'"
    call = f"ctypes.CDLL(None, use_errno=True).open_by_handle_at(os.open('/', 0), {handle}, 0)"
    result, error = ask(call, refused)
    assert (result, error) == (-1, 1)


def test_it_reads_what_lies_below_a_closed_folder(ask, tmp_path):
    closed = tmp_path / "closed"
    (closed / "inner").mkdir(parents=True)
    (closed / "inner" / "candidate.py").write_text("answer = 42")
    closed.chmod(0o700)
    box = Sandbox(closed / "scratch", readable=(closed / "inner",))
    assert ask(
        f"open({str(closed / 'inner' / 'candidate.py')!r}).read()", "open('x', 'w').write('x')", sandbox=box
    ) == [
        "answer = 42",
        1,
    ]


def test_shared_memory_is_its_own(ask):
    name = f"/dev/shm/kernelwright-test-{os.getpid()}"
    Path(name).write_text("ours")
    try:
        assert ask(f"os.path.exists({name!r})", "open('/dev/shm/mine', 'w').write('1')") == [False, 1]
    finally:
        Path(name).unlink()


def test_a_scratch_folder_in_a_hidden_folder_works(ask, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "seed").write_text("secret")
    (run / "candidate").mkdir()
    (run / "candidate" / "kernel.py").write_text("code")
    box = Sandbox(run / "scratch", hidden=(run,), readable=(run / "candidate",))
    answers = ask(
        f"sorted(os.listdir({str(run)!r}))",
        "open('x', 'w').write('1')",
        f"open({str(run / 'candidate' / 'kernel.py')!r}).read()",
        sandbox=box,
    )
    assert answers == [["candidate", "scratch"], 1, "code"]
    assert (run / "scratch" / "x").read_text() == "1"


def test_a_scratch_folder_in_shared_memory_works(ask, tmp_path_factory):
    folder = Path(f"/dev/shm/kernelwright-test-{os.getpid()}-box")
    try:
        assert ask("open('x', 'w').write('1')", sandbox=Sandbox(folder)) == [1]
        assert (folder / "x").read_text() == "1"
    finally:
        subprocess.run(["rm", "-rf", str(folder)], check=True)


def test_the_network_and_the_sockets_of_services_are_out_of_reach(ask, place):
    path = f"{place}/home/a service"
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as service:
        service.bind(path)
        service.listen()
        Path(path).chmod(0o777)
        answers = ask(
            f"socket.create_connection({server.getsockname()!r}, 1.0)",
            f"socket.socket(socket.AF_UNIX).connect({path!r})",
            "os.listdir('/run')",
        )
        socket.socket(socket.AF_UNIX).connect(path)
    assert answers == ["OSError", "PermissionError", []]


def test_descriptors_are_its_own(ask):
    opened, channel, limit = ask(
        "os.listdir('/proc/self/fd')",
        "os.environ['KERNELWRIGHT_CHANNEL']",
        "__import__('resource').getrlimit(7)[1]",
    )
    assert len(opened) == 5
    assert {"0", "1", "2", channel} < set(opened)
    assert limit <= 1024


def test_descriptors_are_handed_on(ask):
    handle = os.memfd_create("shared")
    os.write(handle, b"hello")
    assert ask(f"os.pread({handle}, 5, 0).decode()", pass_fds=(handle,)) == ["hello"]
    os.close(handle)


def test_its_own_programs_run(ask):
    code = "import os; print(os.getpid() > 2)"
    assert ask(
        f"subprocess.check_output([sys.executable, '-I', '-S', '-c', {code!r}], text=True)",
        "open('/dev/stderr', 'w').write('x')",
        "len(open('/proc/self/maps').read()) > 0",
    ) == ["True\n", 1, True]


@pytest.mark.parametrize(
    ("code", "end", "returncode", "number"),
    [
        ("import os; os._exit(0)", End.EXITED, 0, None),
        ("raise SystemExit(7)", End.EXITED, 7, None),
        ("import os; os.abort()", End.SIGNALLED, None, signal.SIGABRT),
        ("import os; os.kill(os.getpid(), 9)", End.SIGNALLED, None, signal.SIGKILL),
        ("import os; os.kill(os.getpid(), 15)", End.SIGNALLED, None, signal.SIGTERM),
        ("import ctypes; ctypes.string_at(0)", End.SIGNALLED, None, signal.SIGSEGV),
        # From inside, everyone is everyone else in there.
        ("import os; os.kill(-1, 9)", End.EXITED, 1, None),
        ("x = bytearray(2 << 30)", End.OUT_OF_MEMORY, 1, None),
        ("while True: pass", End.TIMED_OUT, None, None),
    ],
)
def test_the_end_is_reported_truly(start, script, box, code, end, returncode, number):
    limits = Limits(wall_s=0.6 if "while" in code else 100.0, memory_bytes=1 << 30)
    outcome = start(script(code), sandbox=box, limits=limits).wait(100.0)
    assert outcome.end is end
    assert end is End.TIMED_OUT or (outcome.returncode, outcome.signal) == (returncode, number)
    assert outcome.wall_s < 60.0


def test_its_output_is_kept(start, script, box):
    code = "import sys\nprint('said')\nprint('complained', file=sys.stderr)\nraise ValueError('why')"
    outcome = start(script(code), sandbox=box).wait(60.0)
    assert outcome.stdout == "said\n"
    assert outcome.stderr.startswith("complained\n")
    assert outcome.describe() == "exited with code 1: ValueError: why"


DAEMON = """
import os, subprocess, sys, time
from kernelwright_channel import connect
for _ in range(2):
    begun, begins = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            code = "import time; time.sleep(300)"
            os.execv(sys.executable, [sys.executable, "-I", "-S", "-c", code, TOKEN])
        os._exit(0)
    os.close(begins)
    os.read(begun, 1)  # the other end is closed by exec
    os.wait()
connect().send({})
"""


@pytest.mark.parametrize("ending", ["exit", "kill"])
def test_daemons_die_with_it(start, script, box, ending):
    token = f"kernelwright-test-{os.getpid()}-{time.monotonic_ns()}"
    code = f"TOKEN = {token!r}\n{DAEMON}" + ("time.sleep(300)" if ending == "kill" else "")
    with start(script(code), sandbox=box) as child:
        child.receive(60.0)
        if ending == "kill":
            assert len(processes_that_run(token)) == 2
            assert child.threads() == 3
        else:
            assert child.wait(60.0).ok
    assert not processes_that_run(token)


def test_no_orphan_is_left_when_the_parent_is_killed(script, tmp_path, request):
    token = f"kernelwright-test-{os.getpid()}-{time.monotonic_ns()}"
    path = script(f"TOKEN = {token!r}\n{DAEMON}time.sleep(300)")
    parent = tmp_path / "parent.py"
    parent.write_text(f"""
from pathlib import Path
from kernelwright.process import Limits, Sandbox, Template
import time
template = Template([], site=False)
sandbox = Sandbox(Path({str(tmp_path / "scratch")!r}))
child = template.child({str(path)!r}, limits=Limits(wall_s=300.0), sandbox=sandbox)
child.receive(60.0)
print("ready", flush=True)
time.sleep(300)
""")
    process = subprocess.Popen([sys.executable, str(parent)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    assert len(processes_that_run(token)) == 2
    process.kill()
    assert gone(token)
    process.wait()


FORK_BOMB = """
import os
count = 0
while True:
    try:
        if os.fork() == 0:
            count = 0
    except OSError:
        pass
"""
BALLOONS = """
import os
for _ in range(3): os.fork()
data = []
while True:
    try:
        data.append(bytearray(8 << 20))
    except MemoryError:
        os._exit(9)
"""
FLOOD = """
import os
while True:
    os.write(1, b"a" * 65536)
    os.write(2, b"b" * 65536)
"""
ATTACKS = {
    "fork bomb": FORK_BOMB,
    "thread bomb": (
        "import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(99,)).start()"
    ),
    "memory balloon": BALLOONS,
    "closed descriptors": "import os, time\nos.closerange(0, 1024)\ntime.sleep(300)",
    "stops its group": "import os, signal\nos.killpg(0, signal.SIGSTOP)",
    "stops its parent": "import os, signal\nos.kill(os.getppid(), signal.SIGSTOP)\nwhile True: pass",
    "stops its parent's group": (
        "import os, signal\nos.killpg(os.getpgid(os.getppid()), signal.SIGSTOP)\nwhile True: pass"
    ),
    "stops everyone": "import os, signal\nos.kill(-1, signal.SIGSTOP)\nos.kill(os.getpid(), signal.SIGSTOP)",
    "ignores signals": (
        "import signal, time\nfor n in (1, 2, 3, 15): signal.signal(n, signal.SIG_IGN)\ntime.sleep(300)"
    ),
    "leaves at once": "import os\nos._exit(0)",
    "floods its output": FLOOD,
    "fills the disk": "data = b'x' * (1 << 20)\nfile = open('big', 'wb')\nwhile True: file.write(data)",
    "closes its channel": (
        "import os, time\nos.close(int(os.environ['KERNELWRIGHT_CHANNEL']))\ntime.sleep(300)"
    ),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_ends_in_bounded_time_and_the_next_child_works(start, script, tmp_path, attack):
    limits = Limits(wall_s=0.6, memory_bytes=256 << 20, file_bytes=1 << 24, cpu_s=5.0)
    started = time.monotonic()
    with start(
        script(ATTACKS[attack]), sandbox=Sandbox(tmp_path / "a", processes=64), limits=limits
    ) as child:
        with pytest.raises(ChildEnded):
            child.receive(60.0)
        assert len(child.outcome.stdout) <= 1 << 16
    assert time.monotonic() - started < 30.0
    path = script("from kernelwright_channel import connect\nconnect().send({'fine': True})")
    with start(path, sandbox=Sandbox(tmp_path / "b")) as child:
        assert child.receive(60.0) == {"fine": True}


@as_root
def test_the_number_of_processes_is_bounded_for_each_child_alone(start, script, tmp_path):
    path = script("""
import os, time
from kernelwright_channel import connect
channel, count = connect(), 1
try:
    while count < 100:
        if os.fork() == 0:
            time.sleep(300)
        count += 1
except OSError:
    pass
channel.send({"count": count})
channel.receive()
""")
    with (
        start(path, sandbox=Sandbox(tmp_path / "a", processes=20)) as one,
        start(path, sandbox=Sandbox(tmp_path / "b", processes=30)) as two,
    ):
        assert one.receive(60.0)["count"] == 20
        assert two.receive(60.0)["count"] == 30
        assert one.threads() == 20


def test_a_scratch_folder_may_be_used_again(ask, box, tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("ours")
    before = outside.stat().st_uid
    first = ask(
        "os.makedirs('deep/er'), open('deep/er/file', 'w').write('1') and None",
        f"os.symlink({str(outside)!r}, 'link')",
        "os.rename('tmp', 'old')",
        f"os.symlink({str(tmp_path)!r}, 'tmp')",
    )
    assert first == [[None, None], None, None, None]
    assert ask("open('deep/er/file', 'w').write('22')") == [2]
    assert outside.stat().st_uid == before
    assert tmp_path.stat().st_uid == os.geteuid()


def test_a_program_that_does_not_exist_raises(box):
    with pytest.raises(FileNotFoundError), Child(["no-such-program"], limits=LIMITS, sandbox=box) as child:
        child.receive(60.0)


def test_processor_time_is_that_of_the_whole_tree(start, script, box):
    path = script("""
import subprocess, sys, time
from kernelwright_channel import connect
channel = connect()
code = "import time\\nwhile time.process_time() < 0.2: pass"
subprocess.run([sys.executable, "-I", "-S", "-c", code])
channel.send({})
subprocess.Popen([sys.executable, "-I", "-S", "-c", "while True: pass"])
channel.send({})
channel.receive()
""")
    with start(path, sandbox=box) as child:
        child.receive(60.0)
        child.receive(60.0)
        first = child.cpu_ns()
        assert first > 0.19e9
        deadline = time.monotonic() + 60.0  # it may have to share a processor
        while child.cpu_ns() - first < 0.03e9:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert child.threads() == 2


USER_CODE = """
import json, sys
from pathlib import Path
sys.path.insert(0, {source!r})
from kernelwright.process import Child, child_script, Limits, Sandbox, Template
{before}
limits = Limits(wall_s=100.0, memory_bytes=1 << 30, cpu_s=10.0, file_bytes=1 << 24)
script = Path({script!r})
sandbox = Sandbox(Path({scratch!r}))
with Template(["json"], site=False) as template:
    for start, what in ((Child, child_script(script)), (template.child, script)):
        with start(what, limits=limits, sandbox=sandbox) as child:
            print(json.dumps([dict(child.guards), child.receive(60.0)]))
"""
USER_SCRIPT = """
import os
from kernelwright_channel import connect
def attempt(action):
    try:
        return action()
    except Exception as error:
        return type(error).__name__
connect().send({
    "uid": os.getuid(),
    "seen": sorted(int(name) for name in os.listdir("/proc") if name.isdigit())[:3],
    "outside": attempt(lambda: open("../outside", "w").write("1")),
    "inside": attempt(lambda: open("inside", "w").write("1")),
    "trace": attempt(lambda: open("/proc/1/mem", "rb")) if os.getppid() == 1 else "",
    "capabilities": [line for line in open("/proc/self/status") if line.startswith(("CapEff", "CapBnd"))],
})
"""
# Where root runs the tests, another user may be unable to read the interpreter where it is.
AS_USER = """
import ctypes, os, sys
libc, base, folder, uid = ctypes.CDLL(None), *sys.argv[1:3], int(sys.argv[3])
assert libc.unshare(0x20000) == 0
assert libc.mount(b"none", b"/", None, 0x44000, None) == 0
assert libc.mount(base.encode(), folder.encode(), None, 0x5000, None) == 0
os.setgroups([])
os.setresgid(uid, uid, uid)
os.setresuid(uid, uid, uid)
os.environ["HOME"] = "/nonexistent"
python = folder + "/bin/" + os.path.basename(os.path.realpath(sys.executable))
os.execv(python, [python, "-I", "-c", sys.argv[4]])
"""


@pytest.fixture
def place():
    """A folder that every user can reach, with a `python` in it to put an interpreter over, and a `home`."""
    made = subprocess.check_output(["mktemp", "-d", "/tmp/kernelwright-test-XXXXXX"], text=True)
    folder = Path(made.strip())
    folder.chmod(0o755)
    (folder / "python").mkdir()
    (folder / "home").mkdir()
    (folder / "home" / "script.py").write_text(USER_SCRIPT)
    yield folder
    subprocess.run(["rm", "-rf", str(folder)], check=True)


@pytest.fixture
def ask_as(place):
    """What children in a sandbox answer when this user starts them: guards and answer of each."""

    def ask(uid: int, before: str = "") -> list[list[dict[str, object]]]:
        home = place / "home"
        code = USER_CODE.format(
            source=str(Path(kernelwright.__file__).parents[1]),
            before=before,
            script=str(home / "script.py"),
            scratch=str(home / "scratch"),
        )
        argv = [sys.executable, "-I", "-c", code]
        if os.geteuid() == 0:
            os.chown(home, uid, uid)
            argv = [
                sys.executable,
                "-I",
                "-c",
                AS_USER,
                sys.base_prefix,
                str(place / "python"),
                str(uid),
                code,
            ]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=200, check=False)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    return ask


def test_an_ordinary_user_has_every_guard_but_another_user(ask_as):
    for guards, answer in ask_as(12345):
        missing = {name: reason for name, reason in guards.items() if reason}
        assert set(missing) == {"user"}
        assert "only root" in missing["user"]
        assert answer["seen"] == [1, 2]
        assert (answer["outside"], answer["inside"], answer["trace"]) == ("OSError", 1, "PermissionError")
        assert {int(line.split()[1], 16) for line in answer["capabilities"]} == {0}
        assert answer["uid"] != 0


# The same in a user namespace that allows no further ones and lacks the capabilities to do without.
NO_NAMESPACES = """
import ctypes, os, struct
libc, uid = ctypes.CDLL(None), os.getuid()
ready, go = os.pipe()
me = os.getpid()
if os.fork() == 0:
    # A map of many users has to be written from outside.
    os.read(ready, 1)
    users = "0 0 60000" if uid == 0 else f"{uid} {uid} 1"
    if uid:
        Path(f"/proc/{me}/setgroups").write_text("deny")
    for name in ("uid_map", "gid_map"):
        Path(f"/proc/{me}/{name}").write_text(users)
    os._exit(0)
assert libc.unshare(0x10000000) == 0
os.write(go, b".")
assert os.wait()[1] == 0
Path("/proc/sys/user/max_user_namespaces").write_text("0")
kept = 0xA80425FB if uid == 0 else 0  # what containers are given
data = struct.pack("=6I", kept, kept, 0, 0, 0, 0)
for capability in range(64):
    if not kept >> capability & 1:
        libc.prctl(24, capability, 0, 0, 0)
assert libc.capset(struct.pack("=Ii", 0x20080522, 0), data) == 0
libc.prctl(4, 1, 0, 0, 0)
"""
NEEDS_NAMESPACES = {"pid_namespace", "mount_namespace", "read_only", "scratch", "network"}


def test_where_namespaces_are_refused_the_child_runs_and_it_is_said(ask_as):
    for guards, answer in ask_as(12345, NO_NAMESPACES):
        missing = {name for name, reason in guards.items() if reason}
        assert missing == {*NEEDS_NAMESPACES, "user", "processes"}
        assert "refused" in guards["mount_namespace"]
        assert answer["inside"] == 1


@as_root
def test_root_without_namespaces_still_has_another_user_to_give(ask_as):
    for guards, answer in ask_as(0, NO_NAMESPACES):
        assert {name for name, reason in guards.items() if reason} == NEEDS_NAMESPACES
        assert answer["uid"] not in (0, 12345)
        assert (answer["outside"], answer["inside"]) == ("PermissionError", 1)
        assert {int(line.split()[1], 16) for line in answer["capabilities"]} == {0}


@as_root
def test_root_who_cannot_let_another_user_read_drops_his_powers_at_least(ask_as, place):
    (place / "home").chmod(0o700)
    for guards, answer in ask_as(0, NO_NAMESPACES):
        missing = {name for name, reason in guards.items() if reason}
        assert missing == {*NEEDS_NAMESPACES, "user", "processes"}
        assert f"another user could not read {place / 'home'}" in guards["user"]
        assert (answer["uid"], answer["inside"]) == (0, 1)
        assert {int(line.split()[1], 16) for line in answer["capabilities"]} == {0}


NO_ADMINISTRATION = """
import ctypes, struct
libc = ctypes.CDLL(None)
kept = 0xA80425FB
for capability in range(64):
    if not kept >> capability & 1:
        libc.prctl(24, capability, 0, 0, 0)
assert libc.capset(struct.pack("=Ii", 0x20080522, 0), struct.pack("=6I", kept, kept, 0, 0, 0, 0)) == 0
libc.prctl(4, 1, 0, 0, 0)
"""


@as_root
def test_root_without_administration_takes_a_user_namespace(ask_as):
    for guards, answer in ask_as(0, NO_ADMINISTRATION):
        assert {name for name, reason in guards.items() if reason} == {"user", "processes"}
        assert answer["seen"] == [1, 2]
        assert (answer["outside"], answer["inside"], answer["trace"]) == ("OSError", 1, "PermissionError")
        assert {int(line.split()[1], 16) for line in answer["capabilities"]} == {0}


@as_root
def test_before_linux_5_12_mounts_are_closed_one_by_one(tmp_path):
    # In a process of its own, because it gives up its mounts.
    code = f"""
import ctypes, os, sys
sys.path.insert(0, {str(Path(kernelwright.__file__).parent / "process")!r})
import _kernel, _mounts
def refuse(*_, **__):
    raise OSError(38, "Function not implemented")
_kernel.set_read_only = refuse
_kernel.unshare(_kernel.CLONE_NEWNS)
_kernel.mount("none", "/", flags=_kernel.MS_REC | _kernel.MS_PRIVATE)
_kernel.mount({str(tmp_path)!r}, {str(tmp_path)!r}, flags=_kernel.MS_BIND)
_mounts.close("/")
for path in ({str(tmp_path / "a")!r}, "/dev/shm/a", "/tmp/a", "/a"):
    try:
        open(path, "w")
    except OSError as error:
        assert error.errno == 30, error
    else:
        raise AssertionError(path)
_mounts.open_up({str(tmp_path)!r})
open({str(tmp_path / "a")!r}, "w")
"""
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.serial
def test_a_sandbox_costs_milliseconds(template, script, tmp_path):
    path = script("from kernelwright_channel import connect\nconnect().send({})")
    times = []
    while len(times) < 40 and min(times, default=1.0) >= 0.060:
        started = time.perf_counter()
        with template.child(path, limits=LIMITS, sandbox=Sandbox(tmp_path / "a")) as child:
            child.receive(60.0)
            times.append(time.perf_counter() - started)
    assert min(times) < 0.060
