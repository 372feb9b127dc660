"""A child of a template that evaluates many tasks at once on one event loop. Run as a script.

Asked `{"number", "config", "timeout"}` it answers `done` with the number, in any order; asked
`{"op": "ping"}` it answers `pong`, which shows that the loop goes round.
"""

from __future__ import annotations

import asyncio
import base64
import os
import pickle
import sys
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from kernelwright.process._channel import Channel
    from kernelwright.process._channel import connect
    from kernelwright.search import _task as task
else:
    import kernelwright_task as task
    from kernelwright_channel import connect


async def evaluate(message: dict[str, Any]) -> dict[str, Any]:
    """Await the objective for one configuration."""
    begun = time.perf_counter()
    limit = message["timeout"]
    scores: list[float] | None = None
    failure: tuple[str, str] | None = None
    retire: str | None = None
    try:
        async with asyncio.timeout(limit) as clock:
            config = pickle.loads(base64.b64decode(message["config"]))
            value = await task.objective(config)
    except BaseException as error:  # noqa: BLE001 - an objective may raise anything, sys.exit included
        if isinstance(error, TimeoutError) and clock.expired():
            failure = ("timeout", f"not done after {limit:g} s; cancelled")
        else:
            failure, retire = task.explain(error)
    else:
        scores, failure = task.judge(value, task.settings["num_objectives"])
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            continue  # the objective has closed it
    seconds = time.perf_counter() - begun
    return {"scores": scores, "failure": failure, "seconds": seconds, "retire": retire}


async def serve(channel: Channel) -> None:
    """Start what is asked for, until nobody asks any more."""
    me = os.getpid()
    loop = asyncio.get_running_loop()
    inbox: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
    running = set()

    def read() -> None:
        while (message := channel.receive()) is not None:
            loop.call_soon_threadsafe(inbox.put_nowait, message)
        loop.call_soon_threadsafe(inbox.put_nowait, None)

    async def run(message: dict[str, Any]) -> None:
        said = await evaluate(message)
        if os.getpid() != me:
            os._exit(0)  # a process that an objective forked, and that came back from it as well
        channel.send({"op": "done", "number": message["number"], **said})

    threading.Thread(target=read, daemon=True).start()
    channel.send({"op": "ready", "trouble": task.trouble, "staged": False})
    while (message := await inbox.get()) is not None:
        if message.get("op") == "ping":
            channel.send({"op": "pong"})
        else:
            one = loop.create_task(run(message))
            running.add(one)
            one.add_done_callback(running.discard)


if __name__ == "__main__":
    task.be_main()
    asyncio.run(serve(connect()))
