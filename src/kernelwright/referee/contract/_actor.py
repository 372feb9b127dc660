"""What a performer does: load, call, race, show; and note what it saw."""

from __future__ import annotations

import ctypes
import gc
import itertools
import mmap
import os
import sys
import time
import types
from collections import deque
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch

from kernelwright.referee.contract import _allocator as allocator
from kernelwright.referee.contract import _desk as desk
from kernelwright.referee.contract import _find as finding
from kernelwright.referee.contract import _outputs as outputs
from kernelwright.referee.contract import _sensors as sensors
from kernelwright.referee.contract import _tree as tree
from kernelwright.referee.contract._tree import Node

_clock = time.perf_counter_ns
_sleep = time.sleep
_processors, _move = os.sched_getaffinity, os.sched_setaffinity
_starmap = itertools.starmap
_set_threads = torch.set_num_threads
_no_grad = torch.no_grad
_enable_grad = torch.enable_grad
_backward = torch.autograd.backward
_grad = torch._C.TensorBase.__dict__["grad"].__get__
_requires_grad = torch._C.TensorBase.__dict__["requires_grad"].__get__
_gc_disable = gc.disable
_gc_enable = gc.enable
_gc_isenabled = gc.isenabled
_mprotect = ctypes.CDLL(None, use_errno=True).mprotect
_mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_MADV_POPULATE_WRITE = 23

#: With so many calls before it a timed output is held to share no memory.
_LOOK_BACK = 16

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


