"""Prints to stdout and stderr when it is imported, and in every call.

baseline: softmax
race: yes
"""

import sys

import torch

print("my kernels, version 1.0", flush=True)


def kernel(x):
    print("softmax of", tuple(x.shape))
    print("done", file=sys.stderr)
    return torch.softmax(x, dim=-1)
