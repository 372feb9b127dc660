"""One way to print numbers: with units, at the precision they deserve, `—` for what is not known.

Times are taken in nanoseconds and sizes in bytes, as the referee and the operators give them. Prefixes of
rates are decimal (GB/s, GFLOP/s), those of sizes binary (KiB, MiB).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

NOT_KNOWN = "—"

#: Styles of the closed sets of words, for rich; words not listed are failures.
_STYLES = {
    "faster": "green",
    "same": "default",
    "ambiguous": "yellow",
    "slower": "red",
    "passed": "green",
    "unsupported": "yellow",
    "noisy": "yellow",
}


def duration(nanoseconds: float | None) -> str:
    """A time to three significant digits: `850 ns`, `3.12 µs`, `1.20 ms`, `2.05 s`."""
    return _scaled(nanoseconds, (("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)))


def elapsed(seconds: float | None) -> str:
    """A waiting time: `0.4 s`, `12 s`, `1 min 05 s`, `2 h 03 min`."""
    if seconds is None or not math.isfinite(seconds):
        return NOT_KNOWN
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def size(nbytes: float | None) -> str:
    """A size with binary prefixes: `512 B`, `32 KiB`, `1.5 MiB`."""
    if nbytes is None or not math.isfinite(nbytes):
        return NOT_KNOWN
    value, unit = float(nbytes), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if abs(value) < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.1f}".removesuffix(".0") + f" {unit}"


def bandwidth(bytes_per_second: float | None) -> str:
    """A rate of bytes: `42.1 GB/s`."""
    return _scaled(
        bytes_per_second, (("B/s", 1.0), ("kB/s", 1e3), ("MB/s", 1e6), ("GB/s", 1e9), ("TB/s", 1e12))
    )


def throughput(flops_per_second: float | None, unit: str = "FLOP/s") -> str:
    """A rate of operations: `310 GFLOP/s`."""
    prefixes = (("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12))
    return _scaled(flops_per_second, tuple((prefix + unit, factor) for prefix, factor in prefixes))


def percent(fraction: float | None) -> str:
    """A fraction as `87.3%`."""
    return NOT_KNOWN if fraction is None or not math.isfinite(fraction) else f"{100 * fraction:.1f}%"


def ratio(value: float | None, interval: Sequence[float] | None = None) -> str:
    """Baseline time over candidate time, with its interval: `1.532× [1.488, 1.571]`; above one is faster."""
    if value is None or not math.isfinite(value):
        return NOT_KNOWN
    decimals = 3 if value < 10 else 2 if value < 100 else 1
    text = f"{value:.{decimals}f}×"
    if interval is None:
        return text
    low, high = interval
    upper = f"{high:.{decimals}f}" if math.isfinite(high) else "∞"
    return f"{text} [{low:.{decimals}f}, {upper}]"


def configuration(values: Mapping[str, Any] | None, default: Mapping[str, Any] | None = None) -> str:
    """A configuration in one line, `accumulators=4 unroll=2`; with `default`, only what differs from it."""
    if values is None:
        return NOT_KNOWN
    shown = {
        name: value
        for name, value in values.items()
        if default is None or name not in default or default[name] != value
    }
    if not shown:
        return "default" if default is not None else "(no parameters)"
    return " ".join(f"{name}={plain(value)}" for name, value in shown.items())


def style(word: str) -> str:
    """The rich style of a comparison or status; what is no known good or doubtful word is a failure."""
    return _STYLES.get(word, "red")


def styled(word: str) -> str:
    """The word in rich markup of its style; statuses without underscores."""
    return f"[{style(word)}]{word.replace('_', ' ')}[/]"


def table(title: str | None, *columns: str) -> Table:
    """An empty rich table in the style of all commands; a column named `>like this` is aligned right."""
    from rich import box
    from rich.table import Table

    made = Table(
        title=title,
        box=box.SIMPLE_HEAD,
        show_edge=False,
        title_justify="left",
        title_style="bold",
        pad_edge=False,
    )
    for column in columns:
        right = column.startswith(">")
        made.add_column(column.removeprefix(">"), justify="right" if right else "left", no_wrap=right)
    return made


def plain(value: Any) -> str:
    """A parameter's value as it is printed in a configuration; an empty one, such as no flag, is `none`."""
    return str(value).lower() if isinstance(value, bool) else str(value) or "none"


def _scaled(value: float | None, units: Sequence[tuple[str, float]]) -> str:
    """Three significant digits in the largest unit that keeps the number at or above one."""
    if value is None or not math.isfinite(value):
        return NOT_KNOWN
    name, factor = units[0]
    for larger, scale in units[1:]:
        # 999.5 and above would print as 1000 of the smaller unit.
        if abs(value) / factor < 999.5:
            break
        name, factor = larger, scale
    scaled = value / factor
    magnitude = abs(scaled)
    decimals = 2 if magnitude < 9.995 else 1 if magnitude < 99.95 else 0
    return f"{scaled:.{decimals}f} {name}"
