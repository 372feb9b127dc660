"""What to do about each kind of failure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

#: By kind; "" is for kinds that an objective or worker of one's own made up.
REMEDIES: Final[Mapping[str, str]] = {
    "raised": "read the traceback in `show`; return INVALID_SCORE where the configuration is at fault, mend "
    "the objective where it is not",
    "invalid_score": "that is right for configurations that are wrong or do not build; if there are many, "
    "forbid them with a constraint, so that no evaluation is spent on them",
    "wrong_arity": "return one number, or a tuple of num_objectives numbers",
    "unpicklable": "define the objective at the top level of a module, and keep open files, locks and "
    "compiled functions inside it",
    "timeout": "raise task_timeout if slow configurations may be good; else the limit does its work: lower "
    "it, or forbid slow values, to save time",
    "crashed": "read stderr in `show`; forbid with a constraint what crashes; IsoMultiProcessWorker keeps "
    "one crash from touching the next evaluation",
    "out_of_memory": "fewer workers at a time, a smaller problem, or a constraint on what needs the memory",
    "exited": "the objective, or something it calls, ends the process: let it return or raise instead",
    "worker_lost": "a machine or worker went away: the search goes on with the others; look at its log",
    "build_failed": "read the compiler's words in `show`; forbid the combination with a constraint",
    "build_timeout": "raise the limit of builds, or leave out the options that make them slow",
    "compiler_crashed": "the compiler itself failed: forbid the combination, and tell its makers",
    "pruned": "that is right for what a constraint on the binary shuts out; if it is nearly all, loosen it",
    "skipped": "the objective chose not to measure these; if there are many, a constraint saves their builds",
    "wrong": "the result was not right: keep the check; forbid the values if they always fail",
    "": "read the reasons in `show`; forbid with a constraint what cannot work",
}
