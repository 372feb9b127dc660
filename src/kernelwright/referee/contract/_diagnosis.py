"""What a wrong output looks like: the likeliest act behind it, in words, with numbers.

The rule that found the output wrong decides; this only names it. One look changes the status: an output that
is right for another call was not computed for this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from kernelwright.ops import dtype_name
from kernelwright.referee._oracle import count_unwritten
from kernelwright.referee._oracle import ExactExpectation
from kernelwright.referee._oracle import Expectation
from kernelwright.referee._oracle import same_bits
from kernelwright.referee._verdict import Status

Rule = Expectation | ExactExpectation

#: The byte that memory is filled with before a call; a tensor of it is NaN in every floating format.
POISON = 0xFF
#: Formats with fewer digits, and the relative L2 error of rounding normal numbers to them once.
_ROUNDING = {torch.float32: 4.1e-8 / 1.6, torch.float16: 2.1e-4, torch.bfloat16: 1.66e-3}
_SHORTER = {
    torch.float64: (torch.bfloat16, torch.float16, torch.float32),
    torch.float32: (torch.bfloat16, torch.float16),
}


@dataclass(frozen=True)
class Fault:
    """What is wrong, as the status and reason of a verdict."""

    status: Status
    reason: str


@dataclass(frozen=True)
class Earlier:
    """An output of an earlier call of the same candidate: what it returned there and what was right there.

    `said` names that call in a sentence: "the call before (zeros)".
    """

    said: str
    output: Tensor
    rule: Rule | None


def diagnose(
    got: Tensor,
    rule: Rule,
    text: str,
    *,
    inputs: Sequence[tuple[str, Tensor]] = (),
    earlier: Sequence[Earlier] = (),
    share: str = "",
) -> Fault:
    """The fault of an output that `rule` found wrong, saying `text`.

    `inputs` are the call's tensors by name, `earlier` outputs of earlier calls at this place in the output;
    `share` says what this call and those have in common ("the same addresses").
    """
    flat = got.contiguous().reshape(-1)
    replayed = _replayed(flat, rule, earlier, share)
    if replayed:
        return Fault(Status.CHEATED, f"{replayed}; {text}")
    looks = (
        _unwritten(flat)
        or _plain(flat, rule)
        or _an_input(got, inputs)
        or _scaled(flat, rule)
        or _shortened(flat, rule)
        or _partly(got, flat, rule)
    )
    if looks and text.startswith(looks):
        return Fault(Status.WRONG, text)
    return Fault(Status.WRONG, f"{looks}; {text}" if looks else text)


def _unwritten(flat: Tensor) -> str:
    if flat.dtype in (torch.bool, torch.uint8, torch.int8):
        return ""  # The poison is an ordinary value there.
    text = count_unwritten(flat, POISON)
    if not text:
        return ""
    return f"{text} (they hold what memory was filled with before the call, or come of such memory)"


def _replayed(flat: Tensor, rule: Rule, earlier: Sequence[Earlier], share: str) -> str:
    """Words for an output that was made for an earlier call."""
    if _is_constant(flat):
        return ""
    common = f" with {share}" if share else ""
    for one in earlier:
        other = one.output.contiguous().reshape(-1)
        if other.shape != flat.shape or other.dtype != flat.dtype or _is_constant(other):
            continue
        if same_bits(flat, other):
            return (
                f"returned bit by bit what it had returned in {one.said}, an earlier call{common}, a replay"
            )
        if one.rule is not None and _tells(one.rule, rule) and one.rule.fault(flat) is None:
            return f"returned the result of {one.said}, an earlier call{common}, a replay"
        stale = _stale(flat, other, rule)
        if stale:
            return f"{stale} of {one.said}, an earlier call{common}, a replay in part"
    return ""


def _tells(earlier: Rule, rule: Rule) -> bool:
    """Whether being right for the earlier call means anything: next to nothing is right for denormals."""
    if isinstance(earlier, Expectation) and isinstance(rule, Expectation):
        return earlier.scale > 1e-3 * rule.scale
    return True


def _stale(flat: Tensor, other: Tensor, rule: Rule) -> str:
    """Wrong elements that are an earlier call's, where what is right has changed since."""
    wrong = wrong_elements(flat, rule)
    count = int(wrong.sum())
    if count < 2:
        return ""
    kept = wrong & (flat == other) & (other != 0)
    if int(kept.sum()) < 0.9 * count or _is_constant(other[wrong]):
        return ""
    return f"{int(kept.sum())} of {flat.numel()} elements are those"


