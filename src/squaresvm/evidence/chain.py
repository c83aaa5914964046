"""Whether receipts are one whole chain, and whether those that somebody has kept are in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from squaresvm.evidence.receipt import Receipt

__all__ = ["check_chain", "check_known"]


def check_chain(receipts: Sequence[Receipt], first: int = 0) -> list[str]:
    """Return what is wrong with a chain of receipts, by number: dropped, edited, swapped or added entries.

    A chain begins with number `first`, or with an anchor, which commits to all receipts before it: put those
    that were exported with it in front, and the whole is one chain.

    Parameters
    ----------
    receipts : sequence of Receipt
        In their order.
    first : int, default=0

    Returns
    -------
    list of str
        A sentence each; empty where nothing is wrong.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from squaresvm import LSSVC, check_chain
    >>> model = LSSVC().fit(*load_iris(return_X_y=True))
    >>> for name in (3, 17, 60):
    ...     _ = model.forget([name])
    >>> chain = list(model.receipts_)
    >>> check_chain(chain)
    []
    >>> check_chain(chain[:2] + chain[3:])
    ['receipt 2 is missing: number 3 stands in its place']
    """
    faults = []
    begins = bool(receipts) and receipts[0].kind == "anchor"
    expected = receipts[0].number if begins else first
    for place, receipt in enumerate(receipts):
        number = receipt.number
        if receipt.hash != receipt.hashed():
            faults.append(f"receipt {number} was edited: its hash is not that of what it says")
        if number != expected:
            faults.append(_out_of_place(receipts, place, expected))
        elif place and receipt.previous != receipts[place - 1].hash:
            faults.append(
                f"receipt {number} does not follow the one before it: receipt {number - 1} was edited or "
                f"replaced, or receipt {number} was added"
            )
        elif not place and not number and receipt.previous:
            faults.append("receipt 0 follows another one: the chain was cut")
        elif place:
            faults += _against(receipt, receipts[place - 1])
        faults += _own_faults(receipt)
        expected = number + 1 if number >= expected else expected
    return faults


def _out_of_place(receipts: Sequence[Receipt], place: int, expected: int) -> str:
    number = receipts[place].number
    where = [at for at, each in enumerate(receipts) if each.number == number]
    if len(where) > 1 and place != where[0]:
        return f"receipt {number} was added: the number occurs {len(where)} times"
    if any(each.number == expected for each in receipts[place:]):
        return f"receipts are out of order: number {number} stands where {expected} should, they were swapped"
    if number < expected:
        return f"receipts are out of order: number {number} stands behind number {expected - 1}"
    return f"receipt {expected} is missing: number {number} stands in its place"


def _against(receipt: Receipt, before: Receipt) -> Iterable[str]:
    if receipt.rows_before != before.remaining:
        yield (
            f"receipt {receipt.number} begins with {receipt.rows_before} rows, and the one before it ends "
            f"with {before.remaining}"
        )
    if receipt.time < before.time:
        yield f"receipt {receipt.number} is of an earlier time than the one before it"


def _own_faults(receipt: Receipt) -> Iterable[str]:
    if receipt.kind == "anchor":
        if receipt.before["receipts"] != receipt.number or not receipt.previous:
            yield f"receipt {receipt.number}, an anchor, does not stand for all receipts before it"
        if receipt.rows_before != receipt.remaining:
            yield f"receipt {receipt.number}, an anchor, changes the number of rows"
    sign = {"learn": 1, "forget": -1}.get(receipt.kind, 0)
    if sign and receipt.rows_before + sign * receipt.rows != receipt.remaining:
        yield (
            f"receipt {receipt.number} does not add up: {receipt.rows_before} rows, {receipt.rows} "
            f"{'came' if sign > 0 else 'left'}, {receipt.remaining} remained"
        )


def check_known(receipts: Sequence[Receipt], known: Sequence[Receipt]) -> list[str]:
    """Return which receipts that somebody has kept are not those of the chain, or are false themselves.

    One that is not sealed, as `forget` returns it, is compared by what it says of its request. Receipts from
    before an anchor are held against it, by the hashes from each to the next: all from the oldest one on are
    needed, and sealed.
    """
    by_number = {receipt.number: receipt for receipt in receipts}
    sealed = [receipt for receipt in known if receipt.hash]
    faults = [f"the receipt {r.number} that was given is edited" for r in sealed if r.hash != r.hashed()]
    anchor = receipts[0] if receipts and receipts[0].kind == "anchor" else None
    old = [] if anchor is None else [r for r in sealed if r.number < anchor.number]
    if anchor is not None and old:
        faults += _against_anchor(anchor, old)
    for receipt in known:
        held = by_number.get(receipt.number)
        if anchor is not None and receipt.number < anchor.number and not receipt.hash:
            faults.append(
                f"receipt {receipt.number}, which was given, was never sealed and cannot be held against the "
                f"anchor, receipt {anchor.number}"
            )
        elif held is None and receipt not in old:
            faults.append(f"receipt {receipt.number}, which was given, is missing in the chain of the model")
        elif held is not None and not (
            held.hashed() == receipt.hash if receipt.hash else held.is_of_request(receipt)
        ):
            faults.append(f"receipt {receipt.number} of the model is another one than the one that was given")
    return faults


def _against_anchor(anchor: Receipt, old: Sequence[Receipt]) -> Iterable[str]:
    by_number: dict[int, list[Receipt]] = {}
    for receipt in old:
        by_number.setdefault(receipt.number, []).append(receipt)
    number, expected = anchor.number - 1, anchor.previous
    while number in by_number:
        given = by_number.pop(number)
        if any(receipt.hash != expected for receipt in given):
            yield (
                f"receipt {number}, which was given, is another one than the one that the anchor, receipt "
                f"{anchor.number}, commits to"
            )
            return
        number, expected = number - 1, given[0].previous
    if by_number:
        yield (
            f"receipt {max(by_number)}, which was given, cannot be held against the anchor, receipt "
            f"{anchor.number}: give the receipts between them too, which were exported when it was made"
        )
