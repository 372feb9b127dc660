"""What shall be built, and its name: the build key."""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Iterator
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path

from kernelwright import machine
from kernelwright.build._buildfile import BuildFile
from kernelwright.build._buildfile import KernelSection
from kernelwright.build._flags import compile_flags
from kernelwright.build._flags import link_flags
from kernelwright.build._flags import OPENMP_FOLDER
from kernelwright.build._flags import spell_out
from kernelwright.errors import BuildError
from kernelwright.errors import UsageError

#: Raised when something that is not hashed changes what a build makes (linking, the layout of the store).
RECIPE = 1
UNITS = frozenset({".cpp", ".cc", ".cxx", ".c"})
#: Files in an include folder that a unit may reach. A unit that includes anything else is refused when built.
HEADERS = frozenset(
    {"", ".h", ".hh", ".hpp", ".hxx", ".h++", ".inc", ".inl", ".ipp", ".tpp", ".tcc", ".def", ".cuh", *UNITS}
)


@dataclass(frozen=True)
class BuildRequest:
    """One section with its compile-time choices.

    `root` is the folder that the section's paths are relative to; `macros` become `-DNAME=value`;
    `extra_flags` come last; `compiler` is the machine's when None.
    """

    section: KernelSection
    root: Path
    macros: Mapping[str, int | str] = field(default_factory=dict)
    extra_flags: tuple[str, ...] = ()
    compiler: machine.Compiler | None = None

    @property
    def chosen_compiler(self) -> machine.Compiler:
        """The compiler to use. Raises NoCompilerError."""
        return self.compiler if self.compiler is not None else machine.find_compiler()

    @property
    def units(self) -> tuple[str, ...]:
        """The sources that are compiled; headers may be listed in `src` as well. Raises UsageError."""
        units = tuple(name for name in self.section.src if Path(name).suffix in UNITS)
        if self.section.backend != "cpu":
            raise UsageError(
                f"section {self.section.name!r} is for backend {self.section.backend!r}; "
                "only cpu sections are built"
            )
        if not units:
            raise UsageError(
                f"section {self.section.name!r} names no C++ source; src: {', '.join(self.section.src)}"
            )
        return units

    @property
    def source_key(self) -> str:
        """Names what is compiled and how, by whatever compiler: the key less compiler and `native`."""
        digest = hashlib.sha256()
        flags = compile_flags(self.section.cxx_flags, self.macros, self.extra_flags)
        for part in (
            str(RECIPE),
            self.section.name,
            *self.units,
            "|",
            *self.section.include,
            "|",
            *flags,
            "|",
        ):
            digest.update(part.encode() + b"\0")
        for name, path in sorted(self.files().items()):
            digest.update(name.encode() + b"\0" + _digest_of(path))
        return digest.hexdigest()[:32]

    @property
    def flags(self) -> tuple[str, ...]:
        """What each unit is compiled with, `native` spelled out. Raises NoCompilerError, BuildError."""
        asked = compile_flags(self.section.cxx_flags, self.macros, self.extra_flags)
        return spell_out(self.chosen_compiler, asked)

    @property
    def key(self) -> str:
        """The build key: 32 hex digits over sources, headers, flags, compiler and section name.

        Independent of where the sources and the compiler lie. Raises NoCompilerError, BuildError, UsageError.
        """
        compiler = self.chosen_compiler
        flags = self.flags
        digest = hashlib.sha256()
        parts = (
            self.source_key,
            compiler.kind,
            compiler.version,
            compiler.target,
            *flags,
            "|",
            *link_flags(compiler.kind, flags),
        )
        for part in parts:
            digest.update(part.encode() + b"\0")
        if compiler.kind == "clang":
            for path in sorted(OPENMP_FOLDER.iterdir()):
                digest.update(_digest_of(path))
        return digest.hexdigest()[:32]

    @property
    def tier(self) -> str | None:
        """The ISA tier that the section's name ends in, or None."""
        for tier in sorted((tier.name for tier in machine.TIERS), key=len, reverse=True):
            if re.search(rf"(^|[_-]){tier.replace('_', '[_-]')}$", self.section.name):
                return tier
        return None

    def include_folders(self) -> tuple[tuple[str, Path], ...]:
        """The section's include folders, as written and resolved."""
        return tuple((name, (self.root / name).resolve()) for name in self.section.include)

    def files(self) -> dict[str, Path]:
        """Every file that the units can reach, by a name that does not tell where the root lies.

        The sources, and all header-like files below the include folders and the sources' own folders.
        Raises BuildError when a source is gone.
        """
        found: dict[str, Path] = {}
        folders = dict(self.include_folders())
        for name in self.section.src:
            path = (self.root / name).resolve()
            if not path.is_file():
                what = f"section {self.section.name!r}"
                raise BuildError("build_failed", what, "none was run", f"error: source {path} is not there")
            found[f"src:{name}"] = path
            folders.setdefault(str(Path(name).parent), path.parent)
        for written, folder in folders.items():
            for path in _headers_below(folder):
                found[f"{written}:{path.relative_to(folder)}"] = path
        return found


def requests_of(
    file: BuildFile,
    *,
    macros: Mapping[str, int | str] | None = None,
    compiler: machine.Compiler | None = None,
) -> tuple[BuildRequest, ...]:
    """One request for each cpu section of a build.toml."""
    return tuple(
        BuildRequest(section, file.root, macros or {}, compiler=compiler)
        for section in file.kernels.values()
        if section.backend == "cpu"
    )


def _headers_below(folder: Path) -> Iterator[Path]:
    for parent, children, names in os.walk(folder):
        children[:] = sorted(
            child for child in children if not child.startswith(".") and child != "__pycache__"
        )
        for name in sorted(names):
            path = Path(parent, name)
            if path.suffix.lower() in HEADERS and not name.startswith(".") and path.is_file():
                yield path


_digests: dict[Path, tuple[tuple[int, int, int, int], bytes]] = {}
#: A file written this recently may be written again without a change of its time stamp.
_SETTLED_NS = 100_000_000


def _digest_of(path: Path) -> bytes:
    """SHA-256 of a file's content, remembered while size, times and inode stay as they were."""
    try:
        status = path.stat()
    except FileNotFoundError as error:
        raise BuildError("build_failed", "the build key", "none was run", f"error: {error}") from error
    stamp = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    known = _digests.get(path)
    if known is not None and known[0] == stamp:
        return known[1]
    digest = hashlib.sha256(path.read_bytes()).digest()
    if time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) > _SETTLED_NS:
        _digests[path] = (stamp, digest)
    return digest
