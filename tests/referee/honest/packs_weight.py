"""A module that transposes its weight when it first sees it, and again when it changes.

baseline: linear
race: yes
mode: cold
"""

import torch


class kernel(torch.nn.Module):  # noqa: N801
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(outputs, inputs))
        self.bias = torch.nn.Parameter(torch.empty(outputs))
        self.packed, self.packed_from = None, None

    def forward(self, x):
        seen = self.weight.data_ptr(), self.weight._version
        if seen != self.packed_from:
            self.packed, self.packed_from = self.weight.detach().t().contiguous(), seen
        return torch.addmm(self.bias.detach(), x, self.packed).relu_()
