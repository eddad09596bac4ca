"""The engine: tables in, results out, no Spark needed."""

from tidegate.engine.join_engine import JoinEngine, JoinResult, join, to_arrow

__all__ = ["JoinEngine", "JoinResult", "join", "to_arrow"]
