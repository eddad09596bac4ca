"""A real cluster: a standalone master and two workers, one of which dies in the middle.

All are processes of this machine, started from the jars of the pip package. The library is shipped
with the job, as a zip file; nothing of it is installed on the workers' side. The machine code that
the driver's machine has is shipped too: the workers' own folder for it is empty, and stays so.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pyspark
import pytest
from spark.feeds import Feed, random_batches

from tidegate.spark import window_join

SPARK_HOME = Path(pyspark.__file__).parent
REPOSITORY = Path(__file__).parents[2]
SECONDS_TO_WAIT = 300.0
KILLED_IN = 2  # the micro-batch in which a worker dies
BATCHES = 5


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_for(happened: Callable[[], bool], what: str, logs: Path) -> None:
    deadline = time.monotonic() + SECONDS_TO_WAIT
    while not happened():
        if time.monotonic() > deadline:
            texts = [f"{path.name}: {path.read_text()[-2000:]}" for path in logs.glob("*.log")]
            raise AssertionError(f"{what} did not happen\n" + "\n".join(texts))
        time.sleep(0.01)


@contextmanager
def started(root: Path, name: str, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process with a log of its own, killed with all that it started when it is done."""
    environment = {
        **os.environ,
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(root / "local"),
        "PYSPARK_PYTHON": sys.executable,
    }
    environment.pop("PYTHONPATH", None)
    with (root / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=root, env=environment, stdout=log, stderr=log, start_new_session=True
        )
        try:
            yield process
        finally:
            kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill -9 a process and those of its session, such as a worker's executors."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """The address of a master, and its workers."""
    port = free_port()
    address = f"spark://127.0.0.1:{port}"
    run = str(SPARK_HOME / "bin" / "spark-class")
    deploy = "org.apache.spark.deploy"
    with ExitStack() as stack:
        master = (f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port))
        stack.enter_context(started(tmp_path, "master", run, *master, "--webui-port", "0"))
        workers = [
            stack.enter_context(
                started(
                    tmp_path,
                    f"worker-{number}",
                    run,
                    f"{deploy}.worker.Worker",
                    address,
                    "--host",
                    "127.0.0.1",
                    "--cores",
                    "1",
                    "--memory",
                    "1g",
                    "--webui-port",
                    "0",
                    "--work-dir",
                    str(tmp_path / f"work-{number}"),
                )
            )
            for number in range(2)
        ]
        registered = "Registering worker"
        wait_for(
            lambda: (tmp_path / "master.log").read_text().count(registered) == 2,
            "the registration of both workers",
            tmp_path,
        )
        yield address, workers


def packaged(root: Path) -> Path:
    """The library as a zip file for `--py-files`."""
    path = root / "tidegate.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for source in sorted((REPOSITORY / "tidegate").rglob("*.py")):
            archive.write(source, source.relative_to(REPOSITORY))
    return path


def test_a_worker_dies(
    feed: Feed, cluster: tuple[str, list[subprocess.Popen[bytes]]], tmp_path: Path
) -> None:
    address, workers = cluster
    for seed, name in enumerate(("left", "right")):
        feed.write(name, random_batches(90 + seed, BATCHES))
    # The same join in this process: its rows are compared with, and the driver's machine has its
    # machine code from then on.
    left, right = (feed.stream(n).withWatermark("ts", "10 seconds") for n in ("left", "right"))
    reference = feed.run(window_join(left, right, on="k", time="ts", within="20 s"), "reference")
    library = packaged(tmp_path)
    workers_code = tmp_path / "workers-code"
    settings = {
        "spark.executorEnv.TIDEGATE_CACHE": str(workers_code),
        "spark.executor.memory": "512m",
        "spark.driver.memory": "512m",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        # A worker that is killed takes its executor with it; the tasks go to the other one.
        "spark.task.maxFailures": "8",
    }
    submit = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", address]
    for key, value in settings.items():
        submit += ["--conf", f"{key}={value}"]
    submit += ["--py-files", str(library), str(Path(__file__).with_name("cluster_job.py"))]
    checkpoint = tmp_path / "checkpoint"
    with started(tmp_path, "job", *submit, str(tmp_path)) as job:
        wait_for(
            lambda: (checkpoint / "offsets" / str(KILLED_IN)).exists() or job.poll() is not None,
            f"micro-batch {KILLED_IN}",
            tmp_path,
        )
        kill(workers[1])
        assert not (checkpoint / "commits" / str(BATCHES - 1)).exists()
        wait_for(lambda: job.poll() is not None, "the end of the job", tmp_path)
        text = (tmp_path / "job.log").read_text()
        assert job.returncode == 0, text[-3000:]
    # The driver, and so the workers, had the library from the zip file.
    assert "tidegate.zip/tidegate/__init__.py" in text
    # Whatever a worker compiles it writes into its folder.
    assert (workers_code / "tidegate").is_dir()
    assert [path.name for path in workers_code.rglob("*.code")] == []
    rows = feed.spark.read.parquet(str(tmp_path / "out")).collect()
    assert len(rows) > 100
    assert Counter((row.id, row.id_right) for row in rows) == reference.pairs("id", "id_right")
