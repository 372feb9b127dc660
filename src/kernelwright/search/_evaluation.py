"""One evaluation of a search: what was asked, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from typing import Any
from typing import Final

from kernelwright.search._optimizer import Failure
from kernelwright.space import Configuration

#: What an objective returns for a configuration that has no score: it failed, or its result is wrong.
INVALID_SCORE: Final = float("inf")

#: What an objective gets when every option is left out: the compiler's, or the program's, own settings.
BASELINE_CONFIG: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True)
class Evaluation:
    """One candidate judged in a search.

    `configuration` is the point of the flat space, `params` what the objective got. Of `scores` (one an
    objective, as the objective returned them) and `failure` exactly one is there. `normalised`: the scores
    divided by the baseline's. `seconds` is the time it took, `worker` who ran it, `stderr` its last lines.
    """

    number: int
    configuration: Configuration
    params: Any
    scores: tuple[float, ...] | None = None
    failure: Failure | None = None
    generation: int = 0
    origin: str = ""
    baseline: bool = False
    normalised: tuple[float, ...] | None = None
    started_at: float = 0.0
    seconds: float = 0.0
    worker: str = ""
    stderr: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
