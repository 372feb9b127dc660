"""Which of many configurations is the fastest, from few noisy measurements: screen, race, confirm.

An ask/tell algorithm that knows nothing of kernels; the same code chooses among recorded repeats and among
candidates of a tuning run. Best-arm identification with a fixed budget, by successive elimination (Even-Dar,
Mannor and Mansour 2006) with four amendments that times of kernels call for:

- screen: each is measured once. Most are so much slower that one measurement is enough.
- pilot: the front runners are measured several times. From them come the spread of repeats, pooled over
  configurations, and how far the first repeats lie from the later ones: clocks ramp up, caches fill. Repeats
  that lie off for all pilots alike are a warm-up: they are set aside wherever there are later ones, and
  corrected by what the pilots show where there are none.
- second look: the best tenth or two by one measurement get another. A slow outlier that hides a good
  configuration hardly ever comes twice, so of two repeats the lower counts, and of more the lower median.
- race: who is not clearly behind the leader is measured again, all of them equally often, until one is left,
  all have been measured often enough, or the budget is used up; at last the two best are confirmed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import Generic
from typing import TypeVar

Key = TypeVar("Key")

#: From the median absolute deviation to the standard deviation of a normal distribution.
_TO_SD = 1.4826
#: A pooled spread below this is not believed: clocks of many devices tick coarsely.
_LEAST_SPREAD = 0.002
#: Without any configuration measured three times, the spread is taken to be this.
_USUAL_SPREAD = 0.01
#: Leaders of the race whose repeats the pooled spread is taken from.
_POOLED = 12
#: No less than this is called a warm-up.
_LEAST_OFFSET = 0.01
#: A warm-up's offset is at least so many standard errors of the pilots' mean.
_CLEAR_OFFSET = 4.0


class Stage(StrEnum):
    """What a measurement is for."""

    SCREEN = "screen"
    PILOT = "pilot"
    LOOK = "second look"
    RACE = "race"
    CONFIRM = "confirm"
    DONE = "done"


@dataclass(frozen=True)
class SelectionPlan:
    """How measurements are shared out. The defaults were chosen on recorded repeats of GPU kernels.

    `repeats`: the most measurements a configuration, on average. `pilots`, `pilot_repeats`: front runners
    that show the noise, and how often each is measured; left out where they would take more than half of
    what screening leaves. `look`: the share of all that gets a second look. `clear`: standard errors of a
    difference beyond which a configuration is out of the race. `least`, `most`: measurements after which a
    lone leader is believed, and after which equals are left alone. `confirmations`: further measurements of
    each of the two best. `slow_outliers`: whether outliers are slow, as times have them; ratios of times
    have them on both sides.
    """

    repeats: float = 1.5
    pilots: int = 4
    pilot_repeats: int = 6
    look: float = 0.15
    clear: float = 4.0
    least: int = 3
    most: int = 24
    confirmations: int = 6
    slow_outliers: bool = True

    def __post_init__(self) -> None:
        if self.repeats < 1.0:
            raise ValueError(f"each configuration is measured at least once; repeats is {self.repeats}")
        if self.pilots < 2 or self.pilot_repeats < 4:
            raise ValueError("the noise needs two pilots of four repeats at least")


class Selection(Generic[Key]):
    """Chooses the fastest of `keys`.

    `ask` names those to be measured next, `tell` takes a time of each, in any order; when `ask` names nobody,
    `best` is the answer. What is asked depends only on what was told, so that a record of times told in the
    order of asking brings a selection to where it was.
    """

    def __init__(
        self, keys: Sequence[Key], *, plan: SelectionPlan | None = None, budget: int | None = None
    ) -> None:
        if len(set(keys)) != len(keys):
            raise ValueError("configurations of a selection need keys of their own")
        self.plan = plan or SelectionPlan()
        self.budget = int(self.plan.repeats * len(keys)) if budget is None else budget
        if self.budget < len(keys):
            raise ValueError(f"{len(keys)} configurations need as many measurements; got {self.budget}")
        self.measurements = 0
        self.stage = Stage.SCREEN
        #: Repeats that count as warm-up, and the offset of their log-times.
        self.offsets: list[float] = []
        self._keys = list(keys)
        self._at = {key: index for index, key in enumerate(keys)}
        self._logs: list[list[float]] = [[] for _ in keys]
        self._failed: set[int] = set()
        self._looked: list[int] = []
        self._asked: list[int] = []
        self._rounds = self._conduct()

    def ask(self) -> tuple[Key, ...]:
        """Who is to be measured now, once each; those not told yet are named again. Empty: done."""
        while not self._asked and self.stage is not Stage.DONE:
            wanted = next(self._rounds, None)
            if wanted is None or self.measurements >= self.budget:
                self.stage = Stage.DONE
                break
            able = [index for index in wanted if index not in self._failed]
            self._asked = able[: self.budget - self.measurements]
        return tuple(self._keys[index] for index in self._asked)

    def tell(self, key: Key, time: float | None) -> None:
        """Take a time of `key`, in any unit that is the same for all; None: it failed and is out for good.

        Raises ValueError when it was not asked for, or for a time that is not above zero.
        """
        index = self._at.get(key)
        if index is None or index not in self._asked:
            raise ValueError(f"nobody asked for a time of {key!r}")
        if time is not None and not 0.0 < time < math.inf:
            raise ValueError(f"a time is above zero and finite; {key!r} has {time}")
        self._asked.remove(index)
        self.measurements += 1
        if time is None:
            self._failed.add(index)
        else:
            self._logs[index].append(math.log(time))

    @property
    def best(self) -> Key | None:
        """The fastest as far as is known; None while nothing is."""
        ranked = self.ranking()
        return ranked[0] if ranked else None

    def ranking(self) -> list[Key]:
        """All that were measured and did not fail, best first: those that were measured twice before those
        that had a single chance to be lucky."""
        known = [index for index, logs in enumerate(self._logs) if logs and index not in self._failed]
        settled = min(2, max((self._settled(index) for index in known), default=0))
        known.sort(key=lambda index: (self._settled(index) < settled, self._place(index), index))
        return [self._keys[index] for index in known]

    def repeats(self, key: Key) -> int:
        """How many times were told of `key`."""
        return len(self._logs[self._at[key]])

    def _conduct(self) -> Iterator[list[int]]:
        plan = self.plan
        yield list(range(len(self._keys)))
        pilots = self._ranked()[: plan.pilots]
        extra = self.budget - self.measurements
        if len(pilots) == plan.pilots and 2 * plan.pilots * (plan.pilot_repeats - 1) <= extra:
            self.stage = Stage.PILOT
            for _ in range(plan.pilot_repeats - 1):
                yield pilots
            self._find_offsets(pilots)
        yield from self._second_looks()
        yield from self._race()
        self.stage = Stage.CONFIRM
        finalists = self._contenders()[:2]
        for _ in range(plan.confirmations):
            yield finalists

    def _second_looks(self) -> Iterator[list[int]]:
        """One settled repeat for each of the best, in order; less where the budget has to be spared."""
        self.stage = Stage.LOOK
        each = max(len(self.offsets), 1)
        left = self.budget - self.measurements
        room = min(round(self.plan.look * len(self._keys)), max(left - len(self._keys) // 10, left // 2))
        seen = [index for index in self._ranked() if len(self._logs[index]) > each]
        new = [index for index in self._ranked() if len(self._logs[index]) <= each]
        new = new[: max(room // each, 2 - len(seen), 0)]
        for _ in range(each):
            yield new
        self._looked = seen + new

    def _race(self) -> Iterator[list[int]]:
        self.stage = Stage.RACE
        end = self.budget - 2 * self.plan.confirmations
        while self.measurements < end:
            ranked = self._contenders()
            if not ranked:
                return
            spread = self._spread(ranked[:_POOLED])
            front = self._place(ranked[0])
            left = [
                index
                for index in ranked
                if self._place(index) - front
                <= self.plan.clear * spread * math.hypot(self._error(index), self._error(ranked[0]))
            ]
            # Nobody is measured again unless there is room for three rounds of them all.
            left = left[: max(2, (end - self.measurements) // 3)]
            fewest = min(self._settled(index) for index in left)
            if fewest >= (self.plan.least if len(left) == 1 else self.plan.most):
                return
            yield [index for index in left if self._settled(index) == fewest]

    def _contenders(self) -> list[int]:
        return sorted(
            (index for index in self._looked if index not in self._failed),
            key=lambda index: (self._place(index), index),
        )

    def _ranked(self) -> list[int]:
        known = [index for index, logs in enumerate(self._logs) if logs and index not in self._failed]
        return sorted(known, key=lambda index: (self._place(index), index))

    def _settled(self, index: int) -> int:
        """Repeats after the warm-up."""
        return max(0, len(self._logs[index]) - len(self.offsets))

    def _error(self, index: int) -> float:
        """The standard error of a configuration's place, in units of the spread."""
        return 1.0 / math.sqrt(max(1, self._settled(index)))

    def _place(self, index: int) -> float:
        """Where a configuration lies: of its settled repeats the lower median, or the median where outliers
        have no side; of warm-up alone, the last repeat less its offset."""
        logs = self._logs[index]
        settled = logs[len(self.offsets) :]
        if not settled:
            return logs[-1] - self.offsets[len(logs) - 1]
        if not self.plan.slow_outliers:
            return median(settled)
        return sorted(settled)[(len(settled) - 1) // 2]

    def _spread(self, leaders: Sequence[int]) -> float:
        """The standard deviation of one repeat of log-time, robust, pooled over leaders."""
        deviations: list[float] = []
        for index in leaders:
            settled = self._logs[index][len(self.offsets) :]
            if len(settled) >= 3:
                centre = median(settled)
                correction = math.sqrt(len(settled) / (len(settled) - 1))
                deviations += [abs(one - centre) * correction for one in settled]
        return max(_TO_SD * median(deviations), _LEAST_SPREAD) if deviations else _USUAL_SPREAD

    def _find_offsets(self, pilots: Sequence[int]) -> None:
        """How many first repeats lie off, in the same direction for all pilots, and how far; at most so many
        that half of the pilots' repeats are left."""
        series = [self._logs[index] for index in pilots if index not in self._failed]
        if len(series) < 2:
            return
        half = self.plan.pilot_repeats // 2
        centred = [[one - median(logs[half:]) for one in logs] for logs in series]
        late = [abs(one) for logs in centred for one in logs[half:]]
        spread = max(_TO_SD * median(late), _LEAST_SPREAD)
        limit = max(_LEAST_OFFSET, _CLEAR_OFFSET * spread / math.sqrt(len(series)))
        offsets = [median(logs[repeat] for logs in centred) for repeat in range(self.plan.pilot_repeats - 2)]
        warm = 0
        for repeat, offset in enumerate(offsets):
            same_side = all(logs[repeat] * offset > 0.0 for logs in centred)
            if abs(offset) > limit and same_side:
                warm = repeat + 1
        self.offsets = offsets[:warm]
