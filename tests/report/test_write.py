"""The report's files: whole, self-contained, escaped; broken folders are typed errors."""

from __future__ import annotations

import csv
import re
import sqlite3
from html.parser import HTMLParser
from pathlib import Path

import pytest

from kernelwright import machine
from kernelwright import report
from kernelwright.errors import FileFormatError
from kernelwright.errors import UnknownNameError
from kernelwright.machine import Ceilings
from kernelwright.report import _write
from kernelwright.search import Journal
from kernelwright.tuning import load_run


class _Text(HTMLParser):
    """The words a person sees, and the tags there are."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._hidden += tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in ("script", "style")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.words.append(data)


def _parsed(page: str) -> tuple[str, list[tuple[str, dict[str, str | None]]]]:
    parser = _Text()
    parser.feed(page)
    return re.sub(r"\s+", " ", " ".join(parser.words)), parser.tags


@pytest.fixture(autouse=True)
def _no_ceilings_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path / "cache"))


def test_a_report_shows_the_verdicts_with_intervals_and_the_evidence(make_run, ceilings: Ceilings) -> None:
    folder = make_run()
    machine.store_ceilings(ceilings)
    path = report.write(folder)
    assert path == folder / "report.html"
    text, tags = _parsed(path.read_text())
    for expected in (
        "proven faster than the default on 2 of 4 workloads",
        "1.124× [1.111, 1.139]",
        "accumulators=8 unroll=2 nontemporal_kib=256 prefetch=false cxx_opt=-O3",
        "g++ 14.2.0",
        "-std=c++17 -O3 -mavx512f -mavx512bf16",
        "Example Processor 6980P",
        "load at most 1.75",
        "at most 0.4%",
        "DRAM copy, nontemporal stores",
        "KW_UNROLL must be a power of two",
        "--budget 60s --seed 7",
    ):
        assert expected in text, expected
    assert "have not been measured" not in text
    assert "not finished" not in text
    plots = {
        attributes["data-plot"] for tag, attributes in tags if tag == "script" and "data-plot" in attributes
    }
    assert {"plot-forest", "plot-by-number", "plot-by-time", "plot-roofline", "plot-attained"} < plots


def test_the_page_needs_nothing_from_elsewhere(make_run) -> None:
    _, tags = _parsed(report.write(make_run()).read_text())
    links = [
        value
        for _, attributes in tags
        for name, value in attributes.items()
        if name in ("src", "href") and value and not value.startswith("#")
    ]
    assert links == ["results.csv"]
    policies = [
        attributes["content"]
        for _, attributes in tags
        if attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    assert len(policies) == 1
    assert str(policies[0]).startswith("default-src 'none'")


def test_what_a_compiler_says_is_text_and_never_markup(make_run) -> None:
    text, tags = _parsed(report.write(make_run()).read_text())
    assert "document.title" in text
    assert not [attributes for tag, attributes in tags if tag == "img"]


def test_a_default_that_stands_is_said_plainly(make_run) -> None:
    text, _ = _parsed(report.write(make_run(wins=False)).read_text())
    assert "The default stands on all 4 workloads." in text
    assert "no other configuration was confirmed to be faster, so none was stored" in text
    assert "accumulators=4 unroll=2" in text


def test_missing_ceilings_are_said_with_the_command_that_measures_them(make_run) -> None:
    text, tags = _parsed(report.write(make_run()).read_text())
    assert "have not been measured" in text
    assert "kernelwright doctor --measure" in text
    assert not [attributes for _, attributes in tags if attributes.get("data-plot") == "plot-roofline"]


@pytest.mark.parametrize("cut", ["started", "asked", "built", "verdict", "result", "peers"])
def test_a_run_cut_short_anywhere_is_reported_as_far_as_it_came(make_run, cut: str) -> None:
    folder = make_run(cut=cut)
    text, _ = _parsed(report.write(folder).read_text())
    assert "This run is not finished." in text
    assert f"kernelwright tune --resume {folder.name}" in text


def test_results_hold_every_evaluation(make_run) -> None:
    folder = make_run()
    report.write(folder)
    record = load_run(folder)
    with (folder / "results.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [int(row["number"]) for row in rows] == [one.number for one in record.evaluations]
    first, failed = rows[0], rows[8]
    assert first["configuration.accumulators"] == "4"
    assert first["ratio[512x4096:bf16]"] == "1.0"
    assert float(first["low[512x4096:bf16]"]) < 1.0 < float(first["high[512x4096:bf16]"])
    assert failed["status"] == "build_failed"
    assert failed["ratio[512x4096:bf16]"] == failed["build_key"] == ""
    assert failed["reason"] == record.evaluations[8].reason


def test_writing_again_gives_the_same_page(make_run) -> None:
    folder = make_run()
    first = report.write(folder).read_bytes()
    assert report.write(folder).read_bytes() == first
    assert sorted(entry.name for entry in folder.glob("*.html*")) == ["report.html"]


def test_a_folder_that_is_no_run_is_said(tmp_path: Path) -> None:
    (tmp_path / "foreign").mkdir()
    with pytest.raises(UnknownNameError, match="foreign"):
        report.write(tmp_path / "foreign")


def test_a_broken_journal_is_said_and_writes_nothing(make_run) -> None:
    folder = make_run()
    journal = folder / "journal.sqlite"
    journal.write_bytes(journal.read_bytes()[:3000])
    with pytest.raises(FileFormatError, match=re.escape(str(folder))):
        report.write(folder)
    assert not (folder / "report.html").exists()


def test_a_journal_of_something_else_is_said(tmp_path: Path) -> None:
    for name, kind, body in (
        ("a", "opened", {"t": 0}),
        ("b", "started", {"t": 0}),
        ("c", "started", {"machine": 3}),
    ):
        with Journal(tmp_path / name / "journal.sqlite", create=True) as journal:
            journal.append(kind, body)
        with pytest.raises(FileFormatError):
            report.write(tmp_path / name)
    connection = sqlite3.connect(tmp_path / "c" / "journal.sqlite")
    connection.execute("DROP TABLE events")
    connection.close()
    with pytest.raises(FileFormatError):
        report.write(tmp_path / "c")


def test_a_run_is_found_by_id_by_folder_and_as_the_latest(make_run, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = make_run("20260101-000000-softmax-aaaa"), make_run("20260102-000000-softmax-bbbb")
    monkeypatch.setenv("KERNELWRIGHT_RUNS", str(first.parent))
    assert report.locate("20260101-000000-softmax-aaaa") == first
    assert report.locate(str(first)) == first
    assert report.locate() == report.locate("latest") == second
    with pytest.raises(UnknownNameError, match="did you mean '20260101-000000-softmax-aaaa'"):
        report.locate("20260101-000000-softmax-aaab")


def test_without_a_run_the_latest_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWRIGHT_RUNS", str(tmp_path / "none"))
    with pytest.raises(UnknownNameError, match="latest"):
        report.locate()


def test_first_line_skips_blank_lines() -> None:
    assert _write.first_line("\n  \n  a.cpp:1: error\nmore") == "a.cpp:1: error"
    assert _write.first_line("") == ""
