"""The engine: tables in, results out, no Spark needed."""

from tidegate.columns.intake import to_arrow
from tidegate.engine.join_engine import JoinEngine, JoinResult, join

__all__ = ["JoinEngine", "JoinResult", "join", "to_arrow"]
