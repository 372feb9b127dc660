"""What a build.toml may hold (edition 5 of kernel-builder's schema), and how it is read."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated
from typing import Any
from typing import Literal
from typing import TypeVar

import pydantic

from kernelwright.build._buildfile import BuildFile
from kernelwright.build._buildfile import KernelSection
from kernelwright.errors import FileFormatError
from kernelwright.errors import nearest

EDITION = 5
FRAMEWORKS = ("torch", "torch-noarch", "tvm-ffi")

Backend = Literal["cpu", "cuda", "metal", "neuron", "rocm", "xpu"]
Words = Annotated[tuple[str, ...], pydantic.Field(strict=False)]


class _Table(pydantic.BaseModel):
    """A table of the file: kebab-case keys, unknown ones refused."""

    model_config = pydantic.ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        defer_build=True,
        alias_generator=lambda name: name.replace("_", "-"),
    )


_T = TypeVar("_T", bound=_Table)


class _Cuda(_Table):
    minver: str | None = None
    maxver: str | None = None
    python_depends: Words | None = None


class _PythonDepends(_Table):
    python_depends: Words | None = None


class _Hub(_Table):
    repo_id: str | None = None
    branch: str | None = None


class _General(_Table):
    name: Annotated[str, pydantic.Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$")]
    edition: int = EDITION
    version: int | str | None = None
    license: str | None = None
    backends: Annotated[tuple[Backend, ...], pydantic.Field(strict=False)] = ()
    hub: _Hub | None = None
    python_depends: Words | None = None
    cuda: _Cuda | None = None
    neuron: _PythonDepends | None = None
    xpu: _PythonDepends | None = None

    @pydantic.field_validator("edition")
    @classmethod
    def _known_edition(cls, value: int) -> int:
        if value != EDITION:
            raise ValueError(f"edition {value}; this release reads edition {EDITION}")
        return value


class _TorchNoarch(_Table):
    pyext: Words | None = None


class _TvmFfi(_Table):
    src: Words = ()
    include: Words | None = None
    pyext: Words | None = None


class _Torch(_TvmFfi):
    minver: str | None = None
    maxver: str | None = None
    stable_abi: bool | str | None = None
    cxx_flags: Words | None = None


class _Kernel(_Table):
    """The keys of every backend."""

    backend: Backend
    depends: Words
    src: Words
    include: Words = ()
    cxx_flags: Words = ()


class _CudaKernel(_Kernel):
    cuda_capabilities: Words | None = None
    cuda_flags: Words | None = None
    cuda_minver: str | None = None


class _RocmKernel(_Kernel):
    rocm_archs: Words | None = None
    hip_flags: Words | None = None


class _XpuKernel(_Kernel):
    sycl_flags: Words | None = None


_KERNELS: Mapping[str, type[_Kernel]] = {"cuda": _CudaKernel, "rocm": _RocmKernel, "xpu": _XpuKernel}
_FRAMEWORK_TABLES: Mapping[str, type[_Table]] = {
    "torch": _Torch,
    "torch-noarch": _TorchNoarch,
    "tvm-ffi": _TvmFfi,
}
_TOP = ("general", "kernel", *FRAMEWORKS)


def read(path: Path) -> BuildFile:
    """Read a file; see `read_build_file`."""
    content = path.read_bytes()
    try:
        text = content.decode()
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FileFormatError(path, f"not valid TOML ({error})") from error
    return _Reader(path.absolute(), text).read(document)


class _Reader:
    """One file while it is being read: knows where each key stands."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.lines = _lines_of_keys(text)

    def read(self, document: Mapping[str, Any]) -> BuildFile:
        for key in document:
            if key not in _TOP:
                raise self.unknown((), key, _TOP)
        if "general" not in document:
            raise FileFormatError(self.path, "no [general] section; it gives at least `name`")
        general = self.table(_General, document["general"], ("general",))
        frameworks = [name for name in FRAMEWORKS if name in document]
        if len(frameworks) > 1:
            raise self.error((frameworks[1],), None, f"beside [{frameworks[0]}]; a file has only one of them")
        options: Mapping[str, Any] = {}
        for name in frameworks:
            table = self.table(_FRAMEWORK_TABLES[name], document[name], (name,))
            self.check_files((name,), getattr(table, "src", ()), getattr(table, "include", None) or ())
            options = document[name]
        sections = document.get("kernel", {})
        if not isinstance(sections, Mapping):
            raise self.error(("kernel",), None, "must be a table of sections [kernel.NAME]")
        kernels = {name: self.kernel(name, table, general.backends) for name, table in sections.items()}
        known = {"name", "version", "backends", "edition"}
        return BuildFile(
            path=self.path,
            name=general.name,
            version=None if general.version is None else str(general.version),
            backends=tuple(general.backends),
            kernels=kernels,
            framework=frameworks[0] if frameworks else None,
            framework_options=options,
            general={key: value for key, value in document["general"].items() if key not in known},
        )

    def kernel(self, name: str, table: Any, backends: tuple[str, ...]) -> KernelSection:
        where = ("kernel", name)
        if not isinstance(table, Mapping):
            raise self.error(where, None, "must be a section [kernel.NAME]")
        model = _KERNELS.get(str(table.get("backend")), _Kernel)
        section = self.table(model, table, where)
        if backends and section.backend not in backends:
            listed = ", ".join(backends)
            raise self.error(
                where, "backend", f"backend {section.backend!r} is not in [general] backends ({listed})"
            )
        if not section.src:
            raise self.error(where, "src", "src is empty; name at least one source file")
        self.check_files(where, section.src, section.include)
        shared = {"backend", "depends", "src", "include", "cxx-flags"}
        return KernelSection(
            name=name,
            backend=section.backend,
            depends=section.depends,
            src=section.src,
            include=section.include,
            cxx_flags=section.cxx_flags,
            other={key: value for key, value in table.items() if key not in shared},
        )

    def table(self, model: type[_T], value: Any, where: tuple[str, ...]) -> _T:
        try:
            return model.model_validate(value)
        except pydantic.ValidationError as error:
            first = error.errors()[0]
            location = [str(part) for part in first["loc"]]
            key = location[-1] if location else ""
            if first["type"] == "extra_forbidden":
                inner: Any = model
                for part in location[:-1]:
                    inner = _inner_table(inner, part)
                raise self.unknown((*where, *location[:-1]), key, _keys(inner)) from error
            message = first["msg"].removeprefix("Value error, ")
            if first["type"] == "missing":
                message = f"the key {key!r} is missing"
            elif first["type"] == "literal_error":
                expected = re.findall(r"'([^']+)'", str(first.get("ctx", {}).get("expected", "")))
                close = nearest(str(first["input"]), expected)
                hint = f"; did you mean {close[0]!r}?" if close else ""
                message = f"{first['input']!r} is not known{hint} known: {', '.join(expected)}"
            label = ".".join(location)
            raise self.error(where, location[0] if location else None, f"{label}: {message}") from error

    def check_files(self, where: tuple[str, ...], src: tuple[str, ...], include: tuple[str, ...]) -> None:
        root = self.path.parent
        for name in src:
            if not (root / name).is_file():
                raise self.error(where, "src", f"source {name!r} is not there (looked for {root / name})")
        for name in include:
            if not (root / name).is_dir():
                raise self.error(where, "include", f"folder {name!r} is not there (looked for {root / name})")

    def unknown(self, where: tuple[str, ...], key: str, known: tuple[str, ...]) -> FileFormatError:
        close = nearest(key, known)
        hint = f"did you mean {close[0]!r}? " if close else ""
        return self.error(where, key, f"unknown key {key!r}; {hint}known: {', '.join(known)}")

    def error(self, where: tuple[str, ...], key: str | None, message: str) -> FileFormatError:
        line = self.lines.get((*where, key)) if key is not None else None
        if line is None:
            line = self.lines.get(where)
        place = f"line {line}, " if line is not None else ""
        section = f"[{'.'.join(where)}]" if where else "top level"
        return FileFormatError(self.path, f"{place}{section}: {message}")


