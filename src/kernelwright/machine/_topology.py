"""Processors, cores, caches, memory and NUMA nodes that this process may use.

Linux's /sys is the source. Where it shows no caches, CPUID's cache leaves are; where neither does, the sizes
of a common server core are assumed, and marked as assumed.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kernelwright.machine._cpuid import Instructions
from kernelwright.machine._cpuid import instructions

_CPUS = Path("/sys/devices/system/cpu")
_NODES = Path("/sys/devices/system/node")
_CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Cache:
    """One level of cache. `size_bytes` is that of one instance, `shared_by` the hardware threads that share
    it, `instances` how many of them this process can reach. `source` is `sys`, `cpuid` or `assumed`.
    """

    level: int
    kind: str
    size_bytes: int
    line_bytes: int
    shared_by: int
    instances: int
    source: str


@dataclass(frozen=True)
class NumaNode:
    """A NUMA node: its processors that this process may use, and its memory (None when not shown)."""

    number: int
    cpus: tuple[int, ...]
    memory_bytes: int | None


def affinity() -> tuple[int, ...]:
    """The processors that this process may run on."""
    return tuple(sorted(os.sched_getaffinity(0)))


def count_cores(cpus: Iterable[int], root: Path = _CPUS) -> int:
    """How many physical cores `cpus` make up; each counts as one where the kernel does not show siblings."""
    cores = set()
    for cpu in cpus:
        folder = root / f"cpu{cpu}" / "topology"
        siblings = _read(folder / "core_cpus_list") or _read(folder / "thread_siblings_list")
        cores.add(siblings or str(cpu))
    return len(cores)


def detect_caches(cpus: tuple[int, ...], root: Path = _CPUS) -> tuple[Cache, ...]:
    """The data and unified caches of the first of `cpus`, and how many of each `cpus` reach."""
    return (
        _caches_from_sys(cpus, root)
        or _caches_from_cpuid(cpus, instructions())
        or (
            Cache(1, "data", 32 << 10, 64, 1, len(cpus), "assumed"),
            Cache(2, "unified", 1 << 20, 64, 1, len(cpus), "assumed"),
            Cache(3, "unified", 32 << 20, 64, len(cpus), 1, "assumed"),
        )
    )


def _caches_from_sys(cpus: tuple[int, ...], root: Path) -> tuple[Cache, ...]:
    found = []
    for folder in sorted((root / f"cpu{cpus[0]}" / "cache").glob("index*")):
        kind = (_read(folder / "type") or "").lower()
        size = _bytes_of(_read(folder / "size"))
        level = _read(folder / "level")
        if kind not in ("data", "unified") or not size or level is None:
            continue
        sharing = {_read(root / f"cpu{cpu}" / "cache" / folder.name / "shared_cpu_list") for cpu in cpus}
        found.append(
            Cache(
                level=int(level),
                kind=kind,
                size_bytes=size,
                line_bytes=int(_read(folder / "coherency_line_size") or 64),
                shared_by=len(parse_cpu_list(_read(folder / "shared_cpu_list") or str(cpus[0]))),
                instances=len(sharing),
                source="sys",
            )
        )
    return tuple(sorted(found, key=lambda cache: cache.level))


def _caches_from_cpuid(cpus: tuple[int, ...], executed: Instructions | None) -> tuple[Cache, ...]:
    """Deterministic cache parameters: leaf 4, or leaf 0x8000001D with the same layout on AMD."""
    if executed is None:
        return ()
    highest = executed.cpuid(0, 0).eax
    for leaf in (4, 0x8000001D):
        if leaf == 4 and highest < 4:
            continue
        if leaf != 4 and executed.cpuid(0x80000000, 0).eax < leaf:
            continue
        found = []
        for index in range(8):
            part = executed.cpuid(leaf, index)
            kind = {1: "data", 3: "unified"}.get(part.eax & 0x1F)
            if part.eax & 0x1F == 0:
                break
            if kind is None:
                continue
            line = (part.ebx & 0xFFF) + 1
            ways = (part.ebx >> 22) + 1
            partitions = (part.ebx >> 12 & 0x3FF) + 1
            shared = min((part.eax >> 14 & 0xFFF) + 1, max(len(cpus), 1))
            found.append(
                Cache(
                    level=part.eax >> 5 & 0x7,
                    kind=kind,
                    size_bytes=line * ways * partitions * (part.ecx + 1),
                    line_bytes=line,
                    shared_by=shared,
                    instances=math.ceil(len(cpus) / shared),
                    source="cpuid",
                )
            )
        if found:
            return tuple(sorted(found, key=lambda cache: cache.level))
    return ()


def detect_memory() -> int:
    """Bytes of memory that this process may use: what the machine has, or less where a control group says."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([total, *cgroup_memory_limits()])


