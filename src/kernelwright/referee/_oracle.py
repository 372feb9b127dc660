"""What the output of one call has to be, and whether an output is that.

The rule is `ErrorBudget`'s: max|out − oracle| ≤ factor · max|torch − oracle| + floor, with the fp64 result as
oracle, torch in the same dtype as peer, and the floor in units of the output's scale (FlashAttention's
tests); and a gate on the relative L2 error. Where oracle or peer are not finite, the output must be what one
of the two is there. Integers and booleans must be what oracle or peer say, bit by bit.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kernelwright.ops import dtype_name
from kernelwright.ops import ErrorBudget
from kernelwright.ops import OperatorSpec

_CHUNK = 1 << 22
#: Outputs at least this long are first compared with those that were accepted before, bit by bit.
_REMEMBERED_ELEMENTS = 1 << 15
#: So few elements do not average rounding errors out, and the relative L2 error is one rounding.
_FEW = 256
_PARALLEL_ELEMENTS = 1 << 20
#: Tolerances of a user reach at most so far: in units of the output's scale, and of each element.
ATOL_CAP, RTOL_CAP = 0.05, 0.1
#: An integer dtype of each size of an element, to look at bits.
INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True)
class _Places:
    """How elements of a flat output are called: by their indices, rows by their true numbers."""

    shape: tuple[int, ...]
    row_numbers: Tensor | None

    def name(self, index: int) -> str:
        place = []
        for size in reversed(self.shape):
            place.append(index % size)
            index //= size
        place.reverse()
        if self.row_numbers is not None:
            place[0] = int(self.row_numbers[place[0]])
        return "[" + ", ".join(map(str, place)) + "]"


@dataclass
class Expectation:
    """The oracle of one call, flat: `expected` in fp64 (fp32 for half precision), `peer` torch's.

    An element's error may be `limit` + `rtol` · |expected| beyond its `slack`, which is how far the oracle
    itself moves when inputs are off by a rounding; an element of endless slack is not judged.
    """

    expected: Tensor
    peer: Tensor
    shape: tuple[int, ...]
    dtype: torch.dtype
    limit: float
    l2_limit: float
    peer_error: float
    scale: float
    finite: bool
    slack: Tensor | None = None
    rtol: float = 0.0
    note: str = ""
    _accepted: list[Tensor] = field(default_factory=list)

    @property
    def elements(self) -> int:
        """Elements of the output."""
        return self.peer.numel()

    def fault(
        self, output: Tensor, *, unwritten: int | None = None, row_numbers: Tensor | None = None
    ) -> str | None:
        """What is wrong with `output`, with numbers, or None.

        `unwritten` is the byte that the output's memory was filled with before the call, so that elements
        that the kernel never wrote can be named as such. `row_numbers` are the true numbers of its rows.
        """
        flat = output.reshape(-1)
        with few_threads(flat.numel()):
            return self._remembered_fault(flat, _Places(tuple(output.shape), row_numbers), unwritten)

    def _remembered_fault(self, flat: Tensor, places: _Places, unwritten: int | None) -> str | None:
        remembered = flat.numel() >= _REMEMBERED_ELEMENTS
        if remembered and any(same_bits(flat, known) for known in self._accepted):
            return None
        text = self._fault(flat, places, unwritten)
        if text is None and remembered and len(self._accepted) < 4:
            self._accepted.append(flat.clone())
        return text

    def _fault(self, flat: Tensor, places: _Places, unwritten: int | None) -> str | None:
        worst, worst_at, squares, norm = 0.0, 0, 0.0, 0.0
        excess = -1.0
        wrong_at: int | None = None
        for start in range(0, flat.numel(), _CHUNK):
            part = slice(start, start + _CHUNK)
            got, want = flat[part].double(), self.expected[part].double()
            slack = None if self.slack is None else self.slack[part].double()
            if not self.finite or not bool(torch.isfinite(got).all()):
                comparable, wrong = self._nonfinite(got, want, self.peer[part].double())
                if slack is not None:
                    wrong &= torch.isfinite(slack)
                if wrong_at is None and bool(wrong.any()):
                    wrong_at = start + int(wrong.nonzero()[0])
                got, want = torch.where(comparable, got, 0.0), torch.where(comparable, want, 0.0)
            error = (got - want).abs_()
            if slack is not None:
                error = torch.where(torch.isfinite(slack), error - slack, 0.0).clamp_(min=0.0)
            over = error - self.rtol * want.abs() if self.rtol else error
            index = int(over.argmax())
            if float(over[index]) > excess:
                excess, worst, worst_at = float(over[index]), float(error[index]), start + index
            squares += float(torch.dot(error, error))
            norm += float(torch.dot(want, want))
        l2 = (squares / norm) ** 0.5 if norm > 0 else 0.0
        beyond_l2 = l2 > self.l2_limit and squares**0.5 > self.limit
        if wrong_at is None and excess <= self.limit and not beyond_l2:
            return None
        missing = count_unwritten(flat, unwritten) if unwritten is not None else ""
        missing += "; " if missing else ""
        if wrong_at is not None:
            got_text, want_text = float(flat[wrong_at]), float(self.expected[wrong_at])
            found = f"element {places.name(wrong_at)} is {got_text:.6g}, expected {want_text:.6g}"
        elif excess > self.limit:
            limit = self.limit + self.rtol * abs(float(self.expected[worst_at]))
            found = (
                f"element {places.name(worst_at)} is {float(flat[worst_at]):.6g}, expected "
                f"{float(self.expected[worst_at]):.6g}: error {worst:.3g} exceeds {limit:.3g} "
                f"(torch in {dtype_name(self.dtype)} errs by {self.peer_error:.3g}; scale {self.scale:.3g})"
            )
        else:
            found = f"relative L2 error {l2:.3g} exceeds {self.l2_limit:.3g}"
        return missing + found

    def _nonfinite(self, got: Tensor, want: Tensor, peer: Tensor) -> tuple[Tensor, Tensor]:
        """Where errors can be measured, and where a value is neither the oracle's nor the peer's kind."""
        rounded = want.to(self.dtype).double()
        kind, oracle_kind, peer_kind = _kind(got), _kind(rounded), _kind(peer)
        # So close to the largest number, one rounding more or less decides between it and infinity.
        share = want.abs() / torch.finfo(self.dtype).max
        near_overflow = (share >= 0.99) & (share <= 1.01)
        wrong = (kind != oracle_kind) & (kind != peer_kind) & ~near_overflow
        comparable = (kind == 0) & (oracle_kind == 0)
        return comparable, wrong


def expect(spec: OperatorSpec, arguments: Mapping[str, Any], *, flushed: bool = False) -> Expectation:
    """The expectation of a call with these arguments.

    `flushed` widens the floor to the smallest normal number, for inputs whose denormals a kernel may flush.
    """
    elements = max((value.numel() for value in arguments.values() if isinstance(value, Tensor)), default=0)
    with few_threads(elements):
        peer = spec.reference(**arguments)
        oracle = spec.reference(**{name: as_fp64(value) for name, value in arguments.items()})
        return expectation(oracle, peer, spec.budget, flushed=flushed)


def as_fp64(value: Any) -> Any:
    """A floating tensor in fp64; anything else unchanged."""
    return value.detach().double() if isinstance(value, Tensor) and value.is_floating_point() else value


def expectation(
    oracle: Tensor,
    peer: Tensor,
    budget: ErrorBudget,
    *,
    flushed: bool = False,
    slack: Tensor | None = None,
    atol: float | None = None,
    rtol: float | None = None,
) -> Expectation:
    """The expectation of an output of `peer`'s dtype, given fp64 result and torch's result.

    `slack` is how far the oracle moves, element by element, when inputs are off by a rounding. `atol` and
    `rtol` replace the rule for the largest error, but neither forbid what torch itself gives nor allow zeros
    for an answer: `note` says where they were cut.
    """
    dtype = peer.dtype
    info = torch.finfo(dtype)
    oracle, flat_peer = oracle.reshape(-1), peer.reshape(-1)
    if slack is not None:
        slack = slack.reshape(-1)
    finite = bool(torch.isfinite(oracle).all()) and bool(torch.isfinite(flat_peer).all())
    want, mine = oracle, flat_peer.double()
    if not finite:
        both = torch.isfinite(oracle) & torch.isfinite(mine)
        want, mine = torch.where(both, oracle, 0.0), torch.where(both, mine, 0.0)
    peer_error = scale = peer_l2 = 0.0
    if oracle.numel():
        difference = (mine - want).abs_()
        peer_error, scale = float(difference.max()), float(want.abs().max())
        norm = float(torch.linalg.vector_norm(want))
        peer_l2 = float(torch.linalg.vector_norm(difference)) / norm if norm else 0.0
    spacing = info.smallest_normal * info.eps  # of denormals: no output can be closer than half of it
    floor = budget.floor_ulps * max(info.eps * scale, spacing)
    if flushed and dtype != torch.float16:  # conversions from fp16 never flush
        floor += info.smallest_normal
    gate = budget.relative_l2.get(dtype, 4 * info.eps)
    l2_limit = max(gate, budget.factor * peer_l2, info.eps if oracle.numel() < _FEW else 0.0)
    kept = oracle if dtype in (torch.float32, torch.float64) else oracle.float()
    limit, share, note = budget.factor * peer_error + floor, 0.0, ""
    if atol is not None or rtol is not None:
        limit, share, note = _tolerance(atol or 0.0, rtol or 0.0, scale, max(peer_error, spacing))
        if flushed:
            limit += info.smallest_normal
    return Expectation(
        kept,
        flat_peer,
        tuple(peer.shape),
        dtype,
        limit,
        l2_limit,
        peer_error,
        scale,
        finite,
        slack,
        share,
        note,
    )


def _tolerance(atol: float, rtol: float, scale: float, least: float) -> tuple[float, float, str]:
    """A user's tolerances within what can mean anything, and what was done to them."""
    notes = []
    if atol > ATOL_CAP * scale:
        notes.append(f"atol {atol:.3g} was cut to {ATOL_CAP} of the output's scale of {scale:.3g}")
        atol = ATOL_CAP * scale
    if rtol > RTOL_CAP:
        notes.append(f"rtol {rtol:.3g} was cut to {RTOL_CAP}")
        rtol = RTOL_CAP
    if atol < least and rtol * scale < least:
        atol = least * (1 + 1e-5)  # the oracle of short formats is kept in fp32
    return atol, rtol, "; ".join(notes)


