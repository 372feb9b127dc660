"""Leaves out the maximum, so that large logits give inf / inf.

catalogue: nonfinite
baseline: softmax
verdict: wrong
says: (?i)nan|inf
"""


def kernel(x):
    powers = x.exp()
    return powers / powers.sum(-1, keepdim=True)
