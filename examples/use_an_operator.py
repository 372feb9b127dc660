"""Call an operator, say which backend may serve it, and ask why the one that did was chosen."""

import torch

import kernelwright as kw

x = torch.randn(32, 4096, dtype=torch.bfloat16)
weight = torch.ones(4096, dtype=torch.bfloat16)

# The fastest implementation that supports this call; the first call may compile its kernel, and says so.
y = kw.ops.rms_norm(x, weight, eps=1e-5)

# Into memory of yours.
out = torch.empty_like(x)
kw.ops.rms_norm(x, weight, eps=1e-5, out=out)
assert torch.equal(out, y)

# A backend for one call, for a block, or for the process.
by_torch = kw.ops.rms_norm(x, weight, eps=1e-5, backend="torch")
with kw.use_backend("torch"):
    assert torch.equal(kw.ops.rms_norm(x, weight, eps=1e-5), by_torch)
difference = (y.float() - by_torch.float()).abs().max().item()
print(f"largest difference to torch: {difference:.3g}")

# Who serves the call, in which configuration, and why no other does.
print(kw.explain("rms_norm", x, weight, eps=1e-5))

# A gradient is wanted: an implementation that has none is passed over, and explain says so.
print(kw.explain("rms_norm", x.requires_grad_(), weight))
