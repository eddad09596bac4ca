"""A small server for one page, on the loopback address.

Law: it listens on 127.0.0.1 only and answers only requests that name this machine (a web page of
another site cannot read the numbers by giving its own name this address). It only reads. The page
needs nothing from outside.

| path | answer |
|---|---|
| `/` | the page |
| `/numbers.json` | what it draws |
| `/metrics` | the same numbers for Prometheus |
| `/grafana.json` | a dashboard for Grafana, to be imported there |
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any

from tidegate.spec import TidegateError
from tidegate.watch.exposition import exposed
from tidegate.watch.numbers import History

ADDRESS = "127.0.0.1"
_NAMES = (ADDRESS, "localhost")


class Page:
    """A page that is served until it is closed, by a thread of its own.

    Example
    -------
    >>> from tidegate.watch.numbers import History
    >>> page = Page(History(lambda: None))
    >>> page.url.startswith("http://127.0.0.1:")
    True
    >>> page.close()
    """

    def __init__(self, history: History, port: int = 0) -> None:
        handler = type("Handler", (_Handler,), {"history": history})
        try:
            self._server = ThreadingHTTPServer((ADDRESS, port), handler)
        except (OSError, OverflowError) as error:
            raise TidegateError(
                f"port {port} of {ADDRESS} cannot be used ({error}); give another, or 0 for any"
            ) from error
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://{ADDRESS}:{self._server.server_port}/"

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _file(name: str) -> bytes:
    """A file that lies beside this one."""
    return files("tidegate.watch").joinpath(name).read_bytes()


class _Handler(BaseHTTPRequestHandler):
    history: History

    def do_GET(self) -> None:
        try:
            self._get()
        except TidegateError as error:
            self.send_error(500, "the numbers cannot be read", str(error))

    def _get(self) -> None:
        host = (self.headers.get("Host") or "").rpartition(":")[0] or self.headers.get("Host")
        if host not in _NAMES:
            self.send_error(403, "this page is for this machine only")
        elif self.path == "/":
            self._answer("text/html; charset=utf-8", _file("page.html"))
        elif self.path == "/grafana.json":
            self._answer("application/json", _file("grafana.json"))
        elif self.path == "/numbers.json":
            self._answer("application/json", json.dumps(self.history.page()).encode())
        elif self.path == "/metrics":
            self._answer("text/plain; version=0.0.4; charset=utf-8", self._metrics().encode())
        else:
            self.send_error(404, "there is /, /numbers.json, /metrics and /grafana.json")

    def _metrics(self) -> str:
        self.history.update()
        last = self.history.last
        if last is None:
            return ""
        return exposed("", last.title, last.streams, {0: last.stats})

    def _answer(self, kind: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", _POLICY)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not worth a line each."""


_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'"
)
