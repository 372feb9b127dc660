"""What ptxas and nvcc say of their options is read whole, and stands for what can be searched."""

from __future__ import annotations

import pytest

from kernelwright.controls._cuda_help import parse_help
from kernelwright.controls._cuda_help import read_help
from kernelwright.machine import cuda_help
from kernelwright.machine import find_cuda_tools
from kernelwright.space import Choice
from kernelwright.space import Flag
from kernelwright.space import Range

TEXT = """
Usage  : ptxas [options] <ptx file>,...

Options
=======

--Ofast-compile <0|min|mid|max>                     (-Ofc)                      
        Specify fast-compile level for device code.
        Default value:  '0'.

--allow-expensive-optimizations <true|false>        (-allow-expensive-optimizations)
        Enable (disable) to allow compiler to perform expensive optimizations
        for optimization level >= O2.

--def-load-cache                                    (-dlcm)                     
        Default cache modifier on global/generic load.

--machine {64}                                                 (-m)             
        Specify 64 bit architecture.
        Allowed values for this option:  64.
        Default value:  64.

--sanitize <string>                                 (-sanitize)                 
        Generate instrumented code with specified sanitizer tool.
        Allowed values for this option:  'memcheck',
        'threadsteer'.

--opt-level <N>                                     (-O)                        
        Specify optimization level.
        Default value:  3.

--register-usage-level <0..10>                      (-regUsageLevel)            
        Controls the aggressiveness. ([0..10], default = 5) Higher values are higher.
        Default value:  5.

--no-align-double                                   --no-align-double           
        Specifies nothing here.
"""  # noqa: W291 - as the tools print it


def test_names_values_and_defaults_are_read() -> None:
    found = parse_help(TEXT)
    assert [*found] == [
        "--Ofast-compile",
        "--allow-expensive-optimizations",
        "--def-load-cache",
        "--machine",
        "--sanitize",
        "--opt-level",
        "--register-usage-level",
        "--no-align-double",
    ]
    assert found["--opt-level"].short == "-O"
    assert (found["--opt-level"].value, found["--opt-level"].default) == ("<N>", "3")
    assert found["--sanitize"].allowed == ("memcheck", "threadsteer")
    assert found["--def-load-cache"].text == "Default cache modifier on global/generic load."


def test_values_that_the_tool_states_become_a_parameter() -> None:
    found = {name: one.parameter() for name, one in parse_help(TEXT).items()}
    level = found["--register-usage-level"]
    assert isinstance(level, Range)
    assert (level.low, level.high, level.default) == (0, 10, 5)
    assert isinstance(found["--allow-expensive-optimizations"], Flag)
    fast = found["--Ofast-compile"]
    assert isinstance(fast, Choice)
    assert (fast.values(), fast.default) == (("0", "min", "mid", "max"), "0")
    assert found["--no-align-double"] is not None
    assert found["--no-align-double"].values() == ("on",)
    assert found["--opt-level"] is None


@pytest.mark.parametrize("name", ["ptxas", "nvcc"])
def test_no_option_of_a_real_tool_is_missed(name: str) -> None:
    tools = find_cuda_tools(name)
    assert tools, f"no {name}: pip install 'kernelwright[cuda-toolchain]'"
    for tool in tools:
        listed = cuda_help(tool).count("\n--")
        assert len(read_help(tool)) == listed > 40
