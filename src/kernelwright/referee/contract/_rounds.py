"""Rounds of a contest: what they found so far, and whether more of them are worth their time.

Everything here is a pure function of times. A round gives four times: two blocks of the candidate and two of
the baseline, in random order. The two of each are one sample together in the contest, and the
baseline's are each other's opponent in the question whether this machine can compare anything at all (`_aa`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field

import numpy as np

from kernelwright.referee._statistics import decided
from kernelwright.referee._statistics import Estimate
from kernelwright.referee._statistics import estimate
from kernelwright.referee._statistics import Floats
from kernelwright.referee._statistics import foreseen
from kernelwright.referee._statistics import judge
from kernelwright.referee._statistics import MIN_PAIRS
from kernelwright.referee._stopping import bail_out
from kernelwright.referee._stopping import enough
from kernelwright.referee._verdict import Comparison

#: Rounds of one process below which nothing is concluded from it; fewer only where time does not allow more.
LEAST_ROUNDS = 5
#: Blocks are made to last so long on the judge's clock, on which a message takes a hundredth of it.
BLOCK_NS = 10_000_000
#: Processes that may follow the planned ones when these have not decided, and could.
MORE_PROCESSES = 2
#: The level at which they have to be expected to, and that of few: how these scatter says little.
_FORESEEN, _FORESEEN_FEW, _FEW = 0.95, 0.98, 3
#: Clearly slower is what is slower than this.
_BETWEEN_PROCESSES = 0.9


@dataclass
class Series:
    """The times of a contest, nanoseconds a call: one entry a round, with the process that it is from.

    `candidate` holds the geometric mean of its blocks, `again` the baseline's second block, NaN where it had
    none.
    """

    baseline: list[float] = field(default_factory=list)
    again: list[float] = field(default_factory=list)
    candidate: list[float] = field(default_factory=list)
    process: list[int] = field(default_factory=list)

    def add(self, process: int, baseline: float, candidate: float, again: float = math.nan) -> None:
        """Note a round."""
        self.baseline.append(baseline)
        self.again.append(again)
        self.candidate.append(candidate)
        self.process.append(process)

    def __len__(self) -> int:
        return len(self.candidate)

    @property
    def processes(self) -> tuple[int, ...]:
        """The processes that have at least one round."""
        return tuple(dict.fromkeys(self.process))

    def of(self, process: int) -> Series:
        """The rounds of one process."""
        found = Series()
        for index, one in enumerate(self.process):
            if one == process:
                found.add(one, self.baseline[index], self.candidate[index], self.again[index])
        return found

    def paired(self) -> tuple[Floats, Floats]:
        """Baseline and candidate, paired; the baseline's is the geometric mean of its two blocks."""
        first, again = np.array(self.baseline), np.array(self.again)
        both = np.where(np.isfinite(again), np.sqrt(first * again), first)
        return both, np.array(self.candidate)

    def itself(self) -> tuple[Floats, Floats]:
        """The baseline's two blocks of the rounds that have two."""
        first, again = np.array(self.baseline), np.array(self.again)
        known = np.isfinite(first) & np.isfinite(again)
        return first[known], again[known]

    def estimate(self, *, seed: int, level: float = 0.95) -> Estimate:
        """The ratio baseline / candidate with its interval, the process being the unit."""
        baseline, candidate = self.paired()
        return estimate(baseline, candidate, seed=seed, level=level, processes=self.process)

    def ratios(self) -> dict[int, float]:
        """The median ratio of each process."""
        found = {}
        for process in self.processes:
            baseline, candidate = self.of(process).paired()
            found[process] = float(np.median(baseline / candidate))
        return found


@dataclass(frozen=True)
class Rule:
    """When to stop: the smallest effect that counts, and the bounds of one process.

    `warmups` is how many calls come before the first round at least; those of one block in any case. `trials`
    is how many rounds all processes together have at least, however clear it is.
    """

    minimum_effect: float = 0.01
    seed: int = 0
    least: int = LEAST_ROUNDS
    most: int = 400
    warmups: int = 0
    trials: int = 0


def stop_process(series: Series, rule: Rule, *, spent_s: float, budget_s: float) -> str | None:
    """Why the rounds of the process that `series` holds may end, in words; None: go on.

    Not before `rule.least` rounds. Then: the candidate is clearly slower; or the median ratio is known well
    enough; or its noise is stable and the comparison decided; or time or rounds are used up.
    """
    if len(series) < min(rule.least, rule.most):
        # A cap that does not even allow the least number is not one of choice: the caller planned it.
        return None
    baseline, candidate = series.paired()
    if clearly_slower(series, rule):
        return "clearly slower than the baseline"
    why = enough(baseline / candidate)
    if why is not None and ("noise" not in why or _decided(baseline, candidate, rule)):
        return why.replace("the median", "the median ratio")
    if len(series) >= rule.most:
        return f"{rule.most} rounds"
    if spent_s >= budget_s:
        return f"its {budget_s:.3g} s are used up"
    return None


