"""How the doctor's findings are shown in full."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from kernelwright import machine
from kernelwright import settings
from kernelwright import winners
from kernelwright.report import NOT_KNOWN
from kernelwright.report import size
from kernelwright.report import table

if TYPE_CHECKING:
    from rich.console import Console

    from kernelwright.cli._diagnosis import Check
    from kernelwright.cli._diagnosis import Extra
    from kernelwright.machine import Ceiling
    from kernelwright.machine import Ceilings
    from kernelwright.machine import Machine


def show(
    console: Console,
    checks: Sequence[Check],
    compilers: Sequence[Check],
    extras: Sequence[Extra],
    ceilings: Ceilings | None,
    notes: Sequence[str],
) -> None:
    """Print everything that was found."""
    here = machine.current()
    _section(console, "Machine", _machine_rows(here))
    _section(console, "Tools", _check_rows(checks, here))
    _section(console, "GPU compilers", _check_rows(compilers, here))
    _section(console, "Extras", _extra_rows(extras))
    _section(console, "Folders", _folder_rows())
    _show_ceilings(console, ceilings, notes)


def _section(console: Console, title: str, rows: Iterable[tuple[str, str]]) -> None:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, min_width=12)
    grid.add_column(overflow="fold")
    for name, text in rows:
        grid.add_row(name, text)
    console.print(f"[bold]{title}[/]")
    console.print(grid)
    console.print()


def _machine_rows(here: Machine) -> list[tuple[str, str]]:
    cpu = here.cpu
    emulated = "; emulated, so no time taken here means anything" if cpu.emulated else ""
    smt = "several threads a core" if here.smt else "one thread a core"
    quota = f", {here.quota:g} processors' time by control group" if here.quota is not None else ""
    rows = [
        ("processor", escape(f"{cpu.model} ({cpu.vendor}, {cpu.architecture}; by {cpu.source}{emulated})")),
        ("cores", f"{here.cores}, {here.threads} threads allowed ({_ranges(here.affinity)}), {smt}{quota}"),
        ("ISA tiers", _tiers(here)),
    ]
    if cpu.amx_permission is not None:
        rows.append(("AMX", "allowed by the kernel" if cpu.amx_permission else "refused by the kernel"))
    rows += [("caches", ", ".join(_cache_words(here)))]
    if here.llc_bytes > here.memory_bytes // 64 and "hypervisor" in cpu.features:
        rows.append(("", "a virtual machine: the last of these may be the host's, shared with others"))
    nodes = f"{len(here.numa_nodes)} NUMA node{'s' if len(here.numa_nodes) > 1 else ''}"
    rows += [("memory", f"{size(here.memory_bytes)}, {nodes}"), ("fingerprint", machine.fingerprint())]
    return rows


def _tiers(here: Machine) -> str:
    usable = machine.available_tiers()
    able = machine.supported_tiers(here.cpu.features)
    text = ", ".join(usable)
    if len(usable) < len(able):
        text += f" (capped by KERNELWRIGHT_TIER={settings.tier()}; the processor has {able[-1]})"
    elif len(able) < len(machine.TIERS):
        following = machine.TIERS[len(able)]
        lacking = ", ".join(sorted(following.requires - here.cpu.features))
        text += f" ({following.name} would need {lacking})"
    return text


def _cache_words(here: Machine) -> list[str]:
    words = []
    for cache in here.caches:
        count = f"{cache.instances} × " if cache.instances > 1 else ""
        guess = " (assumed)" if cache.source == "assumed" else ""
        words.append(
            f"L{cache.level}{'d' if cache.kind == 'data' else ''} {count}{size(cache.size_bytes)}{guess}"
        )
    return words


def _ranges(cpus: Sequence[int]) -> str:
    """Processor numbers as the kernel writes them: `0-3,8`."""
    parts: list[list[int]] = []
    for cpu in cpus:
        if parts and cpu == parts[-1][-1] + 1:
            parts[-1].append(cpu)
        else:
            parts.append([cpu])
    return ",".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else f"{part[0]}" for part in parts)


def _check_rows(checks: Sequence[Check], here: Machine) -> list[tuple[str, str]]:
    rows = []
    for check in checks:
        color = "green" if check.ok else "red" if check.required else "yellow"
        text = f"[{color}]{'✓' if check.ok else '✗'}[/] {escape(check.found)}"
        if not check.ok and check.remedy:
            text += f" — {escape(check.remedy)}"
        rows.append((check.name, text))
        if check.name == "C++ compiler":
            rows += [
                ("", f"  also {escape(str(other))}") for other in here.compilers if str(other) != check.found
            ]
    return rows


def _extra_rows(extras: Sequence[Extra]) -> list[tuple[str, str]]:
    rows = []
    for extra in extras:
        missing = ", ".join(name for name, version in extra.distributions if version is None)
        if extra.installed:
            present = ", ".join(f"{name} {version}" for name, version in extra.distributions[:3])
            more = len(extra.distributions) - 3
            rows.append((extra.name, f"[green]✓[/] {present}" + (f" and {more} more" if more > 0 else "")))
        else:
            rows.append((extra.name, f"[yellow]✗[/] lacks {missing} — {escape(extra.command)}"))
    return rows or [("", "not known: kernelwright is run from its source tree, without an installation")]


def _folder_rows() -> list[tuple[str, str]]:
    cache = settings.cache_dir()
    artifacts = sum(1 for _ in (cache / "artifacts").glob("*/build.json"))
    shelves = winners.shelves()
    mine = [shelf for shelf in shelves if shelf.machine == machine.fingerprint()]
    here = sum(len(shelf.records) for shelf in mine)
    elsewhere = sum(len(shelf.records) for shelf in shelves) - here
    rows = [
        ("cache", f"{escape(str(cache))} ({artifacts} artifacts)"),
        (
            "winners",
            f"{escape(str(settings.data_dir() / 'winners'))} ({here} of this machine, {elsewhere} of others)",
        ),
        ("runs", escape(str(settings.runs_dir()))),
    ]
    return rows + [("", f"[yellow]![/] {escape(note)}") for shelf in mine for note in shelf.notes]


def _show_ceilings(console: Console, ceilings: Ceilings | None, notes: Sequence[str]) -> None:
    if ceilings is None or not ceilings.entries:
        console.print("[bold]Ceilings[/]\nnone")
    else:
        _print_bandwidths(console, ceilings)
        _print_arithmetic(console, ceilings)
        console.print(
            f"[dim]medians ± half the width of the middle 90%; measured {ceilings.entries[-1].when}[/]"
        )
    for note in notes:
        console.print(f"[yellow]![/] {escape(note)}")
    console.print()


def _print_bandwidths(console: Console, ceilings: Ceilings) -> None:
    titles = ("read", "1:1", "1:1 nt", "2:1", "2:1 nt")
    shown = table("Memory bandwidth, GB/s", "level", ">thr", *(f">{title}" for title in titles))
    shown.columns[0].no_wrap = True
    found = [entry for entry in ceilings.entries if entry.level is not None]
    for level in ("L1", "L2", "L3", "DRAM"):
        for threads in sorted({entry.threads for entry in found if entry.level == level}):
            row = [entry for entry in found if (entry.level, entry.threads) == (level, threads)]
            cells = [_bandwidth_cell(row, "read", None, None)]
            for reads in (1, 2):
                cells += [_bandwidth_cell(row, "copy", reads, stores) for stores in ("plain", "nontemporal")]
            shown.add_row(f"{level} {size(row[0].working_set)}", str(threads), *cells)
    console.print(shown)
    console.print("[dim]thr: threads; 1:1, 2:1: copies by bytes read to written; nt: non-temporal stores[/]")
    console.print()


def _bandwidth_cell(row: Sequence[Ceiling], quantity: str, reads: int | None, stores: str | None) -> str:
    wanted = (quantity, reads, stores)
    found = [one for one in row if (one.quantity, one.reads_per_write, one.stores) == wanted]
    return _number(max(found, key=lambda one: one.value)) if found else NOT_KNOWN


def _print_arithmetic(console: Console, ceilings: Ceilings) -> None:
    found = [entry for entry in ceilings.entries if entry.quantity == "flops"]
    counts = sorted({entry.threads for entry in found})
    titles = [f">{count} thread{'s' if count > 1 else ''}" for count in counts]
    shown = table("Arithmetic, 10⁹ operations/s", "dtype", "tier", "instruction", *titles)
    for key in dict.fromkeys((entry.dtype, entry.tier, entry.instruction) for entry in found):
        alike = [entry for entry in found if (entry.dtype, entry.tier, entry.instruction) == key]
        by_count = {entry.threads: _number(entry) for entry in alike}
        shown.add_row(*(part or "" for part in key), *(by_count.get(count, NOT_KNOWN) for count in counts))
    console.print(shown)
    console.print()


def _number(entry: Ceiling) -> str:
    """Billions a second, with half the width of the middle 90% as a percentage."""
    value = entry.value / 1e9
    digits = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
    spread = 50 * entry.spread
    return f"{value:.{digits}f} ±{'>99' if spread > 99 else f'{spread:.0f}'}%"
