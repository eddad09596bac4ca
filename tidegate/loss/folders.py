"""A folder on this machine or anywhere that Arrow reaches: `s3://`, `hdfs://`, `gs://`, `abfs://`.

Law: a file is there whole or not at all.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyarrow import fs, parquet

from tidegate.spec import TidegateError

_REMOTE = "://"


def absolute(where: str | Path) -> str:
    """A folder by a name that does not depend on where a process runs."""
    text = str(where)
    return text if _REMOTE in text else os.path.abspath(text)


@dataclass(frozen=True)
class Folder:
    """A folder and the file system that it is in."""

    system: fs.FileSystem
    path: str

    @classmethod
    def of(cls, where: str | Path) -> Folder:
        """The folder of a path or an address; what Hadoop calls s3a is s3."""
        text = absolute(where)
        try:
            if _REMOTE in text:
                system, path = fs.FileSystem.from_uri(text.replace("s3a://", "s3://", 1))
                return cls(system, path)
        except (pa.ArrowException, OSError) as error:
            raise TidegateError(f"'{where}' is no folder that Arrow can reach ({error})") from error
        return cls(fs.LocalFileSystem(), text)

    def inside(self, name: str) -> Folder:
        """A folder in this one."""
        return Folder(self.system, f"{self.path}/{name}")

    def make(self) -> None:
        """Make the folder, if it is not there."""
        try:
            self.system.create_dir(self.path, recursive=True)
        except OSError as error:
            raise TidegateError(
                f"'{self.path}' cannot be written ({error}); give a folder"
            ) from error

    def files(self) -> dict[str, int]:
        """The files by name, and when each was written, in nanoseconds."""
        return {
            info.base_name: info.mtime_ns or 0
            for info in self._entries()
            if info.type == fs.FileType.File
        }

    def folders(self) -> list[str]:
        """The folders in this one, by name."""
        found = [info for info in self._entries() if info.type == fs.FileType.Directory]
        return sorted(info.base_name for info in found)

    def _entries(self) -> list[fs.FileInfo]:
        found: list[fs.FileInfo] = self.system.get_file_info(
            fs.FileSelector(self.path, allow_not_found=True)
        )
        return found

    def text(self, name: str) -> str | None:
        """What a small file says; None where there is none."""
        try:
            with self.system.open_input_stream(f"{self.path}/{name}") as stream:
                return bytes(stream.read()).decode()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write_text(self, name: str, text: str) -> None:
        """Write a small file."""
        with (
            self._written(name) as unfinished,
            self.system.open_output_stream(unfinished) as stream,
        ):
            stream.write(text.encode())

    def write_table(self, name: str, table: pa.Table) -> None:
        """Write a table as Parquet."""
        with self._written(name) as unfinished:
            parquet.write_table(table, unfinished, filesystem=self.system)

    def table(self, name: str, columns: list[str] | None = None) -> pa.Table:
        """Read a table."""
        path = f"{self.path}/{name}"
        try:
            with self.system.open_input_file(path) as file:
                return parquet.ParquetFile(file).read(columns)
        except (pa.ArrowInvalid, OSError) as error:
            raise TidegateError(f"'{path}' cannot be read ({error})") from error

    @contextmanager
    def _written(self, name: str) -> Iterator[str]:
        # Nobody else writes under this name, whatever tasks run twice.
        unfinished = f"{self.path}/.{name}.{uuid.uuid4().hex[:8]}"
        try:
            yield unfinished
            self.system.move(unfinished, f"{self.path}/{name}")
        except OSError as error:
            with suppress(OSError):
                self.system.delete_file(unfinished)
            reason = error.strerror or str(error)
            raise TidegateError(f"'{self.path}/{name}' cannot be written ({reason})") from error
