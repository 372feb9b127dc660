"""A module with parameters of its own."""

import torch


class Model(torch.nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(outputs, inputs) / inputs**0.5)
        self.bias = torch.nn.Parameter(torch.randn(outputs))

    def forward(self, x):
        return torch.relu(torch.nn.functional.linear(x, self.weight, self.bias))


def get_init_inputs():
    return [256, 128]


def get_inputs():
    return [torch.randn(32, 256)]
