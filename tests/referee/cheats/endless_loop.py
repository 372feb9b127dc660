"""Never returns.

catalogue: beyond
baseline: rms_norm
verdict: hung
says: progress|within| s
"""


def kernel(x, weight):
    while True:
        pass
