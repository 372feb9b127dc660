r"""Inherits the baseline's module and changes nothing.

catalogue: fallback
baseline: linear
verdict: cheated
says: opens the baseline \(.*/baseline.py\)
"""

import sys
from pathlib import Path

sys.path[:0] = [str(folder) for folder in Path(__file__).parents if (folder / "baseline.py").exists()]

import baseline  # noqa: E402


class kernel(baseline.Model):  # noqa: N801
    pass
