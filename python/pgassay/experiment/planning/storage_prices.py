"""What the user pays for storages, as `--price STORAGE=AMOUNT` says it."""

import re
from collections.abc import Sequence

from pgassay.errors import UsageError
from pgassay.model.arm import Arm
from pgassay.model.storage import PriceFacts
from pgassay.storage.parse import describe, parse_storage

_PRICE = re.compile(
    r"(?P<storage>.+)=\s*(?P<amount>\d+(\.\d+)?)\s+(?P<currency>[A-Za-z€$£¥]+)"
    r"(\s+(?P<date>\d{4}-\d{2}(-\d{2})?))?\s*"
)


def prices_of(texts: Sequence[str], arms: Sequence[Arm]) -> dict[str, PriceFacts]:
    """The month's price of each arm of which it is given, by the arm's name.

    Raises UsageError for a text that is none, for a storage that no arm has, and for two prices of one.
    """
    found: dict[str, PriceFacts] = {}
    for text in texts:
        match = _PRICE.fullmatch(text.strip())
        if match is None:
            raise UsageError(
                f"--price '{text}' is not STORAGE=AMOUNT CURRENCY: write it as "
                "'volume:rds-gp2,size=40GiB=4.60 USD', or with a date behind it '… USD 2026-01'"
            )
        storage = parse_storage(match["storage"].strip())
        names = [arm.name for arm in arms if arm.spec.storage == storage]
        if not names:
            known = " and ".join(dict.fromkeys(describe(arm.spec.storage) for arm in arms))
            raise UsageError(f"--price '{text}': no arm has this storage: the arms have {known}")
        if not found.keys().isdisjoint(names):
            raise UsageError(f"--price gives two prices of {describe(storage)}: leave one out")
        price = {"per_month": float(match["amount"]), "currency": match["currency"], "is_given": True}
        dated = {"date": match["date"]} if match["date"] else {}
        found |= dict.fromkeys(names, PriceFacts.model_validate(price | dated))
    return found
