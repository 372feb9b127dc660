"""Keeps its workspace in shared memory, as kernels with worker processes do.

baseline: softmax
race: yes
"""

import mmap

import torch

_memory = mmap.mmap(-1, 1 << 22)
_workspace = torch.frombuffer(_memory, dtype=torch.float32)


def kernel(x):
    if x.numel() > _workspace.numel():
        return torch.softmax(x, dim=-1)
    powers = _workspace[: x.numel()].view(x.shape)
    torch.sub(x, x.amax(-1, keepdim=True) if x.numel() else x, out=powers)
    powers.exp_()
    return powers / powers.sum(-1, keepdim=True)
