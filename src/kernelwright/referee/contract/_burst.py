"""Many calls back to back, of which some that are drawn afterwards are judged: what is right only when it is
called one by one shows here."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from collections.abc import Sequence

from kernelwright.referee._verdict import Status
from kernelwright.referee.contract import _tree as tree
from kernelwright.referee.contract._diagnosis import Earlier
from kernelwright.referee.contract._diagnosis import Fault
from kernelwright.referee.contract._diagnosis import wrong_elements
from kernelwright.referee.contract._expect import plain_numbers
from kernelwright.referee.contract._facts import CallResult
from kernelwright.referee.contract._facts import Node
from kernelwright.referee.contract._history import History
from kernelwright.referee.contract._judgement import judge_call
from kernelwright.referee.contract._judgement import Terms
from kernelwright.referee.contract._reference import Made
from kernelwright.referee.contract._reference import Reference
from kernelwright.referee.contract._reference import Refusal
from kernelwright.referee.contract._reference import WorkloadFacts
from kernelwright.referee.contract._stage import Performer

_SLOTS = 4
#: Calls that are looked at: as many as fit into these bytes, within these numbers.
_JUDGED_BYTES, _LEAST_JUDGED, _MOST_JUDGED = 16 << 20, 6, 32
_MOST, _LEAST = 160, 12
#: Batches that tell how long a call takes.
_TRIES = 3
#: An output of which so much is wrong was not computed.
_SKIPPED = 0.5
_KEPT_BYTES = 32 << 20


def burst(
    reference: Reference,
    performer: Performer,
    facts: WorkloadFacts,
    *,
    draw: random.Random,
    threads: int,
    history: History,
    count_calls: Callable[[int], None],
    budget_s: float,
) -> Fault | None:
    """Call a few sets of arguments in random order; the fault of one of the calls looked at, or None."""
    made = [_make(reference, facts, draw.getrandbits(48)) for _ in range(2 * _SLOTS)]
    usable = [one for one in made if not isinstance(one, Refusal)]
    if len(usable) < 2:
        return None
    first, second = usable[: len(usable) // 2], usable[len(usable) // 2 :][: len(usable) // 2]
    board = performer.board
    mark = board.mark()
    try:
        placed = [_placed(performer, one) for one in first]
        performer.arrange([(nodes, {}) for nodes in placed], threads=threads)
        took = []
        for _ in range(_TRIES):
            began = time.monotonic()
            performer.batch(list(range(len(placed))))
            took.append(time.monotonic() - began)
            if sum(took) > budget_s:
                break
        # The least: a machine that is busy for a moment must not make the burst a short one.
        each = min(took) / len(placed)
        count = max(_LEAST, min(_MOST, int(budget_s / max(each, 1e-6))))
        order = [draw.randrange(len(placed)) for _ in range(count)]
        looks = _JUDGED_BYTES // max(second[0].expected.nbytes, 1)
        looks = min(max(looks, _LEAST_JUDGED), _MOST_JUDGED, count)
        keep = min(count, max(looks, _KEPT_BYTES // max(second[0].expected.nbytes, 1)))
        # The same argument objects, at the same addresses, with other contents than in the batch before.
        for nodes, one in zip(placed, second, strict=True):
            for node, tensor in zip(_tensors(nodes), one.tensors, strict=True):
                board.rewrite(node, tensor)
        performer.batch(order, keep=keep)
        count_calls(count + len(took) * len(placed))
        judged = sorted({count - 1, *draw.sample(range(count - keep, count), min(looks, keep))})
        room = 65536 + 2 * len(judged) * second[0].expected.nbytes
        for index, taken in zip(judged, performer.collect(judged, room=room), strict=True):
            slot = order[index]
            result = CallResult(
                value=taken.value,
                tensors=taken.tensors,
                facts=taken.facts,
                settled=None,
                gradients=None,
                number=0,
                seconds=0.0,
            )
            terms = Terms(facts.parameters, shares=True, share="the same shapes")
            others = [one for one in usable if one is not second[slot]]
            fault = judge_call(
                second[slot], result, board, _tensors(placed[slot]), terms, _Others(history, others)
            )
            if fault is not None:
                return _told(fault, facts, index, count, _share_wrong(second[slot], result))
        performer.drop()
        return None
    finally:
        board.release(mark)


class _Others:
    """Outputs of earlier calls, and what the other sets of arguments would have given."""

    def __init__(self, history: History, others: Sequence[Made]) -> None:
        self._history = history
        self._others = others

    def earlier(self, index: int) -> list[Earlier]:
        """See `History.earlier`."""
        expected = [
            Earlier("a call with other contents", rule.peer, rule)
            for one in self._others
            for rule in [one.expected.leaves[index].rule]
        ]
        return [*expected, *self._history.earlier(index)]


def _tensors(nodes: Sequence[Node]) -> list[Node]:
    return [node for one in nodes for node in tree.tensors_of(one)]


def _make(reference: Reference, facts: WorkloadFacts, seed: int) -> Made | Refusal:
    steps = [{"kind": "noise", "seed": seed}] if facts.fixed else []
    call = {"workload": facts.name, "seed": seed, "steps": steps, "gradient": False, "slack": True}
    return reference.make(call)


def _placed(performer: Performer, made: Made) -> tuple[Node, ...]:
    left = iter(made.tensors)
    return tuple(tree.map_tensors(node, lambda _: performer.board.put(next(left))) for node in made.arguments)


def _share_wrong(made: Made, result: CallResult) -> float:
    """The largest part of an output's elements that is wrong."""
    shares = [0.0]
    for leaf, got in zip(made.expected.leaves, result.tensors, strict=False):
        if got is not None and got.dtype == leaf.dtype and tuple(got.shape) == leaf.shape and got.numel():
            flat = plain_numbers(got).contiguous().reshape(-1)
            shares.append(float(wrong_elements(flat, leaf.rule).double().mean()))
    return max(shares)


def _told(fault: Fault, facts: WorkloadFacts, index: int, count: int, share: float) -> Fault:
    """Most of an output wrong that is right in single calls: its work was skipped, and that deceives."""
    skipped = share >= _SKIPPED and fault.status is Status.WRONG
    return Fault(
        Status.CHEATED if skipped else fault.status,
        f"{facts.name}: right when it is looked at after each call, wrong within {count} calls made one "
        f"after another, in call {index + 1}: {'its work was skipped: ' if skipped else ''}{fault.reason}",
    )
