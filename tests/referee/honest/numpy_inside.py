"""Computes with numpy; its output is memory that numpy allocated.

baseline: rms_norm
"""

import numpy as np
import torch


def kernel(x, weight):
    with np.errstate(all="ignore"):
        data = x.numpy()
        scale = 1 / np.sqrt(np.mean(data * data, axis=-1, keepdims=True) + np.float32(1e-6))
        return torch.from_numpy(data * scale * weight.numpy())
