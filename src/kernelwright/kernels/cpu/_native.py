"""Native CPU kernels: from operator and configuration to something callable."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from collections.abc import Mapping
from functools import cached_property
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kernelwright import machine
from kernelwright import settings
from kernelwright.build import Artifact
from kernelwright.build import build
from kernelwright.build import BuildFile
from kernelwright.build import BuildRequest
from kernelwright.build import find
from kernelwright.build import load
from kernelwright.build import read_build_file
from kernelwright.dispatch import announce
from kernelwright.dispatch import Call
from kernelwright.dispatch import tensor_info
from kernelwright.dispatch import TensorInfo
from kernelwright.errors import BackendUnavailableError
from kernelwright.errors import KernelCallError
from kernelwright.errors import NoCompilerError
from kernelwright.errors import UnsupportedCallError
from kernelwright.kernels.cpu._abi import Buffer
from kernelwright.kernels.cpu._abi import CallBlock
from kernelwright.kernels.cpu._abi import encode
from kernelwright.kernels.cpu._abi import NativeCall
from kernelwright.kernels.cpu._abi import STATUS_TEXT
from kernelwright.kernels.cpu._operators import Layout
from kernelwright.kernels.cpu._operators import PLANNERS
from kernelwright.kernels.cpu._operators import SCALARS
from kernelwright.kernels.cpu._operators import TENSORS
from kernelwright.space import Space
from kernelwright.winners import CONTROLS

#: From this size on, glibc maps new pages for every allocation, whatever was freed before
#: (DEFAULT_MMAP_THRESHOLD_MAX).
_MAPPED_BYTES = 32 << 20


class NativeKernel:
    """One operator's C++ kernel: a folder with a build.toml and one section an ISA tier.

    A configuration fixes macros and compiler flags, so a configuration and a tier make one artifact.
    """

    def __init__(self, operator: str, folder: Path, tunables: Space) -> None:
        self.operator = operator
        self.folder = folder
        self.tunables = tunables
        self.symbol = f"kw_{operator}"
        self._planner = PLANNERS[operator]

    @property
    def default(self) -> dict[str, Any]:
        """The configuration that serves where no winner is stored."""
        return dict(self.tunables.default)

    @cached_property
    def build_file(self) -> BuildFile:
        """The kernel's build.toml. Raises FileFormatError."""
        return read_build_file(self.folder / "build.toml")

    def tiers(self) -> tuple[str, ...]:
        """The tiers that the kernel has and this machine may run, low to high."""
        sections = self.build_file.tiers(self.operator)
        return tuple(tier for tier in machine.available_tiers() if tier in sections)

    def tier(self) -> str:
        """The tier that serves calls here. Raises BackendUnavailableError."""
        tiers = self.tiers()
        if not tiers:
            known = ", ".join(self.build_file.tiers(self.operator))
            raise BackendUnavailableError("cpu", f"{self.operator} has tiers {known}; this machine runs none")
        return tiers[-1]

    def request(self, configuration: Mapping[str, Any], tier: str | None = None) -> BuildRequest:
        """What to build for a configuration; parameters it leaves out keep their defaults.

        Its `controls`, if it has some, are words for the compiler, one a line, behind all other flags.

        Raises UnknownNameError or SpaceError for a configuration outside the space.
        """
        controls = str(configuration.get(CONTROLS) or "")
        chosen = {name: value for name, value in configuration.items() if name != CONTROLS}
        values = self.tunables.validate({**self.default, **chosen})
        macros = {f"KW_{name.upper()}": str(value) for name, value in values.items() if name[:4] != "cxx_"}
        flags = tuple(str(value) for name, value in values.items() if name[:4] == "cxx_" and value)
        section = self.build_file.tiers(self.operator)[tier or self.tier()]
        return BuildRequest(section, self.folder, macros, (*flags, *controls.splitlines()))

    def artifact(self, configuration: Mapping[str, Any], tier: str | None = None) -> Artifact:
        """The built artifact of a configuration; built now, and said, where it is not in the cache.

        Raises BuildError, NoCompilerError; BackendUnavailableError where KERNELWRIGHT_BUILD forbids building.
        """
        request = self.request(configuration, tier)
        artifact = find(request)
        if artifact is not None:
            return artifact
        if not settings.build_allowed():
            raise BackendUnavailableError(
                "cpu",
                f"{self.operator} ({request.section.name}) is not built and KERNELWRIGHT_BUILD=never; "
                f"run `kernelwright build {self.operator}`",
            )
        announce(f"building the CPU kernel {request.section.name} once; later processes find it in the cache")
        return build(request)

    def bind(self, configuration: Mapping[str, Any]) -> BoundKernel:
        """The kernel of a configuration, ready to call. Raises as `artifact` does."""
        tier = self.tier()
        return BoundKernel(self, tier, self.artifact(configuration, tier))

    def supports(self, call: Call) -> str | None:
        """None where the kernel takes the call, else the reason."""
        devices = {info.device for info in call.tensors.values()}
        if devices != {"cpu"}:
            return f"tensors are on {', '.join(sorted(devices))}; this kernel runs on cpu"
        layout = self._planner(call)
        return layout if isinstance(layout, str) else None

    def available(self) -> str | None:
        """None where the kernel can be used on this machine, else the reason and a next step."""
        try:
            tier = self.tier()
            if find(self.request({}, tier)) is None:
                if not settings.build_allowed():
                    return f"not built; run `kernelwright build {self.operator}`"
                machine.find_compiler()
        except (BackendUnavailableError, NoCompilerError) as error:
            return str(error)
        return None

    def provenance(self) -> dict[str, str]:
        """What a winner depends on besides the machine: sources, tier, compiler and architecture."""
        request = self.request({})
        try:
            compiler = str(request.chosen_compiler)
        except NoCompilerError:
            compiler = "none"
        architecture = machine.current().cpu.architecture
        tier = self.tier()
        return {
            "source": request.source_key,
            "compiler": compiler,
            "tier": tier,
            "architecture": architecture,
        }

    def layout(self, call: Call) -> Layout:
        """How the kernel takes the call. Raises UnsupportedCallError."""
        layout = self._planner(call)
        if isinstance(layout, str):
            raise UnsupportedCallError(self.operator, [("cpu", layout)])
        return layout

    def describe(
        self, arguments: Mapping[str, Any], out: Tensor | None = None, *, threads: int = 0
    ) -> NativeCall:
        """A call with these arguments as the C ABI describes it; tensors may be on the meta device.

        Raises UnsupportedCallError where the kernel does not take the call.
        """
        call = _call(self.operator, arguments, out)
        layout = self.layout(call)
        names = [*call.tensors, "out"]
        buffers = tuple(
            Buffer(name, view.span * view.dtype.itemsize, name == "out")
            for name, view in zip(names, layout.views, strict=True)
        )
        return NativeCall(bytes(encode(layout.views, layout.scalars, threads=threads)), buffers)


