"""How a run's seconds are shared out."""

from __future__ import annotations

from dataclasses import dataclass

#: Fewer distinct artifacts than this are too few to call it a search.
ENOUGH = 12


@dataclass(frozen=True)
class Budget:
    """Deadlines in seconds since the run's start, and what one step may take.

    Searching takes the largest part; the finals and the confirmations have theirs kept free, since only what
    is confirmed counts. A last part goes to the comparison with torch.
    """

    total_s: float
    workloads: int

    def search_until_s(self, promising: int, artifacts: int) -> float:
        """When the search stops asking.

        The more workloads have a `promising` candidate, the more time their confirmations need. On a busy
        machine, where fewer than `ENOUGH` artifacts were judged, the search goes on somewhat longer.
        """
        share = 0.74 - 0.18 * promising / self.workloads
        return (max(share, 0.68) if artifacts < ENOUGH else share) * self.total_s

    @property
    def confirm_until_s(self) -> float:
        """When confirmations should be over."""
        return 0.84 * self.total_s

    @property
    def give_up_s(self) -> float:
        """When no further confirmation begins, not even the first of a workload: one may take a while."""
        return 1.1 * self.total_s

    @property
    def screen_s(self) -> float:
        """Measuring time of one candidate on one workload."""
        return min(max(0.0025 * self.total_s, 0.05), 0.5)

    @property
    def repeats(self) -> int:
        """Further races of single candidates, a workload, to choose its finalists."""
        room = 0.04 * self.total_s / self.workloads
        return min(max(int(room / (0.7 * self.screen_s)), 3), 16)

    @property
    def final_s(self) -> float:
        """Measuring time of the finalists' race on one workload."""
        return min(max(0.04 * self.total_s / self.workloads, 0.1), 2.0)

    def confirm_s(self, elapsed_s: float, contenders: int) -> float:
        """Measuring time of one contest of a confirmation, which has four and a check.

        What is left is shared by the workloads that still have a contender.
        """
        left = max(self.confirm_until_s - elapsed_s, 0.0)
        least = 0.005 * self.total_s
        return min(max(left / (6 * max(contenders, 1)), least, 0.05), 2.0)

    @property
    def peers_at_least_s(self) -> float:
        """Below this, racing torch is left out."""
        return min(0.05 * self.total_s, 3.0)
