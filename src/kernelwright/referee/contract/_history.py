"""What a candidate returned in earlier calls: to tell a replay from a mistake, and to see that it stays."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from torch import Tensor

from kernelwright.referee.contract._diagnosis import Earlier
from kernelwright.referee.contract._expect import ExpectedCall
from kernelwright.referee.contract._expect import plain_numbers
from kernelwright.referee.contract._facts import CallResult

_CALLS = 96
_BYTES = 256 << 20


@dataclass(frozen=True)
class Past:
    """One earlier call: its title, what was expected and returned, and whether its outputs must stay."""

    title: str
    number: int
    expected: ExpectedCall
    tensors: tuple[Tensor | None, ...]
    stays: bool

    @property
    def nbytes(self) -> int:
        """Bytes of its outputs."""
        return sum(one.nbytes for one in self.tensors if one is not None)


class History:
    """The last calls, as far as their outputs fit into memory."""

    def __init__(self) -> None:
        self._calls: deque[Past] = deque(maxlen=_CALLS)

    def add(self, title: str, expected: ExpectedCall, result: CallResult, *, stays: bool) -> None:
        """Remember a call that was right."""
        self._calls.append(Past(title, result.number, expected, result.tensors, stays))
        while len(self._calls) > 1 and sum(past.nbytes for past in self._calls) > _BYTES:
            self._calls.popleft()

    def before(self, number: int) -> Past | None:
        """The call of that number, if it is remembered."""
        return next((past for past in self._calls if past.number == number), None)

    def earlier(self, index: int) -> list[Earlier]:
        """The outputs of earlier calls at one place of the output, latest first."""
        found = []
        for past in reversed(self._calls):
            if index < len(past.tensors) and index < len(past.expected.leaves):
                tensor = past.tensors[index]
                if tensor is not None:
                    rule = past.expected.leaves[index].rule
                    found.append(Earlier(f"call {past.number} ({past.title})", plain_numbers(tensor), rule))
        return found
