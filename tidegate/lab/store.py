"""Results on disk: Parquet files, each row a measurement beside its configuration.

Law: a row is written once and never changed; what is stored under the same configuration and the
same version of the code is not computed again. A file appears complete or not at all, so a run that
was stopped keeps what it had.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from tidegate.lab.configuration import Configuration
from tidegate.lab.measure import MEASURED, Measurement

SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        ("code_version", pa.string()),
        ("configuration", pa.string()),
        *[(name, pa.float64()) for name in MEASURED],
    ]
)


class Store:
    """The results in one folder.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = Store(Path(folder), "v1")
    ...     run = Configuration("keyed_streams", {}, {})
    ...     store.add({run: dict.fromkeys(MEASURED, 1.0)})
    ...     Store(Path(folder), "v1").get(run)["size"], Store(Path(folder), "v2").get(run)
    (1.0, None)
    """

    def __init__(self, folder: Path, version: str) -> None:
        self._folder = folder
        self._version = version
        self._known: dict[str, Measurement] = {}
        for path in sorted(folder.glob("*.parquet")):
            self._read(path)

    def get(self, configuration: Configuration) -> Measurement | None:
        """What was measured, if it was."""
        return self._known.get(configuration.key(self._version))

    def missing(self, configurations: Iterable[Configuration]) -> list[Configuration]:
        """Those without a result, each once, neighbours by their streams."""
        lacking = {each for each in configurations if self.get(each) is None}
        return sorted(lacking, key=lambda each: (each.streams_text, each.text))

    def add(self, measured: Mapping[Configuration, Measurement]) -> None:
        """Write new results as one more file."""
        if not measured:
            return
        rows = [
            {
                "key": configuration.key(self._version),
                "code_version": self._version,
                "configuration": configuration.text,
                **{name: float(values[name]) for name in MEASURED},
            }
            for configuration, values in measured.items()
        ]
        self._folder.mkdir(parents=True, exist_ok=True)
        # Named after its content: two processes that write the same write the same file.
        target = self._folder / f"results-{min(str(row['key']) for row in rows)}.parquet"
        partial = target.with_suffix(".partial")
        parquet.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), partial)
        partial.replace(target)
        self._read(target)

    def _read(self, path: Path) -> None:
        # Only the columns that are needed, so that columns added later do no harm.
        with parquet.ParquetFile(path) as file:
            for row in file.read(columns=["key", *MEASURED]).to_pylist():
                self._known[row.pop("key")] = row
