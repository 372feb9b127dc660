"""The children of a judge: forked from a template, each for one kernel, so that no kernel meets another."""

from __future__ import annotations

import os
from collections.abc import Hashable
from collections.abc import Sequence
from pathlib import Path

from kernelwright.process import Child
from kernelwright.process import Limits
from kernelwright.process import Sandbox
from kernelwright.process import Template
from kernelwright.referee._child import child_environment
from kernelwright.referee._child import driver_library
from kernelwright.referee._child import libgomp
from kernelwright.referee._child import MeasuringChild
from kernelwright.referee._child import NATIVE
from kernelwright.referee._entrant import NativeEntrant
from kernelwright.referee._native_lane import Lane
from kernelwright.referee._shared import SharedMemory

#: Baselines, each on a course of its own, that are kept: a search goes round its workloads.
_KEPT_BASELINES = 4


class Pool:
    """Starts children, and keeps those that will be used again.

    A search races hundreds of entrants against one baseline on a few workloads: its children, which no
    entrant can reach, stay open meanwhile. What needs no waiting for goes on beside other work: the start of
    a spare child, the end of used ones. `settle` waits for all of it; nothing is clocked before.
    """

    def __init__(self, store: SharedMemory, *, memory_bytes: int) -> None:
        self.store = store
        self.memory_bytes = memory_bytes
        self._template: Template | None = None
        self._baselines: dict[tuple[NativeEntrant, Hashable], Lane] = {}
        self._entrants: dict[NativeEntrant, MeasuringChild] = {}
        self._spare: MeasuringChild | None = None
        self._ending: list[MeasuringChild] = []

    def child(self, memory_bytes: int | None = None) -> MeasuringChild:
        """A child that nobody has used, which may use so much memory. The caller stops it."""
        if memory_bytes is not None and memory_bytes != self.memory_bytes:
            return MeasuringChild(self.store, self._launch, memory_bytes=memory_bytes)
        spare, self._spare = self._spare, None
        return spare or MeasuringChild(self.store, self._launch, memory_bytes=self.memory_bytes)

    def get_ready(self, lane: Lane | None = None) -> None:
        """Let the next child start while nothing is timed; nobody waits for it.

        It fills buffer sets for the race of `lane`, somewhat more of them than that has if there may be more.
        """
        if self._spare is None:
            self._spare = self.child()
            self._spare.launch()
        if lane is not None and lane.mirror is not None:
            room = int(lane.mirror.plan.arena_limit) // lane.facts["set_bytes"]
            sets = min(lane.sets + lane.sets // 8 + 1, max(lane.sets + 1, room))
            self._spare.get_ready(lane.mirror.plan_at, sets)

    def settle(self) -> None:
        """Wait until no child starts, fills its buffer sets or ends any more."""
        if self._spare is not None:
            self._spare.rest()
        while self._ending:
            self._ending.pop().stop()

    def stop(self, child: MeasuringChild) -> None:
        """End a child beside other work."""
        child.end()
        self._ending.append(child)

    def baseline(self, entrant: NativeEntrant, course: Hashable, arena_limit: int) -> Lane | None:
        """The lane that is kept for this baseline on this course, if it is and takes no more memory."""
        lane = self._baselines.pop((entrant, course), None)
        if lane is None:
            return None
        if lane.mirror is None or int(lane.mirror.plan.arena_limit) > arena_limit:
            self.stop(lane.child)
            return None
        self._baselines[entrant, course] = lane
        return lane

    def keep_baseline(self, lane: Lane, course: Hashable) -> None:
        """Keep a baseline's lane for the next race on this course; that used longest ago makes room."""
        while len(self._baselines) >= _KEPT_BASELINES:
            self.stop(self._baselines.pop(next(iter(self._baselines))).child)
        self._baselines[lane.entrant, course] = lane

    def drop_baseline(self) -> None:
        """End the baselines' children."""
        for lane in self._baselines.values():
            lane.child.stop()
        self._baselines.clear()

    def entrant(self, entrant: NativeEntrant) -> MeasuringChild | None:
        """The child that has raced this entrant on another course, and nobody else."""
        return self._entrants.pop(entrant, None)

    def keep_entrant(self, entrant: NativeEntrant, child: MeasuringChild) -> None:
        """Keep an entrant's child for its next race."""
        self._entrants[entrant] = child

    def drop_entrants(self) -> None:
        """End the children of entrants that were kept."""
        for child in self._entrants.values():
            self.stop(child)
        self._entrants.clear()

    def drop_spare(self) -> None:
        """End the spare child: what it was filled for is gone."""
        if self._spare is not None:
            self.stop(self._spare)
        self._spare = None

    def close(self) -> None:
        """End all children, and the template that they were forked from."""
        self.drop_entrants()
        self.drop_baseline()
        self.drop_spare()
        while self._ending:
            self._ending.pop().stop()
        if self._template is not None:
            self._template.close()
        self._template = None

    def warm_up(self) -> None:
        """Start the template, so that it is ready when the first child is asked for."""
        if self._template is None or self._template.outcome is not None:
            libraries = [library for library in (libgomp(), str(driver_library())) if library]
            environment = {**child_environment(), "KERNELWRIGHT_PRELOAD": os.pathsep.join(libraries)}
            self._template = Template(
                [NATIVE / "preload.py"], env=environment, site=False, scripts=[NATIVE / "child.py"]
            )

    def _launch(
        self, arguments: Sequence[str], limits: Limits, descriptors: Sequence[int], scratch: str
    ) -> Child:
        self.warm_up()
        assert self._template is not None
        return self._template.child(
            NATIVE / "child.py",
            *arguments,
            limits=limits,
            env=child_environment(),
            pass_fds=descriptors,
            sandbox=Sandbox(Path(scratch), readable=(driver_library(), Path(libgomp()))),
        )
