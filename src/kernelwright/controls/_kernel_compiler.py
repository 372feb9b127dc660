"""Compile a Triton or cuTile kernel for a GPU that need not be here. Runs in a process of its own.

    python _kernel_compiler.py REQUEST.json

A request names the `framework`, the `path` of a file and the `function` in it, `signature` (a type for each
parameter that is no constant), `constants`, `options` of a launch, `arch` (90 for sm_90) and the folder
`out`, which gets `kernel.cubin` and `kernel.json`, what a launch has to know. Standard library and the
framework only: what a process imports, it has to import for each compilation again.
"""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import json
import re
import shutil
import sys
from collections.abc import Iterator
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_TILE_TYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "i32": "int32", "i64": "int64"}


def load(path: str) -> Any:
    """The module in a file, which can import its neighbours."""
    folder = str(Path(path).parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


# -- Triton ------------------------------------------------------------------------------------------------


def triton_source(request: dict[str, Any]) -> Any:
    """The kernel with its types and constants, as Triton compiles it; `divisible` are multiples of 16."""
    from triton.compiler import ASTSource

    function = getattr(load(request["path"]), request["function"])
    names, constants = function.arg_names, request["constants"]
    signature = {name: "constexpr" if name in constants else request["signature"][name] for name in names}
    attributes = {(names.index(name),): [["tt.divisibility", 16]] for name in request["divisible"]}
    return ASTSource(fn=function, signature=signature, constexprs=constants, attrs=attributes)


def _triton(request: dict[str, Any], out: Path) -> None:
    import triton
    from triton.backends.compiler import GPUTarget

    target = GPUTarget("cuda", request["arch"], 32)
    built = triton.compile(triton_source(request), target=target, options=request["options"])
    (out / "kernel.cubin").write_bytes(built.asm["cubin"])
    described = next(path for name, path in built.metadata_group.items() if name.endswith(".json"))
    shutil.copyfile(described, out / "kernel.json")


# -- cuTile ------------------------------------------------------------------------------------------------


def parameters_of(kernel: Any) -> list[str]:
    """The names of a cuTile kernel's parameters, in order."""
    return list(inspect.signature(kernel._pyfunc).parameters)


def tile_signature(kernel: Any, request: dict[str, Any]) -> Any:
    """What is known of the parameters. Types: `bf16[2]`, an array with two dimensions; `i32`, a number."""
    from cuda.tile.compilation import CallingConvention
    from cuda.tile.compilation import ConstantConstraint
    from cuda.tile.compilation import KernelSignature

    constants, types = request["constants"], request["signature"]
    parameters = [
        ConstantConstraint(constants[name]) if name in constants else _constraint(types[name])
        for name in parameters_of(kernel)
    ]
    made = KernelSignature(parameters, CallingConvention.cutile_python_v1())
    return made.with_mangled_symbol(kernel._pyfunc.__name__)


def _constraint(text: str) -> Any:
    """Arrays are contiguous, apart from each other, and their rows begin at multiples of 16 bytes."""
    import cuda.tile as ct
    from cuda.tile.compilation import ArrayConstraint
    from cuda.tile.compilation import ScalarConstraint

    said = re.fullmatch(r"(\w+)(?:\[(\d+)\])?", text)
    if said is None:
        raise ValueError(
            f"{text!r} is not a type of a parameter; write bf16[2] for an array, i32 for a number"
        )
    dtype = getattr(ct, _TILE_TYPES.get(said[1], said[1]))
    if said[2] is None:
        return ScalarConstraint(dtype)
    outer = int(said[2]) - 1
    return ArrayConstraint(
        dtype,
        outer + 1,
        index_dtype=ct.int32,
        stride_lower_bound_incl=0,
        alias_groups=(),
        may_alias_internally=False,
        stride_constant=(*[None] * outer, 1),
        stride_divisible_by=(*[max(1, 128 // dtype.bitwidth)] * outer, 1),
        base_addr_divisible_by=16,
    )


@contextlib.contextmanager
def tileiras_arguments(arguments: Sequence[str]) -> Iterator[None]:
    """In the block, cuTile gives tileiras these arguments too.

    Its disk cache does not know of them: switch that off (`CUDA_TILE_CACHE_DIR=off`) before cuTile is
    imported.
    """
    if not arguments:
        yield
        return
    from cuda.tile import _compile

    run = _compile._CompilerBinary.run

    def with_arguments(self: Any, args: list[str], flags: list[str], timeout_sec: float | None = None) -> Any:
        return run(self, args, [*flags, *arguments], timeout_sec)

    _compile._CompilerBinary.run = with_arguments
    try:
        yield
    finally:
        _compile._CompilerBinary.run = run


def _tile(request: dict[str, Any], out: Path) -> None:
    from cuda.tile.compilation import export_kernel

    kernel = getattr(load(request["path"]), request["function"]).replace_hints(**request["options"])
    known = tile_signature(kernel, request)
    code, cubin = f"sm_{request['arch']}", out / "kernel.cubin"
    with tileiras_arguments(request["arguments"]):
        export_kernel(kernel, [known], cubin, gpu_code=code, output_format="cubin")
    (out / "kernel.json").write_text(json.dumps({"symbol": known.symbol, "hints": request["options"]}))


# -- any other ---------------------------------------------------------------------------------------------


def _script(request: dict[str, Any], out: Path) -> None:
    getattr(load(request["path"]), request["function"])(request["options"], out, request["constants"])


if __name__ == "__main__":
    asked = json.loads(Path(sys.argv[1]).read_text())
    compilers = {"triton": _triton, "cutile": _tile, "script": _script}
    compilers[asked["framework"]](asked, Path(asked["out"]))
