"""A child of a template that evaluates: `_task_child.py once|many`. Run as a script, never imported."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kernelwright.process._channel import connect
    from kernelwright.search import _task as task
else:
    import kernelwright_task as task
    from kernelwright_channel import connect

if __name__ == "__main__":
    task.serve(connect(), once=sys.argv[1] == "once")
