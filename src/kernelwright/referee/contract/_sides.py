"""The sides of a pair before they are timed: how long calls take, and what blocks and arguments follow."""

from __future__ import annotations

import math
import random
import statistics
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from kernelwright import machine
from kernelwright.referee._verdict import Mode
from kernelwright.referee.contract import _tree as tree
from kernelwright.referee.contract._batch_clock import Side
from kernelwright.referee.contract._block_plan import FEWEST_SLOTS
from kernelwright.referee.contract._block_plan import plan_block
from kernelwright.referee.contract._reference import Made
from kernelwright.referee.contract._slots import Draw
from kernelwright.referee.contract._slots import Slots
from kernelwright.referee.contract._stage import Performer

#: Memory of all sets of arguments of one performer, at most; and the share of what is free.
_ROOM_BYTES = 1 << 30
_ROOM_SHARE = 0.125
#: Blocks that tell how long a call takes, before there is a plan.
_FEW_TRIES, _TRIES = 5, 8
_ROUGH_NS = 2_000_000
_ROUGH_CALLS = 256
#: Two whose calls take as long within this factor have blocks of the same size.
_ALIKE = 1.25


@dataclass(frozen=True)
class Paces:
    """What a pair of processes found out that holds for the next one: how long calls take, the baseline's and
    the candidate's, and what a block's messages take."""

    call_ns: tuple[float, float]
    overhead_ns: float


class SidePlanner:
    """Plans the sides of one pair of processes.

    `draws` are the contents that calls are made on, `random` is where all that is secret comes from;
    `mutates`: calls change their arguments; `single`: see `Slots`. Methods raise PerformerFailure.
    """

    def __init__(
        self,
        draws: Sequence[Made],
        random: random.Random,
        *,
        mode: Mode,
        mutates: bool,
        single: bool,
        threads: int,
    ) -> None:
        self._draws = draws
        self._random = random
        self._mode = mode
        self._mutates = mutates
        self._single = single
        self._threads = threads

    def side(self, name: str, performer: Performer, call_ns: float) -> Side:
        """A side whose calls take `call_ns`, with the sets of arguments that its blocks need."""
        plan = plan_block(
            call_ns,
            sum(_set_bytes(tensor) for tensor in self._draws[0].tensors),
            mode=self._mode,
            once=self._mutates,
            room_bytes=_room_bytes(),
            near_bytes=_near_bytes(),
        )
        slots = Slots(
            performer.board,
            self._drawn(),
            plan.slots,
            seed=self._random.getrandbits(48),
            single=self._single and not self._mutates,
        )
        performer.arrange([(arguments, {}) for arguments in slots.arguments], threads=self._threads)
        return Side(name, performer, slots, plan, call_ns=call_ns)

    def rough_ns(self, performer: Performer) -> float:
        """About how many nanoseconds a call takes: the median of the last few blocks, which get longer.

        One block alone may have met another process; to be timed for too few calls would cost more blocks.
        """
        calls = 1
        best = math.inf
        last: deque[float] = deque(maxlen=_FEW_TRIES // 2 + 1)
        mark = performer.board.mark()
        slots = Slots(performer.board, self._drawn(), FEWEST_SLOTS, seed=0, single=False)
        performer.arrange([(arguments, {}) for arguments in slots.arguments], threads=self._threads)
        for tried in range(_TRIES):
            if self._mutates:
                slots.restore()
                calls = min(calls, len(slots) // 2)
            # Threads woken from sleep may share a processor for milliseconds, so a call comes first.
            order = slots.order(calls + 1)
            # The message is part of it; for a first idea, that does not matter.
            took = performer.batch(order[1:], lead=order[:1], keep=1).wall_ns
            best = min(best, took / calls)
            last.append(took / calls)
            if (best * calls > _ROUGH_NS and tried >= _FEW_TRIES) or best > 20 * _ROUGH_NS:
                break
            calls = max(calls, min(_ROUGH_CALLS, int(_ROUGH_NS / best)))
        performer.drop()
        performer.board.release(mark)
        return statistics.median(last)

    def _drawn(self) -> list[Draw]:
        return [(made.arguments, made.tensors) for made in self._draws]


def evened(call_ns: Sequence[float]) -> list[float]:
    """The times of calls by which blocks are planned.

    Two that take about as long get blocks of the same size: what a block finds in the caches hangs on it.
    """
    if max(call_ns) < _ALIKE * min(call_ns):
        return [math.sqrt(math.prod(call_ns))] * 2
    return [*call_ns]


def between_s(side: Side) -> float:
    """Seconds that a block takes beside its calls: renewing contents, waiting until all is quiet."""
    return 0.008 + 0.25 * side.slots.nbytes * len(side.slots) / 4e9 + side.plan.lead * side.call_ns * 1e-9


def _set_bytes(tensor: Tensor) -> int:
    return tree.span(tensor.shape, tensor.stride()) * tensor.element_size()


def _room_bytes() -> int:
    import psutil  # a twentieth of a second, which a check need not spend

    return int(min(_ROOM_BYTES, _ROOM_SHARE * psutil.virtual_memory().available))


def _near_bytes() -> int:
    here = machine.current()
    return (here.cache_bytes(2) or 1 << 20) * here.cores
