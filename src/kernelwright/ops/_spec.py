"""What an operator is: arguments, reference, workloads, inputs, cost, error budget."""

from __future__ import annotations

import math
from abc import ABC
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from typing import ClassVar

import torch
from torch import Tensor

from kernelwright.errors import UnknownNameError
from kernelwright.errors import UsageError

DTYPES: Mapping[str, torch.dtype] = {
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp64": torch.float64,
}
_ALIASES = {"float32": "fp32", "float": "fp32", "bfloat16": "bf16", "float16": "fp16", "half": "fp16"}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}


def parse_dtype(name: str) -> torch.dtype:
    """The dtype called `name` (`bf16` or `bfloat16`, …). Raises UnknownNameError."""
    short = _ALIASES.get(name.lower(), name.lower())
    if short not in DTYPES:
        raise UnknownNameError("dtype", name, DTYPES)
    return DTYPES[short]


def dtype_name(dtype: torch.dtype) -> str:
    """The short name of a dtype: `bf16`, `fp32`, …."""
    return _NAMES.get(dtype, str(dtype).removeprefix("torch."))


@dataclass(frozen=True)
class Workload:
    """Named sizes and a dtype of one operator: `sizes` in the order of the operator's `dims`."""

    operator: str
    sizes: Mapping[str, int]
    dtype: torch.dtype

    @property
    def shape_name(self) -> str:
        """Sizes only, as in `4096x4096`."""
        return "x".join(str(size) for size in self.sizes.values())

    @property
    def name(self) -> str:
        """Sizes and dtype, as in `4096x4096:bf16`."""
        return f"{self.shape_name}:{dtype_name(self.dtype)}"

    @property
    def bucket(self) -> str:
        """The group of workloads that share a winner: dtype and the power of two at or below each size."""
        return bucket(self.sizes, self.dtype)


def bucket(sizes: Mapping[str, int], dtype: torch.dtype) -> str:
    """The group of calls that share a winner: dtype and the power of two at or below each size."""
    parts = [f"{dim}{1 << (size.bit_length() - 1) if size else 0}" for dim, size in sizes.items()]
    return "-".join([dtype_name(dtype), *parts])


@dataclass(frozen=True)
class Cost:
    """The least work a workload takes: bytes that must be read and written once, and FLOPs."""

    bytes_read: int
    bytes_written: int
    flops: int

    @property
    def bytes(self) -> int:
        """Bytes moved in all."""
        return self.bytes_read + self.bytes_written


@dataclass(frozen=True)
class ErrorBudget:
    """How far an output may be from the fp64 oracle.

    max|out − ref| ≤ `factor` · max|torch − ref| + `floor_ulps` · eps(dtype) · max|ref|, where torch computes
    in the same dtype (the rule of FlashAttention's tests), and ‖out − ref‖ / ‖ref‖ ≤ `relative_l2[dtype]`.
    """

    factor: float = 2.0
    floor_ulps: float = 1.0
    relative_l2: Mapping[torch.dtype, float] = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.relative_l2 is None:
            gates = {torch.float32: 1e-6, torch.bfloat16: 3e-3, torch.float16: 5e-4, torch.float64: 1e-14}
            object.__setattr__(self, "relative_l2", gates)


#: Rows and last sizes at which row-wise kernels were seen to break: empty, one, odd, around vector widths,
#: not a power of two, long.
ROW_EDGE_SHAPES = (
    (0, 64),
    (3, 0),
    (1, 1),
    (19, 1),
    (7, 17),
    (1, 100),
    (5, 111),
    (2, 123),
    (99, 192),
    (3, 500),
    (2, 760),
    (199, 46),
    (3, 1128),
    (2, 3584),
    (1, 16384),
    (1, 131072),
)


class OperatorSpec(ABC):
    """What is computed. Stateless: one instance serves a process.

    Tensors are named as in the operator's signature; every operator so far has one output tensor, `out`.
    """

    name: ClassVar[str]
    #: Names of the sizes, in the order in which a person writes them: `rows`, `hidden`.
    dims: ClassVar[tuple[str, ...]]
    #: Tensor arguments, in the order of the signature.
    tensors: ClassVar[tuple[str, ...]]
    dtypes: ClassVar[tuple[torch.dtype, ...]] = (torch.float32, torch.bfloat16, torch.float16)
    budget: ClassVar[ErrorBudget] = ErrorBudget()
    #: Sizes worth tuning for, in the order of `dims`.
    shapes: ClassVar[tuple[tuple[int, ...], ...]]
    #: Sizes at which implementations tend to break; a check takes all of them.
    edge_shapes: ClassVar[tuple[tuple[int, ...], ...]]

    @abstractmethod
    def inputs(
        self,
        workload: Workload,
        generator: torch.Generator,
        *,
        scale: float = 1.0,
        dtype: torch.dtype | None = None,
    ) -> dict[str, Any]:
        """Fresh keyword arguments for one call, drawn from `generator` on the CPU, contiguous."""

    @abstractmethod
    def reference(self, **arguments: Any) -> Tensor:
        """The result, in the dtype of the arguments; the oracle when they are fp64. Never in place."""

    @abstractmethod
    def cost(self, workload: Workload) -> Cost:
        """The least work of one call."""

    @abstractmethod
    def sizes_of(self, **arguments: Any) -> dict[str, int]:
        """The sizes of a call with these arguments; tensors need only a `.shape`."""

    def bucket(self, sizes: Mapping[str, int], dtype: torch.dtype) -> str:
        """The group of calls that share a winner; coarser or finer where an operator needs it."""
        return bucket(sizes, dtype)

    def workload(self, *sizes: int, dtype: torch.dtype = torch.float32) -> Workload:
        """A workload of these sizes, in the order of `dims`. Raises UsageError."""
        if len(sizes) != len(self.dims) or any(size < 0 for size in sizes):
            wanted = "x".join(self.dims)
            raise UsageError(f"{self.name}: sizes are {wanted}, each >= 0; got {'x'.join(map(str, sizes))}")
        if dtype not in self.dtypes:
            raise UnknownNameError(
                f"dtype of {self.name}", dtype_name(dtype), [dtype_name(known) for known in self.dtypes]
            )
        return Workload(self.name, dict(zip(self.dims, sizes, strict=True)), dtype)

    def workloads(self, dtype: torch.dtype) -> tuple[Workload, ...]:
        """The workloads worth tuning for in this dtype."""
        return tuple(self.workload(*sizes, dtype=dtype) for sizes in self.shapes)

    def parse_workload(self, text: str, dtype: torch.dtype) -> Workload:
        """The workload written as `4096x4096` or `4096x4096:bf16`. Raises UsageError, UnknownNameError."""
        shape, _, suffix = text.partition(":")
        try:
            sizes = [int(part) for part in shape.lower().split("x")]
        except ValueError:
            names = ["x".join(map(str, sizes)) for sizes in self.shapes]
            raise UnknownNameError(f"workload of {self.name}", text, names) from None
        return self.workload(*sizes, dtype=parse_dtype(suffix) if suffix else dtype)


def rows_of(shape: torch.Size | tuple[int, ...]) -> int:
    """The product of all sizes but the last."""
    return math.prod(shape[:-1])