class Actor:
    """The operations of a performer; see `Performer` for what they mean."""

    def __init__(self, mapping: mmap.mmap, modules: Sequence[types.ModuleType] = ()) -> None:
        self._mapping = mapping
        self._base = outputs.address_of(mapping)
        self._outputs = outputs.Outputs(mapping)
        self._sensors = sensors.Sensors(mapping, modules)
        self._function: Callable[..., Any] | None = None
        self._own: tuple[str, ...] = ()
        self._slots: list[Arguments] = []
        self._plan: list[Arguments] = []
        self._batch: deque[Any] = deque()
        self._first = 0

    def operations(self) -> dict[str, desk.Operation]:
        """What the judge can ask for, by name."""
        return {
            "load": self.load,
            "call": self.call,
            "recopy": self.recopy,
            "arrange": self.arrange,
            "plan": self.plan,
            "go": self.go,
            "collect": self.collect,
            "drop": self.drop,
            "acts": self.acts,
        }

    def own(self) -> tuple[str, ...]:
        """Where the candidate's code lies."""
        return self._own

    def load(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Import the target; only from here on does foreign code run."""
        if message["keep_pages"]:
            allocator.keep_pages()
        self._threads(message)
        baseline = message["baseline"]
        state: dict[str, str] = {}
        if baseline is not None:
            from kernelwright.ops import load_baseline

            self._own = (os.path.realpath(baseline),)
            self._sensors.start({}, (), self._own)
            before = {*sys.modules}
            loaded = load_baseline(Path(baseline))
            function, module = loaded.call, loaded.module
        else:
            sys.path[:0] = message["path"]
            folders = tuple(os.path.realpath(path) + os.sep for path in message["path"])
            self._own = finding.files_of(message["package"])
            self._sensors.start(message["watched"], folders, self._own)
            before = {*sys.modules}
            function = finding.find(message["package"], message["name"])
            if isinstance(function, type):
                init = [self._decode(node) for node in message["init"]]
                given = {name: self._decode(node) for name, node in message["state"].items()}
                function, state = finding.build(function, init, message["init_seed"], given)
            module = function if isinstance(function, torch.nn.Module) else None
        self._function = function
        self._sensors.compare()
        self._outputs.state = {
            name: reach
            for name, tensor in finding.state_of(module).items()
            if (reach := outputs.storage_range(tensor.data)) is not None
        }
        tops = {name.partition(".")[0] for name in {*sys.modules} - before}
        kind = "function" if isinstance(function, types.FunctionType) else "object"
        return {"kind": kind, "state": state, "modules": sorted(tops)[:200]}

    def call(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """One call, its outputs copied out as soon as it returns."""
        function = self._ready(message)
        nodes = [*message["args"], *message["kwargs"].values()]
        inputs = [one for node in nodes for one in tree.tensors_of(node)]
        args = tuple([self._decode(node) for node in message["args"]])
        kwargs = {name: self._decode(node) for name, node in message["kwargs"].items()}
        wanted = message["grad_outputs"]
        guards = [node["guard"] for node in inputs if node.get("guard")]
        sizes = [node["nbytes"] for node in inputs] if message["poison"] is None else message["poison"]
        reply: dict[str, Any] = {}
        made: deque[Any] = deque()
        with self._grad_mode(wanted is not None), self._tracing(message["trace"], reply):
            self._protect(guards, 0)
            try:
                # The same line as in a batch: who looks at its caller sees no difference.
                with allocator.poisoning(sizes):
                    run(function, [(args, kwargs)], made)
                (value,) = made
                taken = self._outputs.take(
                    value, message["at"], message["room"], inputs=inputs, number=message["number"]
                )
            finally:
                self._protect(guards, mmap.PROT_READ | mmap.PROT_WRITE)
        reply.update(taken)
        self._sensors.after_call()
        if message["settle_ms"] is not None:
            _sleep(message["settle_ms"] / 1e3)
            again = self._outputs.copy_again(value, message["settled_at"], message["room"])
            reply["settled"] = again["value"]
        if wanted is not None:
            reply["gradients"] = self._gradients(value, wanted, [args, kwargs], message)
        return reply

    def recopy(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """The output of an earlier call as it is now."""
        value = self._outputs.kept(message["number"])
        return self._outputs.copy_again(value, message["at"], message["room"])

    def arrange(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Build the arguments of all slots."""
        self._ready(message)
        self._outputs.forget()
        self._slots = [
            (
                tuple([self._decode(node) for node in slot["args"]]),
                {name: self._decode(node) for name, node in slot["kwargs"].items()},
            )
            for slot in message["slots"]
        ]
        for slot in message["slots"]:
            for node in [*slot["args"], *slot["kwargs"].values()]:
                for one in tree.tensors_of(node):
                    self._populate(one)
        return {}

    def plan(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Get ready for a batch: forget the last one, line up the calls, make those before the clock."""
        function = self._ready(message)
        keep = message["keep"]
        self._first = 0 if keep is None else max(0, len(message["order"]) - keep)
        self._batch = deque(maxlen=keep)
        if message["processor"] is not None:
            allowed = _processors(0)
            _move(0, {message["processor"]})
            _move(0, allowed)
        with _no_grad():
            run(function, [self._slots[index] for index in message["lead"]], deque(maxlen=1))
        self._plan = [self._slots[index] for index in message["order"]]
        return {}

    def go(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """The batch itself."""
        function = self._function
        assert function is not None
        # Whoever looks into the frames of its callers must not find the arguments of the calls to come.
        plan, self._plan = self._plan, []
        calls = len(plan)
        work = prepared(function, plan)
        del plan
        collects = _gc_isenabled()
        _gc_disable()
        try:
            with _no_grad():
                own_ns = timed(work, self._batch)
        finally:
            if collects:
                _gc_enable()
        self._sensors.after_call()
        return {"own_ns": own_ns, "calls": calls}

    def collect(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Copy outputs of the last batch."""
        at, end = message["at"], message["at"] + message["room"]
        taken = []
        for index, nodes in zip(message["calls"], message["inputs"], strict=True):
            place = index - self._first
            earlier = [self._batch[other] for other in range(max(0, place - _LOOK_BACK), place)]
            one = self._outputs.take(self._batch[place], at, end - at, inputs=nodes, earlier=earlier)
            at += one["used"]
            taken.append(one)
        return {"taken": taken}

    def drop(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Forget the outputs of the last batch."""
        self._batch = deque()
        return {}

    def acts(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Look for what was replaced or left on."""
        self._sensors.compare()
        return {"acts": self._sensors.acts()}

    def _ready(self, message: Mapping[str, Any]) -> Callable[..., Any]:
        assert self._function is not None
        self._threads(message)
        return self._function

    def _threads(self, message: Mapping[str, Any]) -> None:
        if message.get("threads") is not None:
            _set_threads(message["threads"])

    def _decode(self, node: Mapping[str, Any]) -> Any:
        return tree.decode(node, lambda one: tree.tensor_in(self._mapping, one), pickles=True)

    def _grad_mode(self, grad: bool) -> AbstractContextManager[Any]:
        return _enable_grad() if grad else _no_grad()

    def _tracing(self, wanted: bool, reply: dict[str, Any]) -> AbstractContextManager[Any]:
        return self._sensors.tracing(reply if wanted else None)

    def _protect(self, guards: Sequence[Sequence[int]], protection: int) -> None:
        for at, count in guards:
            if _mprotect(self._base + at, count, protection):
                raise OSError(ctypes.get_errno(), "a guard page could not be protected")

    def _populate(self, node: Node) -> None:
        """Map the pages of a slot now, so that no timed call does."""
        first = node["lo"] // mmap.PAGESIZE * mmap.PAGESIZE
        count = node["at"] + node["nbytes"] - first
        try:
            self._mapping.madvise(_MADV_POPULATE_WRITE, first, count)
        except (OSError, ValueError):
            return  # an old kernel: the calls before the clock touch them

    def _gradients(
        self, value: object, wanted: Sequence[Node | None], given: object, message: Mapping[str, Any]
    ) -> list[Node | None]:
        flat = outputs.tensors_in(value)
        pairs = [
            (tensor, self._decode(node))
            for tensor, node in zip(flat, wanted, strict=False)
            if node is not None and _requires_grad(tensor)
        ]
        if pairs:
            _backward([tensor for tensor, _ in pairs], [grad for _, grad in pairs])
        leaves = outputs.tensors_in(given)
        at, end = message["gradients_at"], message["gradients_at"] + message["room"]
        nodes: list[Node | None] = []
        for leaf in leaves:
            if not _requires_grad(leaf):
                continue
            grad = _grad(leaf)
            if grad is None:
                nodes.append(None)
                continue
            one = self._outputs.take(grad, at, end - at)
            at += one["used"]
            nodes.append(one["value"])
        return nodes


def prepared(function: Callable[..., Any], plan: Sequence[Arguments]) -> Iterator[Any]:
    """The calls of a plan, each made when it is asked for; no frame holds what is still to come."""
    if any(kwargs for _, kwargs in plan):
        return _starmap(_apply, [(function, args, kwargs) for args, kwargs in plan])
    return _starmap(function, [args for args, _ in plan])


def timed(work: Iterator[Any], kept: deque[Any]) -> int:
    """Make the calls, back to back, and keep what they return; nanoseconds."""
    clock, take = _clock, kept.extend
    begin = clock()
    take(work)
    return clock() - begin


def run(function: Callable[..., Any], plan: Sequence[Arguments], kept: deque[Any]) -> int:
    """Call `function` on each of `plan`."""
    return timed(prepared(function, plan), kept)


def _apply(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return function(*args, **kwargs)


def main(arguments: list[str], modules: Sequence[types.ModuleType]) -> None:
    """Serve until the judge closes the channel; `modules` are the judge's own in this process."""
    office = desk.Desk()
    actor = Actor(desk.open_board(arguments), modules)
    office.serve(actor.operations(), actor.own)
