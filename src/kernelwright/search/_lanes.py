"""Who may measure now: one task a device at a time, and builds only where they disturb nobody."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from dataclasses import dataclass

from kernelwright.errors import UsageError


@dataclass(frozen=True)
class Device:
    """Something to measure on: a GPU by its number or UUID, or a set of processors."""

    name: str
    gpu: str | None = None
    cores: tuple[int, ...] | None = None

    def environment(self) -> dict[str, str]:
        """The variables that a process needs to see this device only."""
        return {} if self.gpu is None else {"CUDA_VISIBLE_DEVICES": self.gpu}


class Lanes:
    """The devices that tasks measure on; each is held by one task at a time.

    Builds run beside measurements on GPUs. On processors (`Lanes.cores`) they run only while nothing is
    measured: a measurement waits for the builds that run, and no build starts while one runs or waits.
    """

    def __init__(self, devices: Sequence[Device]) -> None:
        if not devices:
            raise UsageError("lanes without a device; name one GPU or set of cores at least")
        used = [core for device in devices for core in device.cores or ()]
        if len({device.name for device in devices}) < len(devices) or len(set(used)) < len(used):
            raise UsageError(f"lanes share a device: {', '.join(device.name for device in devices)}")
        self.devices = tuple(devices)
        self._exclusive = any(device.gpu is None for device in devices)
        self._changed = threading.Condition()
        self._held: set[str] = set()
        self._waiting = 0
        self._building = 0

    @classmethod
    def gpus(cls, numbers: Iterable[int | str]) -> Lanes:
        """One lane for each GPU, by number (as CUDA_VISIBLE_DEVICES counts them) or UUID."""
        return cls([Device(f"gpu{number}", gpu=str(number)) for number in numbers])

    @classmethod
    def cores(cls, sets: Iterable[Iterable[int]]) -> Lanes:
        """One lane for each set of processors; a measurement's threads are kept on them."""
        groups = [tuple(sorted(group)) for group in sets]
        return cls([Device(f"cores{','.join(map(str, group))}", cores=group) for group in groups])

    def device(self, number: int) -> Device:
        """The device of a worker's process: processes share the devices evenly."""
        return self.devices[number % len(self.devices)]

    @contextlib.contextmanager
    def measuring(self, device: Device) -> Iterator[None]:
        """Hold a device, alone; waits for it."""
        with self._changed:
            self._waiting += 1
            try:
                self._changed.wait_for(
                    lambda: device.name not in self._held and not (self._exclusive and self._building)
                )
                self._held.add(device.name)
            finally:
                self._waiting -= 1
                self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._held.discard(device.name)
                self._changed.notify_all()

    @contextlib.contextmanager
    def building(self) -> Iterator[None]:
        """Build; waits while that would disturb a measurement."""
        with self._changed:
            self._changed.wait_for(lambda: not (self._exclusive and (self._held or self._waiting)))
            self._building += 1
        try:
            yield
        finally:
            with self._changed:
                self._building -= 1
                self._changed.notify_all()
