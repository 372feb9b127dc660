"""Cores, caches, memory and nodes, read from what the kernel shows; sensible where it shows nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.machine import _topology
from kernelwright.machine import Cache
from kernelwright.machine import current
from kernelwright.machine import fingerprint
from kernelwright.machine import Machine
from kernelwright.machine._cpuid import Instructions
from kernelwright.machine._cpuid import Registers


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


def cache_files(cpu: int, index: int, level: int, kind: str, size: str, shared: str) -> dict[str, str]:
    folder = f"cpu{cpu}/cache/index{index}"
    return {
        f"{folder}/level": str(level),
        f"{folder}/type": kind,
        f"{folder}/size": size,
        f"{folder}/shared_cpu_list": shared,
        f"{folder}/coherency_line_size": "64",
    }


@pytest.fixture
def two_chiplets(tmp_path):
    """Four cores with two threads each; each pair of cores has its own last-level cache."""
    files = {}
    for cpu in range(8):
        core, die = cpu % 4, cpu % 4 // 2
        siblings = f"{core},{core + 4}"
        dies = "0-1,4-5" if die == 0 else "2-3,6-7"
        files |= {f"cpu{cpu}/topology/core_cpus_list": siblings}
        files |= cache_files(cpu, 0, 1, "Data", "32K", siblings)
        files |= cache_files(cpu, 1, 1, "Instruction", "32K", siblings)
        files |= cache_files(cpu, 2, 2, "Unified", "512K", siblings)
        files |= cache_files(cpu, 3, 3, "Unified", "16M", dies)
    return write(tmp_path, files)


def test_cores_are_counted_once_for_their_threads(two_chiplets):
    assert _topology.count_cores(range(8), two_chiplets) == 4
    assert _topology.count_cores((0, 4), two_chiplets) == 1
    assert _topology.count_cores((0, 1), two_chiplets) == 2


def test_without_topology_every_thread_is_a_core(tmp_path):
    assert _topology.count_cores((0, 1, 2), tmp_path) == 3


def test_caches_count_what_the_affinity_reaches(two_chiplets):
    everything = _topology.detect_caches(tuple(range(8)), two_chiplets)
    assert [(c.level, c.kind, c.size_bytes, c.shared_by, c.instances) for c in everything] == [
        (1, "data", 32 << 10, 2, 4),
        (2, "unified", 512 << 10, 2, 4),
        (3, "unified", 16 << 20, 4, 2),
    ]
    one_die = _topology.detect_caches((0, 1), two_chiplets)
    assert one_die[-1].instances == 1
    assert {cache.source for cache in everything} == {"sys"}


def cache_leaves(cpu_leaf: int) -> Instructions:
    """A processor that describes 48 KiB of L1, code cache, 2 MiB of L2 in leaf 4 or AMD's leaf."""

    def cpuid(leaf: int, subleaf: int) -> Registers:
        if leaf == 0:
            return Registers(0x1F if cpu_leaf == 4 else 1, 0, 0, 0)
        if leaf == 0x80000000:
            return Registers(0x8000001D, 0, 0, 0)
        if leaf != cpu_leaf or subleaf > 2:
            return Registers(0, 0, 0, 0)
        kind, level, ways, sets = [(1, 1, 12, 64), (2, 1, 8, 128), (3, 2, 16, 2048)][subleaf]
        return Registers(1 << 14 | level << 5 | kind, (ways - 1) << 22 | 63, sets - 1, 0)

    return Instructions(cpuid, lambda which: 0)


@pytest.mark.parametrize("leaf", [4, 0x8000001D])
def test_without_sys_the_processor_is_asked(monkeypatch, tmp_path, leaf):
    monkeypatch.setattr(_topology, "instructions", lambda: cache_leaves(leaf))
    found = _topology.detect_caches((0, 1, 2, 3), tmp_path)
    assert found == (
        Cache(1, "data", 48 << 10, 64, 2, 2, "cpuid"),
        Cache(2, "unified", 2 << 20, 64, 2, 2, "cpuid"),
    )


def test_without_either_the_caches_are_assumed_and_say_so(monkeypatch, tmp_path):
    monkeypatch.setattr(_topology, "instructions", lambda: None)
    found = _topology.detect_caches((0, 1), tmp_path)
    assert [cache.level for cache in found] == [1, 2, 3]
    assert {cache.source for cache in found} == {"assumed"}


def test_the_smallest_memory_limit_of_both_versions_counts(tmp_path):
    root = write(
        tmp_path / "fs",
        {
            "memory/a/memory.limit_in_bytes": "9223372036854771712",
            "memory/a/b/memory.limit_in_bytes": "5000000",
            "memory/memory.limit_in_bytes": "8000000",
            "x/memory.max": "max",
        },
    )
    groups = tmp_path / "cgroup"
    groups.write_text("4:memory:/a/b\n0::/x/y\n")
    assert min(_topology.cgroup_memory_limits(root, groups)) == 5_000_000


