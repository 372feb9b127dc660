"""The calls that a check of anyone's kernel makes, in the order of what they tell.

Pure: from what the reference said of the workloads and a source of random numbers that nobody else has, a
list of calls. First what shows replay, on every workload: at one set of addresses the same again, a twin of
which a few elements differ, two elements exchanged, other seeds; old contents at new addresses. Then
contents, numbers of rows and layouts that the user's inputs do not have, on the smallest workloads.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace
from enum import StrEnum
from typing import Any

from kernelwright.referee.contract._reference import WorkloadFacts

#: Calls with other numbers of rows take at most so many bytes.
_LEAD_BYTES = 256 << 20
#: The slack of a result costs the reference another run; workloads slower than this go without.
_SLACK_SECONDS = 0.3
#: So many calls of each workload come first: as it comes, the same again, a twin.
_FIRST = 3


class Kind(StrEnum):
    """What a call is for; it decides what the judge does with a refusal, and how a fault is told."""

    PLAIN = "plain"
    AGAIN = "again"
    TWIN = "twin"
    CONTENTS = "contents"
    LEAD = "lead"
    LAYOUT = "layout"


class Spot(StrEnum):
    """Where the arguments of a call are put."""

    NEW = "new"
    """At addresses that no call had before."""
    SAME = "same"
    """Where those of the workload's last call with the same shapes were."""


@dataclass(frozen=True)
class CaseCall:
    """One call to be made. `call` is its description for the reference; see `_witness`.

    `rows` is how many times larger it is than the workload's own. `offset` is by how many elements its
    tensors begin late in their storage, `guard` the side on which the next page cannot be touched.
    """

    title: str
    kind: Kind
    workload: str
    call: dict[str, Any]
    spot: Spot = Spot.NEW
    threads: int | None = None
    rows: float = 1.0
    offset: int = 0
    guard: str | None = None
    settle: bool = False
    must: bool = False

    @property
    def may_refuse(self) -> bool:
        """Whether an exception is an answer: layouts, and no rows at all, that the user never has."""
        return self.kind is Kind.LAYOUT

    @property
    def users_own(self) -> bool:
        """Whether inputs are what get_inputs() returned, with nothing changed but a few elements."""
        return self.kind in (Kind.PLAIN, Kind.AGAIN, Kind.TWIN)


def plan(
    workloads: Sequence[WorkloadFacts], *, nonfinite: bool, draw: random.Random, threads: int
) -> list[CaseCall]:
    """All calls of a check, most telling first."""
    planner = _Planner(draw, nonfinite)
    by_size = sorted(workloads, key=lambda facts: (facts.nbytes, facts.name))
    replays = [list(planner.replays(facts, threads)) for facts in by_size]
    groups = _kinds(by_size)
    # Large workloads take most of the time: each is called a few times at once, and again when all is done
    # that the smallest ones are for.
    calls = [replace(one, must=True) for one in (replays[0] if replays else [])]
    for later in replays[1:]:
        calls += later[:_FIRST]
    for rounds, least in (
        (planner.contents, 99),
        (planner.leads, 2),
        (planner.layouts, 3),
        (planner.gradients, 1),
    ):
        for place, facts in enumerate(groups):
            made = list(rounds(facts))
            wanted = 0 if place else least
            calls += [replace(one, must=True) for one in made[:wanted]] + made[wanted:]
    for later in replays[1:]:
        calls += later[_FIRST:]
    for facts in by_size:
        calls += planner.seeds(facts)
    return calls


def _kinds(workloads: Sequence[WorkloadFacts]) -> list[WorkloadFacts]:
    """The smallest workload of each signature: dtypes and numbers of dimensions of its arguments."""
    found: dict[tuple[Any, ...], WorkloadFacts] = {}
    for facts in workloads:
        key = tuple((leaf.dtype, len(leaf.shape)) for leaf in facts.leaves)
        found.setdefault(key, facts)
    return list(found.values())


