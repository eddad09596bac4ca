"""The engine: tables in, results out, no Spark needed."""

from tidegate.columns.intake import to_arrow
from tidegate.engine.join_engine import JoinEngine, check_supported
from tidegate.engine.replay import JoinResult, join

__all__ = ["JoinEngine", "JoinResult", "check_supported", "join", "to_arrow"]
