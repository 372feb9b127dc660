"""What can be chosen: parameters, conditions, constraints, neighbours, encoding, templates."""

from kernelwright.space._arrangements import Permutation
from kernelwright.space._arrangements import Subset
from kernelwright.space._configspace import from_configspace
from kernelwright.space._configspace_save import to_configspace
from kernelwright.space._constraints import Configuration
from kernelwright.space._constraints import Constraint
from kernelwright.space._constraints import ConstraintLike
from kernelwright.space._files import load
from kernelwright.space._files import save
from kernelwright.space._local import LocalSearchSpace
from kernelwright.space._nodes import Provider
from kernelwright.space._parameters import Choice
from kernelwright.space._parameters import Flag
from kernelwright.space._parameters import Parameter
from kernelwright.space._parameters import Range
from kernelwright.space._parameters import Scalar
from kernelwright.space._parameters import Value
from kernelwright.space._presence import Conditional
from kernelwright.space._presence import Knockout
from kernelwright.space._presence import when
from kernelwright.space._shorthand import choice
from kernelwright.space._shorthand import flag
from kernelwright.space._shorthand import literal
from kernelwright.space._shorthand import log_sampling
from kernelwright.space._shorthand import permutation
from kernelwright.space._shorthand import range
from kernelwright.space._shorthand import subset
from kernelwright.space._space import key
from kernelwright.space._space import Space
from kernelwright.space._t1 import from_t1
from kernelwright.space._t1 import to_t1
from kernelwright.space._template import SearchSpace

__all__ = [
    "Choice",
    "Conditional",
    "Configuration",
    "Constraint",
    "ConstraintLike",
    "Flag",
    "Knockout",
    "LocalSearchSpace",
    "Parameter",
    "Permutation",
    "Provider",
    "Range",
    "Scalar",
    "SearchSpace",
    "Space",
    "Subset",
    "Value",
    "choice",
    "flag",
    "from_configspace",
    "from_t1",
    "key",
    "literal",
    "load",
    "log_sampling",
    "permutation",
    "range",
    "save",
    "subset",
    "to_configspace",
    "to_t1",
    "when",
]
