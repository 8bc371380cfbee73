"""The base of the estimators: Params become the conf of a release, and fit makes that release as any other is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from pyspark.ml import Estimator, Model

from dpspark.errors import ConfError
from dpspark.ml import plans
from dpspark.ml.callers import refuse_learned_stages, refuse_tuning
from dpspark.ml.params import DPParams
from dpspark.ml.saving import Saved, hash_files, read_files, rebuild_release
from dpspark.ml.setters import DPSetters
from dpspark.published.release import Release
from dpspark.releasing.run import release
from dpspark.show.progress import Event, Reading, listening
from dpspark.spark.frames import check_names
from dpspark.spec.spec import load_spec

BY_PARAMS = ("source", "ledger", "output")
E = TypeVar("E", bound="DPEstimator")


class DPEstimator(DPSetters, Estimator, Saved):
    """An estimator whose fit is a release: charged to the ledger, drawn once, published. The same fit again is free."""

    _required: tuple[str, ...] = ("releaseName", "releaseVersion", "ledgerDataset")

    def __init__(self, **params: Any) -> None:
        super().__init__()
        self.setParams(**params)

    def toConf(self) -> dict[str, Any]:
        """Write the conf of the release that fit makes; `dpspark.release(conf, frame)` makes the same."""
        for name in self._required:
            if not self._given(name):
                raise ConfError(f"{name}: missing. Set it on {type(self).__name__}.")
        given = self._given("ledgerUrl", "mechanism", "rowsPerRecord")
        conf: dict[str, Any] = {
            "columns": self._columns(),
            "privacy": self._given("epsilon", "delta", "rho", "neighbours"),
            "release": {"name": self.getReleaseName(), "version": self.getReleaseVersion(), **self._kind()},
            "ledger": {"dataset": self.getLedgerDataset()},
            "output": {"path": self.getOutputPath()},
        }
        if "mechanism" in given:
            conf["mechanism"] = {"name": given["mechanism"]}
        if "ledgerUrl" in given:
            conf["ledger"]["url"] = given["ledgerUrl"]
        if "rowsPerRecord" in given:
            conf["source"] = {"dataframe": True, "rows_per_record": given["rowsPerRecord"]}
        more = dict(self._given("conf").get("conf", {}))
        self._check_columns(conf["columns"], more.pop("columns", {}))
        for key in more:
            if key in BY_PARAMS:
                raise ConfError(f"conf: {key} is set by Params.")
        merged = _merge(conf, more, "conf")
        if merged["release"]["kind"] != "theil_sen" and "group_by" in merged["release"]:
            raise ConfError("conf.release.group_by: a model has one matrix. Use dpspark.release for many.")
        return merged

    def _columns(self) -> dict[str, Any]:
        """List the columns of the release, each with its bounds or categories."""
        raise NotImplementedError

    def _kind(self) -> dict[str, Any]:
        """Write the keys of `release` that say what is asked."""
        raise NotImplementedError

    def _frame(self, dataset: Any) -> Any:
        """Make the frame to release, with a column for each of the release's."""
        return dataset

    def _model(self, made: Release) -> Any:
        raise NotImplementedError

    def _check_columns(self, used: dict[str, Any], more: dict[str, Any]) -> None:
        for key, names in {**self._given("bounds", "categories"), "conf: columns": more}.items():
            unknown = [name for name in names if name not in (*used, *self._vectors())]
            if unknown:
                raise ConfError(f"{key}: {unknown[0]!r} is none of the columns: {', '.join(used)}.")
        for key, names in {**self._given("bounds", "categories"), "conf: columns": more}.items():
            again = [name for name in names if name in self._slots()]
            if again:
                raise ConfError(
                    f"{key}: {again[0]!r} is a slot of the vector, whose bounds are given there. Leave it out."
                )
        computed = [name for name, column in more.items() if "expr" in column]
        if computed:
            raise ConfError(f"conf: columns.{computed[0]}.expr: compute it in the DataFrame, e.g. by SQLTransformer.")

    def _vectors(self) -> Sequence[str]:
        return ()

    def _slots(self) -> Sequence[str]:
        """Name the columns that are slots of a vector."""
        return ()

    def _fit(self, dataset: Any) -> Any:
        refuse_tuning()
        refuse_learned_stages(self)
        if not hasattr(dataset, "mapInArrow"):
            raise ConfError(f"fit: got a {type(dataset).__name__}; expected a Spark DataFrame.")
        spec = load_spec(self.toConf())
        frame = self._frame(dataset)
        check_names(frame, spec.source_columns)
        mine = plans.identity(dataset)
        read: list[Reading] = []

        def hear(event: Event) -> None:
            if isinstance(event, Reading):
                read.append(event)

        with listening(hear):
            made = release(spec, frame)
        # What was not read was published before, or drawn by a run that was killed before it could publish.
        plans.check_same(made, mine, was_read=bool(read))
        return self._copyValues(self._model(made))

    def fitMultiple(self, dataset: Any, paramMaps: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """Fit once for each map, if each is a release of its own."""
        refuse_tuning()
        copies = [self.copy(each) for each in paramMaps]
        names = [(*copy._given("releaseName").values(), *copy._given("releaseVersion").values()) for copy in copies]
        if len(set(names)) < len(names):
            raise ConfError(
                "fit with several param maps: each is a release of its own, charged on its own.\n"
                "Give each map its own releaseVersion."
            )
        return super().fitMultiple(dataset, paramMaps)

    def copy(self: E, extra: Any = None) -> E:
        refuse_tuning()  # a Pipeline in a CrossValidator is copied first: before anything is charged
        return super().copy(extra)

    @classmethod
    def _load(cls: type[E], metadata: dict[str, Any], files: Callable[[], dict[str, bytes]]) -> E:
        return cls()


def _merge(conf: dict[str, Any], more: dict[str, Any], where: str) -> dict[str, Any]:
    """Merge two confs. What the Params say cannot be said again."""
    found = dict(conf)
    for key, value in more.items():
        if key not in found:
            found[key] = value
        elif isinstance(found[key], dict) and isinstance(value, dict):
            found[key] = _merge(found[key], value, f"{where}.{key}")
        else:
            raise ConfError(f"{where}.{key} is set by Params.")
    return found


class DPModel(DPParams, Model, Saved):
    """A published release as a Transformer. All of it is post-processing: no cost."""

    def __init__(self, made: Release, files: dict[str, bytes] | None = None):
        super().__init__()
        self._release, self._kept = made, files or read_files(made)

    @property
    def release(self) -> Release:
        """The release: its path, its certificate (`manifest`), its tables and all that its kind can do."""
        return self._release

    def _more_metadata(self) -> dict[str, Any]:
        return {"releasePath": str(self._release.path), "releaseSha256": hash_files(self._kept)}

    def _files(self) -> dict[str, bytes]:
        return self._kept

    @classmethod
    def _load(cls, metadata: dict[str, Any], files: Callable[[], dict[str, bytes]]) -> Any:
        kept = files()
        return cls(rebuild_release(kept, metadata.get("releaseSha256"), metadata["releasePath"]), kept)

    def __repr__(self) -> str:
        return f"{self.uid} of {self._release!r}"
