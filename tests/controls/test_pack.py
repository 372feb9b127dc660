"""A booster pack is the same for the same contents, and no damage to it goes unseen."""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernelwright.controls import Controls
from kernelwright.controls import ControlsError
from kernelwright.controls import Damage
from kernelwright.controls import encode_controls
from kernelwright.controls import PackEntry
from kernelwright.controls import PackError
from kernelwright.controls import read_pack
from kernelwright.controls import verify_pack
from kernelwright.controls import write_pack
from kernelwright.errors import UsageError

PROVENANCE = {"source": "0" * 32, "compiler": "gcc 12.2.0 x86_64-linux-gnu", "architecture": "x86_64"}
EVIDENCE = {
    "target": "silu_and_mul 512x11008:bf16 (gcc)",
    "comparison": "faster",
    "ratio": 1.08,
    "interval": [1.05, 1.11],
    "machine": "0123456789abcdef",
    "date": "2026-11-30T12:00:00+00:00",
    "run": "20261130-115959-abcdef",
    "evaluation": 17,
}


def entry(name: str = "silu-17", *options: str, **changed: Any) -> PackEntry:
    config = encode_controls(Controls("gcc", options or ("-O2", "-fno-tree-vectorize")))
    said = {"provenance": PROVENANCE, "evidence": EVIDENCE, "parameters": {"unroll": 2}, **changed}
    return PackEntry(name, "gcc", config, **said)


ENTRIES = [
    entry("silu-17"),
    entry("silu-3", "-O3"),
    PackEntry("vendor", "ptxas", "00ff10", {}, PROVENANCE, EVIDENCE),
]


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    return write_pack(tmp_path / "boost.zip", ENTRIES)


def members_of(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def kinds(path: Path) -> set[tuple[str, str]]:
    return {(str(one.kind), one.member) for one in verify_pack(path)}


def rewritten(path: Path, members: dict[str, bytes], *, sums: bool = True) -> Path:
    """A zip of these members as another program would write it, the sums put right where asked."""
    if sums and "SHA256SUMS" in members:
        members = {name: data for name, data in members.items() if name != "SHA256SUMS"}
        listed = "".join(f"{hashlib.sha256(members[name]).hexdigest()}  {name}\n" for name in sorted(members))
        members["SHA256SUMS"] = listed.encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name in sorted(members):
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.create_system = 3
            info.external_attr = 0o100644 << 16
            archive.writestr(info, members[name])
    return path


def test_what_is_packed_is_read(pack: Path) -> None:
    assert verify_pack(pack) == ()
    assert read_pack(pack) == tuple(sorted(ENTRIES, key=lambda one: one.name))


def test_a_pack_is_a_zip_that_anyone_can_check(pack: Path, tmp_path: Path) -> None:
    assert sorted(members_of(pack)) == [
        "SHA256SUMS",
        "controls/silu-17.controls",
        "controls/silu-3.controls",
        "controls/vendor.controls",
        "manifest.json",
    ]
    out = tmp_path / "out"
    with zipfile.ZipFile(pack) as archive:
        archive.extractall(out)
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=out, check=True)
    text = (out / "controls" / "silu-17.controls").read_text()
    assert text == "kernelwright-controls 1 gcc\n-O2\n-fno-tree-vectorize\n"
    manifest = json.loads((out / "manifest.json").read_text())
    assert (manifest["schema"], manifest["version"]) == ("kernelwright.booster-pack", 1)
    first = manifest["entries"][0]
    assert first["provenance"] == PROVENANCE
    assert first["evidence"] == EVIDENCE


def test_the_same_entries_make_the_same_bytes(pack: Path, tmp_path: Path) -> None:
    again = write_pack(tmp_path / "again.zip", reversed(ENTRIES))
    assert again.read_bytes() == pack.read_bytes()
    assert write_pack(tmp_path / "other.zip", ENTRIES[:2]).read_bytes() != pack.read_bytes()


def test_no_changed_byte_goes_unseen(pack: Path, tmp_path: Path) -> None:
    """Headers, names, times and contents: every byte of a pack follows from what it holds."""
    whole = pack.read_bytes()
    broken = tmp_path / "broken.zip"
    rng = random.Random(0)
    places = [*range(64), *range(len(whole) - 400, len(whole)), *rng.sample(range(len(whole)), 200)]
    for place in places:
        data = bytearray(whole)
        data[place] ^= 1 << rng.randrange(8)
        broken.write_bytes(data)
        assert verify_pack(broken), place


@pytest.mark.parametrize("cut", [0, 1, 10, 300])
def test_a_pack_that_is_cut_short_or_added_to_is_seen(pack: Path, cut: int) -> None:
    whole = pack.read_bytes()
    for data in (whole[: len(whole) - cut - 1], whole[cut + 1 :], whole[:cut], whole + b"x", b"x" + whole):
        pack.write_bytes(data)
        assert verify_pack(pack)
        with pytest.raises(PackError, match="is damaged"):
            read_pack(pack)


def edited(change: Callable[[dict[str, bytes]], Any]) -> Callable[[Path], Path]:
    def damage(path: Path) -> Path:
        members = members_of(path)
        change(members)
        return rewritten(path, members, sums=False)

    return damage


def manifest_with(**changed: Any) -> Callable[[Path], Path]:
    def damage(path: Path) -> Path:
        members = members_of(path)
        document = json.loads(members["manifest.json"])
        for name, value in changed.items():
            target = document if name in document else document["entries"][0]
            target[name] = value
        members["manifest.json"] = json.dumps(document).encode()
        return rewritten(path, members)

    return damage