@dataclass
class ExactExpectation:
    """What an integer or boolean output has to be: `expected` (from fp64) or `peer`, flat, bit by bit.

    Where `unstable` is set, the value hangs on a rounding of the inputs (a tie, an edge between two codes)
    and is not judged.
    """

    expected: Tensor
    peer: Tensor
    shape: tuple[int, ...]
    dtype: torch.dtype
    unstable: Tensor | None = None
    note: str = ""

    @property
    def elements(self) -> int:
        """Elements of the output."""
        return self.peer.numel()

    def fault(self, output: Tensor, *, unwritten: int | None = None) -> str | None:
        """What is wrong with `output`, with numbers, or None; see `Expectation.fault`."""
        flat = output.reshape(-1)
        wrong = (flat != self.expected) & (flat != self.peer)
        if self.unstable is not None:
            wrong &= ~self.unstable
        count = int(wrong.sum())
        if count == 0:
            return None
        missing = count_unwritten(flat, unwritten) if unwritten is not None else ""
        at = int(wrong.nonzero()[0])
        place = _Places(self.shape, None).name(at)
        got, want = flat[at].item(), self.expected[at].item()
        return (
            f"{missing}{'; ' if missing else ''}{count} of {flat.numel()} elements of "
            f"{dtype_name(self.dtype)} differ: element {place} is {got}, expected {want}"
        )


