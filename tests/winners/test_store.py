"""What was proven is kept whole, by machine, through crashes, broken files and several writers."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given
from hypothesis import HealthCheck
from hypothesis import settings

from kernelwright import winners
from kernelwright.errors import FileFormatError
from kernelwright.errors import UsageError
from kernelwright.winners import _store
from kernelwright.winners import Record


@pytest.fixture(autouse=True)
def data(monkeypatch, tmp_path) -> Path:
    monkeypatch.setenv("KERNELWRIGHT_DATA", str(tmp_path))
    return tmp_path / "winners"


def record(bucket: str = "bf16-rows32", machine: str = "m1", **changes) -> Record:
    fields = {"implementation": "cpu", "configuration": {"tile": 8}, "provenance": {"source": "s"}, **changes}
    return Record("rms_norm", bucket, machine, **fields)


def test_what_is_stored_is_found_under_its_bucket_and_machine(data):
    one, two = record(), record(machine="m2", configuration={"tile": 16})
    winners.store(one)
    winners.store(two)
    assert winners.find("rms_norm", "bf16-rows32", "m1") == one
    assert winners.find("rms_norm", "bf16-rows32", "m2") == two
    assert winners.find("rms_norm", "fp32-rows32", "m1") is None
    assert winners.find("softmax", "bf16-rows32", "m1") is None
    assert sorted(path.name for path in data.glob("*.json")) == ["rms_norm@m1.json", "rms_norm@m2.json"]


def test_without_a_machine_this_one_is_meant():
    here = winners.this_machine()
    winners.store(record(machine=here))
    winners.store(record(machine="m2"))
    assert winners.find("rms_norm", "bf16-rows32").machine == here
    assert winners.forget("rms_norm") == 1
    assert [one.machine for one in winners.all_records()] == ["m2"]


def test_the_newer_winner_replaces_the_older_of_its_bucket():
    winners.store(record())
    winners.store(record(configuration={"tile": 32}))
    assert [one.configuration for one in winners.all_records("rms_norm")] == [{"tile": 32}]
    assert winners.all_records("softmax") == ()


def test_forgetting_drops_a_bucket_or_all_and_then_the_file(data):
    for rows in (1, 2, 3):
        winners.store(record(f"bf16-rows{rows}"))
    assert winners.forget("rms_norm", "bf16-rows2", "m1") == 1
    assert winners.forget("rms_norm", "bf16-rows2", "m1") == 0
    assert [one.bucket for one in winners.all_records()] == ["bf16-rows1", "bf16-rows3"]
    assert winners.forget("rms_norm", machine="m1") == 2
    assert winners.forget("rms_norm", machine="m1") == 0
    assert list(data.glob("*.json")) == []


def test_a_listener_hears_of_every_change(monkeypatch):
    from kernelwright.winners import _store

    monkeypatch.setattr(_store, "_listeners", [])
    heard = []
    winners.on_change(lambda: heard.append("changed"))
    winners.store(record())
    winners.find("rms_norm", "bf16-rows32", "m1")
    winners.forget("rms_norm", machine="m1")
    assert heard == ["changed", "changed"]


def test_a_file_written_by_another_process_is_seen(data):
    assert winners.find("rms_norm", "bf16-rows32", "m1") is None
    winners.store(record(machine="m2"))
    text = (data / "rms_norm@m2.json").read_text().replace('"m2"', '"m1"')
    (data / "rms_norm@m1.json").write_text(text)
    assert winners.find("rms_norm", "bf16-rows32", "m1") == record(created=winners.all_records()[0].created)


broken = pytest.mark.parametrize(
    ("content", "reason"),
    [
        (lambda text: text[: len(text) // 2], "not valid JSON"),
        (lambda text: "", "not valid JSON"),
        (lambda text: "\x00\x01", "not valid JSON"),
        (lambda text: "[]", "found 'list'"),
        (lambda text: text.replace("kernelwright.winners", "someone.else"), "expected schema"),
        (lambda text: text.replace('"version": 1', '"version": 9'), "version 9; this release reads 1"),
        (lambda text: text.replace('"winners": [', '"winner": ['), "no list of winners"),
        (lambda text: text.replace('"bucket"', '"bukket"'), "winner 0 has no valid 'bucket'"),
        (
            lambda text: text.replace('"configuration": {', '"configuration": 3, "x": {'),
            "no valid 'configuration'",
        ),
        (lambda text: text.replace('"tile": 8', '"tile": [8]'), "not plain values"),
    ],
)


@broken
def test_a_broken_file_is_set_aside_and_said_not_raised(data, content, reason, caplog):
    winners.store(record())
    path = data / "rms_norm@m1.json"
    path.write_text(content(path.read_text()))
    found, notes = winners.lookup("rms_norm", "bf16-rows32", "m1")
    assert found is None
    assert reason in notes[0]
    assert "kept as rms_norm@m1.json.broken-1" in notes[0]
    assert reason in caplog.text
    assert not path.exists()
    winners.store(record())
    assert winners.find("rms_norm", "bf16-rows32", "m1") is not None


@pytest.mark.parametrize("name", ["rms_norm@m2.json", "softmax@m1.json", "shipped.json"])
def test_a_file_of_another_machine_under_a_wrong_name_is_set_aside_and_can_be_imported(data, name, caplog):
    winners.store(record())
    (data / "rms_norm@m1.json").rename(data / name)
    assert winners.all_records() == ()
    assert winners.find("rms_norm", "bf16-rows32", "m2") is None
    assert "it holds winners of rms_norm on machine m1" in caplog.text
    (kept,) = data.glob("*.broken-1")
    assert kept.name == f"{name}.broken-1"
    winners.import_(kept)
    assert winners.find("rms_norm", "bf16-rows32", "m1") is not None
    assert winners.find("rms_norm", "bf16-rows32", "m2") is None


@broken
def test_a_broken_file_does_not_stop_a_writer(data, content, reason, caplog):
    winners.store(record())
    path = data / "rms_norm@m1.json"
    path.write_text(content(path.read_text()))
    winners.store(record("fp32-rows1"))
    assert [one.bucket for one in winners.all_records()] == ["fp32-rows1"]
    assert reason in caplog.text
    assert len(list(data.glob("*.broken-*"))) == 1


def test_winners_travel_and_keep_their_machine(tmp_path, monkeypatch):
    records = [record(), record("fp32-rows1"), record(machine="m2")]
    for one in records:
        winners.store(one)
    shipped = tmp_path / "shipped.json"
    assert winners.export(shipped) == 3
    monkeypatch.setenv("KERNELWRIGHT_DATA", str(tmp_path / "elsewhere"))
    assert winners.all_records() == ()
    assert set(map(str, winners.import_(shipped))) == set(map(str, records))
    assert set(map(str, winners.all_records())) == set(map(str, records))


def test_a_broken_import_changes_nothing(tmp_path):
    winners.store(record())
    shipped = tmp_path / "shipped.json"
    winners.export(shipped)
    winners.forget("rms_norm", machine="m1")
    shipped.write_text(shipped.read_text()[:-40])
    with pytest.raises(FileFormatError, match="not valid JSON"):
        winners.import_(shipped)
    with pytest.raises(UsageError, match="is not there"):
        winners.import_(tmp_path / "nowhere.json")
    assert winners.all_records() == ()


@pytest.mark.parametrize("name", ["../evil", "a/b", "", ".hidden"])
def test_a_name_cannot_leave_the_folder(name):
    with pytest.raises(UsageError, match="cannot name a file"):
        winners.store(Record(name, "b", "m", "cpu", {}))
    with pytest.raises(UsageError, match="cannot name a file"):
        winners.store(Record("op", "b", name, "cpu", {}))


_WRITER = """
import sys
from kernelwright.winners import Record, store
for number in range(20):
    store(Record("rms_norm", f"b{sys.argv[1]}-{number}", "m", "cpu", {"tile": number}))
