"""Which calls of a check there is time for, and who took it where there is not; no call is made here."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from collections.abc import Iterator

from kernelwright.referee._verdict import Status
from kernelwright.referee.contract._cases import CaseCall
from kernelwright.referee.contract._diagnosis import Fault

#: The part of the time in which calls are begun: the last one, and what follows, need the rest.
_SHARE = 0.75
#: Calls that a verdict needs may take so long in any case; who takes most of it is not waited for any longer.
_LAST_S = 75.0
_CANDIDATE_SHARE = 0.5
#: A call of a few rows takes at least this part of a whole one's time.
_LEAST_ROWS = 0.05
#: So many calls are made whatever they take.
_FIRST = 4


class Timetable:
    """The time of one check: how long calls of each workload take, and what is left.

    `budget_s` is how long the check may take, from now on.
    """

    def __init__(self, budget_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._deadline = self._began + _SHARE * budget_s
        self._last = self._began + max(_LAST_S, _SHARE * budget_s)
        self._candidate_s = 0.0
        self._pace: dict[str, float] = {}

    def left(self) -> float:
        """Seconds in which calls are begun; zero when they are over."""
        return max(self._deadline - self._clock(), 0.0)

    def over(self) -> bool:
        """Whether no call should be begun that no verdict needs."""
        return self._clock() > self._deadline

    def allows(self, case: CaseCall, index: int) -> bool:
        """Whether there is time for a case, the check's `index`-th; later for one that a verdict needs."""
        deadline = self._last if case.must else self._deadline
        return index < _FIRST or self._clock() + self.estimate(case) <= deadline

    def allows_ahead(self, case: CaseCall) -> bool:
        """Whether a case will surely be judged, so that its making can begin before its turn."""
        return self._clock() + 2 * self.estimate(case) < self._deadline

    def allows_more(self, workload: str, calls: int) -> bool:
        """Whether there is time for so many whole calls of a workload."""
        return self._clock() + calls * self._pace.get(workload, 0.0) <= self._deadline

    def estimate(self, case: CaseCall) -> float:
        """About how many seconds a case takes, by those of its workload so far; 0 for the first."""
        return self._pace.get(case.workload, 0.0) * max(_LEAST_ROWS, case.rows)

    @contextlib.contextmanager
    def case(self, case: CaseCall) -> Iterator[None]:
        """A case is made and judged in this block: what that takes is kept in mind."""
        started = self._clock()
        yield
        took = (self._clock() - started) / max(1.0, case.rows)
        self._pace[case.workload] = max(took, 0.7 * self._pace.get(case.workload, 0.0))

    @contextlib.contextmanager
    def candidate(self) -> Iterator[None]:
        """The candidate is called in this block, and it is its time, however the call ends."""
        called = self._clock()
        try:
            yield
        finally:
            self._candidate_s += self._clock() - called

    def too_slow(self, calls: int, missing: int) -> Fault | None:
        """What is said where `missing` calls are left out that a verdict needs, after so many calls, and the
        candidate took the time."""
        spent = self._clock() - self._began
        if self._candidate_s < _CANDIDATE_SHARE * spent:
            return None
        return Fault(
            Status.HUNG,
            f"too slow to be judged: its {calls} calls took {self._candidate_s:.3g} of "
            f"{spent:.3g} s, and {missing} that a verdict needs were left",
        )