def clearly_slower(series: Series, rule: Rule) -> bool:
    """Whether the candidate need not be measured on: see `_stopping.bail_out`, with the baseline to beat.

    By more than processes are known to differ among themselves, since one may have to stand for all.
    """
    if len(series) < MIN_PAIRS:
        return False
    baseline, candidate = series.paired()
    return bail_out(
        baseline, candidate, best=_BETWEEN_PROCESSES, minimum_effect=rule.minimum_effect, seed=rule.seed
    )


def next_process(series: Series, rule: Rule, planned: int) -> str | None:
    """Why no further process is needed once at least one is through, in words; None: start one more.

    Clearly slower in one process is enough, with as many trials as are asked for. The planned ones come in
    any case otherwise, and up to `MORE_PROCESSES` more while the comparison is ambiguous and as many can be
    expected to decide it.
    """
    ran = len(series.processes)
    if ran and len(series) >= rule.trials and clearly_slower(series, rule):
        return "clearly slower than the baseline"
    if ran < planned:
        return None
    answer = judge(series.estimate(seed=rule.seed), minimum_effect=rule.minimum_effect)
    if answer is not Comparison.AMBIGUOUS:
        return f"{ran} processes agree"
    left = planned + (MORE_PROCESSES if planned > 1 else 0) - ran
    if left <= 0:
        return f"{ran} processes ran"
    level = _FORESEEN_FEW if ran <= _FEW else _FORESEEN
    expected = foreseen(list(series.ratios().values()), more=left, level=level)
    if judge(expected, minimum_effect=rule.minimum_effect) is Comparison.AMBIGUOUS:
        return f"{ran} processes ran, and {left} more would not decide"
    return None


def _decided(baseline: Floats, candidate: Floats, rule: Rule) -> bool:
    return decided(baseline, candidate, minimum_effect=rule.minimum_effect, seed=rule.seed)


@dataclass(frozen=True)
class Plan:
    """How a contest is run in the time there is: processes, rounds of each, whether both run twice a
    round. `said` tells what had to be left out, or is empty."""

    processes: int
    rounds: int
    twice: bool
    said: str = ""


def plan_processes(
    *, wanted: int, start_s: float, baseline_s: float, candidate_s: float, left_s: float
) -> Plan:
    """How many processes and rounds fit into `left_s` seconds.

    Args:
        wanted: processes asked for.
        start_s: seconds until a fresh pair of processes has loaded and made its first calls.
        baseline_s: seconds of one block of the baseline, what surrounds it included.
        candidate_s: the same of the candidate.
        left_s: seconds that remain for everything.

    Fewer processes come first, then the second block of each goes, then rounds, of which there is
    one at least.
    """
    for twice in (True, False):
        one_round = (2 if twice else 1) * (baseline_s + candidate_s)
        for processes in range(wanted, 0, -1):
            rounds = int((left_s / processes - start_s) / max(one_round, 1e-9))
            if rounds >= (LEAST_ROUNDS if twice else MIN_PAIRS):
                return Plan(
                    processes, rounds, twice, _left_out(wanted, processes, twice, rounds, start_s, one_round)
                )
    rounds = max(1, int((left_s - start_s) / max(one_round, 1e-9)))
    return Plan(1, rounds, False, _left_out(wanted, 1, False, rounds, start_s, one_round))


def _left_out(wanted: int, processes: int, twice: bool, rounds: int, start_s: float, round_s: float) -> str:
    said = []
    if processes < wanted:
        said.append(f"{processes} of {wanted} processes")
    if not twice:
        said.append("no second block of each in a round")
    if rounds < LEAST_ROUNDS:
        said.append(f"{rounds} rounds only")
    if not said:
        return ""
    return f"{', '.join(said)}: starting takes {start_s:.2g} s and a round {round_s:.2g} s"


def calls_of_block(call_ns: float, *, most: int, block_ns: int = BLOCK_NS) -> int:
    """Calls that last a block, one at least, `most` at most."""
    return max(1, min(most, math.ceil(1.1 * block_ns / max(call_ns, 1.0))))


def median_ns(samples: Sequence[float]) -> float:
    """The median of the finite samples; infinite when there is none."""
    known = [one for one in samples if math.isfinite(one)]
    return float(np.median(known)) if known else math.inf
