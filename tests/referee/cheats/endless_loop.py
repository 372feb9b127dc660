r"""Never returns.

catalogue: beyond
baseline: rms_norm
verdict: hung
says: as it comes: the candidate had not answered after \d+ s
"""


def kernel(x, weight):
    while True:
        pass
