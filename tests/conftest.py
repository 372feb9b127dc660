"""What holds for all tests: a test leaves the process as it found it, or the next one fails for its sake."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    """Threads of torch and the processors that may be used decide what a judge does by default."""
    torch = sys.modules.get("torch")
    threads = torch.get_num_threads() if torch is not None else None
    processors = os.sched_getaffinity(0)
    yield
    left = os.sched_getaffinity(0)
    if left != processors:
        os.sched_setaffinity(0, processors)
        pytest.fail(
            f"the test leaves processors {sorted(left)} to those that follow, of {sorted(processors)}"
        )
    if torch is not None and torch.get_num_threads() != threads:
        found = torch.get_num_threads()
        torch.set_num_threads(threads)
        pytest.fail(f"the test leaves {found} threads of torch to those that follow, of {threads}")
