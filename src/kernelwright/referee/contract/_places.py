"""Where the arguments of a check's calls lie in the performer's board: some where the last ones lay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from typing import TYPE_CHECKING

from kernelwright.referee.contract import _tree as tree
from kernelwright.referee.contract._cases import CaseCall
from kernelwright.referee.contract._cases import Kind
from kernelwright.referee.contract._cases import Spot
from kernelwright.referee.contract._facts import Node

if TYPE_CHECKING:
    from kernelwright.referee.contract._board import Board
    from kernelwright.referee.contract._reference import Made


@dataclass
class Place:
    """Where the arguments of a workload's last call with some shapes are, in the performer's board."""

    nodes: tuple[Node, ...]
    tensors: list[Node]


class Places:
    """Puts arguments into a board, and knows where the first call of each workload and shapes had them."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._known: dict[tuple[str, tuple[Any, ...]], Place] = {}

    def put(self, case: CaseCall, made: Made) -> tuple[Place, int | None]:
        """The arguments in the performer's board; a mark to release them, if nobody needs them later."""
        board = self._board
        wants = iter(made.wants_gradient)
        signature = (made.wants_gradient, tuple((t.dtype, t.shape, t.stride()) for t in made.tensors))
        key = (case.workload, signature)
        known = self._known.get(key)
        if case.spot is Spot.SAME and known is not None and not case.offset:
            for node, tensor in zip(known.tensors, made.tensors, strict=True):
                board.rewrite(node, tensor)
            return known, None
        mark = board.mark()
        left = iter(made.tensors)

        def put(_: Node) -> Node:
            options: dict[str, Any] = {"grad": next(wants), "offset": case.offset}
            if case.guard is not None:
                options["guard"] = case.guard
            return board.put(next(left), **options)

        nodes = tuple(tree.map_tensors(one, put) for one in made.arguments)
        place = Place(nodes, [node for one in nodes for node in tree.tensors_of(one)])
        if case.kind is Kind.PLAIN and known is None:
            self._known[key] = place
            return place, None
        return place, mark
