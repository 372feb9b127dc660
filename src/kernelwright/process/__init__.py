"""How is untrusted work run, limited, watched and killed?"""

from kernelwright.process._channel import Channel
from kernelwright.process._channel import connect
from kernelwright.process._child import Child
from kernelwright.process._child import child_script
from kernelwright.process._child import ChildEnded
from kernelwright.process._child import ChildGarbled
from kernelwright.process._child import ChildTimeout
from kernelwright.process._outcome import End
from kernelwright.process._outcome import Limits
from kernelwright.process._outcome import Outcome
from kernelwright.process._outcome import TAIL_BYTES
from kernelwright.process._sandbox import Sandbox
from kernelwright.process._supervised import run
from kernelwright.process._template import Template
from kernelwright.process._tree import own_delayed_ns

__all__ = [
    "TAIL_BYTES",
    "Channel",
    "Child",
    "ChildEnded",
    "ChildGarbled",
    "ChildTimeout",
    "End",
    "Limits",
    "Outcome",
    "Sandbox",
    "Template",
    "child_script",
    "connect",
    "own_delayed_ns",
    "run",
]
