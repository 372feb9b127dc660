"""What the documents say of commands, rooms and settings is what the code has."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import typer.main

from kernelwright import settings
from kernelwright.cli._app import app

ROOT = Path(__file__).parent.parent
CLI = (ROOT / "docs" / "cli.md").read_text()
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()


def _options(command: Any) -> set[str]:
    """The option names of a command, and of its commands."""
    found = {
        name
        for parameter in command.params
        if parameter.param_type_name == "option"
        for name in (*parameter.opts, *parameter.secondary_opts)
    }
    for inner in getattr(command, "commands", {}).values():
        found |= _options(inner)
    return found - {"--help", "-h"}


def _sections() -> dict[str, str]:
    parts = re.split(r"^## (.+)$", CLI, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_command_is_described_with_exactly_its_options() -> None:
    commands: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    sections = _sections()
    assert sorted(sections) == sorted(commands)
    for name, command in commands.items():
        documented = set(
            re.findall(r"(?<![\w-])--?[a-z][a-z-]*", " ".join(re.findall(r"`([^`]*)`", sections[name])))
        )
        assert documented == _options(command), name


def test_every_command_of_a_group_is_described() -> None:
    commands: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for group in ("winners", "search", "controls"):
        described = set(re.findall(rf"`{group} (\w+)", _sections()[group]))
        assert described == set(commands[group].commands)


def test_the_table_of_rooms_is_the_order_that_is_enforced() -> None:
    table = ARCHITECTURE.partition("## Rooms")[2].partition("## Words")[0]
    rooms = [
        name
        for cell in re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", cell)
    ]
    configuration = tomllib.loads((ROOT / "pyproject.toml").read_text())
    layers = configuration["tool"]["importlinter"]["contracts"][0]["layers"]
    enforced = [layer.removeprefix("kernelwright.") for layer in reversed(layers)]
    assert rooms[:3] == ["errors", "settings", "files"]
    assert rooms[3:] == [name for name in enforced if name not in rooms[:3]]
    for room in rooms[3:]:
        assert (ROOT / "src" / "kernelwright" / room / "__init__.py").is_file()


def test_every_setting_is_described() -> None:
    text = Path(settings.__file__).read_text()
    read = set(re.findall(r'environ\.get\("(\w+)"', text))
    table = ARCHITECTURE.partition("## Settings")[2].partition("## Rules")[0]
    described = set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))
    assert described == read


def test_links_of_the_documents_lead_somewhere() -> None:
    for path in (ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")):
        for target in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
            if "://" not in target:
                assert (path.parent / target).exists(), f"{path.name}: {target}"


def test_no_other_file_of_the_package_reads_a_setting_of_ours() -> None:
    # CHANNEL and PRELOAD are what one of our processes tells another, not settings.
    readers = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "src").rglob("*.py")
        if re.search(r"environ\w*(\.get\(|\[)\s*[\"']KERNELWRIGHT_(?!CHANNEL|PRELOAD)", path.read_text())
    ]
    assert readers == ["src/kernelwright/settings.py"]
