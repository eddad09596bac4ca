"""The way to an engine that lives in another process of the same machine.

Law: where an engine lives changes how fast a push is, never what it gives. Spark hands the tasks of
a micro-batch to its idle Python workers in turn, so a bucket meets another process half of the
time. Rebuilding its engine there costs seconds at a million rows, and an engine per process would
multiply the memory; so the push travels to the process that has the engine. If that process is gone
or holds another version, the caller rebuilds from the state store, as after any crash.

A process that keeps engines listens on a socket in a folder that only its own user can enter, among
Spark's local files, which Spark removes. A message is a JSON text followed by blobs; nothing is
unpickled. Results come in pieces, one message each. A claim lasts as long as its connection: if
that breaks, the engine is forgotten.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import socket
import struct
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from tidegate.compiled.places import private_folder
from tidegate.loss.bucket_files import Link
from tidegate.spark.engines import EngineKey, Entry, Outcome, Push, Resident, Residents, Taking
from tidegate.spark.packing import decode, encode
from tidegate.spec import TidegateError

# Unix sockets have short names: 108 bytes on Linux, 104 on macOS.
LONGEST_ADDRESS = 100
LONGEST_FOLDER = 60
SECONDS_TO_CONNECT = 5.0
SECONDS_BETWEEN_CLEANINGS = 30.0
# Elsewhere every process builds its own engines.
HAS_SOCKETS = hasattr(socket, "AF_UNIX") and hasattr(os, "getuid")
_LENGTH = struct.Struct("!Q")

residents = Residents()


class LostEngineError(Exception):
    """The process that had the engine is gone."""


class Home(Protocol):
    """Where the engine of a bucket lives, claimed for the length of one task."""

    def take(self, push: Push, entry: Entry | None, forget_before: int | None) -> Taking:
        """Push into the engine, as `Resident.take` does."""

    def snapshot(self) -> bytes:
        """Write the engine as one blob."""

    def release(self, token: str) -> None:
        """Let the next task have the engine, under its new token."""


class Here:
    """An engine of this process."""

    def __init__(self, key: EngineKey, resident: Resident) -> None:
        self._key = key
        self._resident = resident
        self.take = resident.take
        self.snapshot = resident.snapshot

    def release(self, token: str) -> None:
        """Keep the engine, and tell the other processes where it is."""
        self._resident.token = token
        residents.keep(self._key, self._resident)
        _announce(self._key)


class There:
    """An engine of another process, claimed through a connection."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def take(self, push: Push, entry: Entry | None, forget_before: int | None) -> Taking:
        """Let the other process push.

        A piece is given out when the next message is there: so an engine that is lost before its
        second piece was lost before anything was given out, and the push can be made elsewhere.
        """
        streams = [stream for stream, blobs in push.blobs.items() for _ in blobs]
        blobs = [blob for blobs in push.blobs.values() for blob in blobs]
        order = {
            "do": "take", "streams": streams, "watermark": push.watermark, "memory": push.memory,
            "fuel": push.fuel, "link": push.link, "entry": entry, "forget_before": forget_before,
        }  # fmt: skip
        answer, piece = self._ask(order, blobs)
        while piece:
            table = decode(piece)
            answer, piece = self._answer()
            yield table
        answer["expired"] = [Entry(*fields) for fields in answer["expired"]]
        return Outcome(**answer)

    def snapshot(self) -> bytes:
        """Let the other process write its engine."""
        return self._ask({"do": "snapshot"})[1][0]

    def release(self, token: str) -> None:
        """Let the other process keep its engine; if it is gone, so is the engine."""
        with contextlib.suppress(LostEngineError):
            self._ask({"do": "release", "token": token})
        self._wire.close()

    def _ask(self, order: dict[str, Any], blobs: Sequence[Any] = ()) -> tuple[Any, list[bytes]]:
        with self._closed_by_failures():
            self._wire.send(order, blobs)
        return self._answer()

    def _answer(self) -> tuple[Any, list[bytes]]:
        with self._closed_by_failures():
            answer, blobs = self._wire.receive()
        if "error" in answer:
            self._wire.close()
            raise (TidegateError if answer["told"] else RuntimeError)(answer["error"])
        return answer, blobs

    @contextlib.contextmanager
    def _closed_by_failures(self) -> Iterator[None]:
        try:
            yield
        except (OSError, EOFError, ValueError) as error:
            # Closed on this side too: the other process then forgets an engine whose push may be
            # half done, and a second attempt on the same connection fails at once.
            self._wire.close()
            raise LostEngineError(f"the process with the engine is gone ({error})") from error


