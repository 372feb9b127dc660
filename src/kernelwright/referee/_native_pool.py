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


class Pool:
    """Starts children, and keeps that of the present baseline with its lane.

    A search races hundreds of entrants against one baseline on one workload: its child, which no entrant can
    reach, stays open meanwhile.
    """

    def __init__(self, store: SharedMemory, *, memory_bytes: int) -> None:
        self.store = store
        self.memory_bytes = memory_bytes
        self._template: Template | None = None
        self._baseline: tuple[Hashable, Lane] | None = None
        self._spare: MeasuringChild | None = None

    def child(self, memory_bytes: int | None = None) -> MeasuringChild:
        """A child that nobody has used, which may use so much memory. The caller stops it."""
        if memory_bytes is not None and memory_bytes != self.memory_bytes:
            return MeasuringChild(self.store, self._launch, memory_bytes=memory_bytes)
        spare, self._spare = self._spare, None
        return spare or MeasuringChild(self.store, self._launch, memory_bytes=self.memory_bytes)

    def get_ready(self) -> None:
        """Let the next child start while nothing is timed; nobody waits for it."""
        if self._spare is None:
            self._spare = self.child()
            self._spare.launch()

    def baseline(self, entrant: NativeEntrant, course: Hashable) -> Lane | None:
        """The lane that is kept for this baseline on this course, if it is."""
        if self._baseline is not None and self._baseline[0] == (entrant, course):
            return self._baseline[1]
        self.drop_baseline()
        return None

    def keep_baseline(self, lane: Lane, course: Hashable) -> None:
        """Keep a baseline's lane for the next race on this course."""
        self._baseline = ((lane.entrant, course), lane)

    def drop_baseline(self) -> None:
        """End the baseline's child."""
        if self._baseline is not None:
            self._baseline[1].child.stop()
        self._baseline = None

    def close(self) -> None:
        """End the baseline's child, and the template with all that were forked from it."""
        self.drop_baseline()
        if self._spare is not None:
            self._spare.stop()
        self._spare = None
        if self._template is not None:
            self._template.close()
        self._template = None

    def warm_up(self) -> None:
        """Start the template, so that it is ready when the first child is asked for."""
        if self._template is None or self._template.outcome is not None:
            libraries = [library for library in (libgomp(), str(driver_library())) if library]
            environment = {**child_environment(), "KERNELWRIGHT_PRELOAD": os.pathsep.join(libraries)}
            self._template = Template([NATIVE / "preload.py"], env=environment, site=False)

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
