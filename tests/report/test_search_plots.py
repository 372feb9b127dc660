"""Plots of a search: what is drawn is what was found, as a page and as pictures."""

from __future__ import annotations

import builtins
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kernelwright import report
from kernelwright.errors import MissingExtraError
from kernelwright.errors import NoScoreError
from kernelwright.errors import UsageError
from kernelwright.report import _search_digest as digest
from kernelwright.report import _search_figures as figures
from kernelwright.search import Evaluation
from kernelwright.search import Failure
from kernelwright.search import SearchResult

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def scored(number: int, params: dict[str, Any], *scores: float, **extra: Any) -> Evaluation:
    return Evaluation(number, params, params, scores, **extra)


def one() -> SearchResult:
    return SearchResult(
        [
            Evaluation(1, {}, {}, (50.0,), baseline=True),
            scored(2, {"tile": 16, "mode": "a", "rate": 0.001, "knocked": None}, 40.0),
            Evaluation(3, {"tile": 32, "mode": "b"}, {}, failure=Failure("timeout", "30 s")),
            scored(4, {"tile": 64, "mode": "</script><b>", "rate": 1.0, "knocked": 1}, 2.0),
            scored(5, {"tile": 128, "mode": "a", "rate": 0.1, "knocked": 1}, 30.0),
        ]
    )


def two() -> SearchResult:
    points = [(1.0, 9.0), (5.0, 5.0), (9.0, 1.0), (6.0, 6.0)]
    return SearchResult([scored(n, {"x": n}, *point) for n, point in enumerate(points, 1)], num_objectives=2)


def test_convergence_shows_candidates_best_failures_and_the_baseline() -> None:
    seen = digest.convergence(one())
    assert seen.numbers == [2, 4, 5]
    assert seen.values == [40.0, 2.0, 30.0]
    assert seen.best == [40.0, 2.0, 2.0]
    assert seen.failed == [3]
    assert seen.baseline == 50.0
    assert seen.log
    drawn = json.loads(figures.convergence(one()).to_json())
    assert [trace["name"] for trace in drawn["data"]] == ["candidates", "best so far", "failed"]
    assert drawn["layout"]["yaxis"]["type"] == "log"
    assert drawn["layout"]["shapes"][0]["y0"] == 50.0


def test_a_log_axis_is_only_for_positive_scores() -> None:
    result = SearchResult([scored(1, {"x": 1}, -5.0), scored(2, {"x": 2}, 1000.0)])
    assert not digest.convergence(result).log


def test_normalised_scores_are_drawn_against_one() -> None:
    result = SearchResult([scored(1, {"x": 1}, 5.0, normalised=(0.5,))], normalize=True)
    assert digest.convergence(result).baseline == 1.0
    assert "divided by the baseline" in digest.convergence(result).title


def test_parallel_coordinates_have_an_axis_for_all_that_differs_and_the_score() -> None:
    seen = digest.parallel(one())
    assert [axis.name for axis in seen.axes] == ["tile", "mode", "rate", "knocked", "score (min)"]
    tile = seen.axes[0]
    labels = {label: at for at, label in tile.ticks}
    # Best first: tile 64, then 128, then 16, at the places of their ticks.
    assert [labels[name] for name in ("64", "128", "16")] == tile.places
    assert "left out" in [label for _, label in seen.axes[3].ticks]
    assert seen.axes[-1].places[0] == min(seen.axes[-1].places)
    assert seen.tiers[0] == 0
    for axis in seen.axes:
        assert all(0.0 <= place <= 1.0 for place in axis.places)


def test_many_numbers_are_drawn_to_scale() -> None:
    values = [10.0 ** (n / 5) for n in range(21)]
    result = SearchResult([scored(n, {"rate": value}, float(n)) for n, value in enumerate(values, 1)])
    axis = digest.parallel(result).axes[0]
    assert axis.places == pytest.approx([n / 20 for n in range(21)])
    assert [label for _, label in axis.ticks] == ["1", "10", "100", "1000", "1e+04"]


def test_the_front_is_drawn_over_what_it_beats() -> None:
    seen = digest.pareto(two())
    assert seen.front == [(1.0, 9.0), (5.0, 5.0), (9.0, 1.0)]
    assert len(seen.points) == 4
    drawn = json.loads(figures.pareto(two()).to_json())
    assert drawn["data"][1]["line"]["shape"] == "hv"
    turned = digest.pareto(two(), x=1, y=0)
    assert turned.front == [(1.0, 9.0), (5.0, 5.0), (9.0, 1.0)]
    assert turned.titles == ("score 2 (min)", "score 1 (min)")


def test_what_cannot_be_drawn_is_said() -> None:
    with pytest.raises(UsageError, match="two objectives"):
        digest.pareto(one())
    with pytest.raises(UsageError, match="objective 2"):
        digest.pareto(two(), y=2)
    empty = SearchResult([])
    for draw in (digest.convergence, digest.parallel):
        with pytest.raises(NoScoreError, match="nothing to draw"):
            draw(empty)


def test_a_page_holds_every_plot_and_escapes_what_it_is_given(tmp_path: Path) -> None:
    (page,) = report.plot(one(), tmp_path / "page.html")
    text = page.read_text()
    assert re.findall(r'data-plot="plot-(\w+)"', text) == ["convergence", "parallel"]
    assert "<b>" not in text.partition("<script>")[0]
    (page,) = report.plot(two(), tmp_path / "two.html")
    assert re.findall(r'data-plot="plot-(\w+)"', page.read_text()) == ["convergence", "parallel", "pareto"]


def test_pictures_are_drawn_one_a_file(tmp_path: Path) -> None:
    paths = report.plot(two(), tmp_path / "shot.png")
    assert [path.name for path in paths] == ["shot-convergence.png", "shot-parallel.png", "shot-pareto.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)
    assert len({path.stat().st_size for path in paths}) == 3
    assert report.plot(one(), tmp_path / "x.png", ["convergence"]) == [tmp_path / "x.png"]


def test_other_files_and_plots_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"\.html or \.png"):
        report.plot(one(), tmp_path / "x.svg")
    with pytest.raises(UsageError, match="convergence, parallel, pareto"):
        report.plot(one(), tmp_path / "x.png", ["pie"])


def test_matplotlib_that_is_missing_is_said_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = builtins.__import__

    def without(wanted: str, *rest: Any, **more: Any) -> Any:
        if wanted.startswith("matplotlib"):
            raise ImportError(wanted)
        return real(wanted, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"kernelwright\[plots\]"):
        report.plot(one(), tmp_path / "x.png")


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium, chromium-browser or google-chrome is installed")
def test_a_browser_draws_the_page_without_a_complaint(tmp_path: Path) -> None:
    (page,) = report.plot(two(), tmp_path / "page.html")
    assert CHROMIUM is not None
    done = subprocess.run(
        [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--host-resolver-rules=MAP * ~NOTFOUND",
            f"--user-data-dir={tmp_path / 'profile'}",
            "--virtual-time-budget=10000",
            "--dump-dom",
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    opening = re.search(r"<html[^>]*>", done.stdout)
    assert opening is not None, done.stderr[-2000:]
    assert 'data-plots="3"' in opening.group()
    assert "data-errors" not in opening.group()