def cgroup_memory_limits(root: Path = _CGROUPS, groups: Path = Path("/proc/self/cgroup")) -> list[int]:
    """Every memory limit on the way from this process's control group to the root, of either version."""
    limits = []
    for folder, version in _cgroup_folders(root, groups, "memory"):
        text = _read(folder / ("memory.max" if version == 2 else "memory.limit_in_bytes"))
        if text is not None and text.isdigit():
            limits.append(int(text))
    return limits


def cgroup_cpu_quota(root: Path = _CGROUPS, groups: Path = Path("/proc/self/cgroup")) -> float | None:
    """How many processors' worth of time the control groups grant; None when they do not limit it."""
    quotas = []
    for folder, version in _cgroup_folders(root, groups, "cpu"):
        if version == 2:
            words = (_read(folder / "cpu.max") or "max").split()
            quota, period = words[0], words[1] if len(words) > 1 else "100000"
        else:
            quota = _read(folder / "cpu.cfs_quota_us") or "-1"
            period = _read(folder / "cpu.cfs_period_us") or "100000"
        if quota.isdigit() and period.isdigit() and int(period):
            quotas.append(int(quota) / int(period))
    return min(quotas, default=None)


def _cgroup_folders(root: Path, groups: Path, controller: str) -> list[tuple[Path, int]]:
    """The folders of this process's control groups and all above them, with the version of each."""
    folders = []
    for line in (_read(groups) or "").splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers == "":
            bases = [(root, 2), (root / "unified", 2)]
        elif controller in controllers.split(","):
            bases = [(root / controller, 1), (root / controllers, 1)]
        else:
            continue
        for base, version in bases:
            inner = base / group.lstrip("/")
            # Inside a container the group's path may be the host's, which is not there: the base still is.
            folders += [
                (path, version) for path in (inner, *inner.parents) if path == base or base in path.parents
            ]
    return folders


def detect_numa(cpus: tuple[int, ...], root: Path = _NODES) -> tuple[NumaNode, ...]:
    """The NUMA nodes that own `cpus`; one with all of them where the kernel shows none."""
    nodes = []
    for folder in sorted(root.glob("node[0-9]*"), key=lambda path: int(path.name[4:])):
        owned = tuple(cpu for cpu in parse_cpu_list(_read(folder / "cpulist") or "") if cpu in cpus)
        if owned:
            nodes.append(NumaNode(int(folder.name[4:]), owned, _node_memory(folder)))
    return tuple(nodes) or (NumaNode(0, cpus, None),)


def _node_memory(folder: Path) -> int | None:
    for line in (_read(folder / "meminfo") or "").splitlines():
        if "MemTotal:" in line:
            return int(line.split()[-2]) * 1024
    return None


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """The numbers in a list as the kernel writes it, such as `0-3,8`."""
    numbers: list[int] = []
    for part in text.split(","):
        if part.strip():
            first, _, last = part.partition("-")
            numbers.extend(range(int(first), int(last or first) + 1))
    return tuple(numbers)


def _bytes_of(text: str | None) -> int:
    """A size as /sys writes it, such as `480K`."""
    if not text:
        return 0
    unit = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1])
    return int(text[:-1]) * unit if unit else int(text)


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None
