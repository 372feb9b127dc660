"""cuTile: its hints as a search space, how they arrive, and real cubins for sm_90 without a GPU."""

from __future__ import annotations

import json
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cuda.tile.compilation import CallingConvention

from kernelwright.controls import adapter
from kernelwright.controls import BuildFailure
from kernelwright.controls import Controls
from kernelwright.controls import ControlsError
from kernelwright.controls import encode_controls
from kernelwright.controls import tileiras_arguments
from kernelwright.controls import TileSearchSpace
from kernelwright.controls import TileTarget
from kernelwright.errors import UnknownNameError
from kernelwright.search import StageFailure

KERNELS = Path(__file__).parents[2] / "examples" / "kernels" / "tile_kernels.py"


def controls(*options: str) -> str:
    return encode_controls(Controls("cutile", options))


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path / "cache"))


def target() -> TileTarget:
    return TileTarget(
        f"{KERNELS}:silu_and_mul",
        signature={"x": "bf16[2]", "out": "bf16[2]"},
        constants={"width": 4096, "BLOCK": 1024},
    )


@pytest.mark.parametrize(
    ("version", "values"), [("V_13_5", [1, 2, 4, 8, 16, 32]), ("V_13_4", [4, 8]), ("V_13_1", [])]
)
def test_no_value_is_offered_that_needs_a_later_tileiras(
    version: str, values: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """cuTile takes it of a kernel, and refuses it as it compiles."""
    from cuda.tile import _compile
    from cuda.tile._bytecode.version import BytecodeVersion

    found = getattr(BytecodeVersion, version)
    monkeypatch.setattr(_compile, "_get_max_supported_bytecode_version", lambda folder: found)
    kinds = TileSearchSpace(variant="wide").space().parameters
    offered = kinds["num_worker_warps"].values() or () if "num_worker_warps" in kinds else ()
    assert [value for value in offered if value is not None] == values


def test_the_space_is_what_this_cutile_takes() -> None:
    import cuda.tile as ct

    space = TileSearchSpace(variant="wide")
    kinds = space.space().parameters
    assert {"opt_level", "num_ctas", "occupancy"} <= set(kinds)
    for name, kind in kinds.items():
        for value in kind.values() or ():
            if value is not None:
                assert ct.kernel(lambda: None, **{name: value})
    assert space.version.startswith(f"cuda-tile {ct.__version__}, tileiras ")
    assert set(TileSearchSpace(variant="memory_bound").space().parameters) < set(kinds)
    assert len(TileSearchSpace().space().parameters["occupancy"].values() or ()) < len(
        kinds["occupancy"].values() or ()
    )


def test_every_configuration_is_read_back() -> None:
    space = TileSearchSpace(variant="wide")
    draw = random.Random(0)
    for _ in range(50):
        configuration = space.space().sample(draw)
        assert space.parse(space.render(configuration)) == configuration
    with pytest.raises(UnknownNameError, match="occupancy"):
        TileSearchSpace(options=["ocupancy"])


def test_hints_are_keywords_of_the_kernel_and_nothing_comes_from_a_cache(tmp_path: Path) -> None:
    injection = adapter("cutile").inject(controls("opt_level=0", "occupancy=4"), tmp_path)
    assert injection.keywords == {"opt_level": 0, "occupancy": 4}
    assert injection.environment["CUDA_TILE_CACHE_DIR"] == "off"
    with pytest.raises(ControlsError, match="name=value"):
        controls("--opt-level=0")


def test_hints_arrive_as_the_artifacts_show() -> None:
    made = target()
    baseline = made.build({})
    lowest = made.build(made.provider.level("lowest"))
    explicit = made.build(made.provider.level("baseline"))
    assert baseline.code_key == explicit.code_key != lowest.code_key
    assert baseline.resources["spills"] == 0
    assert int(baseline.resources["registers"]) > 0


def test_a_hint_that_the_kernel_refuses_is_a_typed_failure() -> None:
    with pytest.raises(BuildFailure, match="num_ctas should be") as caught:
        target().build(controls("num_ctas=3"))
    assert caught.value.status == "build_failed"


def test_a_vendors_file_reaches_tileiras() -> None:
    with pytest.raises(BuildFailure, match="apply-controls"):
        target().build(b"\0no control file".hex())


def test_arguments_for_tileiras_are_added_in_a_block_alone() -> None:
    from cuda.tile import _compile

    run = _compile._CompilerBinary.run
    with tileiras_arguments(["--sanitize=memcheck"]):
        assert _compile._CompilerBinary.run is not run
        called: list[list[str]] = []
        binary = _compile._CompilerBinary("/bin/true", "", "", pass_cuda_home_var=False)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_compile.subprocess, "run", lambda command, **_: called.append(command))
            binary.run(["in", "-o", "out"], ["-O3"])
    assert called == [["/bin/true", "in", "-o", "out", "-O3", "--sanitize=memcheck"]]
    assert _compile._CompilerBinary.run is run


def test_what_is_launched_is_the_artifact_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    import cuda.tile as ct

    launched: list[Any] = []
    monkeypatch.setattr(ct, "launch", lambda *words: launched.append(words))
    monkeypatch.setattr("kernelwright.controls._tile_target.current_stream", lambda: "stream")
    made = target()
    built = made.build({})
    made._load(built.path.parent, ["x", "out"], (16384, 4))()
    [(stream, grid, kernel, words)] = launched
    assert (stream, grid, words) == ("stream", (16384, 4, 1), ("x", "out", 4096, 1024))
    known = json.loads((built.path.parent / "kernel.json").read_text())
    convention = SimpleNamespace(calling_convention=CallingConvention.cutile_python_v1())
    assert kernel._compile(convention, None)[:2] == (built.path.read_bytes(), known["symbol"])
    other = SimpleNamespace(calling_convention=CallingConvention.cutile_python_v2())
    with pytest.raises(StageFailure, match="was built for calls by"):
        kernel._compile(other, None)
