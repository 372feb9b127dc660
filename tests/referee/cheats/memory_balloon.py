"""Takes twice as much memory as before until there is none.

catalogue: beyond
baseline: rms_norm
verdict: out_of_memory
alone: it takes gibibytes of memory
says: as it comes: the candidate ran out of memory: RuntimeError: .*can't allocate memory
"""

import torch


def kernel(x, weight):
    blocks = []
    # Bounded, so that a corpus does no harm where a guard is missing.
    for power in range(28, 37):
        blocks.append(torch.empty(1 << power, dtype=torch.uint8))
        blocks[-1][:: 1 << 20] = 1
    return x
