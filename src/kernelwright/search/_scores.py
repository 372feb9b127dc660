"""What an objective may answer."""

from __future__ import annotations

import math
from typing import Any

from kernelwright.search._optimizer import Failure


def read_scores(answer: Any, num_objectives: int) -> tuple[float, ...] | Failure:
    scores = tuple(answer) if isinstance(answer, tuple | list) else (answer,)
    if any(isinstance(one, bool) or not isinstance(one, int | float) for one in scores):
        return Failure("invalid_score", f"the objective returned {answer!r:.200}, which is no score")
    if any(not math.isfinite(value) for value in scores):
        return Failure("invalid_score", f"the objective returned {answer!r:.200}")
    if len(scores) != num_objectives:
        return Failure("wrong_arity", f"{len(scores)} scores where num_objectives={num_objectives}")
    return tuple(map(float, scores))
