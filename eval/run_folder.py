"""The folder of one run while it is written: parts, one a planned batch, then the whole files."""

import dataclasses
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute
import pyarrow.parquet as parquet

from whatif_jax.evaluation.declaration import Declaration
from whatif_jax.evaluation.evaluate import SCORES_SCHEMA, SECONDS_SCHEMA
from whatif_jax.files import HeldFolder

from .results import Identity, Run, load_run
from .run_files import (
    FORECASTS_FILE,
    FORECASTS_SCHEMA,
    LAYOUT,
    PARTS,
    RUN_FILE,
    SCORES_FILE,
    SECONDS_FILE,
    DamagedRunError,
    ResultsError,
    broken_rows,
    declared_in,
    metadata_of,
    read_run_file,
    read_table,
    refuse_folder,
    refuse_other,
)

__all__ = ["RunFolder"]

# Of the parts: what the whole files hold, side by side.
PART_SCHEMA = pa.schema(
    [*SCORES_SCHEMA, SECONDS_SCHEMA.field("seconds"), FORECASTS_SCHEMA.field("quantiles")]
)


class RunFolder(HeldFolder):
    """The folder of a run, held while it is written.

    Args:
        root: folder of results.
        identity: what is run.
        batches: task ids of every planned batch.
        plan: settings that decide the batches and what is kept of them. A run that was begun with
            others is not continued.
        kept: ids of the tasks whose forecasts are kept.
        declared: what the forecaster says that it was trained on and told.

    Raises:
        ResultsError: on entry, when the folder cannot be written, is being written by another
            process, or holds another run; or this one, begun with another plan or by a forecaster
            that declared otherwise.
    """

    error = ResultsError
    what = "results"
    holder = "another run"

    def __init__(
        self,
        root: Path,
        identity: Identity,
        batches: Sequence[np.ndarray],
        plan: Mapping[str, int],
        kept: np.ndarray,
        declared: Declaration,
    ):
        super().__init__(identity.folder(root))
        self.batches = batches
        self.done: set[int] = set()
        self.damage = ""  # name of the file that a finished run had damaged
        self._metadata = identity.metadata()
        self._plan = dict(plan)
        self._kept = kept
        self._declared = declared
        self._about: dict[str, Any] = {}

    def open(self) -> None:
        """Read how far the run is; refuse one of another kind, take apart one that is damaged."""
        if (self.path / PARTS).is_file():
            raise ResultsError(
                f"results: {self.path / PARTS} is a file; expected a folder: remove it and run the "
                f"same command again"
            )
        for name in (RUN_FILE, SCORES_FILE, SECONDS_FILE, FORECASTS_FILE):
            refuse_folder(self.path / name)
        (self.path / PARTS).mkdir(exist_ok=True)
        if (self.path / RUN_FILE).is_file():
            try:
                self._about = read_run_file(self.path)
            except DamagedRunError as error:
                self.damage = error.path.name
        if self._about:
            refuse_other(self.path / RUN_FILE, self._about["metadata"], self._metadata)
            self._declare()
            if self._about["complete"]:
                try:
                    self._refuse_other_tasks(load_run(self.path))
                except DamagedRunError as error:
                    self.damage = error.path.name
                else:
                    self.complete = True
                    self._drop_parts()
                    return
            for name, value in self._plan.items():
                if self._about.get(name) != value:
                    raise ResultsError(
                        f"{name}: {value}, but {self.path} was begun with "
                        f"{self._about.get(name)}; expected the same, or delete that folder"
                    )
        self.done = {number for number in range(len(self.batches)) if self._whole(number)}
        if self.damage:
            self._take_apart()

    def _declare(self) -> None:
        """Note what the forecaster declares where the run was begun without it."""
        before, now = declared_in(self._about), self._declared
        if now.trained_on == "unknown":
            return
        for field in dataclasses.fields(Declaration)[:2]:  # a reason may be put in other words
            was, is_now = getattr(before, field.name), getattr(now, field.name)
            if was != is_now and before.trained_on != "unknown":
                raise ResultsError(
                    f"{field.name}: {is_now!r}, but {self.path} was begun by a forecaster that "
                    f"declared {was!r}; expected the same, or delete that folder"
                )
        if before != now:
            self._about = {**self._about, "declared": dataclasses.asdict(now)}
            self._note()

    def _refuse_other_tasks(self, run: Run) -> None:
        planned = np.sort(np.concatenate(self.batches))
        for name, table, ids in (
            (SCORES_FILE, run.scores, planned),
            (FORECASTS_FILE, run.forecasts, self._kept),
        ):
            if table is not None and not np.array_equal(table.column("task_id"), ids):
                raise DamagedRunError(self.path / name, "holds other tasks than the run has")

    def _take_apart(self) -> None:
        """Make parts again of what is whole in the files of a finished run; it goes on then."""
        whole = {}
        for name, schema in (
            (SCORES_FILE, SCORES_SCHEMA),
            (SECONDS_FILE, SECONDS_SCHEMA),
            (FORECASTS_FILE, FORECASTS_SCHEMA),
        ):
            try:
                table = read_table(self.path / name, schema)
                refuse_other(self.path / name, metadata_of(table), self._metadata)
                whole[name] = table.filter(~broken_rows(table)).combine_chunks()
            except DamagedRunError:
                whole[name] = schema.empty_table()
        for number, planned in enumerate(self.batches):
            if number in self.done:
                continue
            ids = np.sort(planned)
            kept = np.isin(ids, self._kept)
            rows = {}
            for name, wanted in (
                (SCORES_FILE, ids), (SECONDS_FILE, ids), (FORECASTS_FILE, ids[kept])
            ):  # fmt: skip
                places = compute.index_in(pa.array(wanted), whole[name].column("task_id"))
                rows[name] = whole[name].take(places.drop_null())
            if len(rows[SCORES_FILE]) == len(rows[SECONDS_FILE]) == len(ids) and (
                len(rows[FORECASTS_FILE]) == kept.sum()
            ):
                found = iter(rows[FORECASTS_FILE].column("quantiles").to_pylist())
                quantiles = [np.asarray(next(found) if keep else ()) for keep in kept.tolist()]
                self.write_part(number, rows[SCORES_FILE], rows[SECONDS_FILE], quantiles)
        if self._about:
            self._about = {**self._about, "complete": False}
            self._note()

    def _part(self, number: int) -> Path:
        return self.path / PARTS / f"{number:05}.parquet"

    def _whole(self, number: int) -> bool:
        """Whether the part of a batch is there; one that cannot be read is simply made again."""
        path = self._part(number)
        try:
            part = read_table(path, PART_SCHEMA)
            refuse_other(path, metadata_of(part), self._metadata)
        except DamagedRunError:
            return False
        ids = part.column("task_id").to_numpy()
        kept = part.filter(np.isin(ids, self._kept)).combine_chunks()
        return (
            np.array_equal(ids, np.sort(self.batches[number]))
            and not broken_rows(part.drop_columns("quantiles")).any()
            and not broken_rows(kept).any()
        )

    def begin(self, notes: Mapping[str, Any]) -> None:
        """Write `run.json`, unless the run was begun before.

        Args:
            notes: JSON values for people to read: software, device.

        Raises:
            ResultsError: the disk is full or cannot be written.
        """
        if not self._about:
            self._about = {
                "layout": LAYOUT,
                "metadata": self._metadata,
                "declared": dataclasses.asdict(self._declared),
                **self._plan,
                **self._counts(),
                **notes,
                "complete": False,
            }
            self._note()

    def _counts(self) -> dict[str, int]:
        return {
            "batches": len(self.batches),
            "task_count": sum(map(len, self.batches)),
            "forecast_count": len(self._kept),
        }

    def _note(self) -> None:
        text = json.dumps(self._about, indent=1, ensure_ascii=False) + "\n"
        self.write_text(self.path / RUN_FILE, text)

    def _save(self, table: pa.Table, path: Path) -> None:
        """The same table gives the same bytes."""
        table = table.combine_chunks()
        self.write(
            path,
            lambda at: parquet.write_table(table, at, compression="zstd", write_page_checksum=True),
        )

    def write_part(
        self, number: int, scores: pa.Table, seconds: pa.Table, quantiles: Sequence[np.ndarray]
    ) -> None:
        """Write what one batch gave.

        Args:
            number: of the batch in the plan.
            scores: a row a task, sorted by task id.
            seconds: the same.
            quantiles: forecast [H, Q] of every row of `scores`.

        Raises:
            ResultsError: other tasks than those planned; or the disk is full or cannot be written.
        """
        ids = scores.column("task_id").to_numpy()
        planned = np.sort(self.batches[number])
        if not np.array_equal(ids, planned) or scores["task_id"] != seconds["task_id"]:
            raise ResultsError(f"task_id: batch {number} gave {ids.tolist()}; expected {planned}")
        kept = np.isin(ids, self._kept)
        forecasts = [
            np.asarray(forecast, np.float32).tolist() if keep else None
            for forecast, keep in zip(quantiles, kept.tolist(), strict=True)
        ]
        part = scores.append_column("seconds", seconds["seconds"])
        part = part.append_column(
            "quantiles", pa.array(forecasts, PART_SCHEMA.field("quantiles").type)
        )
        widths = set(scores["coverage"].combine_chunks().value_lengths().to_pylist())
        part = part.replace_schema_metadata({**self._metadata, "point": json.dumps(widths == {1})})
        self._save(part, self._part(number))
        self.done.add(number)

    def finish(self) -> Run:
        """Join the parts into the files of a finished run, which then replace them.

        Raises:
            ResultsError: a batch is missing; or the disk is full or cannot be written.
        """
        parts = [read_table(self._part(number), PART_SCHEMA) for number in range(len(self.batches))]
        points = {metadata_of(part).get("point") for part in parts}
        if len(points) != 1:
            raise ResultsError(
                f"point: {self.path}: some batches hold point forecasts and some quantiles; "
                f"expected one or the other (a point forecaster says so by its attribute `point`)"
            )
        metadata = {**self._metadata, "point": str(points.pop())}
        joined = pa.concat_tables(parts).sort_by("task_id").combine_chunks()
        forecasts = joined.select(["task_id", "quantiles"]).filter(
            joined.column("quantiles").is_valid()
        )
        files = {
            SCORES_FILE: joined.drop_columns(["seconds", "quantiles"]),
            SECONDS_FILE: joined.select(["task_id", "seconds"]),
        }
        if forecasts.num_rows:
            files[FORECASTS_FILE] = forecasts
        for name, table in files.items():
            self._save(table.replace_schema_metadata(metadata), self.path / name)
        self._about = {
            **self._about, **self._counts(), "metadata": metadata, "complete": True
        }  # fmt: skip
        self._note()
        self.complete = True
        self._drop_parts()
        return load_run(self.path)

    def _drop_parts(self) -> None:
        shutil.rmtree(self.path / PARTS, ignore_errors=True)
