"""What ptxas and nvcc say of their own options: `--help`, read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from kernelwright.errors import NoCompilerError
from kernelwright.machine import cuda_help
from kernelwright.machine import CudaTool
from kernelwright.space import Choice
from kernelwright.space import Flag
from kernelwright.space import Parameter
from kernelwright.space import Range

_HEAD = re.compile(
    r"--(?P<name>[A-Za-z][\w-]*)(?:\s+(?P<value>\S.*?))?\s+\(?(?P<short>--?[A-Za-z][\w-]*)\)?\s*"
)
#: The value of an option that is there or not.
ON = "on"


@dataclass(frozen=True)
class HelpOption:
    """An option as `--help` lists it.

    `name` and `short` are with their dashes; `value` is what the tool writes for its value (`<true|false>`,
    `<N>`; None where it writes nothing), `allowed` and `default` what it says of values, `text` the rest.
    """

    name: str
    short: str
    value: str | None
    allowed: tuple[str, ...]
    default: str | None
    text: str

    @property
    def is_switch(self) -> bool:
        """Whether `<true|false>` is its value."""
        return self.allowed == ("true", "false")

    def parameter(self) -> Parameter | None:
        """The values that the tool states; None where it states none."""
        if self.is_switch:
            return Flag(default=self.default == "true")
        bounds = re.fullmatch(r"[<{\[](\d+)\.\.(\d+)[>}\]]", self.value or "")
        if bounds:
            low, high = int(bounds[1]), int(bounds[2])
            return Range(low, high, default=int(self.default) if self.default else low)
        if self.allowed:
            listed = self.default if self.default in self.allowed else self.allowed[0]
            return Choice(self.allowed, default=listed)
        if self.value is None:
            return Choice([ON])
        return None


def read_help(tool: CudaTool) -> dict[str, HelpOption]:
    """The options of a tool by their long names. Raises NoCompilerError where it does not say them."""
    found = parse_help(cuda_help(tool))
    if not found:
        raise NoCompilerError(f"{tool.path} --help lists no options as {tool.name} does; name another")
    return found


def parse_help(text: str) -> dict[str, HelpOption]:
    """The options in the text of `--help`, by their long names."""
    found: dict[str, HelpOption] = {}
    head: re.Match[str] | None = None
    said: list[str] = []
    for line in [*text.splitlines(), "--end  (-end)"]:
        begins = _HEAD.fullmatch(line)
        if begins is None:
            if line.startswith(" "):
                said.append(line.strip())
            continue
        if head is not None:
            found[f"--{head['name']}"] = _option(head.groupdict(), " ".join(said))
        head, said = begins, []
    return found


def _option(head: Mapping[str, str | None], said: str) -> HelpOption:
    listed = re.search(
        r"Allowed values for this option:\s*((?:'[^']*'|[\w.+-]+)(?:,\s*(?:'[^']*'|[\w.+-]+))*)", said
    )
    default = re.search(r"Default value:\s*'?([^'\s]*?)'?\.?(?:\s|$)", said)
    value = head["value"]
    allowed: tuple[str, ...] = ()
    if listed is not None:
        allowed = tuple(word.strip().strip("'.") for word in listed[1].split(","))
    elif value is not None and re.fullmatch(r"[<{\[][\w+]+(?:[|,][\w+]+)+[>}\]]", value):
        allowed = tuple(re.split(r"[|,]", value[1:-1]))
    return HelpOption(
        f"--{head['name']}", str(head["short"]), value, allowed, default[1] if default else None, said
    )
