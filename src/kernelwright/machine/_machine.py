"""The machine as a whole, and its fingerprint."""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import asdict
from dataclasses import dataclass
from typing import Any

from kernelwright.machine._compilers import Compiler
from kernelwright.machine._compilers import find_compilers
from kernelwright.machine._cpu import Cpu
from kernelwright.machine._cpu import detect_cpu
from kernelwright.machine._gpus import detect_gpus
from kernelwright.machine._gpus import Gpu
from kernelwright.machine._tiers import available_tiers
from kernelwright.machine._topology import affinity
from kernelwright.machine._topology import Cache
from kernelwright.machine._topology import cgroup_cpu_quota
from kernelwright.machine._topology import count_cores
from kernelwright.machine._topology import detect_caches
from kernelwright.machine._topology import detect_memory
from kernelwright.machine._topology import detect_numa
from kernelwright.machine._topology import NumaNode


@dataclass(frozen=True)
class Machine:
    """What this process may use.

    `threads` counts the hardware threads that its affinity allows, `cores` the physical cores they belong to,
    `quota` the processors' worth of time that its control group grants (None: no limit). `memory_bytes`
    respects the control group's limit.
    """

    cpu: Cpu
    affinity: tuple[int, ...]
    cores: int
    caches: tuple[Cache, ...]
    memory_bytes: int
    numa_nodes: tuple[NumaNode, ...]
    quota: float | None

    @property
    def threads(self) -> int:
        """Hardware threads that this process may run on."""
        return len(self.affinity)

    @property
    def smt(self) -> bool:
        """Whether some of the threads share a core."""
        return self.threads > self.cores

    @property
    def llc_bytes(self) -> int:
        """All of the last-level cache that this process can reach, every instance counted."""
        last = max(self.caches, key=lambda cache: cache.level)
        return last.size_bytes * last.instances

    @property
    def cold_bytes(self) -> int:
        """How much memory to walk through so that what was there before is no longer in a cache.

        Four times the last-level cache, but at most an eighth of the memory: a virtual machine may show the
        whole cache of a host that it has a small part of.
        """
        return min(4 * self.llc_bytes, self.memory_bytes // 8)

    def cache_bytes(self, level: int) -> int | None:
        """The size of one data or unified cache of a level; None when there is no such level."""
        return next((cache.size_bytes for cache in self.caches if cache.level == level), None)

    @functools.cached_property
    def compilers(self) -> tuple[Compiler, ...]:
        """The C++ compilers found; asked for at first use, because each has to be run."""
        return find_compilers()

    @functools.cached_property
    def gpus(self) -> tuple[Gpu, ...]:
        """The graphics processors found; asked for at first use."""
        return detect_gpus()

    def as_dict(self) -> dict[str, Any]:
        """Everything but compilers and graphics processors, for records."""
        return {
            "fingerprint": fingerprint(),
            "cpu": {**asdict(self.cpu), "features": sorted(self.cpu.features)},
            "tiers": list(available_tiers()),
            "affinity": list(self.affinity),
            "threads": self.threads,
            "cores": self.cores,
            "smt": self.smt,
            "quota": self.quota,
            "caches": [asdict(cache) for cache in self.caches],
            "llc_bytes": self.llc_bytes,
            "memory_bytes": self.memory_bytes,
            "numa_nodes": [asdict(node) for node in self.numa_nodes],
        }


@functools.cache
def current() -> Machine:
    """The machine that runs this; looked at once."""
    cpus = affinity()
    return Machine(
        cpu=detect_cpu(),
        affinity=cpus,
        cores=count_cores(cpus),
        caches=detect_caches(cpus),
        memory_bytes=detect_memory(),
        numa_nodes=detect_numa(cpus),
        quota=cgroup_cpu_quota(),
    )


@functools.cache
def fingerprint() -> str:
    """16 hexadecimal digits that name this kind of machine: what was proven or measured on one holds for
    another with the same. It covers the processor's model and features, cores, threads and caches.
    """
    machine = current()
    facts = {
        "vendor": machine.cpu.vendor,
        "model": machine.cpu.model,
        "architecture": machine.cpu.architecture,
        "features": sorted(machine.cpu.features),
        "cores": machine.cores,
        "threads": machine.threads,
        "caches": [[cache.level, cache.kind, cache.size_bytes, cache.instances] for cache in machine.caches],
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
