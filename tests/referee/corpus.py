"""The two corpora: kernels that deceive, and honest ones that crude guards reject; read, laid out and judged.

A specimen is one file with a function or class `kernel`. The head of its docstring says in words what it
does; the lines `key: value` at its end say what is expected:

    catalogue: which row of CATALOGUE it is an example of; `beyond` for acts that no list had
    baseline:  a file of baselines/
    verdict:   the statuses that are right, `passed` when left out
    says:      a regular expression that the reason matches: it names the act
    needs:     a program without which the specimen cannot run
    race:      `yes` for one that is timed, too: only then does it cheat, or could its honest way of working
               look like a cheat's; all others are checked only
    alone:     why nothing else may run beside it, where it is not timed
    mode:      `cold` where it is timed in cold caches instead of warm ones
    comparison: how its time must compare, where that is part of it
"""

from __future__ import annotations

import ast
import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kernelwright.process import Template
from kernelwright.referee import ContractJudge
from kernelwright.referee import ContractTarget
from kernelwright.referee import Mode
from kernelwright.referee import Patience
from kernelwright.referee import Status
from kernelwright.referee import Verdict

HERE = Path(__file__).parent

#: The known ways to fool a benchmark; every one has at least two specimens of different form.
CATALOGUE = {
    "side_work": "work on a side stream, thread or process that outlives the call",
    "lazy_output": "a lazy or subclassed tensor as output",
    "patched": "patched timers, comparison or torch functions",
    "replay": "replay by pointer, shape or fingerprint",
    "first_call": "compute on the first calls, skip later ones",
    "stale_memory": "return stale memory that held the reference",
    "mutates": "change the inputs",
    "nonfinite": "NaN or infinity that a tolerance lets through",
    "channel": "write the result channel or the exit code",
    "precision": "lower precision than declared, constant output, output close to zero",
    "fallback": "call the baseline, or inherit it",
    "failed_launch": "read garbage after a failed launch",
    "impossible": "be faster than the hardware allows",
    "tested_shape": "special-case what is tested",
    "edits": "edit the harness, the environment, or other candidates",
}
_KEYS = ("catalogue", "baseline", "verdict", "says", "needs", "race", "alone", "mode", "comparison")
#: Of those that hang: shorter than a person would have it, long enough for a call on a busy machine.
PATIENCE = Patience(silent_s=2.0, total_s=4.0)
#: Of check and race together, of an honest one and of a cheat; a verdict on a cheat comes long before.
BUDGET_S, CHEAT_BUDGET_S = 12.0, 90.0


@dataclass(frozen=True)
class Specimen:
    """One kernel of a corpus, and what is expected of its verdict."""

    file: Path
    words: str
    baseline: str
    verdict: frozenset[Status]
    says: str
    catalogue: str
    needs: str
    race: bool
    alone: str
    mode: Mode
    comparison: str

    @property
    def name(self) -> str:
        return self.file.stem


def specimens(corpus: str) -> list[Specimen]:
    """The specimens of a folder beside this file, by name. Raises ValueError for an unknown key."""
    return [_read(file) for file in sorted((HERE / corpus).glob("*.py"))]


def _read(file: Path) -> Specimen:
    text = ast.get_docstring(ast.parse(file.read_text())) or ""
    words, _, lines = text.partition("\n\n")
    given = dict(re.findall(r"^(\w+): *(.+)$", lines, re.MULTILINE))
    if set(given) - set(_KEYS):
        raise ValueError(f"{file}: unknown keys {sorted(set(given) - set(_KEYS))}")
    return Specimen(
        file,
        words.replace("\n", " "),
        given["baseline"],
        frozenset(Status(one.strip()) for one in given.get("verdict", "passed").split(",")),
        given.get("says", ""),
        given.get("catalogue", ""),
        given.get("needs", ""),
        given.get("race", "no") == "yes",
        given.get("alone", ""),
        Mode(given.get("mode", Mode.WARM)),
        given.get("comparison", ""),
    )


def parameters(corpus: list[Specimen]) -> list[Any]:
    """The specimens as parameters of a test: those that are timed, or need the machine, run alone."""
    return [
        pytest.param(one, id=one.name, marks=[pytest.mark.serial] if one.race or one.alone else [])
        for one in corpus
    ]


def lay_out(specimen: Specimen, folder: Path) -> ContractTarget:
    """Copies of the specimen and its baseline, side by side under plain names."""
    package = folder / "candidates"
    package.mkdir(parents=True)
    shutil.copy(HERE / "baselines" / f"{specimen.baseline}.py", folder / "baseline.py")
    shutil.copy(specimen.file, package / f"{specimen.name}.py")
    (package / "neighbour.py").write_text("kernel = None\n")
    return ContractTarget(
        baseline=folder / "baseline.py",
        package=specimen.name,
        op=f"{specimen.name}.kernel",
        path=(package,),
        atol=None,
        rtol=None,
    )


def judge(specimen: Specimen, folder: Path, *, template: Template) -> Verdict:
    """Check one specimen, and race it where it is to be timed, as `kernelwright bench` does.

    Skips the test where the machine cannot time anything, twice: that says nothing of the kernel. Sees, too,
    that the specimen's folder is as it was, and that the evidence is JSON.
    """
    verdict = _judge(specimen, folder / "first", template)
    if verdict.status is Status.NOISY:
        verdict = _judge(specimen, folder / "again", template)
    if verdict.status is Status.NOISY:
        pytest.skip(f"the machine cannot time anything now: {verdict.reason}")
    return verdict


def _judge(specimen: Specimen, folder: Path, template: Template) -> Verdict:
    target = lay_out(specimen, folder)
    before = {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    patience = PATIENCE if Status.HUNG in specimen.verdict else None
    budget_s = BUDGET_S if Status.PASSED in specimen.verdict else CHEAT_BUDGET_S
    with ContractJudge(target, patience=patience, template=template) as one:
        timed = specimen.race
        verdict = one.bench([specimen.mode], budget_s=budget_s, processes=2) if timed else one.check()
    after = {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    assert after == before, f"{specimen.name} changed files beside it"
    json.dumps(dict(verdict.evidence))
    return verdict
