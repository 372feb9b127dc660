"""Who is judged: a function of a built library, and how its calls are described."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from typing import Protocol

from torch import Tensor


@dataclass(frozen=True)
class NativeEntrant:
    """A kernel of the C ABI: function `symbol` of shared object `library`, called `name` in verdicts."""

    name: str
    library: Path
    symbol: str


class BufferLike(Protocol):
    """One buffer of a native call."""

    @property
    def name(self) -> str: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def output(self) -> bool: ...


class NativeCallLike(Protocol):
    """A native call without addresses: a `kw_call` as bytes, and its buffers in order."""

    @property
    def block(self) -> bytes: ...
    @property
    def buffers(self) -> Sequence[BufferLike]: ...


#: Gives the native call for arguments and output; `NativeKernel.describe` of kernels/cpu is one.
Describe = Callable[[Mapping[str, Any], Tensor], NativeCallLike]
