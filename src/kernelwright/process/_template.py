"""A process that has imported modules, from which children are forked in milliseconds."""

from __future__ import annotations

import contextlib
import math
import os
import socket
import sys
import threading
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from kernelwright.process._child import Child
from kernelwright.process._child import ChildEnded
from kernelwright.process._outcome import Limits
from kernelwright.process._outcome import Outcome
from kernelwright.process._sandbox import Sandbox
from kernelwright.process._start import Fork
from kernelwright.process._start import Order
from kernelwright.process._start import Supervisor
from kernelwright.process._supervised import Supervised

_FORKSERVER = Path(__file__).with_name("_forkserver.py")
_PASSED_ON = (
    *("PATH", "LANG", "LANGUAGE", "TZ", "TMPDIR", "HOME", "LD_"),
    *("LC_", "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "BLIS_", "ATEN_", "TORCH", "PYTORCH_", "CUDA_"),
)
_DEATH_PATIENCE_S = 1.0


class Template:
    """A process that has imported modules; its children start with them, in milliseconds.

    `preload` names modules, or scripts by their path (ending in `.py`), which are run as modules of that
    file's name. They must not start threads that they need later: a fork does not have them. `env` is the
    environment in which they are imported, by default those of our variables that loaders and mathematical
    libraries look at: an import may read the environment, and what it read stays in all children.
    `scripts` are compiled, which every child that runs one would have to do otherwise (it does if the script
    has been changed since). Without `site` there are no site-packages. It starts at once and is not waited
    for: children that are asked for early start when it is ready. With it end all its children.

    Example:
        with Template(["torch"]) as template:
            with template.child(script, limits=Limits(wall_s=60.0)) as child:
                child.send({"op": "load"})

    """

    def __init__(
        self,
        preload: Sequence[str | os.PathLike[str]],
        *,
        limits: Limits | None = None,
        env: Mapping[str, str] | None = None,
        site: bool = True,
        scripts: Sequence[str | os.PathLike[str]] = (),
    ) -> None:
        if env is None:
            env = {name: value for name, value in os.environ.items() if name.startswith(_PASSED_ON)}
        self._link, theirs = socket.socketpair()
        self._lock = threading.Lock()
        flags = ["-I"] if site else ["-I", "-S"]
        argv = [
            sys.executable,
            *flags,
            str(_FORKSERVER),
            str(theirs.fileno()),
            *(os.fspath(name) for name in preload),
            "--",
            *(os.path.abspath(script) for script in scripts),  # noqa: PTH100 - as children will be told
        ]
        try:
            self._work = Supervised(
                argv, limits=limits or Limits(wall_s=math.inf), env=env, pass_fds=(theirs.fileno(),)
            )
        except BaseException:
            self._link.close()
            raise
        finally:
            theirs.close()

    def child(
        self,
        script: str | os.PathLike[str],
        *arguments: str,
        limits: Limits,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        pass_fds: Sequence[int] = (),
        sandbox: Sandbox | None = None,
    ) -> Child:
        """Fork a child that runs a script as `__main__`, as `python -I` would, with the modules loaded.

        The script finds its channel with `kernelwright_channel.connect` (or `kernelwright.process.connect`).
        Raises ChildEnded, with the template's outcome, when the template is gone.
        """
        return Child(
            [os.path.abspath(script), *arguments],  # noqa: PTH100 - links stay
            limits=limits,
            env=env,
            cwd=cwd,
            pass_fds=pass_fds,
            sandbox=sandbox,
            _start=self._start,
        )

    @property
    def pid(self) -> int | None:
        """The process id of the template, once it has been started."""
        return self._work.started()

    @property
    def outcome(self) -> Outcome | None:
        """What became of the template, or None while it runs."""
        return self._work.outcome

    def close(self) -> Outcome:
        """End the template and all its children, now."""
        outcome = self._work.outcome or self._work.kill()
        self._link.close()
        return outcome

    def __enter__(self) -> Template:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start(self, argv: Sequence[str], order: Order) -> Supervisor:
        try:
            return Fork(argv, order, link=self._link, lock=self._lock, cause=self._cause)
        except OSError:
            outcome = self._cause()
            if outcome is None:
                raise
            raise ChildEnded(outcome) from None

    def _cause(self) -> Outcome | None:
        """What became of the template, given a moment to have noticed."""
        with contextlib.suppress(OSError):
            return self._work.wait(_DEATH_PATIENCE_S)
        return None
