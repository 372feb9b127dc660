"""What can be chosen for each native CPU kernel.

Names in lower case become macros: `unroll` is KW_UNROLL. Names that begin with `cxx_` are flags of the
compiler, the empty string standing for none. Defaults are those of the sources; they were picked by measuring
on a machine with AVX512, and serve where no winner is stored.
"""

from __future__ import annotations

from collections.abc import Mapping

from kernelwright.space import choice
from kernelwright.space import Parameter
from kernelwright.space import Space

_KIB = 1 << 10
_MIB = 1 << 20


def _rows(*, unroll: int, parallel_kib: int, **own: Parameter) -> Space:
    """The space of a row-wise kernel, with two defaults; `parallel_kib` is the threshold of threads."""
    thresholds = sorted({parallel_kib, 64, 128, 256, 1024})
    return Space(
        {
            **own,
            "unroll": choice([1, 2, 3, 4], default=unroll),
            "prefetch_bytes": choice([0, 256, 512, 1024, 2048, 4096], default=1024),
            "stream_bytes": choice(
                [1 * _MIB, 8 * _MIB, 32 * _MIB, 128 * _MIB, 1 << 40], default=8 * _MIB, log=True
            ),
            "parallel_bytes": choice(
                [kib * _KIB for kib in thresholds], default=parallel_kib * _KIB, log=True
            ),
            "rows_per_task": choice([0, 4, 16, 64, 256], default=0),
            "cxx_level": choice(["", "-O2"]),
            "cxx_schedule": choice(["", "-fno-schedule-insns2"]),
            "cxx_align": choice(["", "-falign-loops=64"]),
            "cxx_vectorize": choice(["", "-fno-tree-vectorize"]),
        }
    )


SPACES: Mapping[str, Space] = {
    "rms_norm": _rows(unroll=4, parallel_kib=256, prefetch_weight=choice([1, 0])),
    "softmax": _rows(unroll=2, parallel_kib=96),
    "silu_and_mul": _rows(
        unroll=2, parallel_kib=144, piece=choice([1024, 2048, 4096, 16384], default=4096, log=True)
    ),
}