"""


def test_several_processes_may_write_at_once():
    writers = [subprocess.Popen([sys.executable, "-c", _WRITER, str(number)]) for number in range(3)]
    assert [writer.wait(timeout=120) for writer in writers] == [0, 0, 0]
    assert len(winners.all_records("rms_norm")) == 60


@pytest.mark.parametrize(
    ("proven", "now", "reason"),
    [
        ({"source": "a"}, {"source": "a"}, None),
        ({"source": "a"}, {"source": "b"}, "source a, here is b"),
        ({"source": "a", "compiler": "g++"}, {"source": "a"}, None),
        ({"source": "a"}, {"source": "a", "compiler": "g++"}, None),
        ({}, {"source": "a"}, None),
        ({"source": "a" * 64}, {"source": "b" * 64}, "source aaaaaaaaaaaa…, here is bbbbbbbbbbbb…"),
    ],
)
def test_a_record_is_outdated_where_both_state_a_thing_and_differ(proven, now, reason):
    answer = record(provenance=proven).outdated(now)
    assert answer is None if reason is None else reason in answer


plain = st.one_of(st.integers(), st.text(max_size=5), st.booleans(), st.floats(allow_nan=False))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(st.text(max_size=5), plain, max_size=4),
    st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
    st.recursive(plain | st.none(), lambda kids: st.lists(kids, max_size=3), max_leaves=5),
    st.text(max_size=20),
)
def test_a_record_survives_the_disk_unchanged(configuration, provenance, evidence, bucket):
    one = Record("op", bucket, "m", "cpu", configuration, provenance, {"e": evidence})
    winners.store(one)
    assert winners.find("op", bucket, "m") == one
    assert json.loads(json.dumps(one.as_dict())) == json.loads(
        json.dumps(winners.find("op", bucket, "m").as_dict())
    )


def test_a_file_that_another_process_mends_meanwhile_is_read_and_not_set_aside(data, monkeypatch):
    winners.store(record())
    (path,) = data.glob("*.json")
    whole = path.read_text()
    path.write_text("{")
    put_aside = _store._put_aside

    def late(*args):
        path.write_text(whole)
        return put_aside(*args)

    monkeypatch.setattr(_store, "_put_aside", late)
    assert winners.find("rms_norm", "bf16-rows32", "m1") == record()
    assert winners.shelves()[0].notes == ()
    assert not list(data.glob("*.broken*"))


def test_nothing_is_taken_in_of_a_file_with_a_name_that_no_file_can_have(data, tmp_path):
    winners.export(tmp_path / "shipped.json", [record(), dataclasses.replace(record(), operator="../up")])
    with pytest.raises(UsageError, match="cannot name a file"):
        winners.import_(tmp_path / "shipped.json")
    assert winners.all_records() == ()
