"""Is an operator of this very package.

baseline: rms_norm
race: yes
"""

import kernelwright as kw


def kernel(x, weight):
    return kw.ops.rms_norm(x, weight, eps=1e-6)
