"""What can be chosen: parameters, constraints, neighbours, encoding."""

from kernelwright.space._constraints import Configuration
from kernelwright.space._constraints import Constraint
from kernelwright.space._constraints import ConstraintLike
from kernelwright.space._parameters import Choice
from kernelwright.space._parameters import Flag
from kernelwright.space._parameters import Parameter
from kernelwright.space._parameters import Range
from kernelwright.space._parameters import Value
from kernelwright.space._shorthand import choice
from kernelwright.space._shorthand import flag
from kernelwright.space._shorthand import range
from kernelwright.space._space import key
from kernelwright.space._space import Space
from kernelwright.space._template import SearchSpace

__all__ = [
    "Choice",
    "Configuration",
    "Constraint",
    "ConstraintLike",
    "Flag",
    "Parameter",
    "Range",
    "SearchSpace",
    "Space",
    "Value",
    "choice",
    "flag",
    "key",
    "range",
]
