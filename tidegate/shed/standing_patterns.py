"""Members that stand by existence pattern: the policy `arrival-order` (kwon2011, section 3.2).

Law: the tuples of a pattern stand as those of a key do (`groups`), so a pattern whose r/n changes
moves one group, and the oldest tuple of the lowest pattern goes. A pattern is known by its row in
the tables, which is what a member has for a key. What a pattern is worth stands in
the counts by key, which this policy has no other use for; how often it was halved before a member
came, in the member's column of priorities.
"""

from __future__ import annotations

import numpy as np

from tidegate.compiled.kernel import kernel, part, step
from tidegate.estimators import patterns
from tidegate.shed import victims
from tidegate.shed.members import is_one


@part
def admit(shed, row, stream):
    """One tuple more of a pattern is retained."""
    patterns.retain(shed.patterns, row, stream)
    write_worth(shed, row, stream)
    victims.reweigh(
        shed.rule, shed.queues, shed.heaps, shed.members, shed.groups, shed.frequency.counts,
        row, stream,
    )  # fmt: skip


@step
def write_worth(shed, row, stream):
    worth = patterns.worth_of(shed.patterns, row, stream)
    shed.frequency.counts[row, stream] = worth


@part
def earn(shed, slot, results):
    """A member has taken part in so many results: its pattern is worth more."""
    if is_one(shed.members, slot):
        stream = np.int64(shed.members.notes[slot].stream)
        row = np.int64(shed.members.key[slot])
        patterns.earn(shed.patterns, row, stream, shed.members.priority[slot], results)
        write_worth(shed, row, stream)


@kernel
def write_all(shed):
    """What all patterns are worth, from their tables."""
    for row in range(shed.patterns.rows[0]):
        for stream in range(shed.patterns.results.shape[1]):
            if shed.patterns.retained[row, stream] > 0.0:
                write_worth(shed, row, stream)
