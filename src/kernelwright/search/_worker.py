"""What carries out the evaluations of a search."""

from __future__ import annotations

from abc import ABC
from abc import abstractmethod
from collections.abc import Callable
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from types import TracebackType
from typing import Any

from kernelwright.search._optimizer import Failure


@dataclass(frozen=True)
class Task:
    number: int
    config: Any
    baseline: bool = False
    attempt: int = 1


@dataclass(frozen=True)
class TaskResult:
    number: int
    scores: tuple[float, ...] | None
    failure: Failure | None
    started_at: float = 0.0
    seconds: float = 0.0
    worker: str = ""
    stderr: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


class Worker(ABC):
    def __init__(
        self,
        objective: Callable[[Any], Any],
        num_workers: int = 1,
        task_timeout: float | None = None,
        num_objectives: int = 1,
        debug: bool = False,
    ) -> None:
        self.objective = objective
        self.num_workers = num_workers
        self.task_timeout = task_timeout
        self.num_objectives = num_objectives
        self.debug = debug

    @abstractmethod
    def start(self) -> None: ...
    @abstractmethod
    def submit(self, task: Task) -> None: ...
    @abstractmethod
    def results(self, timeout_s: float | None) -> list[TaskResult]: ...
    @property
    @abstractmethod
    def free(self) -> int: ...
    @property
    @abstractmethod
    def pending(self) -> set[int]: ...
    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Worker:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