def exact(oracle: Tensor, peer: Tensor, unstable: Tensor | None = None) -> ExactExpectation:
    """The expectation of an integer or boolean output."""
    flat = None if unstable is None else unstable.reshape(-1)
    return ExactExpectation(
        oracle.reshape(-1).to(peer.dtype), peer.reshape(-1), tuple(peer.shape), peer.dtype, flat
    )


def count_unwritten(output: Tensor, fill: int) -> str:
    """How many elements still hold the byte that memory was filled with; empty where none does."""
    flat = output.reshape(-1)
    size = flat.element_size()
    pattern = int.from_bytes(bytes([fill]) * size, "little", signed=size > 1)
    count = int((flat.view(INTEGERS[size]) == pattern).sum())
    return f"{count} of {flat.numel()} elements were never written" if count else ""


@contextlib.contextmanager
def few_threads(elements: int) -> Iterator[None]:
    """One thread of torch for small work: on a busy machine, waking others takes longer than the work."""
    threads = torch.get_num_threads()
    if elements >= _PARALLEL_ELEMENTS or threads == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _kind(values: Tensor) -> Tensor:
    """0 finite, 1 +inf, 2 −inf, 3 NaN."""
    kind = torch.zeros(values.shape, dtype=torch.uint8)
    kind[values == float("inf")] = 1
    kind[values == float("-inf")] = 2
    kind[values.isnan()] = 3
    return kind


def same_bits(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors of one dtype and number of elements hold the same bits."""
    kind = INTEGERS[one.element_size()]
    one, other = one.reshape(-1).view(kind), other.reshape(-1).view(kind)
    if one.is_cpu and other.is_cpu and one.numel() < _PARALLEL_ELEMENTS:
        # torch would wake its threads for this.
        return bool(np.array_equal(one.numpy(), other.numpy()))
    return torch.equal(one, other)
