"""Kill -9 a search at random moments, resume it, and see that nothing is lost, repeated or left behind.

    python benchmarks/search_kill.py --worker iso --moments 20

Each moment: a search runs in a process of its own, which is killed; within seconds no process of it may be
left. Then it is resumed in another process. The objective logs its calls, so that what was evaluated does not
hang on what the store says. Other moments each time, unless `--seed` is given.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

TOKEN = "KERNELWRIGHT_SEARCH_KILL"
LOG = "KERNELWRIGHT_SEARCH_KILL_LOG"
#: Seconds in which all processes of a killed search have to be gone.
PATIENCE_S = 20.0
WORKERS = {
    "iso": "IsoMultiProcessWorker",
    "pool": "MultiProcessWorker",
    "async": "AsyncWorker",
    "ray": "RayWorker",
    "serial": "SerialWorker",
}


def objective(config: dict[str, Any]) -> float:
    """Log its begin and end; most of the time it waits for a process of its own."""
    _log("begin", config)
    if config["x"] % 3:
        subprocess.run(["sleep", "0.03"], check=True, start_new_session=config["x"] % 2 == 0)
    _log("end", config)
    return float((config["x"] - 50) ** 2)


async def async_objective(config: dict[str, Any]) -> float:
    """The same, waiting as async code does."""
    import asyncio

    _log("begin", config)
    await asyncio.sleep(0.03)
    _log("end", config)
    return float((config["x"] - 50) ** 2)


def _log(what: str, config: dict[str, Any]) -> None:
    # One write of one line: lines of several processes do not mix.
    handle = os.open(os.environ[LOG], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, f"{what} {config['x']}\n".encode())
    os.close(handle)


def drive(store: str, worker: str, evaluations: int, resume: bool) -> None:
    """What the process does that is killed."""
    from kernelwright import search
    from kernelwright import space

    one = search.Search(
        async_objective if worker == "async" else objective,
        {"x": space.range(0, 99)},
        search.SearchConfiguration(max_evaluations=evaluations, optimizer=search.LocalSearch),
        worker_type=getattr(search, WORKERS[worker]),
        store=store,
    )
    if resume:
        one.resume(Path(store))
    one.start(num_workers=1 if worker == "serial" else 2)


def processes(token: str) -> list[int]:
    """Those that inherited the token, this one left out."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and token.encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def begin(
    worker: str, store: Path, evaluations: int, environment: dict[str, str], *, resume: bool
) -> subprocess.Popen[bytes]:
    """A search in a process of its own."""
    command = [sys.executable, __file__, "--drive", str(store), "--worker", worker]
    command += ["--evaluations", str(evaluations)]
    return subprocess.Popen([*command, *(["--resume"] if resume else [])], env=environment)


def moment(worker: str, folder: Path, evaluations: int, share: float) -> dict[str, Any]:
    """Kill a search when `share` of it is done, and resume it; what was seen. SystemExit on a fault."""
    from kernelwright.search import read_run

    token = uuid.uuid4().hex
    log, store = folder / "log", folder / "store.sqlite"
    log.touch()
    environment = {**os.environ, TOKEN: token, LOG: str(log)}
    running = begin(worker, store, evaluations, environment, resume=False)
    while running.poll() is None and log.read_text().count("end") < share * evaluations:
        time.sleep(0.001)
    time.sleep(random.uniform(0, 0.04))
    running.send_signal(signal.SIGKILL)
    running.wait()
    killed_at = time.monotonic()
    while left := processes(token):
        if time.monotonic() - killed_at > PATIENCE_S:
            names = [
                (Path("/proc") / str(pid) / "cmdline").read_text().replace("\0", " ")[:200] for pid in left
            ]
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            raise SystemExit(f"{worker}: {PATIENCE_S:g} s after the driver there are still {names}")
        time.sleep(0.005)
    gone_s = time.monotonic() - killed_at
    calls_before = log.read_text().splitlines()
    before = read_run(store)
    in_flight = {one.params["x"] for one in before.pending}
    told = {one.params["x"] for one in before.evaluations}
    if begin(worker, store, evaluations, environment, resume=True).wait(120) != 0:
        raise SystemExit(f"{worker}: the search could not be resumed")
    after = read_run(store)
    calls = log.read_text().splitlines()[len(calls_before) :]
    again = {int(line.split()[1]) for line in calls if line.startswith("begin")}
    evaluated = Counter(one.params["x"] for one in after.evaluations)
    finished_unknown = {int(line.split()[1]) for line in calls_before if line.startswith("end")} - told
    faults = {
        "more than was in flight was lost": len(in_flight) > 2,
        "what was in flight was not asked again": not in_flight <= again,
        "what had finished was repeated": bool(told & again),
        "evaluations are missing or doubled": len(evaluated) != evaluations or max(evaluated.values()) > 1,
        "something is pending still": bool(after.pending),
        "what was told has changed": after.evaluations[: len(before.evaluations)] != before.evaluations,
        "processes were left by the resumed search": bool(processes(token)),
    }
    if any(faults.values()):
        raise SystemExit(f"{worker}: {[what for what, is_so in faults.items() if is_so]}")
    return {
        "told": len(told),
        "in_flight": len(in_flight),
        "lost": len(finished_unknown),
        "gone_s": round(gone_s, 3),
    }


def main() -> None:
    """Kill searches, or be one."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--worker", choices=list(WORKERS), action="append")
    parser.add_argument("--moments", type=int, default=20)
    parser.add_argument("--evaluations", type=int, default=40)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--drive", help=argparse.SUPPRESS)
    parser.add_argument("--resume", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.drive is not None:
        drive(options.drive, options.worker[0], options.evaluations, options.resume)
        return
    random.seed(options.seed)
    for worker in options.worker or list(WORKERS):
        seen = []
        for number in range(options.moments):
            with tempfile.TemporaryDirectory() as folder:
                share = (number + random.random()) / options.moments * 0.9
                seen.append(moment(worker, Path(folder), options.evaluations, share))
        summary = {
            "worker": worker,
            "moments": len(seen),
            "in_flight_most": max(one["in_flight"] for one in seen),
            "finished_but_not_told": sum(one["lost"] for one in seen),
            "gone_s_most": max(one["gone_s"] for one in seen),
            "told": [one["told"] for one in seen],
        }
        print(json.dumps(summary), flush=True)


if __name__ == "__main__":
    main()
