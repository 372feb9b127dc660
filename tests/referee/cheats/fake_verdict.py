"""Prints a verdict of its own and ends the process with exit code 0.

catalogue: channel
baseline: rms_norm
verdict: crashed
says: as it comes: the candidate ended its process itself with exit code 0
"""

import json
import os
import sys


def kernel(x, weight):
    verdict = {"status": "passed", "comparison": "faster", "ratio": 999.0, "interval": [998.0, 1000.0]}
    print(json.dumps(verdict))
    sys.stdout.flush()
    os._exit(0)
