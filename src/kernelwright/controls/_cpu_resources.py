"""What a CPU library needs and does, known from the binary with no run: features to prune by."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

from kernelwright.build import disassemble
from kernelwright.build import instruction_mix
from kernelwright.build import Loop
from kernelwright.controls._asking import ask

#: The newest processor that an analyser is asked for, by a feature that the code needs: the same whatever
#: processor this is, so that estimates of one binary agree between machines.
_PROCESSORS = (
    ({"amx_tile", "avx512_bf16", "avx512_fp16"}, "sapphirerapids"),
    ({"avx512f"}, "icelake-server"),
)
_PROCESSOR = "skylake"
_ITERATIONS = 100
_NAMES = ("llvm-mca", *(f"llvm-mca-{version}" for version in range(25, 11, -1)))


def cpu_resources(library: Path, *, mca: bool = True) -> dict[str, float | int | str]:
    """What the binary of a kernel tells before it runs.

    `instructions`; `vector_bits` (the widest register used: 0, 128, 256, 512); `scalar`, `xmm`, `ymm`, `zmm`,
    `load`, `store`, `fma`, `multiply`, `divide`, `gather`, `shuffle`, `branch`, `call` (instructions of a
    kind); `libm` (calls into it); `spills` and `reloads` (registers kept on the stack and read back; what the
    program keeps there itself counts too), `loops`; of the main loop (innermost, the widest, the longest)
    `loop_instructions`, `loop_vector_bits`, `loop_bytes` (loaded and stored, the stack apart), `loop_spills`,
    `loop_reloads`, 0 where there is no loop.

    With llvm-mca, of the main loop on a fixed model of a processor: `mca_cycles` an iteration,
    `mca_throughput` (cycles that its ports need), `mca_ipc`, `mca_bytes_per_cycle` (which does not depend on
    how often it is unrolled); else `mca_missing` says why there is none. It knows nothing of caches, and
    takes every branch as predicted.

    Raises MissingExtraError without iced-x86, FileFormatError for what is no x86-64 library.
    """
    contents, mix = disassemble(library), instruction_mix(library)
    found: dict[str, float | int | str] = {
        "instructions": mix.instructions,
        "vector_bits": mix.bits,
        **mix.kinds,
        "libm": sum(contents.libm.values()),
        "spills": mix.spills,
        "reloads": mix.reloads,
        "loops": mix.loops,
    }
    loop = mix.main_loop
    found |= {
        "loop_instructions": loop.instructions if loop else 0,
        "loop_vector_bits": loop.bits if loop else 0,
        "loop_bytes": loop.bytes if loop else 0,
        "loop_spills": loop.spills if loop else 0,
        "loop_reloads": loop.reloads if loop else 0,
    }
    if mca:
        used = contents.features.keys()
        processor = next((name for needs, name in _PROCESSORS if needs & used), _PROCESSOR)
        found |= _estimate(loop, processor) if loop else {"mca_missing": "there is no loop"}
    return found


def _estimate(loop: Loop, processor: str) -> dict[str, float | int | str]:
    """What llvm-mca says of a loop's body, or why it says nothing."""
    program = next((path for name in _NAMES if (path := shutil.which(name))), None)
    if program is None:
        return {"mca_missing": "llvm-mca is not here (Debian, Ubuntu: apt install llvm)"}
    with tempfile.TemporaryDirectory(prefix="kernelwright-mca-") as folder:
        source = Path(folder, "loop.s")
        source.write_text("\n".join(loop.text) + "\n")
        outcome, said = ask([program, f"-mcpu={processor}", f"-iterations={_ITERATIONS}", "-json", source])
    if not outcome.ok:
        reason = next((line for line in outcome.stderr.splitlines() if "error:" in line), outcome.describe())
        return {"mca_missing": f"llvm-mca does not take the loop ({reason.rpartition('error: ')[2]})"}
    document = json.loads(said)
    regions = document.get("CodeRegions", [document])
    summary = regions[0]["SummaryView"]
    cycles = summary["TotalCycles"] / summary["Iterations"]
    return {
        "mca_cycles": cycles,
        "mca_bytes_per_cycle": loop.bytes / cycles,
        "mca_throughput": float(summary["BlockRThroughput"]),
        "mca_ipc": float(summary["IPC"]),
        "mca_processor": processor,
    }
