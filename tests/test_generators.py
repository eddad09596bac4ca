"""Made-up streams: seeded, in order of time, and skewed as they say."""

from __future__ import annotations

import numpy as np
import pytest

from tidegate.lab.generators import PRICE_CLASSES, auctions_and_bids


def test_the_seed_fixes_every_value() -> None:
    first, again, other = (auctions_and_bids(200, 500, seed) for seed in (1, 1, 2))
    for name, rows in (("auctions", 200), ("bids", 500)):
        assert first[name].num_rows == rows
        assert first[name].equals(again[name])
        assert not first[name].equals(other[name])


@pytest.mark.parametrize(("name", "time"), [("auctions", "opened"), ("bids", "made")])
def test_streams_come_in_order_of_time(name: str, time: str) -> None:
    times = auctions_and_bids(300, 900, seed=3)[name].column(time).to_numpy()
    assert (np.diff(times) >= np.timedelta64(0)).all()


def test_a_bid_follows_its_auction_and_its_importance_is_the_class_of_its_amount() -> None:
    tables = auctions_and_bids(300, 900, seed=4)
    bids = tables["bids"]
    opened = tables["auctions"].column("opened").to_numpy()[bids.column("auction_id").to_numpy()]
    assert (bids.column("made").to_numpy() >= opened).all()
    amount, importance = (bids.column(c).to_numpy() for c in ("amount", "importance"))
    assert set(importance) <= set(PRICE_CLASSES)
    assert (importance <= amount).all()
    classes = np.append(PRICE_CLASSES, np.inf)
    assert (amount < classes[np.searchsorted(PRICE_CLASSES, importance) + 1]).all()


def test_few_auctions_are_dear_and_few_are_popular() -> None:
    tables = auctions_and_bids(5_000, 20_000, seed=5)
    price = tables["auctions"].column("importance").to_numpy()
    assert (price == 1).sum() > 10 * (price == 100).sum() > 0
    popular = np.sort(np.bincount(tables["bids"].column("auction_id").to_numpy()))[::-1]
    assert popular[:500].sum() > 0.25 * popular.sum()