def _keys(model: type[_Table]) -> tuple[str, ...]:
    return tuple(field.alias or name for name, field in model.model_fields.items())


def _inner_table(model: type[_Table], key: str) -> type[_Table]:
    for name, info in model.model_fields.items():
        if (info.alias or name) == key:
            for candidate in (info.annotation, *getattr(info.annotation, "__args__", ())):
                if isinstance(candidate, type) and issubclass(candidate, _Table):
                    return candidate
    raise KeyError(key)


_HEADER = re.compile(r"^\s*\[\s*([^\[\]]+?)\s*\]\s*(#.*)?$")
_KEY = re.compile(r"""^\s*(?:"([^"]+)"|'([^']+)'|([A-Za-z0-9_.-]+))\s*=""")


def _lines_of_keys(text: str) -> dict[tuple[str, ...], int]:
    """The line of each section header and key, for messages; good enough for files that people write."""
    lines: dict[tuple[str, ...], int] = {}
    section: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            section = tuple(part.strip().strip("\"'") for part in header.group(1).split("."))
            for length in range(1, len(section) + 1):
                lines.setdefault(section[:length], number)
        elif key := _KEY.match(line):
            name = next(group for group in key.groups() if group)
            lines.setdefault((*section, *name.split(".")), number)
    return lines
