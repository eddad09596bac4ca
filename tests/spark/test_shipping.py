"""What travels: the shell of the processor, the library in a zip file, what a worker loads."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import types as T  # noqa: N812

from tidegate.compiled.places import cache_folder
from tidegate.compiled.sources import digest_of
from tidegate.spark.delivery import Delivery
from tidegate.spark.processor import JoinPlan
from tidegate.spark.routing import Routing
from tidegate.spark.shipping import shipped
from tidegate.spec import JoinSpec

REPOSITORY = Path(__file__).parents[2]

# Stands for Spark's handle in the process that asks a processor for its state variables.
ASK_FOR_VARIABLES = """
import base64, pickle, sys
sys.modules["tidegate"] = None  # importing it fails, as where only the workers have it
names = []
class Handle:
    def getValueState(self, name, schema):
        names.append((name, schema.simpleString()))
    def getMapState(self, name, key, value):
        names.append((name, key.simpleString(), value.simpleString()))
pickle.loads(base64.b64decode(sys.stdin.read())).init(Handle())
print(names)
"""


def run(code: str, path: str, text: str = "") -> str:
    """What a fresh Python prints."""
    done = subprocess.run(
        [sys.executable, "-c", code], input=text, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": path}, cwd=Path(__file__).parent,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_driver_needs_no_tidegate_to_name_the_state() -> None:
    schema = pa.schema({"k": pa.int64(), "ts": pa.timestamp("us", "UTC")})
    plan = JoinPlan(
        spec=JoinSpec(on="k", time="ts", within="1 s"),
        schemas={"left": schema, "right": schema},
        routing=Routing("key", 2),
        clocked=True,
        operator="test",
        origin={},
        delivery=Delivery.of(T.StructType()),
    )
    pickled = base64.b64encode(cloudpickle.dumps(shipped(plan))).decode()
    assert run(ASK_FOR_VARIABLES, "", pickled) == (
        "[('meta', 'struct<body:binary>'), "
        "('segments', 'struct<number:bigint>', 'struct<body:binary>')]"
    )


def test_machine_code_is_shared_with_a_zip_file(tmp_path: Path) -> None:
    path = tmp_path / "tidegate.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for source in (REPOSITORY / "tidegate").rglob("*.py"):
            archive.write(source, source.relative_to(REPOSITORY))
    code = (
        "import tidegate.compiled.places as p; import tidegate.compiled.sources as s; "
        "print(p.__file__, p.cache_folder(), s.digest_of('tidegate.index.btree'))"
    )
    where, folder, digest = run(code, str(path)).split()
    assert where.startswith(str(path))
    assert folder == str(cache_folder())
    assert digest == digest_of("tidegate.index.btree")


def test_workers_that_only_pack_do_not_load_numba() -> None:
    code = (
        "import sys, tidegate.spark.packing, tidegate.spark.delivery, tidegate.spark.processor; "
        "print('numba' in sys.modules)"
    )
    assert run(code, str(REPOSITORY)) == "False"
