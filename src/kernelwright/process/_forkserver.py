"""The template: imports modules once, then forks a supervisor and a target for each request.

Run as `python -I _forkserver.py SOCKET MODULE... -- SCRIPT...`, with `-S` before it where no site-packages
are wanted. A module's name that ends in `.py` is the path of a script, which becomes a module of the file's
name. The scripts after the dashes are compiled, for children that will run them.

A request is four bytes of length, big end first, which carry the descriptors (report, lifeline, standard
output, standard error, then those for the target), and that many bytes of JSON: `argv` (the script and its
arguments), `words` as for `_supervisor.py`, `cwd`, `env`, and `numbers`, which the target's descriptors get.

The template stays single-threaded: a fork has only the thread that forked, so what others held stays held.
"""

# ruff: noqa: PTH120, PTH123 - as in the supervisor
from __future__ import annotations

import fcntl
import gc
import importlib
import json
import os
import random
import signal
import socket
import sys
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any
    from typing import NoReturn

    from kernelwright.process import _channel
    from kernelwright.process import _confine
    from kernelwright.process import _work
else:
    sys.path.insert(0, os.path.dirname(__file__))
    import _channel
    import _confine
    import _work

    del sys.path[0]

compiled: dict[str, tuple[bytes, types.CodeType]] = {}
_HANDLES = 250  # the kernel lets 253 descriptors travel with one message


def preload(name: str) -> None:
    """Import a module, or run a script as the module of its file's name."""
    if not name.endswith(".py"):
        importlib.import_module(name)
        return
    module = types.ModuleType(os.path.basename(name)[:-3])  # noqa: PTH119
    module.__file__ = name
    sys.modules[module.__name__] = module
    with open(name, "rb") as stream:
        exec(compile(stream.read(), name, "exec"), module.__dict__)


def compile_ahead(path: str) -> None:
    """Compile a script that children will run; one that cannot be read or compiled is left to them."""
    try:
        with open(path, "rb") as stream:
            source = stream.read()
        compiled[path] = source, compile(source, path, "exec")
    except (OSError, SyntaxError, ValueError):
        pass


def code_of(path: str) -> types.CodeType:
    """The code of a script as it is now: compiled here unless it is what was compiled ahead."""
    with open(path, "rb") as stream:
        source = stream.read()
    known, code = compiled.get(path, (None, None))
    return code if code is not None and known == source else compile(source, path, "exec")


def receive(link: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """The next request and its descriptors; None when nobody will ask any more."""
    head, handles, _, _ = socket.recv_fds(link, 4, _HANDLES)
    body = bytearray()
    while len(head) == 4 and len(body) < int.from_bytes(head, "big"):
        part = link.recv(int.from_bytes(head, "big") - len(body))
        if not part:
            return None
        body += part
    return (json.loads(body), handles) if body else None


def serve(request: dict[str, Any], handles: list[int]) -> None:
    """In a fork of the template: be a supervisor like any other."""
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    numbers = request["numbers"]
    floor = max([2, *numbers]) + 1
    raised = [fcntl.fcntl(handle, fcntl.F_DUPFD_CLOEXEC, floor) for handle in handles]
    null = fcntl.fcntl(os.open(os.devnull, os.O_RDWR), fcntl.F_DUPFD_CLOEXEC, floor)
    _work.close_all_but([*raised, null])
    report, lifeline, out, err, *given = raised
    for source, number in zip([null, out, err, *given], [0, 1, 2, *numbers], strict=True):
        os.dup2(source, number, inheritable=number < 3)
        os.close(source)
    words = {**request["words"], "report": str(report), "lifeline": str(lifeline)}
    try:
        os.chdir(request["cwd"])
    except OSError as error:
        os.write(report, b"failed %d\n" % (error.errno or 0))
        return

    def target() -> NoReturn:
        _work.close_all_but([0, 1, 2, *numbers])
        os.environ.clear()
        os.environ.update(request["env"])
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_IGN)  # as Python has them
        run(request["argv"])

    asked = words.pop("sandbox", None)
    confinement = _confine.Confinement(asked, words) if asked is not None else None
    _work.supervise(words, numbers, target, confinement)


def run(argv: list[str]) -> NoReturn:
    """Run a script as a new interpreter would, then end the process."""
    sys.argv = argv
    random.seed()
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()
    for name in ("_channel", "_work", "_tree", "_confine", "_kernel", "_mounts"):
        sys.modules.pop(name, None)
    module = types.ModuleType("__main__")
    module.__file__ = argv[0]
    module.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = module
    sys.modules["kernelwright_channel"] = _channel
    code = 0
    try:
        exec(code_of(argv[0]), module.__dict__)
    except SystemExit as error:
        code = exit_code(error)
    except BaseException as error:  # noqa: BLE001 - whatever it is, a script that raises it ends with it
        frames = error.__traceback__
        while frames is not None and frames.tb_frame.f_code.co_filename == __file__:
            frames = frames.tb_next  # ours are no part of what the script shows
        error.__traceback__ = frames
        sys.excepthook(type(error), error, error.__traceback__)
        code = 1
    finish(code)


def exit_code(error: SystemExit) -> int:
    """What Python makes of the argument of `sys.exit`."""
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code & 0xFF
    sys.stderr.write(f"{error.code}\n")
    return 1


def finish(code: int) -> NoReturn:
    """End the process as Python does, short of tearing down modules, which costs more than a fork."""
    import atexit
    import ctypes
    import threading

    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            code = code or 120  # as Python: it could not say all that it had to say
    ctypes.CDLL(None).fflush(None)
    os._exit(code)


def main() -> None:
    """Preload, then answer requests until the socket is closed."""
    link = socket.socket(fileno=int(sys.argv[1]))
    link.set_inheritable(False)
    split = sys.argv.index("--")
    for name in sys.argv[2:split]:
        preload(name)
    for path in sys.argv[split + 1 :]:
        compile_ahead(path)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel collects what has ended
    sys.stdout.flush()
    sys.stderr.flush()
    gc.collect()
    gc.freeze()  # a collection in a fork must not copy every page of what was imported
    if os.fork() == 0:
        # The first fork is the slow one: libraries such as OpenBLAS put their threads away for it.
        os._exit(0)
    while (asked := receive(link)) is not None:
        request, handles = asked
        if os.fork() == 0:
            try:
                link.close()
                serve(request, handles)
            except BaseException as error:  # noqa: BLE001 - nothing may get back into the template's loop
                sys.excepthook(type(error), error, error.__traceback__)
            finally:
                os._exit(0)
        for handle in handles:
            os.close(handle)


if __name__ == "__main__":
    main()
