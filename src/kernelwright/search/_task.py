"""The worker's side of an evaluation: load the objective, run it, judge what it returns.

Standard library only, and used on both sides: as part of the package, and as a script that a template
preloads (then it is the module `kernelwright_task`), so that a child does not have to import the package.
"""

# ruff: noqa: PTH123 - as in the supervisor: pathlib would lengthen every start
from __future__ import annotations

import base64
import importlib
import json
import math
import os
import pickle
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Mapping
    from types import ModuleType
    from typing import Any

VARIABLE = "KERNELWRIGHT_OBJECTIVE"
NAME = "kernelwright_task"
#: Errors after which a process that uses a GPU can do nothing right any more.
_STICKY = ("CUDA error", "cudaError", "CUBLAS_STATUS", "CUDNN_STATUS", "HIP error", "hipError")
_REASON_CHARACTERS = 500

#: Whether this process is running the user's modules only to find the objective in them.
loading = False
#: What `load` returned when this was preloaded, or the error it raised, in words.
objective: Any = None
trouble: str | None = None
settings: dict[str, Any] = {}


def load(parcel: Mapping[str, Any]) -> Any:
    """The objective in a parcel that `kernelwright.search._objective.pack` wrote."""
    global loading
    loading = True
    try:
        sys.path[:] = parcel["path"]
        for name, file in parcel["modules"].items():
            if name not in sys.modules:
                _module_from_file(name, file)
        if parcel["main"] is not None:
            _run_main(parcel["main"])
        return pickle.loads(base64.b64decode(parcel["pickle"]))
    finally:
        loading = False


def _module_from_file(name: str, file: str) -> None:
    """Load a module as what it is called where it comes from; its packages are made up if need be."""
    import importlib.util
    import types

    words = name.split(".")
    folder = os.path.dirname(file)  # noqa: PTH120
    for count in range(len(words) - 1, 0, -1):
        package = types.ModuleType(".".join(words[:count]))
        package.__path__ = [folder]
        sys.modules.setdefault(package.__name__, package)
        folder = os.path.dirname(folder)  # noqa: PTH120
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"module {name!r} cannot be loaded from {file}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


def _run_main(main: Mapping[str, str]) -> None:
    """Run the user's script as `__mp_main__`, as multiprocessing does, and let it be `__main__` too."""
    import runpy
    import types

    module = types.ModuleType("__mp_main__")
    if "module" in main:
        content = runpy.run_module(main["module"], run_name="__mp_main__", alter_sys=True)
    else:
        content = runpy.run_path(main["file"], run_name="__mp_main__")
    module.__dict__.update(content)
    sys.modules["__main__"] = sys.modules["__mp_main__"] = module


def be_main() -> None:
    """Let the user's script be `__main__` again, in a child whose own script took its place."""
    if "__mp_main__" in sys.modules:
        sys.modules["__main__"] = sys.modules["__mp_main__"]


def preload() -> None:
    """In a template: load the objective that the environment points to; its children find it ready."""
    global objective, trouble
    import faulthandler
    import traceback  # noqa: F401 - so that no child has to

    with open(os.environ[VARIABLE], "rb") as stream:
        parcel = json.load(stream)
    settings.update(parcel["settings"])
    try:
        objective = load(parcel)
        for name in settings["preload"]:
            importlib.import_module(name)
    except BaseException as error:  # noqa: BLE001 - whatever it is, whoever starts the worker is told
        _show(error)
        trouble = f"{type(error).__name__}: {_text_of(error)}"
    faulthandler.enable()


# -- one evaluation ----------------------------------------------------------------------------------------


def evaluate(
    objective: Any, config: Any, count: int, ask: Callable[[dict[str, Any]], dict[str, Any]] | None = None
) -> dict[str, Any]:
    """Run an objective, staged or not, and say what came of it, in words that JSON can carry.

    `ask` is called before the stages `build` and `measure` of a staged objective, with the features known so
    far; it waits for the lane, and may answer with scores, or a failure, that make measuring needless.
    Returns `scores`, `failure` (kind and reason), `lasts` (whether the same code fails alike), `seconds`,
    `stages`, `features` and `retire` (why this process should not be used again, or None).
    """
    clock = _Clock()
    features: dict[str, Any] = {}
    scores: list[float] | None = None
    failure: tuple[str, str] | None = None
    retire: str | None = None
    lasts = False
    try:
        if is_staged(objective):
            value = _staged(objective, config, clock, features, ask)
        else:
            clock.begin("objective")
            value = objective(config)
            if hasattr(value, "__await__"):
                value = _wait_for(value)
    except BaseException as error:  # noqa: BLE001 - an objective may raise anything
        failure, retire = explain(error, clock.stage)
        lasts = bool(getattr(error, "lasts", False))
        features.update(_plain_features(getattr(error, "features", None)))
    else:
        scores, failure = judge(value, count)
    clock.end()
    return {
        "scores": scores,
        "failure": failure,
        "lasts": lasts,
        "seconds": sum(clock.spent.values()),
        "stages": clock.spent if is_staged(objective) else {},
        "features": features,
        "retire": retire,
    }


