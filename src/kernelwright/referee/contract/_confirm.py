"""From times to a verdict: contests over several fresh pairs of processes, and what may be said of them.

The process is the unit: what differs from one start to the next (memory layout, hash seeds, what a compiler
cached) is in the interval. Every pair runs on inputs drawn for it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace
from typing import Any

import torch

from kernelwright import machine
from kernelwright.errors import UsageError
from kernelwright.ops import Cost
from kernelwright.referee._gates import WelchGate
from kernelwright.referee._statistics import Estimate
from kernelwright.referee._statistics import judge as judge_estimate
from kernelwright.referee._statistics import timing
from kernelwright.referee._verdict import Comparison
from kernelwright.referee._verdict import Contest
from kernelwright.referee._verdict import Mode
from kernelwright.referee._verdict import Regime
from kernelwright.referee._verdict import Status
from kernelwright.referee._verdict import Timing
from kernelwright.referee._verdict import Verdict
from kernelwright.referee.contract._aa import against_itself
from kernelwright.referee.contract._draws import alike
from kernelwright.referee.contract._draws import finite
from kernelwright.referee.contract._draws import same_results
from kernelwright.referee.contract._draws import span_bytes
from kernelwright.referee.contract._draws import with_others
from kernelwright.referee.contract._floor import as_facts
from kernelwright.referee.contract._floor import ceilings_here
from kernelwright.referee.contract._floor import find_floor
from kernelwright.referee.contract._floor import Floor
from kernelwright.referee.contract._floor import needed_share
from kernelwright.referee.contract._floor import share_floor
from kernelwright.referee.contract._flush import Flusher
from kernelwright.referee.contract._flush import native_flush
from kernelwright.referee.contract._race import Found
from kernelwright.referee.contract._race import Ground
from kernelwright.referee.contract._race import Paces
from kernelwright.referee.contract._race import Pair
from kernelwright.referee.contract._reference import Made
from kernelwright.referee.contract._reference import Reference
from kernelwright.referee.contract._reference import Refusal
from kernelwright.referee.contract._reference import WorkloadFacts
from kernelwright.referee.contract._rounds import next_process
from kernelwright.referee.contract._rounds import Plan
from kernelwright.referee.contract._rounds import plan_processes
from kernelwright.referee.contract._rounds import Rule
from kernelwright.referee.contract._rounds import Series
from kernelwright.referee.contract._stage import Performer

#: Measured time of one contest, all processes together, where the caller does not say.
DEFAULT_BUDGET_S = 1.0
#: Draws of the inputs that a pair of processes runs on: of small ones, and of large or slow ones.
_DRAWS, _FEW_DRAWS = 4, 2
_SMALL_BYTES = 8 << 20
_QUICK_S = 0.1
#: A reference that takes longer than this to answer is only asked about whole draws.
_SLOW_S = 2.0
#: Elements that are looked at to see how much of the inputs a result hangs on, before a time is called
#: impossible.
_PROBED = 16
#: How comparisons are decided.
GATES = ("bootstrap", "welch")
_WELCH = WelchGate()


@dataclass(frozen=True)
class Contenders:
    """Who is compared, and how a fresh process of each is had: started, and what it calls loaded."""

    baseline: str
    candidate: str
    open_baseline: Callable[[], Performer]
    open_candidate: Callable[[], Performer]


def contest(
    contenders: Contenders,
    reference: Reference,
    facts: WorkloadFacts,
    *,
    mode: Mode,
    threads: int,
    seed: int,
    processes: int = 3,
    minimum_effect: float = 0.01,
    budget_s: float = DEFAULT_BUDGET_S,
    left_s: float = 60.0,
    gate: str = "bootstrap",
) -> Contest:
    """Compare a candidate with a baseline on one workload in one mode.

    `budget_s` is what the rounds of all processes may take together, `left_s` what everything may take.
    With `gate` `welch`, as many rounds and warm-ups are made as that gate asks for, and it gives the answer;
    ratio and interval are the same as without.
    Raises Found with a verdict where there is none to compare: the candidate fails, is wrong when timed,
    cheats, is faster than possible, or the machine is too noisy; RefereeError when the baseline fails.
    """
    if processes < 1:
        raise UsageError(f"processes is {processes}; at least 1 is needed")
    rule = Rule(minimum_effect, seed)
    if gate == "welch":
        least = -(-_WELCH.trials // processes)
        rule = replace(rule, least=least, warmups=_WELCH.warmups, trials=_WELCH.trials)
    run = _Run(contenders, reference, facts, mode, threads, rule, gate)
    with machine.watch() as conditions:
        run.measure(processes, budget_s, time.monotonic() + left_s)
    return run.conclude(conditions.as_dict())


class _Run:
    def __init__(
        self,
        contenders: Contenders,
        reference: Reference,
        facts: WorkloadFacts,
        mode: Mode,
        threads: int,
        rule: Rule,
        gate: str,
    ) -> None:
        self._contenders = contenders
        self._reference = reference
        self._facts = facts
        self._random = random.Random(rule.seed)
        self._rule = rule
        self._gate = gate
        self._series = Series()
        self._pairs: list[dict[str, Any]] = []
        self._clock: dict[str, Any] = {}
        self._plan: Plan | None = None
        self._ended = ""
        self._paces: Paces | None = None
        self._look_s = min(facts.seconds, _SLOW_S)
        flusher = Flusher(native_flush()) if mode is Mode.COLD else None
        self._ground = Ground(
            reference,
            facts,
            contenders.open_baseline,
            contenders.open_candidate,
            mode,
            threads,
            self._rule,
            flusher,
            single=True,
        )
        self._draws: list[Made] = []

    def measure(self, processes: int, budget_s: float, deadline: float) -> None:
        """Run pairs of processes until they are enough."""
        self._draws = self._draw()
        self._ground = replace(self._ground, single=self._takes_changes())
        planned = processes
        while True:
            number = len(self._pairs)
            if number and self._facts.seconds < _QUICK_S:
                self._draws = self._draw()
            seed = self._random.getrandbits(48)
            with Pair(self._ground, self._draws, seed, paces=self._paces) as pair:
                baseline_s, candidate_s = pair.start()
                plan = plan_processes(
                    wanted=max(1, planned - number),
                    # Beside its rounds, a process makes one that does not count, and a last block.
                    start_s=pair.facts.started_s + baseline_s + 2 * candidate_s + self._look_s,
                    baseline_s=baseline_s,
                    candidate_s=candidate_s,
                    # What has been started by now counts as one start of those that are planned.
                    left_s=deadline - time.monotonic() + pair.facts.started_s,
                )
                pair.run(self._series, number, plan, budget_s=budget_s / processes)
                self._paces = pair.paces
            self._pairs.append(pair.facts.as_dict())
            self._clock = pair.facts.clock or {}
            if plan.said:
                planned = min(planned, number + plan.processes)
            self._plan = plan if plan.said or self._plan is None else self._plan
            ended = next_process(self._series, self._rule, planned)
            another = pair.facts.started_s + plan.rounds * 2 * (baseline_s + candidate_s)
            if ended is None and time.monotonic() + min(another, budget_s) > deadline:
                ended = "there is no time for another process"
            if ended is not None:
                self._ended = ended
                return

    def conclude(self, conditions: dict[str, Any]) -> Contest:
        """What the times say. Raises Found where they may not be compared."""
        series, rule = self._series, self._rule
        baseline, candidate = series.paired()
        found = series.estimate(seed=rule.seed)
        itself = against_itself(series, found, minimum_effect=rule.minimum_effect, seed=rule.seed)
        times = timing(baseline), timing(candidate)
        floor = self._floor(times[0].median_ns, times[1].median_ns)
        facts = {
            **conditions,
            **self._clock,
            "threads": self._ground.threads,
            "seed": self._rule.seed,
            "processes": len(self._pairs),
            "ratios": [round(one, 5) for one in series.ratios().values()],
            "pairs": self._pairs,
            "ended": self._ended,
            "left_out": self._plan.said if self._plan else "",
            "single_changes": self._ground.single,
            "baseline_against_itself": itself.as_dict(),
            "floor": floor,
        }
        if itself.problem is not None:
            evidence = {"conditions": facts, "ratio": found.ratio, "interval": list(found.interval)}
            said = f"{self._where()}: {itself.problem}{_busy(conditions)}"
            raise Found(Verdict(Status.NOISY, said, evidence=evidence))
        return self._contest(found, times, facts)

    def _compared(self, found: Estimate, facts: dict[str, Any]) -> Comparison:
        """The answer of the gate; `facts` is told what another gate than the usual one asked for."""
        if self._gate == "welch":
            warmups = min(pair["warmup_calls"] for pair in self._pairs)
            series = self._series
            answer, reasons = _WELCH.judge(
                series.baseline, series.candidate, warmups=warmups, processes=series.process
            )
            facts["gate"] = {"name": "welch", "not_held": reasons}
            return answer
        return judge_estimate(found, minimum_effect=self._rule.minimum_effect)

    def _contest(self, found: Estimate, times: tuple[Timing, Timing], facts: dict[str, Any]) -> Contest:
        return Contest(
            candidate=self._contenders.candidate,
            baseline=self._contenders.baseline,
            workload=self._facts.name,
            mode=self._ground.mode,
            regime=Regime.ALLOCATING,
            comparison=self._compared(found, facts),
            ratio=found.ratio,
            interval=found.interval,
            candidate_time=times[1],
            baseline_time=times[0],
            blocks=len(self._series),
            conditions=facts,
        )

    def _where(self) -> str:
        return f"workload {self._facts.name}, {self._ground.mode}"

    def _draw(self) -> list[Made]:
        """Inputs under fresh seeds, with what has to come of them."""
        slow = self._facts.seconds > _QUICK_S or self._facts.nbytes > _SMALL_BYTES
        found = []
        for _ in range(_FEW_DRAWS if slow else _DRAWS):
            call = {
                "workload": self._facts.name,
                "seed": self._random.getrandbits(31),
                "steps": [],
                "gradient": False,
                "slack": True,
            }
            made = self._reference.make(call)
            if isinstance(made, Refusal):
                raise UsageError(
                    f"the reference does not take what its own get_inputs() returned: {made.said}"
                )
            found.append(made)
        first = found[0]
        return [made for made in found if alike(made, first)]

    def _takes_changes(self) -> bool:
        """Whether the reference takes inputs in which single elements have other places' values."""
        first = self._draws[0]
        if self._facts.seconds > _SLOW_S:
            # Each look would cost as much again; what comes of whole draws is known.
            return False
        changed = self._with_changes(first, 3)
        answer = self._reference.answer(self._facts.name, first.arguments, changed)
        return not isinstance(answer, Refusal) and finite(answer) >= finite(first)

    def _with_changes(self, made: Made, count: int) -> list[torch.Tensor]:
        generator = torch.Generator().manual_seed(self._random.getrandbits(31))
        return [with_others(tensor, count, generator) for tensor in made.tensors]

    def _floor(self, baseline_ns: float, candidate_ns: float) -> dict[str, Any]:
        """The least time of a call. Raises Found when the candidate's is below it."""
        ceilings, source = ceilings_here()
        first = self._draws[0]
        written = 0 if first.expected.shares_input else first.expected.nbytes
        cost = Cost(sum(span_bytes(tensor) for tensor in first.tensors), written, 0)
        exact = self._ground.flusher is not None and self._ground.flusher.exact

        def of(cost: Cost) -> Floor:
            return find_floor(cost, self._ground.mode, ceilings, self._ground.threads, flushed=exact)

        floor = of(cost)
        facts = dict(as_facts(floor, source))
        if floor.refuted_by(candidate_ns) is None:
            return facts
        if floor.refuted_by(baseline_ns) is not None:
            return {
                **facts,
                "floor_ns": None,
                "because": "the baseline does not move all of its inputs either",
            }
        share = self._needed_share()
        floor = of(share_floor(cost, share))
        facts = {**as_facts(floor, source), "share_of_inputs_needed": round(share, 3)}
        said = floor.refuted_by(candidate_ns)
        if said is not None:
            raise Found(Verdict(Status.IMPOSSIBLE, f"{self._where()}: {said}", evidence={"floor": facts}))
        return facts

    def _needed_share(self) -> float:
        """How much of the inputs a result hangs on, at least: single elements are changed, one at a time."""
        first = self._draws[0]
        base = self._reference.answer(self._facts.name, first.arguments, first.tensors)
        weights = [
            tensor.nbytes if tensor.is_floating_point() and tensor.numel() > 1 else 0
            for tensor in first.tensors
        ]
        if isinstance(base, Refusal) or not sum(weights):
            return 0.0
        generator = torch.Generator().manual_seed(self._random.getrandbits(31))
        mattered = 0
        for _ in range(_PROBED):
            (chosen,) = self._random.choices(range(len(weights)), weights)
            tensors = [tensor.clone() for tensor in first.tensors]
            tensors[chosen] = with_others(first.tensors[chosen], 1, generator)
            answer = self._reference.answer(self._facts.name, first.arguments, tensors)
            mattered += not isinstance(answer, Refusal) and not same_results(base, answer)
        return needed_share(mattered, _PROBED) * sum(weights) / max(1, sum(t.nbytes for t in first.tensors))


def _busy(conditions: dict[str, Any]) -> str:
    """What is known of the noise, in words."""
    told = {"load average": conditions.get("load_after"), "CPU pressure": conditions.get("pressure")}
    known = [f"{name} {value:.2f}" for name, value in told.items() if value is not None]
    return f" ({', '.join(known)})" if known else ""


def race_all(
    contenders: Contenders,
    reference: Reference,
    workloads: Sequence[WorkloadFacts],
    *,
    modes: Sequence[Mode],
    seed: int,
    left_s: float,
    **options: Any,
) -> tuple[Contest, ...]:
    """A contest for each workload and mode, which share the time that is left; options as for `contest`."""
    deadline = time.monotonic() + left_s
    draw = random.Random(seed)
    wanted = [(facts, mode) for facts in workloads for mode in modes]
    contests = []
    for done, (facts, mode) in enumerate(wanted):
        share = (deadline - time.monotonic()) / (len(wanted) - done)
        contests.append(
            contest(
                contenders,
                reference,
                facts,
                mode=mode,
                seed=draw.getrandbits(48),
                left_s=max(share, 1.0),
                **options,
            )
        )
    return tuple(contests)
