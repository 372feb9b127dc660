"""Wraps its work in an autograd.Function with a backward of its own.

baseline: rms_norm
"""

import torch


class RmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        scale = torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
        ctx.save_for_backward(x, weight, scale)
        return x * scale * weight

    @staticmethod
    def backward(ctx, grad):
        x, weight, scale = ctx.saved_tensors
        inner = grad * weight
        along = (inner * x).mean(-1, keepdim=True)
        return scale * inner - x * scale**3 * along, (grad * x * scale).sum(0)


def kernel(x, weight):
    return RmsNorm.apply(x, weight)
