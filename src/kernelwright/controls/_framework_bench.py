"""Kernels that a framework launches, checked and timed as those that are launched here."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelwright.controls._cuda_launch import Bench
from kernelwright.controls._cuda_launch import KernelRun
from kernelwright.space import Configuration

#: Makes the call that launches what is in a folder: folder, arguments, grid.
Load = Callable[[Path, Sequence[Any], Sequence[int]], Callable[[], Any]]


@dataclass(frozen=True)
class _Lane:
    """A call, in the place of a kernel that is ready to be launched; the framework keeps it loaded."""

    launch: Callable[[], Any]
    name: str
    arguments: list[Any]

    @property
    def kernel(self) -> _Lane:
        return self

    def __call__(self) -> None:
        self.launch()

    def close(self) -> None:
        pass


class FrameworkBench(Bench):
    """As Bench, with the framework's own launches; `run.block` and `run.shared` are the framework's."""

    def __init__(self, run: KernelRun, architecture: str, load: Load) -> None:
        super().__init__(run, architecture)
        self._load = load

    def _lane(self, path: Path, kernel: str, parameters: Configuration, seed: int) -> Any:
        mine = self._fresh(seed)
        return _Lane(self._launched(path, parameters, mine), kernel, mine)

    def _launched(self, path: Path, parameters: Configuration, arguments: list[Any]) -> Callable[[], Any]:
        grid, _, _ = self._run.sizes(parameters)
        return self._load(path.parent, arguments, grid)


def current_stream() -> Any:
    """Torch's stream, on which a framework is to launch."""
    torch: Any = importlib.import_module("torch")
    return torch.cuda.current_stream()
