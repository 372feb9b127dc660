"""Draws of a call's inputs, compared and changed a little; pure functions of what the reference made."""

from __future__ import annotations

import torch

from kernelwright.referee.contract._reference import Made


def alike(made: Made, other: Made) -> bool:
    """Whether two draws have tensors of the same form, so that either may lie in the same place."""
    return len(made.tensors) == len(other.tensors) and all(
        (a.shape, a.dtype, a.stride()) == (b.shape, b.dtype, b.stride())
        for a, b in zip(made.tensors, other.tensors, strict=True)
    )


def with_others(tensor: torch.Tensor, count: int, generator: torch.Generator) -> torch.Tensor:
    """A copy in which some elements have the values of others, if they can be told apart."""
    changed = tensor.clone()
    if not tensor.is_floating_point() or tensor.numel() < 2:
        return changed
    sources = torch.randint(tensor.numel(), (count,), generator=generator)
    targets = torch.randint(tensor.numel(), (count,), generator=generator)
    for source, target in zip(sources.tolist(), targets.tolist(), strict=True):
        element(changed, target).copy_(element(tensor, source))
    return changed


def element(tensor: torch.Tensor, index: int) -> torch.Tensor:
    for size in reversed(tensor.shape):
        tensor = tensor.select(-1, index % size)
        index //= size
    return tensor


def span_bytes(tensor: torch.Tensor) -> int:
    """Bytes of the distinct elements of a tensor: expanded dimensions count once."""
    count = 1
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        count *= size if stride or size == 0 else 1
    return count * tensor.element_size()


def finite(made: Made) -> float:
    """The share of floating outputs that is finite."""
    peers = [leaf.rule.peer for leaf in made.expected.leaves if leaf.rule.peer.is_floating_point()]
    count = sum(peer.numel() for peer in peers)
    return sum(float(torch.isfinite(peer).sum()) for peer in peers) / count if count else 1.0


def same_results(one: Made, other: Made) -> bool:
    return all(
        torch.equal(a.rule.expected, b.rule.expected)
        for a, b in zip(one.expected.leaves, other.expected.leaves, strict=True)
    )
