"""The page in a real browser, from disk, with the network off: plots drawn, no request, no complaint."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kernelwright import machine
from kernelwright import report
from kernelwright.machine import Ceilings

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        CHROMIUM is None, reason="no chromium, chromium-browser or google-chrome is installed"
    ),
]


@pytest.fixture(autouse=True)
def _no_ceilings_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path / "cache"))


def _dump(page: Path, profile: Path, *flags: str) -> tuple[str, str]:
    """The document after its scripts ran, and what the browser logged; no host name resolves."""
    assert CHROMIUM is not None
    done = subprocess.run(
        [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--host-resolver-rules=MAP * ~NOTFOUND",
            f"--user-data-dir={profile}",
            "--enable-logging=stderr",
            "--virtual-time-budget=10000",
            *flags,
            "--dump-dom",
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout, done.stderr


def _opening(document: str) -> str:
    found = re.search(r"<html[^>]*>", document)
    assert found is not None
    return found[0]


def _complaints(log: str) -> list[str]:
    return [line for line in log.splitlines() if "CONSOLE" in line]


def test_every_plot_is_drawn_and_nothing_is_asked_of_the_network(
    make_run, ceilings: Ceilings, tmp_path: Path
) -> None:
    machine.store_ceilings(ceilings)
    page = report.write(make_run())
    wanted = page.read_text().count("data-plot=")
    document, log = _dump(page, tmp_path / "profile")
    assert wanted == 10
    assert f'data-plots="{wanted}"' in _opening(document)
    # An error and a request that the page's policy blocked are both written there.
    assert "data-errors" not in _opening(document)
    assert _complaints(log) == []
    assert document.count('class="plot js-plotly-plot"') == wanted
    points = len(re.findall(r'<path class="point"', document))
    assert points > 100, "plots without points"
    assert "Example Processor 6980P" in document
    # A hostile compiler message stayed text.
    assert "<title>owned" not in document
    assert "var(--s0)" not in "".join(re.findall(r'<path class="point"[^>]*>', document))


def test_a_page_that_fails_or_asks_for_something_would_be_noticed(make_run, tmp_path: Path) -> None:
    page = report.write(make_run())
    spoilt = page.with_name("spoilt.html")
    trouble = '<img src="https://example.com/x.png"><script>undefinedName();</script></body>'
    spoilt.write_text(page.read_text().replace("</body>", trouble))
    document, log = _dump(spoilt, tmp_path / "profile")
    complaints = " ".join(_complaints(log))
    assert "undefinedName" in complaints
    assert "https://example.com/x.png" in complaints
    assert "undefinedName" in _opening(document)


@pytest.mark.parametrize("cut", ["started", "verdict"])
def test_a_run_without_results_renders_without_complaint(make_run, tmp_path: Path, cut: str) -> None:
    page = report.write(make_run(cut=cut))
    document, log = _dump(page, tmp_path / "profile")
    assert f'data-plots="{page.read_text().count("data-plot=")}"' in _opening(document)
    assert "data-errors" not in _opening(document)
    assert _complaints(log) == []


def test_dark_and_light_draw_in_different_colours(make_run, tmp_path: Path) -> None:
    page = report.write(make_run())
    inks = set()
    for scheme in ("0", "1"):
        document, _ = _dump(page, tmp_path / scheme, f"--blink-settings=preferredColorScheme={scheme}")
        inks |= set(re.findall(r'<text class="legendtext"[^>]*fill: (rgb\([^)]*\))', document))
    assert len(inks) == 2, inks


def test_the_page_is_no_wider_than_a_phone_and_its_tables_sort(make_run, tmp_path: Path) -> None:
    """A page of ours frames the report at phone width, clicks a heading, and writes down what it finds."""
    page = report.write(make_run())
    probe = page.with_name("probe.html")
    probe.write_text(
        """<!doctype html><iframe src="report.html" style="width:375px;height:800px"></iframe><script>
        addEventListener("load", () => {
          const inside = document.querySelector("iframe").contentDocument;
          const said = document.documentElement.dataset;
          said.width = inside.documentElement.scrollWidth;
          const heads = [...inside.querySelectorAll("#evaluations th")];
          const head = heads.find((th) => th.innerText.startsWith("score"));
          const column = () => [...inside.querySelectorAll("#evaluations tbody tr")].map(
            (row) => row.cells[head.cellIndex].innerText.trim());
          head.querySelector("button").click(); said.up = column().join(" ");
          head.querySelector("button").click(); said.down = column().join(" ");
          said.sort = head.getAttribute("aria-sort");
        });</script>"""
    )
    document, _ = _dump(probe, tmp_path / "profile", "--allow-file-access-from-files")
    said = dict(re.findall(r'data-(\w+)="([^"]*)"', _opening(document)))
    assert int(said["width"]) <= 375
    assert said["sort"] == "descending"
    for direction in ("up", "down"):
        words = said[direction].split()
        numbers = [float(word) for word in words if word != "—"]
        assert numbers == sorted(numbers, reverse=direction == "down")
        assert len(numbers) > 20
        assert words[len(numbers) :] == ["—"] * 5, "failures stay at the end"
