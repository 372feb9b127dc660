"""The objective of a search over controls: build, look at the binary, measure or not."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from kernelwright.controls._counts import Counts
from kernelwright.controls._described import described
from kernelwright.controls._target import Artifact
from kernelwright.controls._target import Config
from kernelwright.controls._target import Target
from kernelwright.errors import UsageError
from kernelwright.search import INVALID_SCORE
from kernelwright.search import Skip
from kernelwright.search import StageFailure
from kernelwright.space import Constraint

#: The feature by which a worker knows that it has measured the same code before.
_IDENTITY = "identity"


class ControlsObjective:
    """Seconds of a target under a configuration: `{}`, a hex string, or [parameters, hex string].

    An objective in stages, for any worker of `kernelwright.search`. Its identity is the code key, so that
    configurations that the compiler turns into the same instructions share one verdict. What fails has the
    kind of its stage: `build_failed`, `build_timeout`, `compiler_crashed`; `pruned` where a constraint on the
    binary does not hold, such as `"spill_stores == 0"`, which is known with no run; `wrong`, `crashed`,
    `hung` and the other verdicts of the referee.

    It can be called as a plain function as well: then it returns INVALID_SCORE for what fails, keeps its own
    memory of code keys, and counts (`counts`).

    Args:
        target: what is compiled and timed.
        constraints: expressions over the features of an artifact (`features`).
        description: what `target_from` is to make the target of, where not of its own `describe()`.

    Raises SpaceError for a constraint that is no expression.
    """

    def __init__(
        self,
        target: Target,
        *,
        constraints: Iterable[str] = (),
        description: Mapping[str, Any] | None = None,
    ) -> None:
        self.target = target
        self._description = description
        self.constraints = tuple(constraints)
        for text in self.constraints:
            Constraint(text)
        self.counts = Counts()
        self._known: dict[str, float | StageFailure] = {}

    @property
    def search_space(self) -> Any:
        """What `Search` is given: the provider, or a list of the target's parameters and it."""
        target = self.target
        return target.provider if target.parameters is None else [target.parameters, target.provider]

    def describe(self) -> dict[str, Any]:
        """What a journal keeps of it: the target's description, and the constraints."""
        return {**(self._description or described(self.target)), "constraints": list(self.constraints)}

    # -- the stages ----------------------------------------------------------------------------------------

    def build(self, config: Config) -> Artifact:
        """Compile. Raises BuildFailure."""
        return self.target.build(config)

    def features(self, artifact: Artifact) -> dict[str, float | int | str]:
        """What is known with no run. Raises Skip of kind `pruned` where a constraint does not hold."""
        found = {_IDENTITY: artifact.code_key, **artifact.resources}
        for text in self.constraints:
            if not _holds(text, artifact.resources):
                looked_at = {name: found[name] for name in Constraint(text).scope or ()}
                raise Skip(f"{text} does not hold: {looked_at}", kind="pruned", features=found)
        return found

    def measure(self, artifact: Artifact) -> float:
        """Seconds of one call, right ones only. Raises StageFailure."""
        return self.target.measure(artifact)

    # -- as a function -------------------------------------------------------------------------------------

    def __call__(self, config: Config) -> float:
        """All stages; INVALID_SCORE for what fails."""
        key: str | None = None
        reused = False
        try:
            artifact = self.build(config)
            key = artifact.code_key
            self.features(artifact)
            reused = key in self._known
            if not reused:
                self._known[key] = self.measure(artifact)
            score = self._known[key]
            if isinstance(score, StageFailure):
                raise score
        except StageFailure as error:
            if key is not None and error.lasts:
                self._known[key] = error
            self.counts = self.counts.with_failure(error.failure_kind, key, reused=reused)
            return INVALID_SCORE
        self.counts = self.counts.with_score(key, reused=reused)
        return score

    def __getstate__(self) -> Mapping[str, Any]:
        # Another process counts and remembers on its own; the worker's memory is the one that they share.
        return {**self.__dict__, "counts": Counts(), "_known": {}}


def _holds(text: str, resources: Mapping[str, Any]) -> bool:
    constraint = Constraint(text)
    for name in constraint.scope or ():
        if name not in resources:
            known = ", ".join(sorted(resources)) or "none"
            raise UsageError(
                f"the constraint {text!r} looks at {name!r}, which is not known of this target's binaries; "
                f"known with no run: {known}"
            )
    return constraint.holds(resources)
