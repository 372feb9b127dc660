"""How many calls a block has, and on how many sets of arguments; pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from dataclasses import replace

from kernelwright.referee._verdict import Mode
from kernelwright.referee.contract._rounds import calls_of_block

#: Sets of arguments that exist at least, and at most.
FEWEST_SLOTS = 4
MOST_SLOTS = 1024
#: Bytes a nanosecond at which a kernel could read its inputs to recognise them, and what it takes beside.
_HASH_BYTES_NS = 20.0
_HASH_NS = 1000.0
#: A memory of earlier results pays where recognising the inputs takes less than this share of the call.
_PAYS = 0.5
#: Calls ahead of the clock in a warm block, as a share of its calls, and at most.
_LEAD = 0.25
_MOST_LEAD = 64
#: And where each call takes a set of its own that could be timed.
_FEW_LEAD = 8
#: A call that takes longer needs no other one ahead of it to wake threads and reload code.
_NO_LEAD_NS = 20_000_000
#: So few sets are all called ahead of the clock.
_ALL_LED = 16
_MOST_CALLS = 1 << 14
#: A block that is made shorter stays this much longer than it has to be.
_MARGIN = 1.1


@dataclass(frozen=True)
class BlockPlan:
    """A block: `calls` on the clock and `lead` ahead of it, on `slots` sets of arguments.

    `distinct`: no contents come twice within a block, so that to remember results gains nothing; then the
    calls of the lead have sets of their own. `cold`: nor were they in any cache.
    """

    calls: int
    lead: int
    slots: int
    distinct: bool
    cold: bool


def plan_block(
    call_ns: float,
    slot_bytes: int,
    *,
    mode: Mode,
    once: bool,
    room_bytes: int,
    near_bytes: int,
) -> BlockPlan:
    """The block of a contestant whose calls take `call_ns`.

    In a cold block, and with `once` (calls change their arguments), each set is used once. A warm block has
    few sets, that is as many as half of `near_bytes` (the caches near the cores) holds, but only where
    reading a set just to recognise it takes a good part of the call anyway; else it would pay to remember
    results, and each call has contents of its own. `room_bytes` bounds the memory of all sets.
    """
    size = max(slot_bytes, 64)
    most = max(FEWEST_SLOTS, min(MOST_SLOTS, room_bytes // size))
    wanted = calls_of_block(call_ns, most=1 << 20)
    lead = 0 if call_ns > _NO_LEAD_NS else max(1, min(_MOST_LEAD, int(_LEAD * wanted)))
    cold = mode is Mode.COLD
    pays = _HASH_NS + size / _HASH_BYTES_NS < _PAYS * call_ns
    if cold or once:
        # A few calls wake the threads up; more would only take sets away.
        lead = min(lead, _FEW_LEAD, most // 4)
        calls = min(wanted, max(1, most - lead))
        return BlockPlan(calls, lead, calls + lead, True, cold)
    if pays and wanted + lead <= most:
        return BlockPlan(wanted, lead, wanted + lead, True, cold)
    few = most if pays else max(FEWEST_SLOTS, min(near_bytes // 2 // size, most, wanted))
    if lead and few <= _ALL_LED:
        lead = max(lead, few)
    return BlockPlan(min(wanted, _MOST_CALLS), lead, few, False, cold)


def shorter(plan: BlockPlan, factor: float) -> BlockPlan:
    """The same block with so many times fewer calls on the clock, where `factor` is below one."""
    return replace(plan, calls=max(1, min(plan.calls, math.ceil(_MARGIN * factor * plan.calls))))
