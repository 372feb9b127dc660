"""A stored winner sets the configuration of its bucket, or is ignored with a reason that explain shows."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor

import kernelwright as kw
from kernelwright import space
from kernelwright import winners
from kernelwright.dispatch import dispatch
from kernelwright.dispatch import register_impl
from kernelwright.errors import BuildError
from kernelwright.errors import UnsupportedCallError

X = torch.ones(4, 8)
BUCKET = "float32-rows4"


class Spec:
    name = "tuned"
    tensors = ("x",)

    def sizes_of(self, x: Tensor) -> dict[str, int]:
        return {"rows": x.shape[0]}

    def bucket(self, sizes: Any, dtype: torch.dtype) -> str:
        return f"{str(dtype).removeprefix('torch.')}-rows{sizes['rows']}"


@dataclasses.dataclass
class Tuned:
    call: Any
    provenance: dict[str, str]
    broken: set[int]
    """Tiles with which bind fails."""
    served: list[str]


@pytest.fixture
def tuned(monkeypatch) -> Tuned:
    from kernelwright.winners import _store

    monkeypatch.setattr(_store, "this_machine", lambda: "here")

    @dispatch("tuned", spec=Spec())
    def tuned(x: Tensor) -> Tensor:  # type: ignore[empty-body]
        """x."""

    state = Tuned(tuned, {"source": "s1", "compiler": "g++ 12"}, set(), [])

    def bind(configuration: Any) -> Any:
        tile = configuration["tile"]
        if tile in state.broken:
            raise BuildError("build_failed", "tuned", "g++ tuned.cpp", "tuned.cpp:1: error: no\nmore")

        def run(x: Tensor, out: Tensor | None = None) -> Tensor:
            state.served.append(f"tile={tile}")
            return x

        return run

    tunables = space.Space({"tile": space.choice([8, 16, 32])})
    register_impl(
        "tuned", "cpu", rank=10, tunables=tunables, bind=bind, provenance=lambda: dict(state.provenance)
    )
    register_impl(
        "tuned", "other", rank=20, bind=lambda _: lambda x, out=None: state.served.append("other") or x
    )
    register_impl("tuned", "torch")(lambda x: state.served.append("torch") or x)
    return state


def record(**changes: Any) -> winners.Record:
    fields: dict[str, Any] = {
        "operator": "tuned",
        "bucket": BUCKET,
        "machine": "here",
        "implementation": "cpu",
        "configuration": {"tile": 32},
        "provenance": {"source": "s1", "compiler": "g++ 12"},
    }
    return winners.Record(**{**fields, **changes})


def test_a_winner_beats_the_declared_rank_in_its_bucket_only(tuned):
    tuned.call(X)
    winners.store(record())
    tuned.call(X)
    tuned.call(X)
    tuned.call(X[:2])
    assert tuned.served == ["other", "tile=32", "tile=32", "other"]
    explanation = kw.explain("tuned", X)
    assert (explanation.implementation, explanation.because) == ("cpu", "winner")
    assert explanation.configuration == {"tile": 32}
    assert explanation.refusals["other"] == "cpu comes first (winner)"


def test_a_preference_for_the_backend_keeps_its_winner(tuned):
    winners.store(record())
    tuned.call(X, backend="cpu")
    tuned.call(X[:2], backend="cpu")
    tuned.call(X, backend="other")
    assert tuned.served == ["tile=32", "tile=8", "other"]
    assert kw.explain("tuned", X, backend="cpu").because == "backend= and winner"


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({"provenance": {"source": "s0"}}, "proven with source s0, here is s1"),
        (
            {"provenance": {"source": "s1", "compiler": "clang 18"}},
            r"proven with compiler clang 18, here is g\+\+ 12",
        ),
        ({"implementation": "gone"}, "is for 'gone', which does not serve here"),
    ],
)
def test_a_winner_that_no_longer_holds_is_ignored_with_a_reason(tuned, changes, note):
    import re

    winners.store(record(**changes))
    tuned.call(X, backend="cpu")
    assert tuned.served == ["tile=8"]
    notes = kw.explain("tuned", X, backend="cpu").notes
    assert any(re.search(note, one) for one in notes), notes


def test_a_winner_of_another_machine_does_not_serve(tuned):
    winners.store(record(machine="elsewhere"))
    tuned.call(X, backend="cpu")
    assert tuned.served == ["tile=8"]


def test_a_winner_that_does_not_build_is_ignored_with_the_compilers_words(tuned):
    tuned.broken = {32}
    winners.store(record())
    tuned.call(X, backend="cpu")
    assert tuned.served == ["tile=8"]
    notes = kw.explain("tuned", X, backend="cpu").notes
    assert any("cannot be bound: tuned: build failed: tuned.cpp:1: error: no" in one for one in notes), notes


def test_a_default_that_does_not_build_lets_the_next_serve_but_not_for_an_explicit_backend(tuned):
    tuned.broken = {8}
    register_impl("tuned", "other", available=lambda: "gone")(lambda x: x)
    tuned.call(X)
    assert tuned.served == ["torch"]
    assert "error: no" in kw.explain("tuned", X).refusals["cpu"]
    with pytest.raises(UnsupportedCallError, match="cpu: tuned: build failed"):
        tuned.call(X, backend="cpu")


def test_a_broken_file_of_winners_is_set_aside_and_the_call_served(tuned, caplog):
    winners.store(record())
    path = winners.folder() / "tuned@here.json"
    path.write_text(path.read_text()[:50])
    from kernelwright.dispatch import clear_plans

    clear_plans()
    tuned.call(X, backend="cpu")
    assert tuned.served == ["tile=8"]
    assert "tuned@here.json cannot be read" in caplog.text
    assert [one.name for one in winners.folder().glob("*.broken-*")] == ["tuned@here.json.broken-1"]


@pytest.mark.parametrize(
    ("configuration", "note"),
    [({"tile": 7}, "'tile' cannot be 7"), ({"tyle": 8}, "unknown parameter 'tyle'")],
)
def test_a_winner_outside_the_tunables_of_today_is_ignored(tuned, configuration, note):
    winners.store(record(configuration=configuration))
    tuned.call(X, backend="cpu")
    assert tuned.served == ["tile=8"]
    notes = kw.explain("tuned", X, backend="cpu").notes
    assert any(note in one for one in notes), notes
