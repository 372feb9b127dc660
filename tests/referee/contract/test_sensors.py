"""What a candidate does besides computing is noted; what honest ones do is not."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from kernelwright.process import Template
from kernelwright.referee.contract._stage import Act
from kernelwright.referee.contract._stage import Candidate
from kernelwright.referee.contract._stage import Deadlines
from kernelwright.referee.contract._stage import Performer
from kernelwright.referee.contract._stage import PerformerFailure

Perform = Callable[..., Performer]
DEADLINES = Deadlines(first_s=60.0, idle_s=20.0, call_s=60.0)


def acts_of(performer: Performer, *, calls: int = 1) -> list[Act]:
    """Of its import and some calls."""
    performer.load(threads=2)
    for _ in range(calls):
        performer.call([performer.board.put(torch.rand(8, 8))])
    return [*performer.acts()]


def kernel_that(act: str, *, header: str = "") -> str:
    """A candidate that does something in its call."""
    body = "\n    ".join(act.splitlines())
    return f"{header}\nimport os\nimport sys\nimport torch\n\ndef kernel(x):\n    {body}\n    return x + 1\n"


# Replaced functions.

PATCHES = {
    "import time; time.perf_counter_ns = lambda: 0": "time.perf_counter_ns",
    "import builtins; builtins.len = lambda x: 0": "builtins.len",
    "torch.softmax = lambda *a, **k: None": "torch.softmax",
    "torch.nn.functional.softmax = lambda *a, **k: None": "torch.nn.functional.softmax",
    "torch.Tensor.copy_ = lambda *a: None": "torch.Tensor.copy_",
    "torch.Tensor.data_ptr = lambda *a: 0": "torch.Tensor.data_ptr",
    "torch.testing.assert_close = lambda *a, **k: None": "torch.testing.assert_close",
    "torch.nn.functional.softmax.__code__ = (lambda *a, **k: None).__code__": (
        "the code of torch.nn.functional.softmax"
    ),
    "import gc; gc.collect = lambda: 0": "gc.collect",
    "torch.compile = torch._dynamo.disable(lambda *a: None)": "torch.compile",
    "import functools; torch.mean = functools.partial(torch.mean)": "torch.mean",
    "del torch.allclose": "torch.allclose",
    "torch.cuda.synchronize = lambda: None": "torch.cuda.synchronize",
    "torch.nn.Linear.forward = lambda *a: None": "torch.nn.Linear.forward",
    "torch.nn.Module.__call__ = lambda *a: None": "torch.nn.Module.__call__",
    "import numpy.testing as t; t.assert_allclose = lambda *a: None": "numpy.testing.assert_allclose",
}


@pytest.mark.parametrize("patch", PATCHES)
def test_a_replaced_function_is_named(perform: Perform, patch: str) -> None:
    (act,) = acts_of(perform(f"import torch\n{patch}\n\ndef kernel(x):\n    return x\n"))
    assert act == Act("patched", PATCHES[patch], f"replaced {PATCHES[patch]}")


def test_a_function_replaced_in_a_later_call_is_named(perform: Perform) -> None:
    performer = perform("import time\n\ndef kernel(x):\n    time.time_ns = lambda: 0\n    return x\n")
    performer.load()
    assert performer.acts() == ()
    performer.call([performer.board.put(torch.ones(1))])
    assert [act.what for act in performer.acts()] == ["time.time_ns"]


def test_a_function_that_was_put_back_is_no_act(perform: Perform) -> None:
    act = "kept, torch.mean = torch.mean, None\ntorch.mean = kept"
    assert acts_of(perform(kernel_that(act))) == []


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (
            (
                "for one in gc.get_objects():\n"
                "    if type(one) is type(kernel) and 'kernelwright' in one.__code__.co_filename:\n"
                "        one.__code__ = one.__code__.replace(co_name='other')"
            ),
            "the code of .* functions of the judge",
        ),
        (
            "sys.modules['__main__'].load_modules = lambda: None",
            "load_modules of the judge's script",
        ),
        (
            "import kernelwright.referee as referee\nreferee.compare = lambda *a: None",
            "kernelwright.referee.compare",
        ),
    ],
    ids=["code", "main", "referee"],
)
def test_replaced_functions_of_the_judge_are_named(perform: Perform, act: str, says: str) -> None:
    acts = acts_of(perform(kernel_that(act, header="import gc")))
    assert any(one.act == "patched" and one.deceives and re.search(says, one.what) for one in acts)


def test_the_performer_does_not_call_what_a_candidate_can_replace(perform: Perform) -> None:
    performer = perform(
        """
        import builtins
        import json
        import os
        import sys
        import time
        import torch

        def trap(kept):
            def trapped(*args, **options):
                if "kernelwright/referee" in sys._getframe(1).f_code.co_filename:
                    os._exit(77)
                return kept(*args, **options)
            return trapped

        for scope, names in (
            (builtins, ("len", "isinstance", "zip", "sum", "any", "sorted", "min", "max", "getattr")),
            (torch, ("frombuffer", "empty", "empty_strided", "no_grad", "set_num_threads")),
            (torch.Tensor, ("data_ptr", "stride", "size", "copy_", "view", "as_strided", "untyped_storage")),
            (os, ("read", "write", "getpid", "close")),
            (time, ("perf_counter_ns", "sleep")),
            (json, ("dumps", "loads")),
        ):
            for name in names:
                setattr(scope, name, trap(getattr(scope, name)))

        def kernel(x):
            return x + 1
        """
    )
    performer.load()
    node = performer.board.put(torch.ones(2, 2))
    result = performer.call([node], settle_ms=1, threads=1)
    performer.arrange([([node], {})])
    performer.batch([0, 0], lead=[0])
    assert result.tensors[0] is not None
    assert result.tensors[0].eq(2).all()
    assert all(one.facts[0].plain for one in performer.collect([1]))
    assert len(performer.acts()) >= 28


# What is left on.

LEFT_ON = {
    "sys.settrace(lambda *a: None)": "trace function",
    "sys.setprofile(lambda *a: None)": "profile function",
    "import signal; signal.signal(14, print); signal.setitimer(signal.ITIMER_REAL, 1000)": "timer signal",
    "class Mode(torch.overrides.TorchFunctionMode):\n"
    "    def __torch_function__(self, f, t, a=(), k=None): return f(*a, **(k or {}))\n"
    "kept.append(Mode()); kept[-1].__enter__()": "function mode on .*Mode",
    "from torch.utils._python_dispatch import TorchDispatchMode\n"
    "class Mode(TorchDispatchMode):\n"
    "    def __torch_dispatch__(self, f, t, a=(), k=None): return f(*a, **(k or {}))\n"
    "kept.append(Mode()); kept[-1].__enter__()": "dispatch mode on",
}


@pytest.mark.parametrize("act", LEFT_ON)
def test_what_is_left_on_to_intercept_others_is_named(perform: Perform, act: str) -> None:
    acts = [one for one in acts_of(perform(kernel_that(act, header="kept = []"))) if one.act == "left_on"]
    assert len(acts) == 1
    assert re.search(LEFT_ON[act], acts[0].said)
    assert acts[0].deceives


SETTINGS = {
    "torch.set_default_dtype(torch.float64)": "default dtype changed from torch.float32 to torch.float64",
    "torch.set_flush_denormal(True)": "flushing of denormals",
    "torch.set_default_device('cpu')": "default device",
    "torch.use_deterministic_algorithms(True)": "deterministic algorithms",
    "torch.set_float32_matmul_precision('medium')": "matmul precision",
}


@pytest.mark.parametrize("act", SETTINGS)
def test_a_setting_that_was_not_put_back_is_noted_and_is_no_deceit(perform: Perform, act: str) -> None:
    acts = acts_of(perform(kernel_that(act)))
    assert len(acts) == 1, acts
    (noted,) = acts
    assert noted.act == "state"
    assert SETTINGS[act] in noted.said
    assert not noted.deceives


# Files and processes.


@pytest.mark.parametrize(
    "how", ["open(p).read()", "open(p, 'a')", "os.open(p, 0)", "pathlib.Path(p).read_bytes()"]
)
def test_whoever_opens_a_watched_file_is_named_with_the_line(
    perform: Perform, tmp_path: Path, how: str
) -> None:
    file = tmp_path / "baseline.py"
    file.write_text("")
    performer = perform(
        kernel_that(f"p = {str(file)!r}; {how}", header="import pathlib"), watched={"the baseline": file}
    )
    (act,) = acts_of(performer)
    assert (act.act, act.what, act.deceives) == ("opened", "the baseline", True)
    assert act.said.startswith("opens the baseline")
    assert ("for writing" in act.said) == ("'a'" in how)
    assert act.where.endswith("candidate/__init__.py:7")


def test_whoever_imports_a_watched_file_or_reads_it_by_another_name_is_named(
    perform: Perform, tmp_path: Path
) -> None:
    file = tmp_path / "baseline.py"
    file.write_text("def get_reference_output(x):\n    return x + 1\n")
    (tmp_path / "link.py").symlink_to(file)
    for act in (
        f"sys.path.append({str(tmp_path)!r}); import baseline; baseline.get_reference_output(x)",
        f"open({str(tmp_path / 'link.py')!r})",
        f"os.remove({str(file)!r})",
    ):
        noted = acts_of(perform(kernel_that(act), watched={"the baseline": file}))
        assert [(one.act, one.what) for one in noted] == [("opened", "the baseline")]


def test_whoever_writes_to_installed_code_is_named(perform: Perform) -> None:
    # Opened for reading and writing, and not written.
    act = "os.close(os.open(torch.__file__, os.O_RDWR))"
    (noted,) = acts_of(perform(kernel_that(act)))
    assert "a file of the installed environment for writing" in noted.said
    act = "import kernelwright; os.close(os.open(kernelwright.__file__, os.O_RDWR))"
    (noted,) = acts_of(perform(kernel_that(act)))
    assert "a file of the judge's harness for writing" in noted.said


def test_whoever_writes_beside_itself_is_named_and_who_writes_in_its_folder_is_not(perform: Perform) -> None:
    act = "p = os.path.dirname(os.path.dirname(__file__)) + '/other.py'; open(p, 'w').close()"
    (noted,) = acts_of(perform(kernel_that(act)))
    assert "a file beside the candidate's own for writing" in noted.said
    assert acts_of(perform(kernel_that(act.replace("/other.py", "/candidate/made.py")))) == []


@pytest.mark.parametrize("process", ["1", "{os.getppid()}"])
def test_whoever_opens_the_memory_of_another_process_is_named(perform: Perform, process: str) -> None:
    act = f"try: open(f'/proc/{process}/mem', 'rb')\nexcept OSError: pass"
    (noted,) = acts_of(perform(kernel_that(act)))
    assert noted.act == "opened"
    assert "the mem of another process" in noted.said


def test_whoever_asks_for_calls_into_other_processes_is_named(perform: Perform) -> None:
    (noted,) = acts_of(perform(kernel_that("import ctypes; ctypes.CDLL(None).ptrace")))
    assert noted.said == "asks for ptrace, which reads or changes other processes"


@pytest.mark.parametrize("call", ["os.kill(os.getppid(), 18)", "os.killpg(os.getpgid(os.getppid()), 18)"])
def test_whoever_signals_a_process_not_its_own_is_named(perform: Perform, call: str) -> None:
    # SIGCONT does nothing to a process that runs.
    assert signal.SIGCONT == 18
    (noted,) = acts_of(perform(kernel_that(call)))
    assert noted.act == "signalled"
    assert noted.said.startswith("sends signal 18 to the process")


def test_an_act_is_known_of_a_process_that_died_of_it(perform: Perform, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    performer = perform(
        kernel_that(f"os.path.exists({str(file)!r}) or open({str(file)!r}, 'w')\nos._exit(0)"),
        watched={"the judge's folder": tmp_path / "secret"},
    )
    with pytest.raises(PerformerFailure) as caught:
        acts_of(performer)
    assert caught.value.act is not None
    assert caught.value.act.what == "the judge's folder"
    assert [act.what for act in performer.acts()] == ["the judge's folder"]


@pytest.mark.parametrize(
    "act", ["sys._getframe(1)", "gc.get_objects()", "gc.get_referrers(x)", "inspect.currentframe()"]
)
def test_a_look_at_the_callers_is_noted_and_is_no_deceit_by_itself(perform: Perform, act: str) -> None:
    (noted,) = acts_of(perform(kernel_that(act, header="import gc\nimport inspect")))
    assert noted.act == "looked"
    assert not noted.deceives


# Honest candidates.

HONEST = {
    "try_except": (
        "import traceback\ntry:\n    raise ValueError\nexcept ValueError:\n    traceback.format_exc()"
    ),
    "warnings": "import warnings; warnings.warn('slow path', stacklevel=2)",
    "logging": "import logging; logging.getLogger('candidate').warning('%s', 1, stack_info=True)",
    "thread_pool": (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(2) as pool: list(pool.map(torch.sin, [x, x]))"
    ),
    "process": "import subprocess; subprocess.run([sys.executable, '-c', 'pass'], check=True)",
    "killed_process": (
        "import subprocess\nwith subprocess.Popen(['sleep', '100']) as p: p.kill()\nos.kill(os.getpid(), 0)"
    ),
    "ctypes": "import ctypes; ctypes.CDLL(None).strlen(b'abc')",
    "temporary_file": (
        "import tempfile\nwith tempfile.NamedTemporaryFile('w', suffix='.py') as f: f.write('1')"
    ),
    "numpy": "import numpy; numpy.linalg.norm(x.numpy())",
    "threads": "torch.set_num_threads(1)",
    "grad_mode": "torch.set_grad_enabled(True)",
    "autocast": "with torch.autocast('cpu', torch.bfloat16): x @ x",
    "dispatch_mode": (
        "from torch.utils.flop_counter import FlopCounterMode\nwith FlopCounterMode(display=False): x @ x"
    ),
    "inspect": "import inspect; inspect.signature(kernel); inspect.getsource(kernel)",
    "proc": "open('/proc/cpuinfo').read(); open('/proc/self/maps').read(); open('/proc/meminfo').read()",
    "environment": "os.environ['OMP_PROC_BIND'] = 'close'",
    "own_file": "open(__file__).read()",
    "print": "import builtins; builtins.print = lambda *a: None",
    "named_tuple": "import collections; collections.namedtuple('Pair', 'a b')(1, 2)",
    "dataclass": "import dataclasses; dataclasses.make_dataclass('D', ['a'])(1)",
    "custom_operator": (
        "torch.library.custom_op(f'candidate::a{id(x)}', lambda x: x + 1, mutates_args=(),"
        " schema='(Tensor x) -> Tensor')(x)"
    ),
    "autograd_function": (
        "type('F', (torch.autograd.Function,), {'forward': staticmethod(lambda c, x: x + 1)}).apply(x)"
    ),
    "fx": "import torch.fx; torch.fx.symbolic_trace(lambda a: a + 1)(x)",
    "script": "torch.jit.trace(lambda a: a + 1, (x,))(x)",
    "vmap": "torch.vmap(lambda a: a + 1)(x)",
}


@pytest.mark.parametrize("name", HONEST)
def test_what_honest_candidates_do_is_no_act(perform: Perform, name: str) -> None:
    assert acts_of(perform(kernel_that(HONEST[name])), calls=2) == []


def test_our_own_operators_are_no_act(perform: Perform) -> None:
    source = "import kernelwright as kw\n\ndef kernel(x):\n    return kw.ops.softmax(x, backend='torch')\n"
    assert acts_of(perform(source), calls=2) == []


def test_this_project_as_the_candidate_is_no_act(tmp_path: Path, template: Template) -> None:
    candidate = Candidate("kernelwright", "kernelwright.ops.softmax", path=(tmp_path,))
    with Performer(candidate, template=template, board_bytes=1 << 28, deadlines=DEADLINES) as performer:
        performer.load()
        backend = {"t": "value", "v": "torch"}
        result = performer.call([performer.board.put(torch.rand(4, 4))], {"backend": backend})
        assert result.facts[0].plain
        assert performer.acts() == ()


def test_compiled_candidates_are_no_act(perform: Perform) -> None:
    # Parts of torch wrap others when the compiler is imported.
    source = """
        import torch
        import torch._inductor.compile_fx

        @torch.compile(backend="aot_eager")
        def kernel(x):
            return torch.softmax(x, -1) + 1
    """
    assert acts_of(perform(source), calls=2) == []
