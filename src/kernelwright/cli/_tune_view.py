"""What a person sees of a tuning run: a live panel at a terminal, plain lines elsewhere; the final table."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.console import Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from kernelwright.report import duration
from kernelwright.report import elapsed
from kernelwright.report import NOT_KNOWN
from kernelwright.report import ratio
from kernelwright.report import styled
from kernelwright.report import table
from kernelwright.tuning import BestChanged
from kernelwright.tuning import EvaluationFinished
from kernelwright.tuning import Noted
from kernelwright.tuning import PhaseChanged
from kernelwright.tuning import RunEvent
from kernelwright.tuning import RunOpened
from kernelwright.tuning import RunRecord
from kernelwright.tuning import WorkloadDecided
from kernelwright.tuning import WorkloadResult


class View:
    """Says nothing; the base of those that do. Keeps the run, to name it when it is interrupted."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.run: RunRecord | None = None

    def __enter__(self) -> View:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def listen(self, event: RunEvent) -> None:
        """Take an event of the run."""
        self.run = event.run

    def stop(self) -> None:
        """Leave the terminal as it was."""


class Lines(View):
    """One plain line for what matters: for logs and pipes."""

    def listen(self, event: RunEvent) -> None:
        """Print a line for some events."""
        super().listen(event)
        say = self.console.print
        run = event.run
        match event:
            case RunOpened():
                say(_opening(run), soft_wrap=True)
            case EvaluationFinished(evaluation=one):
                if not one.passed:
                    said = "same code as" if one.reused else one.status
                    tail = f"#{one.reused}" if one.reused else "".join(one.reason.splitlines()[:1])
                    say(f"{_at(run)} #{one.number} {said} {tail}", soft_wrap=True, markup=False)
            case BestChanged(workload=workload, evaluation=one):
                text = f"{workload}: best so far #{one.number}, {ratio(one.ratios[workload])} the default"
                say(f"{_at(run)} {text}", soft_wrap=True, markup=False)
            case PhaseChanged(phase=phase):
                if phase not in ("building", "screening", "finished"):
                    say(f"{_at(run)} {phase}; {_counts(run)}", soft_wrap=True, markup=False)
            case WorkloadDecided(result=result):
                say(
                    f"{_at(run)} {result.workload}: {result.outcome}",
                    soft_wrap=True,
                    markup=False,
                )
            case Noted(text=text):
                say(f"note: {text}", soft_wrap=True, markup=False)


class Panel(View):
    """A panel that is drawn again at each event; never in between, where it would disturb the clock."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._phase = ""
        self._live = Live(get_renderable=self._draw, console=console, auto_refresh=False, transient=True)

    def __enter__(self) -> View:
        self._live.start()
        return self

    def listen(self, event: RunEvent) -> None:
        """Keep what the panel shows; print what should stay."""
        super().listen(event)
        match event:
            case RunOpened():
                self.console.print(_opening(event.run), soft_wrap=True)
            case PhaseChanged(phase=phase):
                self._phase = str(phase)
            case Noted(text=text):
                self.console.print(f"note: {text}", soft_wrap=True, markup=False)
            case _:
                pass
        self._live.refresh()

    def stop(self) -> None:
        """Remove the panel."""
        self._live.stop()

    def _draw(self) -> Group:
        run = self.run
        if run is None:
            return Group(Text("preparing"))
        left_s = max(run.budget_s - run.elapsed_s, 0.0)
        made = table(None, "workload", "best so far", ">ratio to the default", "state")
        decided = {result.workload: result for result in run.results}
        for workload in run.workloads:
            best = run.best(workload)
            result = decided.get(workload)
            shown = "default" if best is None or best.number == 1 else f"#{best.number} ({best.origin})"
            seen = "" if best is None else ratio(best.ratios[workload])
            made.add_row(workload, shown, seen, escape(result.outcome) if result else "screened, not proven")
        head = f"{self._phase}; {_counts(run)}; {elapsed(left_s)} left"
        return Group(Text(head), made)


def make_view(console: Console, *, quiet: bool) -> View:
    """The view that suits the console."""
    if quiet:
        return View(console)
    return Panel(console) if console.is_terminal else Lines(console)


def results_table(run: RunRecord) -> Table:
    """One row a workload: default, winner, ratio with interval, verdict, and how it stands against torch."""
    title = f"{run.operator} on {run.machine['cpu']}"
    made = table(title, "workload", ">default", ">winner", ">ratio", "verdict", "against torch")
    for result in run.results:
        contest = result.contest("default")
        torch = _torch(result)
        if result.winner is None or contest is None:
            stands = "default stands" if result.winner is None else f"({result.origin}, not confirmed)"
            made.add_row(result.workload, _default_time(result), stands, NOT_KNOWN, NOT_KNOWN, torch)
            continue
        made.add_row(
            result.workload,
            duration(contest["baseline_time"]["median_ns"]),
            f"{duration(contest['candidate_time']['median_ns'])} ({result.origin})",
            escape(ratio(contest["ratio"], contest["interval"])),
            styled(contest["comparison"]),
            torch,
        )
    return made


def _default_time(result: WorkloadResult) -> str:
    """The default's own time, from whatever contest it was in."""
    held = [contest for contest in result.contests if contest["baseline"] == "default"]
    return duration(held[-1]["baseline_time"]["median_ns"]) if held else NOT_KNOWN


def _torch(result: WorkloadResult) -> str:
    contest = result.contest("torch")
    if contest is None:
        return "not raced"
    return f"{styled(contest['comparison'])} {escape(ratio(contest['ratio'], contest['interval']))}"


def _at(run: RunRecord) -> str:
    return f"[{run.elapsed_s:5.1f} s]"


def _opening(run: RunRecord) -> str:
    return (
        f"run {run.id}: {run.operator} {run.dtype}, {len(run.workloads)} workloads, {elapsed(run.budget_s)}"
    )


def _counts(run: RunRecord) -> str:
    judged = [one for one in run.evaluations if one.status != "pending"]
    reused = sum(one.reused is not None for one in judged)
    failures = ", ".join(f"{count} {status}" for status, count in run.failures.items()) or "no failures"
    built = sum(one.code_key is not None for one in judged)
    return f"{len(judged)} judged, {built} built, {reused} reused, {failures}"