class Wire:
    """Messages over a socket: a JSON text, then blobs, each after its length."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._reader = link.makefile("rb", 1 << 20)

    def send(self, head: Any, blobs: Sequence[Any] = ()) -> None:
        """Send one message."""
        text = json.dumps({"head": head, "blobs": len(blobs)}).encode()
        for part in (text, *blobs):
            self._link.sendall(_LENGTH.pack(memoryview(part).nbytes))
            self._link.sendall(part)

    def receive(self) -> tuple[Any, list[bytes]]:
        """Wait for one message."""
        message = json.loads(self._part())
        return message["head"], [self._part() for _ in range(message["blobs"])]

    def close(self) -> None:
        """End the connection."""
        self._reader.close()
        self._link.close()

    def _part(self) -> bytes:
        (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
        return self._exactly(length)

    def _exactly(self, count: int) -> bytes:
        found = self._reader.read(count)
        if len(found) < count:
            raise EOFError("the other process closed the connection")
        return found


def find(key: EngineKey, token: str) -> Home | None:
    """Claim the engine with this token, wherever on this machine it is."""
    resident = residents.claim(key, token)
    if resident is not None:
        return Here(key, resident)
    with contextlib.suppress(OSError, EOFError, ValueError):
        address = _sign(key).read_text() if token and HAS_SOCKETS else ""
        if address and address != _own_address():
            return _claimed_there(address, key, token)
    return None


def _claimed_there(address: str, key: EngineKey, token: str) -> There | None:
    """Ask the process at an address; its connection is closed unless it has the engine."""
    with contextlib.ExitStack() as unless_claimed:
        link = unless_claimed.enter_context(socket.socket(socket.AF_UNIX))
        link.settimeout(SECONDS_TO_CONNECT)
        link.connect(address)
        # A push takes as long as it takes, and a process that dies closes its connections.
        link.settimeout(None)
        wire = Wire(link)
        unless_claimed.callback(wire.close)
        wire.send({"do": "claim", "key": key, "token": token})
        if not wire.receive()[0]["found"]:
            return None
        unless_claimed.pop_all()
        return There(wire)


def _folder() -> Path:
    local = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    if not 0 < len(local) <= LONGEST_FOLDER:
        local = tempfile.gettempdir()
    return Path(local, f"tidegate-{os.getuid()}")


def _own_address() -> str:
    return str(_folder() / f"{os.getpid()}.socket")


def _sign(key: EngineKey) -> Path:
    """The file that says where the engine of a bucket lives."""
    return _folder() / f"{key.operator}-{key.label}"


def _announce(key: EngineKey) -> None:
    """Say that the engine lives here; where this fails, other processes rebuild their own."""
    with contextlib.suppress(OSError):
        if _desk.open():
            new = _folder() / f"{key.operator}-{key.label}.{os.getpid()}"
            new.write_text(_own_address())
            new.replace(_sign(key))


class Desk:
    """Where other processes ask for the engines of this one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = -1

    def open(self) -> bool:
        """Listen, if that is possible and not yet done in this process."""
        with self._lock:
            if self._process == os.getpid():
                return True
            if not HAS_SOCKETS or len(_own_address()) > LONGEST_ADDRESS:
                return False
            if not private_folder(_folder()):
                return False
            link = socket.socket(socket.AF_UNIX)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(_own_address())
            link.bind(_own_address())
            link.listen(64)
            link.settimeout(SECONDS_BETWEEN_CLEANINGS)
            threading.Thread(target=self._accept, args=(link,), daemon=True).start()
            self._process = os.getpid()
            return True

    def _accept(self, link: socket.socket) -> None:
        while True:
            residents.forget_idle()
            with contextlib.suppress(TimeoutError):
                caller, _ = link.accept()
                caller.settimeout(None)
                threading.Thread(target=_serve, args=(Wire(caller),), daemon=True).start()


_desk = Desk()


def _serve(wire: Wire) -> None:
    """Answer one task until it releases the engine it claimed, or is gone."""
    with contextlib.closing(wire), contextlib.suppress(OSError, EOFError, ValueError):
        head, _ = wire.receive()
        key = EngineKey(*head["key"])
        resident = residents.claim(key, head["token"])
        wire.send({"found": resident is not None})
        while resident is not None:
            order, blobs = wire.receive()
            if order["do"] == "release":
                resident.token = order["token"]
                residents.keep(key, resident)
                wire.send({})
                break
            _answer(wire, resident, order, blobs)


def _answer(wire: Wire, resident: Resident, order: dict[str, Any], blobs: list[bytes]) -> None:
    try:
        if order["do"] == "snapshot":
            wire.send({}, [resident.snapshot()])
        else:
            _send_results(wire, resident, order, blobs)
    except OSError:
        raise  # the task that asked is gone
    except Exception as error:
        # The task that asked must fail with the engine's own words.
        if isinstance(error, TidegateError):
            wire.send({"error": str(error), "told": True})
        else:
            wire.send({"error": f"{type(error).__name__}: {error}", "told": False})


def _send_results(
    wire: Wire, resident: Resident, order: dict[str, Any], blobs: list[bytes]
) -> None:
    """Push, and send each piece of the results when it is there, then what the push gave."""
    grouped: dict[int, list[bytes]] = {}
    for stream, blob in zip(order["streams"], blobs, strict=True):
        grouped.setdefault(stream, []).append(blob)
    entry = None if order["entry"] is None else Entry(*order["entry"])
    link = None if order["link"] is None else Link(*order["link"])
    push = Push(grouped, order["watermark"], order["memory"], order["fuel"], link)
    taking = resident.take(push, entry, order["forget_before"])
    while True:
        try:
            piece = next(taking)
        except StopIteration as end:
            wire.send(dataclasses.asdict(end.value) | {"expired": end.value.expired})
            return
        # Read at once by a process of this machine: compressing would cost more than it saves.
        wire.send({}, [encode(piece, compression=None)])
