"""What to do about each kind of failure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
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

#: Failures that may be due to how an objective reads its configuration.
_READING = frozenset({"raised", "build_failed", "invalid_score", "wrong_arity"})
_DECODED = re.compile(r"fromhex|kernelwright-controls|bytes-like object is required")
_NO_LIST = re.compile(
    r"not list\b|'list' object|list indices|type 'list'|must be str|str, bytes or os.PathLike|NoneType"
)
_NO_TEXT = re.compile(r"values to unpack|string indices|'str' object|not str\b|must be a dict")


def remedy(kind: str, reason: str, config: Any) -> str:
    """What to do about a failure of this kind, with this reason, of an evaluation of `config`.

    Knows the mistakes that objectives of compilers begin with, by what Python says of them.
    """
    if kind in _READING:
        if isinstance(config, Mapping) and not config:
            return (
                "{} is BASELINE_CONFIG: everything was left out, and it comes in place of a text or a list "
                "too; begin the objective with `if config == BASELINE_CONFIG:` and measure without options"
            )
        if _DECODED.search(reason):
            return (
                "do not decode a configuration: `save_compiler_config(path, config)` writes the file that "
                "the compiler is given, `@path`, and `compiler_arguments(config)` are its words; "
                f"{shape(config)}"
            )
        if isinstance(config, list) and _NO_LIST.search(reason):
            return f"{shape(config)}; unpack it first"
        if isinstance(config, str) and _NO_TEXT.search(reason):
            return f"{shape(config)}; give `search_space=[{{…}}, provider]` to search parameters beside it"
    return REMEDIES.get(kind, REMEDIES[""])


def shape(config: Any) -> str:
    """What an objective gets, in words, by the example of a configuration."""
    if isinstance(config, str):
        return "a search space that is one provider gives the objective one text: `def objective(config)`"
    if isinstance(config, Sequence):
        names = ", ".join("config" if isinstance(one, str) else f"part_{n}" for n, one in enumerate(config))
        kinds = ", ".join(type(one).__name__ for one in config)
        return (
            f"a search space that is a list gives the objective a list of the same length ({kinds}): "
            f"`{names} = mixed`"
        )
    return "a search space that is a dict gives the objective a dict of the same names"
