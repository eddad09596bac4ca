"""Streams made up for demonstrations, tests and experiments.

Law: the seed fixes every value; a stream comes in order of time.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

PRICE_CLASSES = np.array([1, 2, 5, 10, 20, 50, 100, 200, 500], np.float64)
CATEGORIES = ("books", "cameras", "coins", "furniture", "records", "stamps", "toys", "watches")

_START = np.datetime64("2024-01-01T12:00:00", "us")
_MICROSECONDS = 1_000_000


def auctions_and_bids(
    auctions: int = 200_000,
    bids: int = 800_000,
    seed: int = 0,
    *,
    hours: float = 2.0,
    patience_minutes: float = 4.0,
) -> dict[str, pa.Table]:
    """Auctions that open one after the other, and the bids on them.

    Few auctions are dear and few are popular: price classes follow a power law (a class is about
    as rare as it is dear), popularity is lognormal. Bids come soon after an auction opened, most
    of all right after it.

    Parameters
    ----------
    auctions, bids
        How many rows each stream has.
    seed
        Fixes every value.
    hours
        How long auctions keep opening.
    patience_minutes
        The mean time from the opening of an auction to a bid on it (exponential).

    Returns
    -------
    The tables `auctions` (auction_id, opened, seller, category, importance) and `bids` (auction_id,
    made, bidder, amount, importance). `importance` is the price class, from 1 to 500.

    Example
    -------
    >>> tables = auctions_and_bids(10, 20, seed=1)
    >>> tables["bids"].column_names
    ['auction_id', 'made', 'bidder', 'amount', 'importance']
    """
    generator = np.random.default_rng(seed)
    span = int(hours * 3600 * _MICROSECONDS)
    opened = np.sort(generator.integers(0, span, auctions))
    rarity = PRICE_CLASSES**-0.9
    price = generator.choice(PRICE_CLASSES, auctions, p=rarity / rarity.sum())
    popularity = generator.lognormal(0.0, 1.0, auctions)
    table = pa.table(
        {
            "auction_id": pa.array(np.arange(auctions, dtype=np.int64)),
            "opened": _timestamps(opened),
            "seller": pa.array(generator.zipf(1.4, auctions) % max(1, auctions // 20)),
            "category": pa.array(CATEGORIES).take(
                pa.array(generator.integers(0, len(CATEGORIES), auctions))
            ),
            "importance": pa.array(price),
        }
    )
    chosen = generator.choice(auctions, bids, p=popularity / popularity.sum())
    delay = generator.exponential(patience_minutes * 60 * _MICROSECONDS, bids)
    made = opened[chosen] + delay.astype(np.int64)
    order = np.argsort(made, kind="stable")
    chosen, made = chosen[order], made[order]
    return {"auctions": table, "bids": _bids(chosen, made, price[chosen], generator)}


def _bids(
    chosen: NDArray[np.int64],
    made: NDArray[np.int64],
    price: NDArray[np.float64],
    generator: np.random.Generator,
) -> pa.Table:
    """Bids around the price of their auction; the class of an amount is the one at or below it."""
    amount = np.round(np.maximum(1.0, price * generator.lognormal(0.1, 0.35, len(price))), 2)
    bucket = np.searchsorted(PRICE_CLASSES, amount, side="right") - 1
    return pa.table(
        {
            "auction_id": pa.array(chosen.astype(np.int64)),
            "made": _timestamps(made),
            "bidder": pa.array(generator.integers(0, max(1, len(price) // 10), len(price))),
            "amount": pa.array(amount),
            "importance": pa.array(PRICE_CLASSES[bucket]),
        }
    )


def _timestamps(microseconds: NDArray[np.int64]) -> pa.Array:
    return pa.array(_START + microseconds.astype("timedelta64[us]"))
