"""A tracker that writes to MLflow: one MLflow run a search, one step an evaluation."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from typing import TYPE_CHECKING

from kernelwright.errors import MissingExtraError
from kernelwright.search._evaluation import Evaluation
from kernelwright.search._tracker import Tracker

if TYPE_CHECKING:
    from kernelwright.search._result import SearchResult

_RUN_TAG = "kernelwright.run"
#: MLflow refuses longer parameters and tags.
_LONGEST = 500


class MLflowTracker(Tracker):
    """Scores, normalised scores and seconds as metrics at step `number`; settings as parameters.

    `tracking_uri` is any of MLflow's: a database (by default `mlflow.db` here), a folder, a server. A search
    that is resumed goes on in its MLflow run. Nothing of MLflow's global state is touched.

    Raises MissingExtraError when mlflow, or what its database backend needs, is not installed.
    """

    def __init__(
        self,
        tracking_uri: str = "sqlite:///mlflow.db",
        experiment: str = "kernelwright",
        run_name: str | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        try:
            import mlflow  # noqa: F401

            if "://" in tracking_uri and not tracking_uri.startswith(("http", "file", "databricks")):
                import alembic  # noqa: F401
                import sqlalchemy  # noqa: F401
        except ImportError as error:
            raise MissingExtraError(
                error.name or "mlflow", "mlflow", "to track a search in MLflow"
            ) from error
        self._uri = tracking_uri
        self._experiment = experiment
        self._name = run_name
        self._tags = dict(tags or {})
        self._client: Any = None
        self._run = ""
        self._failures = 0

    def start(self, info: Any) -> None:
        """Open the MLflow run of this search, or a new one."""
        from mlflow import MlflowClient

        self._client = MlflowClient(tracking_uri=self._uri)
        experiment = self._experiment_id()
        ident = str(getattr(info, "id", ""))
        found = (
            self._client.search_runs([experiment], f"tags.`{_RUN_TAG}` = '{_quoted(ident)}'", max_results=1)
            if ident
            else []
        )
        if found:
            self._run = found[0].info.run_id
            self._client.update_run(self._run, status="RUNNING")
            self._failures = int(found[0].data.metrics.get("failures", 0))
            return
        tags = {**self._tags, _RUN_TAG: ident}
        name = self._name or ident or None
        self._run = self._client.create_run(experiment, tags=tags, run_name=name).info.run_id
        for key, value in (getattr(info, "settings", None) or {}).items():
            self._client.log_param(self._run, _name(key), str(value)[:_LONGEST])

    def evaluation(self, evaluation: Evaluation) -> None:
        """Log the numbers of one evaluation; a failure counts, its kind is a metric of its own."""
        from mlflow.entities import Metric

        found: dict[str, float] = {"seconds": evaluation.seconds}
        prefix = "baseline_" if evaluation.baseline else ""
        for place, score in enumerate(evaluation.scores or (), 1):
            found[f"{prefix}score_{place}"] = score
        if not evaluation.baseline:
            for place, score in enumerate(evaluation.normalised or (), 1):
                found[f"norm_score_{place}"] = score
        if evaluation.failure is not None:
            self._failures += 1
            found["failures"] = float(self._failures)
            found[f"failed_{_name(evaluation.failure.kind)}"] = 1.0
        at = round(1000 * (evaluation.started_at + evaluation.seconds or time.time()))
        self._client.log_batch(
            self._run, metrics=[Metric(name, value, at, evaluation.number) for name, value in found.items()]
        )

    def end(self, result: SearchResult | None) -> None:
        """Log the best candidate and close the MLflow run."""
        if result is None:
            self._client.set_terminated(self._run, "KILLED")
            return
        if result.ranked:
            best = result.ranked[0]
            for place, value in enumerate(result.values(best), 1):
                self._client.log_metric(self._run, f"best_{place}", value, step=best.number)
            self._client.set_tag(self._run, "best.params", str(best.params)[:_LONGEST])
            self._client.set_tag(self._run, "best.number", str(best.number))
        self._client.set_terminated(self._run)

    def _experiment_id(self) -> str:
        from mlflow.exceptions import MlflowException

        found = self._client.get_experiment_by_name(self._experiment)
        if found is not None:
            return str(found.experiment_id)
        # A database without a server puts files, of which there are none, beside the database.
        beside = None
        if self._uri.startswith("sqlite:///"):
            folder = Path(self._uri.removeprefix("sqlite:///")).absolute().parent / "mlruns"
            beside = folder.as_uri()
        try:
            return str(self._client.create_experiment(self._experiment, artifact_location=beside))
        except MlflowException:
            # Another search may have made it meanwhile.
            found = self._client.get_experiment_by_name(self._experiment)
            if found is None:
                raise
            return str(found.experiment_id)


def _name(text: str) -> str:
    """The text with what MLflow refuses in names replaced."""
    return "".join(sign if sign.isalnum() or sign in "_-. /" else "_" for sign in str(text))[:250]


def _quoted(text: str) -> str:
    return text.replace("'", "")
