"""The fewest options that keep a win under controls.

Most of what a search sets changes not one instruction. So it is first asked of the binary, which has no
noise: what can go without changing it, goes. What is left is taken away in measured rounds, as
`search.minimize_settings` does it, each set of options once for each binary that it makes.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kernelwright.controls._codec import Controls
from kernelwright.controls._codec import decode_controls
from kernelwright.controls._codec import encode_controls
from kernelwright.controls._target import Artifact
from kernelwright.controls._target import Config
from kernelwright.controls._target import split_config
from kernelwright.controls._target import Target
from kernelwright.search import Ablation
from kernelwright.search import Failure
from kernelwright.search import minimize_settings
from kernelwright.search import StageFailure
from kernelwright.space import Configuration

#: A vendor's control file is one setting: it cannot be taken apart.
_VENDOR = "vendor's control file"


@dataclass(frozen=True)
class MinimalControls:
    """What is left of a winner.

    `settings` are the options and kernel parameters that are kept, with their values; `inert` those that
    change nothing in the binary, `dropped` those without which the win is kept. `config` is what is left, as
    an objective gets it. `share` is the share of the win that it keeps, measured anew, with its 95% interval;
    None where nothing but inert settings was dropped, which loses nothing. `win` is in seconds. `won` is
    False where there is no win to keep: then only inert settings went. `complete` is False where the budget
    ended first.
    """

    settings: Mapping[str, Any]
    inert: tuple[str, ...]
    dropped: tuple[str, ...]
    config: Config
    won: bool
    win: float
    share: float | None
    interval: tuple[float, float] | None
    complete: bool
    builds: int
    binaries: int
    evaluations: int


def minimize_controls(
    target: Target,
    config: Config,
    *,
    keep: float = 0.9,
    max_evaluations: int | None = None,
    seed: int = 0,
    on_step: Callable[[Ablation], None] | None = None,
) -> MinimalControls:
    """Take away what a configuration does not need to be as fast against no controls as it is.

    Args:
        keep: the share of the win that is to be kept, proven.
        max_evaluations: measurements, at most.
        on_step: hears of each set that was measured.

    Raises UsageError where the configuration or the baseline cannot be built or measured.
    """
    mixed = target.parameters is not None
    parts = _Parts(config, mixed=mixed, tool=target.provider.tool if hasattr(target.provider, "tool") else "")
    builder = _Builder(target)
    whole = parts.settings
    nothing: Configuration = dict.fromkeys(whole)

    def built(settings: Configuration) -> Artifact | Failure:
        return builder.build(parts.config(settings))

    first = built(whole)
    wanted = "" if isinstance(first, Failure) else first.code_key

    def differs(settings: Configuration) -> float | Failure:
        artifact = built(settings)
        return artifact if isinstance(artifact, Failure) else float(artifact.code_key != wanted)

    def seconds(settings: Configuration) -> float | Failure:
        artifact = built(settings)
        if isinstance(artifact, Failure):
            return artifact
        try:
            return target.measure(artifact)
        except StageFailure as error:
            return Failure(error.failure_kind, str(error))

    same = minimize_settings(differs, whole, nothing, keep=1.0, seed=seed)
    # Where even the baseline has the binary of the winner, every setting is inert.
    needed = same.configuration if same.won else nothing
    inert = tuple(name for name, value in whole.items() if value is not None and needed[name] is None)
    if not same.won:
        return MinimalControls(
            {}, inert, (), parts.config(nothing), False, 0.0, None, None, True, *builder.counts, 0
        )
    found = minimize_settings(
        seconds, needed, nothing, keep=keep, max_evaluations=max_evaluations, seed=seed, on_step=on_step
    )
    kept = {name: value for name, value in found.configuration.items() if value is not None}
    return MinimalControls(
        settings=kept,
        inert=inert,
        dropped=found.dropped,
        config=parts.config(found.configuration),
        won=found.won,
        win=found.win,
        share=found.share if found.dropped else None,
        interval=found.interval if found.dropped else None,
        complete=found.complete,
        builds=builder.counts[0],
        binaries=builder.counts[1],
        evaluations=found.evaluations,
    )


class _Parts:
    """A configuration as settings that can be there or not: kernel parameters, and options by their text."""

    def __init__(self, config: Config, *, mixed: bool, tool: str) -> None:
        self._mixed = mixed
        parameters, text = split_config(config, mixed=mixed)
        controls = None if text is None else decode_controls(text)
        self._vendor = text if text is not None and controls is None else None
        self._tool = controls.tool if controls is not None else tool
        self._parameters = tuple(parameters)
        self._options = () if controls is None else controls.options
        self.settings: Configuration = {**parameters, **dict.fromkeys(self._options, True)}
        if self._vendor is not None:
            self.settings[_VENDOR] = True

    def config(self, settings: Mapping[str, Any]) -> Config:
        """The configuration with the settings that are there, None standing for those that are not."""
        parameters = {name: settings[name] for name in self._parameters if settings.get(name) is not None}
        options = tuple(option for option in self._options if settings.get(option))
        text = encode_controls(Controls(self._tool, options)) if options else None
        if self._vendor is not None and settings.get(_VENDOR):
            text = self._vendor
        if not parameters and text is None:
            return {}
        return [parameters, text] if self._mixed else text


class _Builder:
    """Builds each configuration once."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._known: dict[str, Artifact | Failure] = {}

    @property
    def counts(self) -> tuple[int, int]:
        """Builds, and distinct binaries among them."""
        made: Sequence[Artifact] = [one for one in self._known.values() if isinstance(one, Artifact)]
        return len(self._known), len({one.code_key for one in made})

    def build(self, config: Config) -> Artifact | Failure:
        key = repr(config)
        if key not in self._known:
            try:
                self._known[key] = self._target.build(config)
            except StageFailure as error:
                self._known[key] = Failure(error.failure_kind, str(error))
        return self._known[key]
