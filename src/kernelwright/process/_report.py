"""What a supervisor reports, line by line; `_work.py` documents the lines."""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True)
class Ended:
    """The last line of a report: why it ended, the wait status, and what was used."""

    reason: str
    status: int
    wall_s: float
    cpu_s: float
    peak_bytes: int
    oom_killed: bool


class Report:
    """The lines read so far."""

    def __init__(self) -> None:
        self.supervisor: int | None = None
        self.init: int | None = None
        self.pid: int | None = None
        self.errno: int | None = None
        self.guards: dict[str, str] | None = None
        self.ended: Ended | None = None
        self._rest = b""

    def add(self, part: bytes) -> None:
        """Take what was read from the pipe, in whatever pieces it comes."""
        *lines, self._rest = (self._rest + part).split(b"\n")
        for line in lines:
            word, _, rest = line.decode().partition(" ")
            if word == "supervisor":
                self.supervisor = int(rest)
            elif word == "init":
                self.init = int(rest)
            elif word == "started":
                self.pid = int(rest)
            elif word == "guards":
                self.guards = json.loads(rest)
            elif word == "failed":
                self.errno = int(rest)
            elif word == "ended":
                reason, status, wall, cpu, peak, oom = rest.split()
                self.ended = Ended(reason, int(status), float(wall), float(cpu), int(peak), oom == "1")