def more(name: str, data: bytes = b"") -> Callable[[Path], Path]:
    return edited(lambda members: members.update({name: data}))


def less(name: str) -> Callable[[Path], Path]:
    return edited(lambda members: members.pop(name))


SILU, MANIFEST, SUMS = "controls/silu-3.controls", "manifest.json", "SHA256SUMS"
DAMAGES: dict[str, tuple[Callable[[Path], Path], str, str]] = {
    "a file gone": (less(SILU), "missing", SILU),
    "a file more": (more("controls/x.controls"), "extra", "controls/x.controls"),
    "a file changed": (more(SILU, b"kernelwright-controls 1 gcc\n"), "changed", SILU),
    "no manifest": (less(MANIFEST), "missing", MANIFEST),
    "no sums": (less(SUMS), "missing", SUMS),
    "sums that are none": (more(SUMS, b"hello\n"), "bad_sums", SUMS),
    "a name that leads out": (more("../x"), "unsafe_name", "../x"),
    "an absolute name": (more("/etc/x"), "unsafe_name", "/etc/x"),
    "a name of Windows": (more("controls\\..\\x"), "unsafe_name", r"controls\\..\\x"),
    "a way out in the folder": (more("controls/../../x"), "unsafe_name", "controls/../../x"),
    "another schema": (manifest_with(schema="other"), "bad_manifest", MANIFEST),
    "another version": (manifest_with(version=2), "bad_manifest", MANIFEST),
    "a file elsewhere": (manifest_with(file="../../etc/passwd"), "bad_manifest", MANIFEST),
    "no provenance": (manifest_with(provenance={}), "bad_manifest", MANIFEST),
    "no evidence": (manifest_with(evidence={**EVIDENCE, "ratio": "fast"}), "bad_manifest", MANIFEST),
    "options of another tool": (manifest_with(tool="clang"), "bad_controls", "controls/silu-17.controls"),
}


@pytest.mark.parametrize("what", DAMAGES)
def test_each_kind_of_damage_is_named_with_its_member(pack: Path, what: str) -> None:
    damage, kind, member = DAMAGES[what]
    assert (kind, member) in kinds(damage(pack))


def test_a_manifest_and_sums_that_agree_on_too_little_are_seen(pack: Path) -> None:
    """The sums list a file that the manifest does not speak of, and the other way round."""
    members = members_of(pack)
    assert kinds(rewritten(pack, {**members, "controls/x.controls": b"1"})) == {
        ("extra", "controls/x.controls")
    }
    del members[SILU]
    assert kinds(rewritten(pack, members)) == {("missing", SILU)}
    assert kinds(rewritten(pack, {**members, SILU: b"kernelwright-controls 1 gcc\nO3\n"})) == {
        ("bad_controls", SILU)
    }


def test_a_pack_that_another_program_wrote_is_none(pack: Path) -> None:
    members = members_of(pack)
    with zipfile.ZipFile(pack, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    assert kinds(pack) == {("changed", "")}


def test_a_bomb_is_not_unpacked(pack: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> bytes:
        raise AssertionError("something was read")

    members = members_of(pack)
    with zipfile.ZipFile(pack, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        archive.writestr("controls/bomb.controls", bytes(20 << 20))
    assert pack.stat().st_size < 100_000
    with monkeypatch.context() as patched:
        patched.setattr(zipfile.ZipFile, "read", refused)
        assert ("too_large", "controls/bomb.controls") in kinds(pack)
        assert ("changed", "controls/bomb.controls") in kinds(pack)
        with zipfile.ZipFile(pack, "w", zipfile.ZIP_STORED) as archive:
            for number in range(5000):
                archive.writestr(str(number), b"")
        assert kinds(pack) == {("too_large", "")}
        with pack.open("wb") as stream:
            stream.truncate(65 << 20)
        assert kinds(pack) == {("too_large", "")}


def test_links_and_twins_are_no_members(pack: Path) -> None:
    members = members_of(pack)
    with zipfile.ZipFile(pack, "w") as archive:
        link = zipfile.ZipInfo("controls/link.controls")
        link.create_system, link.external_attr = 3, 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
        archive.writestr("manifest.json", members["manifest.json"])
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("manifest.json", members["manifest.json"])
    assert kinds(pack) >= {("link", "controls/link.controls"), ("extra", "manifest.json")}


def test_what_did_not_win_is_not_packed(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    for entries, said in [
        ([], "controls that won"),
        ([entry("a/b")], "cannot name an entry"),
        ([entry("a"), entry("a")], "or does so twice"),
        ([entry(evidence={**EVIDENCE, "comparison": "same"})], r"not proven faster \(same\)"),
        ([entry(provenance={"source": "x"})], "does not say its compiler, architecture"),
        ([entry(evidence={"comparison": "faster"})], "does not say its target, ratio"),
    ]:
        with pytest.raises(UsageError, match=said):
            write_pack(path, entries)
    with pytest.raises(ControlsError, match="options of gcc, where those of clang"):
        write_pack(path, [PackEntry("a", "clang", entry().config, {}, PROVENANCE, EVIDENCE)])
    assert not path.exists()
    with pytest.raises(UsageError, match="there is no pack"):
        verify_pack(path)


def test_the_error_lists_the_problems(pack: Path) -> None:
    members = members_of(pack)
    rewritten(pack, {**members, SILU: b"x"}, sums=False)
    with pytest.raises(PackError, match=f"changed: {SILU}: its SHA-256 is not the one") as failure:
        read_pack(pack)
    assert [one.kind for one in failure.value.problems] == [Damage.CHANGED]
