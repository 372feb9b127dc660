"""The store keeps the runs of searches: append-only, one writer, readable meanwhile, whole after kill -9."""

from __future__ import annotations

import os
import signal
import sqlite3
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kernelwright.errors import FileFormatError
from kernelwright.errors import JournalBusyError
from kernelwright.errors import UnknownNameError
from kernelwright.errors import UsageError
from kernelwright.search import Evaluation
from kernelwright.search import Failure
from kernelwright.search import read_run
from kernelwright.search import read_runs
from kernelwright.search import RunInfo
from kernelwright.search import Store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "store.sqlite"


def evaluation(number: int, score: float | None = None, **more: object) -> Evaluation:
    configuration = {"tile": number, "order": (2, 1), "unroll": None}
    scores = None if score is None else (score,)
    return Evaluation(number, configuration, {"tile": number}, scores=scores, **more)  # type: ignore[arg-type]


def test_a_run_comes_back_as_it_was_told(path: Path) -> None:
    good = evaluation(
        1,
        2.5,
        generation=3,
        origin="designed",
        started_at=12.0,
        seconds=0.25,
        worker="iso-0",
        stderr="warning",
        metadata={"device": "gpu0", "stages": {"build": 1.0}},
    )
    bad = evaluation(2, failure=Failure("crashed", "signal 11"))
    with Store(path, create=True) as store:
        run = store.begin(RunInfo(settings={"num_objectives": 1}, space={"fingerprint": "f"}))
        for one in (good, bad):
            store.asked(run, one)
        store.told(run, bad)
        store.told(run, good)
        store.asked(run, evaluation(3))
    found = read_run(path)
    assert found.evaluations == [bad, good]
    assert [one.number for one in found.pending] == [3]
    assert found.info.settings == {"num_objectives": 1}
    assert found.info.space == {"fingerprint": "f"}
    assert found.info.created_at == pytest.approx(time.time(), abs=60)


def test_one_store_keeps_several_runs_apart(path: Path) -> None:
    with Store(path, create=True) as store:
        first, second = store.begin(RunInfo(id="a")), store.begin(RunInfo())
        store.asked(first, evaluation(1))
        store.asked(second, evaluation(1))
        store.told(second, evaluation(1, 5.0))
        store.ended(first, "interrupted", finished=False)
        store.ended(second, "max_evaluations", finished=True)
        with pytest.raises(UsageError, match="has a run a already"):
            store.begin(RunInfo(id="a"))
    assert [(info.id, info.finished) for info in read_runs(path)] == [("a", False), (second, True)]
    assert read_run(path, "a").evaluations == []
    assert read_run(path).info.id == second
    with pytest.raises(UnknownNameError, match="unknown run 'b'"):
        read_run(path, "b")


def test_a_run_that_goes_on_is_not_finished(path: Path) -> None:
    with Store(path, create=True) as store:
        run = store.begin(RunInfo())
        store.ended(run, "max_evaluations", finished=True)
    with Store(path) as store:
        assert store.read(run).info.finished
        store.resumed(run)
        assert not store.read(run).info.finished


def test_records_cannot_be_changed_or_removed(path: Path) -> None:
    with Store(path, create=True) as store:
        store.asked(store.begin(RunInfo()), evaluation(1))
    connection = sqlite3.connect(path)
    for change in ("UPDATE records SET kind = 'told'", "DELETE FROM records", "DELETE FROM runs"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute(change)


def test_one_process_writes_and_others_read_meanwhile(path: Path) -> None:
    with Store(path, create=True) as store:
        assert sqlite3.connect(path).execute("PRAGMA journal_mode").fetchone() == ("wal",)
        run = store.begin(RunInfo())
        reader = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
        reader.execute("BEGIN")
        assert reader.execute("SELECT COUNT(*) FROM records").fetchone() == (0,)
        store.asked(run, evaluation(1))  # a reader in the middle of reading does not block it
        assert len(read_run(path).pending) == 1
        with pytest.raises(JournalBusyError, match=f"process {os.getpid()}"):
            Store(path)
    Store(path).close()


def test_a_store_waits_for_the_writer_to_go(path: Path) -> None:
    Store(path, create=True).close()
    code = (
        "import sys, time; from kernelwright.search import Store\n"
        "store = Store(sys.argv[1]); print('writing', flush=True); time.sleep(0.5)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        Store(path, wait_s=30.0).close()


def test_what_was_stored_survives_kill_9(path: Path) -> None:
    code = (
        "import os, signal, sys; from kernelwright.search import Evaluation, RunInfo, Store\n"
        "store = Store(sys.argv[1], create=True); run = store.begin(RunInfo())\n"
        "for number in range(1, 51): store.asked(run, Evaluation(number, {'x': number}, {}))\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert [one.number for one in read_run(path).pending] == list(range(1, 51))
    with Store(path) as store:
        store.told(read_run(path).info.id, evaluation(50, 1.0))
    assert len(read_run(path).pending) == 49


def test_a_file_that_was_made_but_never_filled_is_filled(path: Path) -> None:
    path.parent.mkdir()
    path.touch()
    with Store(path) as store:
        store.begin(RunInfo(id="a"))
    assert read_runs(path)[0].id == "a"


def test_a_broken_store_is_set_aside_and_named(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"SQLite format 3\0" + b"\xff" * 2000)
    with pytest.raises(FileFormatError, match=r"set aside as store\.sqlite\.broken-1"):
        Store(path)
    assert not path.exists()
    with pytest.raises(FileNotFoundError):
        Store(path)
    with pytest.raises(FileNotFoundError):
        read_runs(path)


def test_another_schema_and_a_missing_record_are_errors(path: Path) -> None:
    with Store(path, create=True) as store:
        run = store.begin(RunInfo())
        store.told(run, evaluation(1, 1.0))
    with pytest.raises(FileFormatError, match="evaluation 1 was told, and never asked"):
        read_run(path)
    connection = sqlite3.connect(path)
    connection.execute("UPDATE meta SET value = '99' WHERE name = 'version'")
    connection.commit()
    with pytest.raises(FileFormatError, match="version 99; this release reads version 1"):
        read_runs(path)


def test_what_json_lacks_is_kept_as_text(path: Path) -> None:
    odd = evaluation(1, 1.0, metadata={"path": Path("/x"), "nan": float("nan")})
    with Store(path, create=True) as store:
        run = store.begin(RunInfo())
        store.asked(run, odd)
        store.told(run, odd)
    assert read_run(path).evaluations[0].metadata == {"path": "/x", "nan": None}


@pytest.mark.serial
def test_a_record_takes_less_than_a_third_of_a_millisecond(path: Path) -> None:
    configuration = {f"parameter_{number}": number for number in range(20)}
    took = []
    with Store(path, create=True) as store:
        run = store.begin(RunInfo())
        for number in range(1, 301):
            one = Evaluation(number, configuration, configuration, scores=(1.0,), stderr="x" * 200)
            for record in (store.asked, store.told):
                start = time.perf_counter()
                record(run, one)
                took.append(time.perf_counter() - start)
    # The quickest quarter: what else the machine does is not what is tested.
    assert statistics.quantiles(took, n=4)[0] < 0.3e-3
