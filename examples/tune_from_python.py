"""Tune an operator from Python: what is proven faster here is stored and serves calls from then on."""

import argparse

import kernelwright as kw
from kernelwright import report
from kernelwright.tuning import EvaluationFinished

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--operator", default="rms_norm")
parser.add_argument("--workload", action="append", help="sizes such as 512x4096; repeatable")
parser.add_argument("--budget", type=float, default=30.0, help="seconds")
options = parser.parse_args()


def watch(event):
    """Print each verdict as it comes."""
    if isinstance(event, EvaluationFinished):
        one = event.evaluation
        score = "" if one.score is None else f"  {one.score:.3f} times the default's speed"
        print(f"#{one.number:<3} {one.status:<12} {report.configuration(one.configuration)}{score}")


# A script that spawns processes keeps its work under this guard.
if __name__ == "__main__":
    run = kw.tune(options.operator, workloads=options.workload, budget_s=options.budget, on_event=watch)
    for result in run.results:
        print(f"{result.workload}: {result.outcome}")
    print(f"report: {report.write(run.folder)}")
