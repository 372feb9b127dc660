"""Register an implementation of your own, check it against the operator's oracle, and let it serve calls."""

import torch

import kernelwright as kw
from kernelwright.referee import assert_within_budget


def contiguous_only(call):
    """None for a call that it can serve, else the reason; `explain` shows it."""
    x = call.tensors["x"]
    width = x.shape[-1]
    return None if x.strides[-1] == 1 and width > 0 else f"last stride {x.strides[-1]}, width {width}"


# The operator's parameters, then out, then keywords of its own: `exact` is declared by being here.
@kw.register_impl("softmax", backend="mine", supports=contiguous_only)
def softmax_by_hand(x, *, out=None, exact=True):
    """Softmax over the last dimension, in fp64 if exact."""
    wide = x.double() if exact else x.float()
    shifted = (wide - wide.amax(-1, keepdim=True)).exp()
    result = (shifted / shifted.sum(-1, keepdim=True)).to(x.dtype)
    return result if out is None else out.copy_(result)


x = torch.randn(19, 111, dtype=torch.bfloat16)
y = kw.ops.softmax(x, backend="mine", exact=False)
assert_within_budget(y, "softmax", x=x)
print("within the error budget of softmax")

with kw.use_backend("mine"):
    print(kw.explain("softmax", x))

# An undeclared keyword, or a backend that does not exist, is an error that says what would do.
for mistake in ({"backend": "mine", "precise": True}, {"backend": "mien"}):
    try:
        kw.ops.softmax(x, **mistake)
    except (TypeError, LookupError) as error:
        print(f"{type(error).__name__}: {error}")
