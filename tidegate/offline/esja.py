"""ESJA: the paper's flow formulation, where a tuple may be dropped at every instant of its life.

Law: the network has w x N arcs, one for each tuple and each event that it lives to see (section
4.2.3 of ojewole2006, after the semantic approximation of Das et al.); its optimum is that of the
small network, which knows only the events at which a tuple meets somebody. It is here for
comparison, and for "least-importance": if cells may not be left empty without need, a tuple may
have to stay although it meets nobody.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tidegate.offline import flow
from tidegate.offline.instance import Account, Instance, Integers
from tidegate.offline.network import Network, network_of
from tidegate.spec import TidegateError


def account_of_every_event(
    instance: Instance, number: int, *, until_admission: bool = False
) -> Account:
    """The account with an option for each event until the end of each tuple's window.

    `until_admission` lets the dead keep their cell until somebody is admitted who could use it.
    """
    small = instance.accounts[number]
    tuples = instance.members(number)
    events = int(instance.event.max(initial=-1)) + 1
    order = np.append(instance.event[instance.order], events)
    places = instance.death[tuples]
    if until_admission:
        admissions = np.append(_places(instance, tuples), len(instance.order))
        places = admissions[np.searchsorted(admissions, places)]
    begin, death = instance.event[tuples], order[places]
    alive = death > begin
    tuples, begin, death = tuples[alive], begin[alive], death[alive]
    first = np.concatenate([[0], np.cumsum(death - begin)]).astype(np.int64)
    end = np.arange(first[-1]) - np.repeat(first[:-1] - begin - 1, death - begin)
    row = np.full(len(instance.event), -1, np.int64)
    row[tuples] = np.arange(len(tuples))
    mine = row[np.repeat(small.tuples, np.diff(small.first))]
    where = first[mine] + small.end - begin[mine] - 1

    def spread(numbers: NDArray[np.float64] | Integers) -> NDArray[np.float64]:
        wide = np.zeros(int(first[-1]))
        wide[where] = numbers
        return wide

    return Account(
        capacity=small.capacity,
        tuples=tuples,
        begin=begin,
        first=first,
        end=end,
        gain=spread(small.gain),
        importance=spread(small.importance),
        results=spread(small.results).astype(np.int64),
    )


def solve(instance: Instance, number: int) -> Integers:
    """How many options each tuple of the (small) account takes, found on the large network."""
    large = account_of_every_event(instance, number)
    network = network_of(large, every_event=True)
    return _options_taken(instance, number, large, flow.solve(network).place)


def _options_taken(instance: Instance, number: int, large: Account, place: Integers) -> Integers:
    small = instance.accounts[number]
    last = np.full(len(instance.event), -1, np.int64)
    kept = place != flow.NOT_KEPT
    last[large.tuples[kept]] = large.end[place[kept]]
    taken = small.end <= np.repeat(last[small.tuples], np.diff(small.first))
    return np.add.reduceat(taken, small.first[:-1]) if len(taken) else np.zeros(0, np.int64)


def always_full(instance: Instance, number: int) -> bool:
    """Whether the memory, once full, stays full whatever is forgotten.

    So it is if between two admissions at most one window ends: who goes leaves room for one.
    """
    tuples = instance.members(number)
    deaths = np.sort(instance.death[tuples])
    ended = np.searchsorted(deaths, _places(instance, tuples), side="right")
    return bool((np.diff(ended, prepend=0) <= 1).all())


def _places(instance: Instance, tuples: Integers) -> Integers:
    """Where tuples stand in the order of arrival."""
    place = np.zeros(len(instance.event), np.int64)
    place[instance.order] = np.arange(len(instance.order))
    return place[tuples]


def solve_least(instance: Instance, number: int) -> Integers:
    """The same for the least gain, if cells must not be left empty while there are tuples.

    Each slot held earns a premium above everything that can be gained, so that all cells are used;
    gains count against it.
    """
    if not always_full(instance, number):
        raise TidegateError(
            "objective 'least-importance' is known by flow only where at most one window ends "
            "between two arrivals; use method='dp'"
        )
    large = account_of_every_event(instance, number, until_admission=True)
    network = network_of(replace(large, gain=-large.gain), every_event=True)
    span = network.leave - np.repeat(network.enter, np.diff(network.first))
    premium = 1 + int(np.ceil(np.abs(large.gain).sum()))
    total = premium * int(span.sum())
    if network.scale != 1.0 or total >= 2**61:
        raise TidegateError(
            "objective 'least-importance' by flow needs whole importances whose sum times the "
            "lifetimes stays below 2**61; use method='dp'"
        )
    forced: Network = network._replace(value=network.value + premium * span)
    return _options_taken(instance, number, large, flow.solve(forced).place)
