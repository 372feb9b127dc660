"""Every environment variable the project reads, once.

| variable | meaning | default |
|---|---|---|
| KERNELWRIGHT_CACHE | artifacts and machine ceilings; safe to delete | the user's cache folder |
| KERNELWRIGHT_DATA | winners | the user's data folder |
| KERNELWRIGHT_RUNS | tuning runs | `./runs` |
| KERNELWRIGHT_BACKEND | the backend to prefer where no other is named | none |
| KERNELWRIGHT_TIER | the highest ISA tier to use, as `kernelwright doctor` names them | the machine's |
| KERNELWRIGHT_BUILD | `auto`: compile missing kernels at first use, and say so; `never` | `auto` |
| KERNELWRIGHT_THREADS | threads of native kernels | torch's number |
| KERNELWRIGHT_SPACES | recorded tuning spaces | `../shared/data/tuning_spaces` beside the checkout |
| KERNELWRIGHT_CUDA | the CUDA toolkit to use, a folder with `bin/ptxas`, `bin/nvcc` | the newest here |
| CXX | the C++ compiler | g++, then clang++ |
"""

from __future__ import annotations

import os
from pathlib import Path

APPLICATION = "kernelwright"


def cache_dir() -> Path:
    """Folder of what can be made again: artifacts, ceilings."""
    value = os.environ.get("KERNELWRIGHT_CACHE")
    if value:
        return Path(value).absolute()
    import platformdirs

    return Path(platformdirs.user_cache_dir(APPLICATION))


def data_dir() -> Path:
    """Folder of what was earned: winners."""
    value = os.environ.get("KERNELWRIGHT_DATA")
    if value:
        return Path(value).absolute()
    import platformdirs

    return Path(platformdirs.user_data_dir(APPLICATION))


def runs_dir() -> Path:
    """Folder of tuning runs."""
    return Path(os.environ.get("KERNELWRIGHT_RUNS") or "runs").absolute()


def backend() -> str | None:
    """The backend to prefer where no other is named."""
    return os.environ.get("KERNELWRIGHT_BACKEND") or None


def tier() -> str | None:
    """The highest ISA tier to use, or None for what the machine has."""
    return os.environ.get("KERNELWRIGHT_TIER") or None


def build_allowed() -> bool:
    """Whether a missing default kernel may be compiled at first use."""
    return os.environ.get("KERNELWRIGHT_BUILD", "auto") != "never"


def threads() -> int | None:
    """Threads of native kernels, or None for torch's number."""
    value = os.environ.get("KERNELWRIGHT_THREADS")
    return int(value) if value else None


def spaces_dir() -> Path:
    """Folder of recorded tuning spaces; it need not exist."""
    value = os.environ.get("KERNELWRIGHT_SPACES")
    if value:
        return Path(value).absolute()
    return Path(__file__).resolve().parents[3] / "shared" / "data" / "tuning_spaces"


def compiler() -> str | None:
    """The C++ compiler asked for, or None to look for one."""
    return os.environ.get("CXX") or None


def cuda() -> Path | None:
    """The CUDA toolkit asked for, or None to look for the newest."""
    value = os.environ.get("KERNELWRIGHT_CUDA")
    return Path(value).absolute() if value else None
