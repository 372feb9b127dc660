"""Kernels are checked, then timed in turns with their baseline; the arithmetic of that needs no GPU."""

from __future__ import annotations

import ctypes
import fcntl
import math
import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kernelwright.controls import _cuda_driver
from kernelwright.controls import _cuda_launch
from kernelwright.controls import CudaTarget
from kernelwright.controls import KernelRun
from kernelwright.controls import NvccSearchSpace
from kernelwright.controls._cuda_driver import _packed
from kernelwright.controls._cuda_driver import _three
from kernelwright.controls._cuda_driver import GpuFailure
from kernelwright.controls._cuda_driver import LoadedKernel
from kernelwright.controls._cuda_launch import Bench
from kernelwright.controls._cuda_launch import paired
from kernelwright.controls._cuda_launch import runs_on
from kernelwright.controls._framework_bench import FrameworkBench
from kernelwright.errors import UsageError
from kernelwright.machine import find_cuda_tool
from kernelwright.search import _task
from kernelwright.search import StageFailure

KERNEL = Path(__file__).parents[2] / "examples" / "kernels" / "rms_norm.cu"
ROWS, HIDDEN = 512, 1024

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no NVIDIA GPU here")


def inputs(seed: int) -> list[object]:
    generator = torch.Generator("cuda").manual_seed(seed)
    x = torch.randn(ROWS, HIDDEN, generator=generator, device="cuda").bfloat16()
    w = torch.randn(HIDDEN, generator=generator, device="cuda").bfloat16()
    return [x, w, torch.empty_like(x), HIDDEN // 8, 1e-6]


def expected(x, w, y, vectors, eps):
    x, w = x.float(), w.float()
    return x * (x.square().mean(-1, keepdim=True) + eps).rsqrt() * w


def wrong(x, w, y, vectors, eps):
    return 2 * expected(x, w, y, vectors, eps)


# -- without a GPU -----------------------------------------------------------------------------------------


def test_a_ratio_is_of_neighbours_in_time() -> None:
    """Clocks that fall to half on the way move both, and so no ratio."""
    rng = random.Random(0)
    clocks = [1.0 + number / 20 for number in range(21)]
    times = [(clock * 1e-3 * rng.uniform(0.999, 1.001), clock * 0.8e-3) for clock in clocks]
    found = paired(times)
    assert found.ratio == pytest.approx(1.25, rel=1e-3)
    assert found.low <= found.ratio <= found.high
    assert found.high / found.low < 1.002
    assert found.rounds == 21
    assert found.seconds == pytest.approx(1.2e-3)


def test_the_interval_is_as_wide_as_the_noise() -> None:
    rng = random.Random(1)
    covered = 0
    for _ in range(200):
        times = [(rng.lognormvariate(0, 0.1), rng.lognormvariate(0, 0.1)) for _ in range(21)]
        found = paired(times)
        covered += found.low <= 1.0 <= found.high
    assert covered >= 180
    assert paired([(2.0, 1.0)]).low == paired([(2.0, 1.0)]).high == 2.0


@pytest.mark.parametrize(
    ("architecture", "capability", "runs"),
    [
        ("sm_90", (9, 0), True),
        ("sm_80", (8, 6), True),
        ("sm_86", (8, 0), False),
        ("sm_80", (9, 0), False),
        ("sm_90a", (9, 0), True),
        ("sm_100a", (10, 3), False),
        ("sm_100", (10, 3), True),
        ("sm_120", (12, 1), True),
    ],
)
def test_cubins_run_on_devices_of_their_generation(
    architecture: str, capability: tuple[int, int], runs: bool
) -> None:
    assert runs_on(architecture, *capability) is runs


@pytest.mark.parametrize(
    ("value", "size", "kind", "same"),
    [
        (7, 4, ctypes.c_int32, 7),
        (7, 8, ctypes.c_int64, 7),
        (True, 1, ctypes.c_int8, 1),
        (0.5, 4, ctypes.c_float, 0.5),
        (0.5, 8, ctypes.c_double, 0.5),
        (ctypes.c_uint16(9), 2, ctypes.c_uint16, 9),
    ],
)
def test_arguments_have_the_width_that_the_kernel_says(
    value: object, size: int, kind: type, same: object
) -> None:
    made = _packed(value, size, "k")
    assert (type(made), made.value) == (kind, same)


def test_tensors_are_passed_by_address() -> None:
    tensor = torch.zeros(3)
    assert _packed(tensor, 8, "k").value == tensor.data_ptr()
    with pytest.raises(UsageError, match="k takes 4 bytes where"):
        _packed(tensor, 4, "k")
    with pytest.raises(UsageError, match=r"k takes 2 bytes where 0\.5 is given; pass a ctypes value"):
        _packed(0.5, 2, "k")


def test_sizes_of_grids_have_one_to_three_numbers() -> None:
    assert _three([7]) == (7, 1, 1)
    assert _three((1, 2, 3)) == (1, 2, 3)
    for sizes in ((), (1, 2, 3, 4)):
        with pytest.raises(UsageError, match="one to three sizes"):
            _three(sizes)


def test_sizes_may_follow_from_the_kernels_parameters() -> None:
    run = KernelRun(list, list, [], lambda p: [100 // p["BM"]], lambda p: (p["BM"],), lambda p: 16 * p["BM"])
    assert run.sizes({"BM": 50}) == ([2], (50,), 800)
    assert KernelRun(list, list, [], [1], [32], 5).sizes({}) == ([1], [32], 5)


def test_without_a_gpu_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(StageFailure, match="an NVIDIA GPU is needed to measure") as failure:
        Bench(KernelRun(list, list, [], [1], [1]), "sm_90")
    assert (failure.value.failure_kind, failure.value.lasts) == ("unsupported", False)


# -- on a GPU that is none ---------------------------------------------------------------------------------


class FakeGpu:
    """Stands in for torch.cuda and the driver: kernels are Python functions, and time is what they say."""

    def __init__(self) -> None:
        self.now = 0.0
        self.kernels: dict[str, tuple[float, Callable[..., None]]] = {}
        self.hangs = False
        self.lost = False
        self.order: list[str] = []

    # torch
    cuda = property(lambda self: self)
    uint8 = torch.uint8

    def is_available(self) -> bool:
        return True

    def get_device_capability(self) -> tuple[int, int]:
        return 9, 0

    def get_device_properties(self, device: int) -> Any:
        return SimpleNamespace(L2_cache_size=64, uuid="fake")

    def current_device(self) -> int:
        return 0

    def synchronize(self) -> None:
        if self.lost:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")

    def _sleep(self, cycles: int) -> None:
        self.order.append("wait")

    def current_stream(self) -> Any:
        return SimpleNamespace(cuda_stream=0)

    def empty(self, size: int, **options: Any) -> torch.Tensor:
        return torch.empty(8)

    def empty_like(self, one: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(one)

    def Event(self, enable_timing: bool = False) -> Any:  # noqa: N802 - torch's name
        event = SimpleNamespace(at=0.0)
        event.record = lambda: setattr(event, "at", self.now)
        event.query = lambda: not self.hangs
        event.elapsed_time = lambda end: (end.at - event.at) * 1e3
        return event

    # the driver
    def load(self, path: Path, kernel: str, *, dynamic_shared: int = 0) -> Any:
        seconds, does = self.kernels[path.name]

        def launch(grid: Any, block: Any, packed: Any, stream: int) -> None:
            self.order.append(path.name)
            does(*packed)
            self.now += seconds

        return SimpleNamespace(name=kernel, pack=list, launch=launch, close=lambda: None)

    # the clock
    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def _double(x: torch.Tensor, y: torch.Tensor) -> None:
    y.copy_(2 * x)


def _doubling() -> KernelRun:
    def make(seed: int) -> list[torch.Tensor]:
        return [torch.arange(4.0) + seed, torch.zeros(4)]

    return KernelRun(make, lambda x, y: 2 * x, [1], [1], [32])


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    made = FakeGpu()
    monkeypatch.setattr(_cuda_launch.importlib, "import_module", lambda name: made)
    monkeypatch.setattr(_cuda_launch, "LoadedKernel", made.load)
    monkeypatch.setattr(_cuda_launch, "time", made)
    return made


BASE, OWN = Path("base"), Path("own")


def test_both_run_in_turns_whose_order_changes(gpu: FakeGpu) -> None:
    gpu.kernels = {"base": (3e-3, _double), "own": (2e-3, _double)}
    found = Bench(_doubling(), "sm_90").race((BASE, "k", {}), (OWN, "k", {}), rounds=5)
    assert [found.ratio, found.low, found.high] == pytest.approx([1.5, 1.5, 1.5])
    assert (found.baseline_seconds, found.seconds) == (pytest.approx(3e-3), pytest.approx(2e-3))
    assert gpu.order[6:] == [
        "wait",
        "base",
        "own",
        "own",
        "base",
        "base",
        "own",
        "own",
        "base",
        "base",
        "own",
    ]


def test_a_contest_has_the_baseline_twice_and_all_orders(gpu: FakeGpu) -> None:
    gpu.kernels = {"base": (3e-3, _double), "own": (2e-3, _double)}
    rounds = Bench(_doubling(), "sm_90").contest((BASE, "k", {}), (OWN, "k", {}), budget_s=0.05)
    assert len(rounds) == 6  # what the budget is enough for; nothing that was seen ends it sooner
    for one in rounds:
        assert one == pytest.approx((3e-3, 3e-3, 2e-3))
    orders = [gpu.order[10 + 3 * number :][:3].index("own") for number in range(6)]
    assert sorted(orders) == [0, 0, 1, 1, 2, 2]


def test_what_the_gpu_waits_for_its_host_is_in_no_time(gpu: FakeGpu) -> None:
    """Where queueing took longer than the GPU was held back for, the rounds are made again."""
    held: list[int] = []
    gpu._sleep = held.append  # type: ignore[method-assign]
    gpu.kernels = {"base": (1e-3, _double), "own": (1e-3, _double)}
    bench = Bench(_doubling(), "sm_90")
    assert bench.race((BASE, "k", {}), (OWN, "k", {}), rounds=5).rounds == 5
    assert held == [pytest.approx(3 * 5 * 2e-3 * 2e9)]

    calls = iter([1e-3] * 3 + [20e-3] * 5 + [1e-3] * 5)

    def late(x: torch.Tensor, y: torch.Tensor) -> None:
        _double(x, y)
        gpu.now += next(calls)

    held.clear()
    gpu.kernels["own"] = (0.0, late)
    found = bench.race((BASE, "k", {}), (OWN, "k", {}), rounds=5)
    assert (found.rounds, found.ratio) == (5, pytest.approx(1.0))
    assert len(held) == 2
    assert held[1] > 3 * held[0]


def test_a_kernel_that_is_right_at_first_and_wrong_later_has_no_time(gpu: FakeGpu) -> None:
    calls: list[int] = []

    def tires(x: torch.Tensor, y: torch.Tensor) -> None:
        calls.append(1)
        y.copy_((2 if len(calls) < 9 else 3) * x)

    gpu.kernels = {"base": (1e-3, _double), "own": (1e-3, tires)}
    bench = Bench(_doubling(), "sm_90")
    bench.check(OWN, "k", {})
    with pytest.raises(StageFailure, match="argument 1 is off by") as failure:
        bench.race((BASE, "k", {}), (OWN, "k", {}))
    assert failure.value.failure_kind == "wrong"
    with pytest.raises(StageFailure, match="argument 1 is off by"):
        bench.contest((BASE, "k", {}), (OWN, "k", {}))


def test_a_gpu_without_room_is_no_crash(gpu: FakeGpu) -> None:
    class OutOfMemoryError(RuntimeError):
        """As torch's."""

    def greedy(x: torch.Tensor, y: torch.Tensor) -> None:
        raise OutOfMemoryError("CUDA out of memory. Tried to allocate 2 TiB")

    gpu.kernels = {"own": (1e-3, greedy)}
    with pytest.raises(GpuFailure, match="Tried to allocate 2 TiB") as failure:
        Bench(_doubling(), "sm_90").check(OWN, "k", {})
    assert (failure.value.failure_kind, failure.value.retire) == ("out_of_memory", None)


def test_one_process_measures_at_a_time(gpu: FakeGpu) -> None:
    first, second = Bench(_doubling(), "sm_90"), Bench(_doubling(), "sm_90")
    with first.alone():
        path = first._lock
        assert path == second._lock
        with path.open("a") as stream, pytest.raises(BlockingIOError):
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with second.alone():
        pass


def test_more_rounds_are_run_where_the_interval_is_wide(gpu: FakeGpu) -> None:
    rng = random.Random(0)

    def noisy(x: torch.Tensor, y: torch.Tensor) -> None:
        _double(x, y)
        gpu.now += rng.uniform(0, 1e-3)

    gpu.kernels = {"base": (1e-3, noisy), "own": (1e-3, noisy)}
    found = Bench(_doubling(), "sm_90").race((BASE, "k", {}), (OWN, "k", {}), rounds=21)
    assert found.rounds > 100
    assert found.low < 1 < found.high


def test_a_right_kernel_passes(gpu: FakeGpu) -> None:
    gpu.kernels = {"own": (1e-3, _double)}
    Bench(_doubling(), "sm_90").check(OWN, "k", {})


@pytest.mark.parametrize(
    ("does", "said"),
    [
        (lambda x, y: y.copy_(3 * x), "argument 1 is off by"),
        (lambda x, y: y[:3].copy_(2 * x[:3]), "argument 1 is not finite"),  # leaves an element out
        (lambda x, y: (y.copy_(2 * x), x.add_(1)), "changes its argument 0"),
    ],
)
def test_a_kernel_that_is_wrong_is_refused(gpu: FakeGpu, does: Callable[..., None], said: str) -> None:
    gpu.kernels = {"own": (1e-3, does), "right": (1e-3, _double)}
    bench = Bench(_doubling(), "sm_90")
    with pytest.raises(StageFailure, match=said) as failure:
        bench.check(OWN, "k", {})
    assert (failure.value.failure_kind, failure.value.lasts) == ("wrong", True)
    bench.check(Path("right"), "k", {})  # what it changed was put right


def test_a_kernel_that_does_not_end_is_hung(gpu: FakeGpu) -> None:
    gpu.kernels = {"own": (1e-3, _double)}
    gpu.hangs = True
    with pytest.raises(GpuFailure, match=r"k has not ended after 0\.01 s") as failure:
        Bench(_doubling(), "sm_90", patience_s=0.01).check(OWN, "k", {})
    assert failure.value.failure_kind == "hung"
    assert failure.value.retire is not None


def test_a_kernel_that_crashes_takes_its_process_along(gpu: FakeGpu) -> None:
    def crash(x: torch.Tensor, y: torch.Tensor) -> None:
        gpu.lost = True
        raise RuntimeError("CUDA error: an illegal memory access was encountered\nmore")

    gpu.kernels = {"own": (1e-3, crash)}
    with pytest.raises(
        GpuFailure, match=r"k: CUDA error: an illegal memory access was encountered$"
    ) as failure:
        Bench(_doubling(), "sm_90").check(OWN, "k", {})
    assert failure.value.failure_kind == "crashed"
    (kind, _), retire = _task.explain(failure.value, "measure")
    assert (kind, retire) == ("crashed", failure.value.retire)


def test_a_launch_that_is_refused_leaves_the_gpu_working(gpu: FakeGpu) -> None:
    """A framework says it with an exception of its own; the same launch is refused each time."""

    def refused(folder: Path, arguments: Any, grid: Any) -> Callable[[], None]:
        def call() -> None:
            raise RuntimeError("Failed to launch: cluster misconfiguration")

        return call

    bench = FrameworkBench(_doubling(), "sm_90", refused)
    with pytest.raises(GpuFailure, match="k: Failed to launch: cluster misconfiguration") as failure:
        bench.check(OWN, "k", {})
    assert (failure.value.failure_kind, failure.value.lasts) == ("unsupported", True)
    assert failure.value.retire is None


def test_arguments_reach_the_driver_as_it_takes_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What the driver would read behind the pointers that it is given."""
    seen: list[Any] = []

    def launch(function: Any, *words: Any) -> int:
        sizes, (shared, stream, pointers, _) = words[:6], words[6:]
        kinds = (ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int32, ctypes.c_float)
        values = [kind.from_address(place).value for kind, place in zip(kinds, pointers, strict=True)]
        seen.append(([one.value for one in sizes], shared.value, stream.value, values))
        return 0

    def said(code: int, text: Any) -> int:
        text._obj.value = b"out of memory"
        return 0

    fake = SimpleNamespace(
        cuModuleLoadData=lambda module, data: 0,
        cuModuleGetFunction=lambda function, module, name: 0 if name == b"rms_norm" else 500,
        cuFuncSetAttribute=lambda function, attribute, value: 2,
        cuLaunchKernel=launch,
        cuGetErrorString=said,
    )
    monkeypatch.setattr(_cuda_driver, "driver", lambda: fake)
    out = tmp_path / "x.cubin"
    subprocess.run([find_cuda_tool("nvcc").path, "-cubin", "-arch=sm_90", KERNEL, "-o", out], check=True)
    loaded = LoadedKernel(out, "rms_norm")
    tensor = torch.zeros(3)
    loaded.launch([7], (32, 2), loaded.pack([tensor, tensor, tensor, 128, 0.5]), 5)
    address = tensor.data_ptr()
    assert seen == [([7, 1, 1, 32, 2, 1], 0, 5, [address, address, address, 128, 0.5])]
    with pytest.raises(UsageError, match=r"rms_norm takes 5 arguments \(of \[8, 8, 8, 4, 4\] bytes\), and 1"):
        loaded.pack([1])
    with pytest.raises(
        GpuFailure, match="cannot have 65536 bytes of shared memory: out of memory"
    ) as failure:
        LoadedKernel(out, "rms_norm", dynamic_shared=64 << 10)
    assert (failure.value.failure_kind, failure.value.retire) == ("out_of_memory", None)


# -- with one ----------------------------------------------------------------------------------------------


@pytest.fixture
def target(tmp_path: Path) -> CudaTarget:
    major, minor = torch.cuda.get_device_capability()
    provider = NvccSearchSpace(architecture=f"sm_{major}{minor}", options=["-Xptxas=--opt-level"])
    run = KernelRun(inputs, expected, [2], [ROWS], [256])
    return CudaTarget(KERNEL, "rms_norm", provider, run=run, folder=tmp_path)


@needs_gpu
@pytest.mark.serial
def test_a_kernel_is_timed_beside_its_baseline(target: CudaTarget) -> None:
    plain = target.measure(target.build({}))
    assert 1e-6 < plain == target.calibrate() < 1e-2
    assert target.paired is not None
    assert target.paired.low < 1.1
    assert target.paired.high > 0.9
    slow = target.measure(target.build(target.provider.level("lowest")))
    assert math.isfinite(slow)
    assert target.paired.ratio == pytest.approx(plain / slow)


@needs_gpu
def test_a_wrong_kernel_has_no_time(target: CudaTarget) -> None:
    target.run = KernelRun(inputs, wrong, [2], [ROWS], [256])
    with pytest.raises(StageFailure, match="argument 2 is off by") as failure:
        target.measure(target.build({}))
    assert (failure.value.failure_kind, failure.value.lasts) == ("wrong", True)


@needs_gpu
def test_a_launch_that_is_refused_leaves_the_device_usable(target: CudaTarget) -> None:
    right, target.run = target.run, KernelRun(inputs, expected, [2], [ROWS], [2048])
    with pytest.raises(StageFailure, match="is not launched: invalid argument") as failure:
        target.measure(target.build({}))
    assert (failure.value.failure_kind, failure.value.retire) == ("crashed", None)  # type: ignore[attr-defined]
    target.run, target._bench = right, None
    assert target.measure(target.build({})) > 0