class BoundKernel:
    """A kernel in one configuration, with the operator's own signature."""

    def __init__(self, kernel: NativeKernel, tier: str, artifact: Artifact) -> None:
        self.kernel = kernel
        self.tier = tier
        self.artifact = artifact
        library = load(artifact)
        self._function = getattr(library, kernel.symbol)
        self._function.restype = ctypes.c_int32

    def __call__(self, *tensors: Tensor, out: Tensor | None = None, **named: Any) -> Tensor:
        """Compute without a prepared plan; arguments as the operator takes them, scalars by name.

        Raises UnsupportedCallError, KernelCallError.
        """
        arguments = {**dict(zip(TENSORS[self.kernel.operator], tensors, strict=False)), **named}
        call = _call(self.kernel.operator, arguments, out)
        given = [arguments[name] for name in call.tensors]
        result: Tensor = self.specialize(call)(*given, *call.scalars.values(), out)
        return result

    def specialize(self, call: Call) -> Callable[..., Tensor]:
        """A callable for all calls like this one: described once, so that a call passes addresses only."""
        layout = self.kernel.layout(call)
        out = layout.views[-1]
        fresh = call.out is None and out.span * out.dtype.itemsize >= _MAPPED_BYTES
        block = encode(layout.views, layout.scalars, threads=settings.threads() or 0, fresh_output=fresh)
        self._function.argtypes = [ctypes.c_void_p] * (1 + len(layout.views))
        allocate = _allocator(call.tensors["x"], layout.shape)
        by_address = _by_address(self._function, block)
        failed = _raise_status(self.kernel.operator)
        run = _CLOSURES[len(layout.views)](by_address, failed, allocate)
        run.__dict__.update(by_address=by_address, failed=failed)  # for a caller that has the addresses
        return run


def _call(operator: str, arguments: Mapping[str, Any], out: Tensor | None) -> Call:
    unknown = arguments.keys() - {*TENSORS[operator], *SCALARS[operator]}
    missing = [name for name in TENSORS[operator] if name not in arguments]
    if unknown or missing:
        wrong = f"does not take {', '.join(sorted(unknown))}" if unknown else f"needs {', '.join(missing)}"
        raise UnsupportedCallError(operator, [("cpu", wrong)])
    tensors = {name: tensor_info(arguments[name], grad_enabled=False) for name in TENSORS[operator]}
    scalars = {name: arguments.get(name, default) for name, default in SCALARS[operator].items()}
    output = None if out is None else tensor_info(out, grad_enabled=False)
    return Call(operator, tensors, scalars, output, False)


def _allocator(x: TensorInfo, shape: tuple[int, ...]) -> Callable[[Tensor], Tensor]:
    """How the output is allocated: contiguous, in the dtype of x."""
    if shape == tuple(x.shape) and x.contiguous:
        return torch.empty_like
    dtype = x.dtype
    empty = torch.empty

    def allocate(_x: Tensor) -> Tensor:
        return empty(shape, dtype=dtype)

    return allocate


def _by_address(function: Any, block: CallBlock) -> Callable[..., int]:
    """The kernel as a function of addresses that returns its status."""
    call = partial(function, ctypes.addressof(block))
    call.__dict__["block"] = block  # lives as long as what was told its address
    return call


def _raise_status(operator: str) -> Callable[[int], None]:
    def failed(status: int) -> None:
        reason = STATUS_TEXT.get(status, "unknown status")
        raise KernelCallError(f"the native kernel of {operator} returned {status}: {reason}")

    return failed


def _unary(by_address: Callable[..., int], failed: Any, allocate: Any) -> Callable[..., Tensor]:
    def run(x: Tensor, out: Tensor | None) -> Tensor:
        if out is None:
            out = allocate(x)
        status = by_address(x.data_ptr(), out.data_ptr())
        if status:
            failed(status)
        return out

    return run


def _binary(by_address: Callable[..., int], failed: Any, allocate: Any) -> Callable[..., Tensor]:
    def run(x: Tensor, y: Tensor, _scalar: Any, out: Tensor | None) -> Tensor:
        if out is None:
            out = allocate(x)
        status = by_address(x.data_ptr(), y.data_ptr(), out.data_ptr())
        if status:
            failed(status)
        return out

    return run


#: By number of tensors, the output included.
_CLOSURES = {2: _unary, 3: _binary}