class _Planner:
    def __init__(self, draw: random.Random, nonfinite: bool) -> None:
        self._draw = draw
        self._nonfinite = nonfinite

    def _call(
        self, facts: WorkloadFacts, seed: int, *steps: dict[str, Any], gradient: bool = False
    ) -> dict[str, Any]:
        changes = [{**step, "seed": self._draw.getrandbits(48)} for step in steps]
        if facts.fixed:
            # get_inputs() gives the same numbers under every seed: the seed changes them here.
            changes.insert(0, {"kind": "noise", "seed": seed})
        slack = facts.seconds < _SLACK_SECONDS
        return {
            "workload": facts.name,
            "seed": seed,
            "steps": changes,
            "gradient": gradient and facts.gradient,
            "slack": slack,
        }

    def replays(self, facts: WorkloadFacts, threads: int) -> Iterator[CaseCall]:
        """What shows whether a call is computed from its own inputs, each time."""
        name, seed = facts.name, self._draw.getrandbits(48)

        def case(title: str, kind: Kind, call: dict[str, Any], **options: Any) -> CaseCall:
            return CaseCall(f"{name}, {title}", kind, name, call, **options)

        base = self._call(facts, seed)
        twin: dict[str, Any] = {"kind": "twin", "count": self._draw.randint(3, 7), "which": "all"}
        yield case("as it comes", Kind.PLAIN, base, guard="after", settle=True)
        yield case("the same again", Kind.AGAIN, base, spot=Spot.SAME, settle=True)
        yield case(
            "a few elements changed, same addresses", Kind.TWIN, self._call(facts, seed, twin), spot=Spot.SAME
        )
        # Of coarse values, every sum is exact in every order: nothing that adds up can tell the two apart.
        coarse: dict[str, Any] = {"kind": "coarse", "which": "all"}
        for title, steps in (
            ("coarse values, same addresses", (coarse,)),
            ("two elements exchanged, same addresses", (coarse, {"kind": "swap", "which": "all"})),
        ):
            yield case(title, Kind.TWIN, self._call(facts, seed, *steps), spot=Spot.SAME)
        for index, leaf in enumerate(facts.leaves):
            if leaf.floating and sum(other.floating for other in facts.leaves) > 1:
                title = f"a few elements of {self._name(facts, index)} changed, same addresses"
                change = {**twin, "which": index}
                yield case(title, Kind.TWIN, self._call(facts, seed, change), spot=Spot.SAME)
        other = self._draw.getrandbits(48)
        yield case("another seed, same addresses", Kind.PLAIN, self._call(facts, other), spot=Spot.SAME)
        yield case("the first contents at new addresses", Kind.AGAIN, base, guard="before")
        if threads > 1:
            third = self._call(facts, self._draw.getrandbits(48))
            yield case("on one thread", Kind.PLAIN, third, threads=1)
            yield case("the same on all threads", Kind.PLAIN, third, threads=threads)
        else:
            yield case(
                "a third seed", Kind.PLAIN, self._call(facts, self._draw.getrandbits(48)), guard="after"
            )
        if facts.gradient:
            title = "with gradients"
            fresh = self._draw.getrandbits(48)
            yield case(title, Kind.PLAIN, self._call(facts, fresh, gradient=True))

    def contents(self, facts: WorkloadFacts) -> Iterator[CaseCall]:
        """Contents that the user's inputs do not have, for floating inputs."""
        floating = sum(leaf.floating for leaf in facts.leaves)
        if not floating:
            return
        draw = self._draw
        plans: list[tuple[str, dict[str, Any]]] = [
            (f"scale {(small := 10 ** draw.uniform(-3, -1)):.3g}", {"kind": "scale", "by": small}),
            (f"scale {(large := draw.uniform(5, 50)):.3g}", {"kind": "scale", "by": large}),
            ("zeros", {"kind": "fill", "value": 0.0, "which": "first"}),
            (
                f"large values, scale {(huge := draw.uniform(30, 100)):.3g}",
                {"kind": "scale", "by": huge, "which": "first"},
            ),
            (
                f"shifted by {(shift := draw.choice((-1, 1)) * draw.uniform(1, 8)):.3g} of its size",
                {"kind": "shift", "by": shift, "which": "first"},
            ),
            (
                f"the constant {(value := draw.choice((-1, 1)) * draw.uniform(0.1, 8)):.3g}",
                {"kind": "fill", "value": value, "which": "first"},
            ),
            ("cancelling values", {"kind": "cancel", "by": draw.uniform(1, 8), "which": "first"}),
        ]
        if self._nonfinite:
            for title, values in (
                ("a few NaN", ["nan"]),
                ("a few +inf", ["inf"]),
                ("a few -inf", ["-inf"]),
                ("+inf, -inf and NaN", ["inf", "-inf", "nan"]),
            ):
                plans.append((title, {"kind": "scatter", "values": values, "which": "first"}))
        plans += [
            ("denormals", {"kind": "denormals", "which": "first"}),
            ("another scale for each call", {"kind": "scale", "by": 10 ** draw.uniform(-1.5, 1.2)}),
            ("all shifted", {"kind": "shift", "by": draw.uniform(0.5, 3)}),
        ]
        if floating > 1:
            plans.append(("zeros in the last input", {"kind": "fill", "value": 0.0, "which": "last"}))
            if self._nonfinite:
                last = {"kind": "scatter", "values": ["nan"], "which": "last"}
                plans.append(("a NaN in the last input", last))
        for title, step in plans:
            call = self._call(facts, draw.getrandbits(48), step)
            call["slack"] = True
            yield CaseCall(
                f"{facts.name}, {title}",
                Kind.CONTENTS,
                facts.name,
                call,
                spot=draw.choice((Spot.SAME, Spot.NEW)),
                guard=draw.choice(("before", "after", None)),
            )

    def leads(self, facts: WorkloadFacts, *, gradient: bool = False) -> Iterator[CaseCall]:
        """Other numbers of rows, where the reference takes them."""
        if not facts.groups:
            return
        group = list(facts.groups[0])
        rows = facts.leaves[group[0]].shape[0]
        drawn = self._rows(rows, facts.nbytes)
        for number in drawn if not gradient else drawn[:1]:
            step = {"kind": "lead", "rows": number, "group": group}
            call = self._call(facts, self._draw.getrandbits(48), step, gradient=gradient)
            word = "row" if number == 1 else "rows"
            yield CaseCall(
                f"{facts.name}, {number} {word}{' with gradients' if gradient else ''}",
                Kind.LEAD,
                facts.name,
                call,
                rows=number / rows,
                guard=self._draw.choice(("before", "after")),
            )

    def _rows(self, rows: int, nbytes: int) -> list[int]:
        draw = self._draw
        wanted = [
            2 * rows + 1,
            1,
            draw.randint(1, 5) * 2 + 1,
            draw.randint(rows + 3, 2 * rows + 24),
            draw.randint(2, max(3, rows - 1)),
            2 * rows + 2,
        ]
        most = max(rows, math.floor(_LEAD_BYTES / max(nbytes / rows, 1)))
        return [number for number in dict.fromkeys(wanted) if number != rows and number <= most]

    def layouts(self, facts: WorkloadFacts) -> Iterator[CaseCall]:
        """Layouts of memory, where a kernel may also refuse."""
        draw = self._draw

        def case(title: str, *steps: dict[str, Any], **options: Any) -> CaseCall:
            call = self._call(facts, draw.getrandbits(48), *steps)
            return CaseCall(f"{facts.name}, {title}", Kind.LAYOUT, facts.name, call, **options)

        yield case("one element into the storage", offset=1)
        for layout, title in (
            ("padded", "rows apart in memory"),
            ("transposed", "the last two dimensions the other way round in memory"),
            ("expanded", "one row expanded to all"),
        ):
            yield case(title, {"kind": "layout", "layout": layout, "which": "first"})
        if sum(leaf.floating for leaf in facts.leaves) > 1:
            yield case("all with rows apart", {"kind": "layout", "layout": "padded", "which": "all"})
        if facts.groups:
            yield case("no rows", {"kind": "lead", "rows": 0, "group": list(facts.groups[0])}, rows=0.0)

    def gradients(self, facts: WorkloadFacts) -> Iterator[CaseCall]:
        """Gradients at another scale and at other numbers of rows."""
        if not facts.gradient:
            return
        yield from self.leads(facts, gradient=True)
        step = {"kind": "scale", "by": 10 ** self._draw.uniform(-1, 1)}
        call = self._call(facts, self._draw.getrandbits(48), step, gradient=True)
        title = f"{facts.name}, scale {step['by']:.3g} with gradients"
        yield CaseCall(title, Kind.CONTENTS, facts.name, call)

    def seeds(self, facts: WorkloadFacts) -> Iterator[CaseCall]:
        """Further seeds, at old and new addresses."""
        for number in range(3):
            yield CaseCall(
                f"{facts.name}, seed {number + 4}",
                Kind.PLAIN,
                facts.name,
                self._call(facts, self._draw.getrandbits(48)),
                spot=Spot.SAME if number % 2 == 0 else Spot.NEW,
                settle=number == 1,
            )

    def _name(self, facts: WorkloadFacts, leaf: int) -> str:
        """The name of a leaf, which has to be a tensor."""
        return facts.parameters[sum(one.tensor for one in facts.leaves[:leaf])]
