"""Takes twice as much memory as before until there is none.

catalogue: beyond
baseline: rms_norm
verdict: out_of_memory, crashed
says: memory
"""


def kernel(x, weight):
    blocks = []
    # Bounded, so that a corpus does no harm where a guard is missing.
    for power in range(28, 36):
        blocks.append(bytearray(1 << power) if power < 30 else x.new_zeros(1 << power - 2))
    return x
