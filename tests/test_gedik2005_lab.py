"""The streams, the baseline and the bound of gedik2005, and the figures about r.

The law: comparisons and results that are counted by basic window add up to those of the engine; the
best choice afterwards is exact with enough fuel; random drop keeps its fuel.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("altair")

import tidegate as tg
from tidegate.lab import gedik2005
from tidegate.lab.figures import Scale, choose
from tidegate.lab.gedik2005 import _ALIGNED, _LAGGED, Setting
from tidegate.lab.gedik2005_best import best_afterwards, comparisons_by_window, results_by_window
from tidegate.lab.gedik2005_streams import SECOND, drifting_sets, randomly_dropped

SMALL = Setting(((20.0, 6.0), (10.0, 12.0)), (8.0, 5.0), skew=1.0, shifted=True, at_least=2)
CUT = (SMALL.ticks, SECOND, 5 * SECOND, 7)


def test_streams_are_seeded_and_in_order() -> None:
    first, again, other = (SMALL.tables(1.0, seed) for seed in (1, 1, 2))
    for name in ("left", "right"):
        assert first[name].equals(again[name])
        assert not first[name].equals(other[name])
        times = first[name]["t"].to_numpy()
        assert len(times) == 240
        assert (np.diff(times) >= 0).all()
        assert np.histogram(times, [0, 20_000, 30_000])[0].tolist() == [120, 120]
        for items in first[name]["items"].to_pylist():
            assert len(set(items)) == len(items) >= 1
            assert 0 <= min(items) <= max(items) < 100


def test_popularity_goes_round_and_lags() -> None:
    """With much skew a set lies at the item of its time; the right stream is 10 s behind."""
    tables = drifting_sets([(40.0, 20.0)], 3.0, 40.0, (0.0, 10.0), seed=3)
    for name, lag in (("left", 0), ("right", 10)):
        times = tables[name]["t"].to_numpy()
        popular = (100 * ((times - lag * SECOND) % 40_000) // 40_000).tolist()
        holds = [
            p in items for p, items in zip(popular, tables[name]["items"].to_pylist(), strict=True)
        ]
        assert np.mean(holds) > 0.9


def test_counts_by_basic_window_add_up() -> None:
    tables = SMALL.tables(1.0, 5)
    exact = tg.join(tables, SMALL.spec().replace(index="nested-loop"))
    results = results_by_window(exact.table, *CUT)
    comparisons = comparisons_by_window(tables, *CUT)
    assert results.sum() == exact.stats["rows_out"] > 0
    assert comparisons.sum() == exact.stats["comparisons"]
    for side, probing in ((0, "right"), (1, "left")):
        assert comparisons[:, side].sum() == exact.stats[f"comparisons_{probing}"]
    ample = best_afterwards(results, comparisons, float(comparisons.sum()))
    assert ample.sum() == pytest.approx(results.sum())
    assert best_afterwards(results, comparisons, 0.0).sum() == 0
    some = [best_afterwards(results, comparisons, fuel).sum() for fuel in (20.0, 100.0, 400.0)]
    assert 0 < some[0] < some[1] < some[2] < results.sum()


@pytest.mark.parametrize("fuel", [20.0, 100.0, 10**9])
def test_random_drop_keeps_its_fuel(fuel: float) -> None:
    tables = SMALL.tables(1.0, 6)
    left = randomly_dropped(tables, SMALL.ticks, fuel, seed=1)
    stats = tg.join(left, SMALL.spec().replace(index="nested-loop")).stats
    # A tuple is charged for what is kept when its second begins, some of which expires in it, and
    # for what is kept of its second before it was drawn, which may be younger.
    assert stats["comparisons"] <= 1.25 * fuel * 30
    if fuel == 10**9:
        assert left["left"].equals(tables["left"])
        assert left["right"].equals(tables["right"])
    else:
        assert 0 < left["left"].num_rows < tables["left"].num_rows


@pytest.mark.parametrize("name", ["fig3", "fig6"])
def test_r_follows_the_rates(name: str) -> None:
    (figure,) = choose(f"gedik2005-{name}")
    found = figure.read([], Scale(quick=True))
    assert len(found.claims) == 2
    assert all(claim.holds for claim in found.claims)


def test_all_figures_are_listed() -> None:
    names = [f"Fig. {n}" for n in range(3, 10)]
    assert [each.name for each in choose("gedik2005")] == [*names, "Table"]


def test_without_recorded_data_nothing_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIDEGATE_DATA", raising=False)
    (figure,) = choose("gedik2005-table")
    found = figure.read([], Scale(quick=True))
    assert not found.claims
    assert "The recorded data is not here" in found.notes[0]


def test_fuel_is_what_150_tuples_per_second_need() -> None:
    """In steady state, at the middle of a phase of 150 tuples/s, for one side and for both."""
    for setting in (_ALIGNED, _LAGGED):
        steady = Setting(((60.0, 150.0),), setting.windows)
        tables = steady.tables(0.2, 0)
        counts = comparisons_by_window(tables, steady.ticks, SECOND, 5 * SECOND, 13)
        assert counts[6:11].sum() / 25 == pytest.approx(steady.fuel(0.2), rel=0.1)


def test_each_adaptation_can_be_switched_on_alone() -> None:
    specs = {name: gedik2005.throttled(_LAGGED, name, 0.2) for name in gedik2005.ADAPTATIONS}
    assert len({spec.cpu for spec in specs.values()}) == len(specs)
    assert specs[gedik2005.OURS].cpu == tg.Cpu(
        _LAGGED.fuel(0.2) / SECOND, adapt_every=5 * SECOND, basic_window=SECOND
    )
    assert isinstance(_LAGGED.tables(0.01, 0)["left"], pa.Table)