def is_staged(objective: Any) -> bool:
    """Whether an objective has stages: anything with a method `measure`."""
    return callable(getattr(objective, "measure", None))


class _Clock:
    """Seconds spent in each stage, waiting between them not counted."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}
        self.stage = ""
        self._begun: float | None = None

    def begin(self, stage: str) -> None:
        self.end()
        self.stage = stage
        self._begun = time.perf_counter()

    def end(self) -> None:
        if self._begun is not None:
            self.spent[self.stage] = time.perf_counter() - self._begun
            self._begun = None


def _staged(
    objective: Any,
    config: Any,
    clock: _Clock,
    features: dict[str, Any],
    ask: Callable[[dict[str, Any]], dict[str, Any]] | None,
) -> Any:
    built = config
    if hasattr(objective, "build"):
        if ask is not None:
            ask({"stage": "build"})
        clock.begin("build")
        built = objective.build(config)
    if hasattr(objective, "features"):
        clock.begin("features")
        features.update(_plain_features(objective.features(built)))
    clock.end()
    if ask is None:
        clock.begin("measure")
        return objective.measure(built)
    answer = ask({"stage": "measure", "features": features})
    if answer.get("failure") is not None:
        raise _AsBefore(*answer["failure"])
    if answer.get("scores") is not None:
        return tuple(answer["scores"])
    with _on_cores(answer.get("cores")):
        clock.begin("measure")
        value = objective.measure(built)
        clock.end()
    return value


class _on_cores:  # noqa: N801 - reads as a statement
    """Keep all threads of this process on some processors for a while."""

    def __init__(self, cores: list[int] | None) -> None:
        self._cores = cores
        self._before: dict[int, set[int]] = {}

    def __enter__(self) -> None:
        for thread in map(int, os.listdir("/proc/self/task")) if self._cores else ():  # noqa: PTH208
            try:
                self._before[thread] = os.sched_getaffinity(thread)
                os.sched_setaffinity(thread, self._cores or ())
            except ProcessLookupError:
                continue

    def __exit__(self, *_: object) -> None:
        for thread, cores in self._before.items():
            try:
                os.sched_setaffinity(thread, cores)
            except ProcessLookupError:
                continue


class _AsBefore(Exception):
    """The same code failed before."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.failure_kind = kind


def _plain_features(features: Any) -> dict[str, Any]:
    if not hasattr(features, "items"):
        return {}
    return {str(name): _plain(value) for name, value in features.items()}