def _plain(flat: Tensor, rule: Rule) -> str:
    if not flat.numel():
        return ""
    if flat.is_floating_point():
        nan, infinite = int(flat.isnan().sum()), int(flat.isinf().sum())
        wanted = int((~torch.isfinite(rule.expected)).sum()) if rule.expected.is_floating_point() else 0
        if nan == flat.numel():
            return "every element is NaN"
        if (nan or infinite) and wanted == 0:
            parts = [f"{count} {what}" for count, what in ((nan, "NaN"), (infinite, "infinite")) if count]
            return f"{' and '.join(parts)} of {flat.numel()} elements where all should be finite"
        if wanted and nan + infinite == 0:
            return (
                f"hides NaN or infinities: {wanted} of {flat.numel()} elements should not be finite, none is"
            )
    if flat.numel() > 1 and not bool((flat != 0).any()):
        return "returned zeros everywhere"
    if flat.numel() > 2 and _is_constant(flat):
        return f"returned the constant {flat[0].item():.6g} everywhere"
    return ""


def _is_constant(flat: Tensor) -> bool:
    return flat.numel() > 0 and bool((flat == flat[0]).all())


def _an_input(got: Tensor, inputs: Sequence[tuple[str, Tensor]]) -> str:
    for name, tensor in inputs:
        alike = tensor.shape == got.shape and tensor.dtype == got.dtype and got.numel() > 1
        if alike and torch.equal(got, tensor):
            return f"returned its input {name} as it came: nothing was computed"
    return ""


def _scaled(flat: Tensor, rule: Rule) -> str:
    got, want = _finite(flat, rule)
    if len(want) < 4:
        return ""
    energy = float(torch.dot(want, want))
    size = float(torch.dot(got, got))
    if energy == 0 or size == 0:
        return ""
    factor = float(torch.dot(got, want)) / energy
    rest = float(torch.linalg.vector_norm(got - factor * want)) / size**0.5
    if rest > 0.02 or abs(factor - 1) < 5 * rest or abs(factor - 1) < 1e-6:
        return ""
    return f"returned {factor:.6g} times the expected result"


def _shortened(flat: Tensor, rule: Rule) -> str:
    """Whether the error is as large as rounding to a shorter format makes it."""
    if flat.dtype not in _SHORTER or not isinstance(rule, Expectation):
        return ""
    got, want = _finite(flat, rule)
    norm = float(torch.linalg.vector_norm(want))
    if len(want) < 16 or norm == 0:
        return ""
    error = float(torch.linalg.vector_norm(got - want)) / norm
    for short in _SHORTER[flat.dtype]:
        if bool((flat.to(short).to(flat.dtype) == flat).all()):
            return f"every element is a {dtype_name(short)} number: computed in lower precision than declared"
    for short in _SHORTER[flat.dtype]:
        if _ROUNDING[short] / 4 <= error <= 6 * _ROUNDING[short]:
            return (
                f"as if computed in {dtype_name(short)}: the relative L2 error is {error:.2g}, one rounding "
                f"to {dtype_name(short)} makes {_ROUNDING[short]:.2g}"
            )
    return ""


def _partly(got: Tensor, flat: Tensor, rule: Rule) -> str:
    """How much of the output is wrong, and where that is one place."""
    wrong = wrong_elements(flat, rule)
    count = int(wrong.sum())
    if count == 0 or not got.ndim:
        return ""
    text = f"{count} of {flat.numel()} elements are wrong"
    if got.ndim > 1 and count < flat.numel():
        rows = wrong.view(got.shape).flatten(1).any(dim=1)
        bad = rows.nonzero().flatten()
        if len(bad) < len(rows):
            where = f"row {int(bad[0])}" if len(bad) == 1 else f"{len(bad)} of {len(rows)} rows"
            if len(bad) > 1 and int(bad[-1]) - int(bad[0]) + 1 == len(bad):
                where = f"rows {int(bad[0])} to {int(bad[-1])}"
            text += f", in {where}"
    return text


def wrong_elements(flat: Tensor, rule: Rule) -> Tensor:
    """Which elements break the rule for single elements."""
    if isinstance(rule, ExactExpectation):
        return (flat != rule.expected) & (flat != rule.peer)
    got, want = flat.double(), rule.expected.double()
    error = (got - want).abs()
    if rule.slack is not None:
        error = error - rule.slack.double()
    beyond = error > rule.limit + rule.rtol * want.abs()
    return beyond | (torch.isfinite(want) & ~torch.isfinite(got))


def _finite(flat: Tensor, rule: Rule) -> tuple[Tensor, Tensor]:
    """Got and wanted numbers where both are finite, in fp64."""
    if not isinstance(rule, Expectation):
        return torch.empty(0, dtype=torch.float64), torch.empty(0, dtype=torch.float64)
    got, want = flat.double(), rule.expected.double()
    both = torch.isfinite(got) & torch.isfinite(want)
    return got[both], want[both]
