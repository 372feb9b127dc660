"""Kernels that a framework launches, checked and timed as those that are launched here."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelwright.controls._cuda_launch import Bench
from kernelwright.controls._cuda_launch import crashes_are_said
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

    def check(self, path: Path, kernel: str, parameters: Configuration) -> None:
        """Run the kernel on inputs of each seed. Raises StageFailure of kind `wrong`, `crashed` or `hung`."""
        for seed in self._run.seeds:
            arguments, expected = self._prepared(seed)
            mine = [self._copied(index, one) for index, one in enumerate(arguments)]
            with crashes_are_said(kernel):
                self._launched(path, parameters, mine)()
                self._wait(kernel)
            self._judge(kernel, seed, arguments, mine, expected)

    def _lane(self, path: Path, kernel: str, parameters: Configuration) -> Any:
        arguments, _ = self._prepared(self._run.seeds[0])
        mine = [self._copied(index, one) for index, one in enumerate(arguments)]
        return _Lane(self._launched(path, parameters, mine), kernel, mine)

    def _launched(self, path: Path, parameters: Configuration, arguments: list[Any]) -> Callable[[], Any]:
        grid, _, _ = self._run.sizes(parameters)
        return self._load(path.parent, arguments, grid)


def current_stream() -> Any:
    """Torch's stream, on which a framework is to launch."""
    torch: Any = importlib.import_module("torch")
    return torch.cuda.current_stream()
