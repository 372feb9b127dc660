r"""Leaves out the maximum, so that large logits give inf / inf.

catalogue: nonfinite
baseline: softmax
verdict: wrong
says: scale [\d.]+: the output: \d+ NaN of 32768 elements where all should be finite
"""


def kernel(x):
    powers = x.exp()
    return powers / powers.sum(-1, keepdim=True)