def _plain(value: Any) -> Any:
    """A feature as JSON can carry it: numbers and texts as they are, anything else in words."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    try:
        return float(value)
    except (TypeError, ValueError):
        return str(value)


def _wait_for(value: Any) -> Any:
    import asyncio

    async def wait() -> Any:
        return await value

    return asyncio.run(wait())


# -- judging -----------------------------------------------------------------------------------------------


def judge(value: Any, count: int) -> tuple[list[float] | None, tuple[str, str] | None]:
    """What an objective returned as `count` scores, or the kind and reason of its failure."""
    shown = _shortened(repr_of(value))
    if isinstance(value, (tuple, list)) or (hasattr(value, "tolist") and getattr(value, "ndim", 0) == 1):
        parts = list(value)
    else:
        parts = [value]
    numbers = [_number(part) for part in parts]
    if None in numbers:
        hint = "; a return statement may be missing" if value is None else ""
        kind = type(value).__name__
        return None, ("invalid_score", f"the objective returned {shown} ({kind}), which is no score{hint}")
    scores = [number for number in numbers if number is not None]
    if len(scores) == 1 and not math.isfinite(scores[0]):
        return None, ("invalid_score", f"the objective returned {shown}")  # INVALID_SCORE, however many
    if len(scores) != count:
        wanted = "one score is" if count == 1 else f"{count} scores are"
        return None, ("wrong_arity", f"the objective returned {len(scores)} scores, {shown}; {wanted} wanted")
    if not all(map(math.isfinite, scores)):
        return None, ("invalid_score", f"the objective returned {shown}")
    return scores, None


def _number(value: Any) -> float | None:
    """A score, from whatever is a number: not a text, and no truth value, which is a mistake more likely."""
    if isinstance(value, (str, bytes, bytearray, bool)) or type(value).__name__ in ("bool_", "bool"):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf
    except Exception:  # noqa: BLE001 - any class may be returned, and any of its methods may fail
        return None


def repr_of(value: Any) -> str:
    """The value in words, also where its class cannot say."""
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - see above
        return f"an object of class {type(value).__name__}"


def explain(error: BaseException, stage: str = "") -> tuple[tuple[str, str], str | None]:
    """Kind and reason of the failure that an exception is, and why its process should not be used again."""
    name = type(error).__name__
    said = _text_of(error)
    text = f"{name}: {said}" if said else name
    kind = getattr(error, "failure_kind", None)
    if isinstance(kind, str):
        return (kind, _shortened(said)), getattr(error, "retire", None)
    if getattr(error, "skips_measurement", False):
        return ("skipped", _shortened(said)), None
    if isinstance(error, SystemExit):
        return ("exited", f"the objective called sys.exit({error.code!r})"), None
    _show(error)
    if isinstance(error, MemoryError) or name == "OutOfMemoryError":
        return ("out_of_memory", _shortened(text)), "it ran out of memory"
    if type(error).__module__ in ("pickle", "_pickle"):
        return ("unpicklable", _shortened(text)), None
    sticky = "a GPU error" if any(mark in text for mark in _STICKY) else None
    return ("build_failed" if stage == "build" else "raised", _shortened(text)), sticky


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - a class of the user's may do anything here
        return "(its text cannot be had)"


def _show(error: BaseException) -> None:
    """Write the traceback to the standard error, without our own frames."""
    import traceback

    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__ and trace.tb_next is not None:
        trace = trace.tb_next
    try:
        traceback.print_exception(type(error), error, trace)
    except Exception:  # noqa: BLE001 - out of memory, or an exception whose text raises
        sys.stderr.write(f"{type(error).__name__}\n")


def _shortened(text: str) -> str:
    return text if len(text) <= _REASON_CHARACTERS else text[:_REASON_CHARACTERS] + " …"


# -- in a child --------------------------------------------------------------------------------------------


def serve(channel: Any, *, once: bool) -> None:
    """Evaluate what is asked for, until the channel is closed, or once."""
    me = os.getpid()
    be_main()
    channel.send({"op": "ready", "trouble": trouble, "staged": is_staged(objective)})
    while (message := channel.receive()) is not None:

        def ask(question: dict[str, Any]) -> dict[str, Any]:
            channel.send({"op": "stage", **question})
            answer = channel.receive()
            if answer is None:
                os._exit(0)  # nobody waits for this evaluation any more
            return dict(answer)

        with _on_cores(message.get("cores")):
            known = _others()
            try:
                config = pickle.loads(base64.b64decode(message["config"]))
            except BaseException as error:  # noqa: BLE001 - a class of the user's may do anything here
                (_, reason), _ = explain(error)
                failure = ("unpicklable", f"the configuration cannot be loaded: {reason}")
                result = dict.fromkeys(("scores", "retire", "stages", "features"))
                result |= {"failure": failure, "seconds": 0.0}
            else:
                result = evaluate(objective, config, settings["num_objectives"], ask)
        if os.getpid() != me:
            os._exit(0)  # a process that the objective forked, and that came back from it as well
        left = _others() - known
        if left and not result.get("retire"):
            result["retire"] = f"threads were left behind: {', '.join(sorted(map(str, left)))}"
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError, AttributeError):
                continue  # the objective has closed it
        channel.send({"op": "done", **result})
        if once:
            return


def _others() -> set[Any]:
    """The threads of this process besides this one, those of libraries that are not Python's left out."""
    threading: ModuleType | None = sys.modules.get("threading")
    return set(threading.enumerate()) if threading is not None else set()


if __name__ == "_task":  # run by a template, under the name of this file
    sys.modules[NAME] = sys.modules.pop("_task")
    preload()