def test_in_a_container_the_base_folder_has_the_limit(tmp_path):
    root = write(tmp_path / "fs", {"memory.max": "6000000", "cpu.max": "150000 100000"})
    groups = tmp_path / "cgroup"
    groups.write_text("0::/docker/of-the-host\n")
    assert _topology.cgroup_memory_limits(root, groups) == [6_000_000]
    assert _topology.cgroup_cpu_quota(root, groups) == 1.5


def test_without_a_quota_there_is_none(tmp_path):
    root = write(tmp_path / "fs", {"cpu.max": "max 100000", "cpu/cpu.cfs_quota_us": "-1"})
    groups = tmp_path / "cgroup"
    groups.write_text("0::/\n1:cpu:/\n")
    assert _topology.cgroup_cpu_quota(root, groups) is None


def test_nodes_own_only_the_processors_that_may_be_used(tmp_path):
    root = write(
        tmp_path,
        {
            "node0/cpulist": "0-3",
            "node0/meminfo": "Node 0 MemTotal:       1000 kB\nNode 0 MemFree:  5 kB",
            "node1/cpulist": "4-7",
            "node10/cpulist": "",
        },
    )
    nodes = _topology.detect_numa((2, 3, 4), root)
    assert [(node.number, node.cpus, node.memory_bytes) for node in nodes] == [
        (0, (2, 3), 1_024_000),
        (1, (4,), None),
    ]
    assert _topology.detect_numa((2, 3), root / "nothing")[0].cpus == (2, 3)


@given(st.sets(st.integers(0, 200), min_size=1))
def test_lists_of_processors_are_read_as_the_kernel_writes_them(cpus):
    text, ordered = "", sorted(cpus)
    while ordered:
        last = first = ordered.pop(0)
        while ordered and ordered[0] == last + 1:
            last = ordered.pop(0)
        text += f"{first}-{last}," if last > first else f"{first},"
    assert _topology.parse_cpu_list(text.rstrip(",")) == tuple(sorted(cpus))


def test_this_machine_makes_sense():
    machine = current()
    assert machine.affinity == tuple(sorted(os.sched_getaffinity(0)))
    assert 1 <= machine.cores <= machine.threads
    assert machine.smt == (machine.threads > machine.cores)
    assert machine.memory_bytes > 64 << 20
    assert machine.cache_bytes(1) is not None
    assert machine.llc_bytes >= max(cache.size_bytes for cache in machine.caches)
    assert sorted(cpu for node in machine.numa_nodes for cpu in node.cpus) == list(machine.affinity)
    assert machine.as_dict()["fingerprint"] == fingerprint()


def test_a_cache_larger_than_the_machine_does_not_make_cold_sets_absurd():
    machine = current()
    huge = (Cache(3, "unified", 480 << 20, 64, 2, 1, "sys"),)
    small = Machine(machine.cpu, (0,), 1, huge, 4 << 30, machine.numa_nodes, None)
    assert small.llc_bytes == 480 << 20
    assert small.cold_bytes == 512 << 20


def test_what_is_cold_is_four_times_the_last_level_cache():
    caches = (Cache(2, "unified", 2 << 20, 64, 1, 2, "sys"), Cache(3, "unified", 32 << 20, 64, 2, 2, "sys"))
    machine = current()
    here = Machine(machine.cpu, (0, 1, 2, 3), 4, caches, 64 << 30, machine.numa_nodes, None)
    assert here.cold_bytes == 4 * 2 * (32 << 20)


def test_the_fingerprint_is_the_same_in_every_process_and_differs_with_the_affinity():
    code = (
        "import os, sys\n"
        "if sys.argv[1:]: os.sched_setaffinity(0, {int(sys.argv[1])})\n"
        "from kernelwright.machine import fingerprint\n"
        "print(fingerprint())\n"
    )

    def of(*arguments: str) -> str:
        return subprocess.run(
            [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
        ).stdout.strip()

    assert len(fingerprint()) == 16
    assert int(fingerprint(), 16) >= 0
    assert of() == fingerprint()
    if current().threads > 1:
        assert of(str(current().affinity[0])) != fingerprint()


def test_looking_at_the_machine_needs_neither_torch_nor_a_compiler():
    code = (
        "import sys\n"
        "from kernelwright import machine\n"
        "machine.current(), machine.fingerprint(), machine.available_tiers()\n"
        "sys.exit('torch' in sys.modules)\n"
    )
    environment = {**os.environ, "PATH": "/nowhere"}
    environment.pop("CXX", None)
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0
