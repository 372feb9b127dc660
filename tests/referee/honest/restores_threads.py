"""Uses one thread for its own work and puts the number back.

baseline: matmul
"""

import torch


def kernel(a, b):
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return a @ b
    finally:
        torch.set_num_threads(before)
