"""Takes memory until there is none.

catalogue: beyond
baseline: rms_norm
verdict: out_of_memory, crashed
says: memory
"""


def kernel(x, weight):
    blocks = []
    for _ in range(160):
        blocks.append(bytearray(256 << 20))
    return x
