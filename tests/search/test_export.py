"""CSV and JSON lines: the columns of the contract, and that nothing is lost on the way there and back."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from kernelwright.errors import FileFormatError
from kernelwright.search import Evaluation
from kernelwright.search import Failure
from kernelwright.search import SearchResult

MIXED = [{"tile": 64, "order": [2, 0, 1]}, "0a1b2c"]
EVALUATIONS = [
    Evaluation(1, {}, {}, (2.0, 5.0), baseline=True, started_at=1.5, seconds=0.25),
    Evaluation(
        2,
        {"0.tile": 64, "0.order": (2, 0, 1), "1.unroll": None},
        MIXED,
        (1.0, 4.0),
        generation=3,
        origin="local",
        normalised=(0.5, 0.8),
        worker="iso-0",
        metadata={"registers": 32, "text": 'a "quoted", thing\nand more'},
    ),
    Evaluation(
        3,
        {"0.tile": 32, "0.order": (0, 1, 2), "1.unroll": 1},
        MIXED,
        failure=Failure("crashed", "signal 11 (SIGSEGV)"),
        stderr="line, one\nline two",
    ),
]


def test_the_columns_are_those_of_the_contract() -> None:
    rows = list(csv.reader(io.StringIO(SearchResult(EVALUATIONS, num_objectives=2).csv())))
    assert rows[0] == [
        "generation",
        "score_1",
        "score_2",
        "params",
        "norm_score_1",
        "norm_score_2",
        "metadata",
    ]
    assert rows[2][:3] == ["3", "1.0", "4.0"]
    assert json.loads(rows[2][3]) == MIXED
    assert rows[2][4:6] == ["0.5", "0.8"]
    assert json.loads(rows[2][6])["registers"] == 32
    assert rows[3][1:3] == ["", ""]


def test_csv_brings_everything_back(tmp_path: Path) -> None:
    path = SearchResult(EVALUATIONS, num_objectives=2, normalize=True).to_csv(tmp_path / "results.csv")
    again = SearchResult.from_csv(path)
    assert again.evaluations == EVALUATIONS
    assert again.num_objectives == 2
    assert again.normalize
    assert not SearchResult.from_csv(path, normalize=False).normalize


def test_json_lines_have_the_same_keys(tmp_path: Path) -> None:
    path = SearchResult(EVALUATIONS, num_objectives=2).to_jsonl(tmp_path / "results.jsonl")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["score_1"] for row in rows] == [2.0, 1.0, None]
    assert rows[1]["params"] == MIXED
    assert rows[2]["metadata"]["evaluation"]["failure"]["kind"] == "crashed"
    assert list(rows[0]) == [
        "generation",
        "score_1",
        "score_2",
        "params",
        "norm_score_1",
        "norm_score_2",
        "metadata",
    ]


@pytest.mark.parametrize("text", ["0a1b", "1234", "true", "null", '{"a": 1}', "[1]", '"quoted"', "", "a,b"])
def test_a_compilers_text_stays_the_text_it_is(tmp_path: Path, text: str) -> None:
    path = SearchResult([Evaluation(1, {"x": 1}, text, (1.0,))]).to_csv(tmp_path / "results.csv")
    assert SearchResult.from_csv(path).evaluations[0].params == text


def test_hex_texts_can_be_read_in_the_file() -> None:
    assert ",6b65726e,," in SearchResult([Evaluation(1, {"x": 1}, "6b65726e", (1.0,))]).csv()


def test_a_file_of_others_needs_scores_and_params_only(tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text("generation,score_1,params\n0,2.5,\"{'tile': 16, 'deep': {'x': 1}}\"\n1,inf,{}\n")
    result = SearchResult.from_csv(path, problem_type="max")
    assert result.best().configuration == {"tile": 16, "deep.x": 1}
    assert result.evaluations[1].failure is not None
    assert result.evaluations[1].baseline


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "no column score_1 and params"),
        ("a,b\n1,2\n", "no column score_1 and params"),
        ("score_1,params\nfast,{}\n", "line 2: score_1 is 'fast', not a number"),
        ("score_1,params\n1\n", "line 2 does not have one cell a column"),
        ("score_1,params,metadata\n1,{},[1]\n", "line 2: metadata is not a JSON object"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "results.csv"
    path.write_text(content)
    with pytest.raises(FileFormatError, match=said):
        SearchResult.from_csv(path)


VALUES = st.one_of(st.none(), st.booleans(), st.integers(-(10**20), 10**20), st.text(max_size=8))
FLOATS = st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.text(min_size=1, max_size=6), st.one_of(VALUES, FLOATS), min_size=1), FLOATS
        ),
        min_size=1,
        max_size=5,
    )
)
def test_any_configuration_survives(tmp_path_factory: Any, drawn: list[tuple[dict[str, Any], float]]) -> None:
    evaluations = [
        Evaluation(number, params, params, (score,)) for number, (params, score) in enumerate(drawn, 1)
    ]
    path = tmp_path_factory.mktemp("csv") / "results.csv"
    assert SearchResult.from_csv(SearchResult(evaluations).to_csv(path)).evaluations == evaluations
