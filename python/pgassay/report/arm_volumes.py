"""What the imitated volumes of each arm cost, and what of them is assumed."""

from collections.abc import Sequence

from pgassay.model.volumes.arm import ArmVolumes, UsedVolume
from pgassay.report import text
from pgassay.report.compare.material import Material
from pgassay.report.labels import arm_at
from pgassay.report.section import QUIET, Block, Paragraph, Section, bullets, plain_table

_TITLE = "Volumes and their prices"


def section(material: Material) -> Section:
    """A row for each arm; then which figures no provider has published, and how old the others are."""
    found = material.result.volumes
    if not found:
        return Section(_TITLE, "volumes", ())
    is_load = any(each.per_million_transactions is not None for each in found)
    is_ranked = any(each.work_price_ratio is not None for each in found)
    further = (*(("a million transactions",) if is_load else ()), *(("the same work",) if is_ranked else ()))
    rows = [
        [
            arm_at(each),
            _volumes(each),
            _month(each),
            *([_of_million(each)] if is_load else []),
            *([_same_work(each)] if is_ranked else []),
        ]
        for each in ranked(found)
    ]
    blocks: list[Block] = [Paragraph(line) for line in price_ranking(found)]
    blocks.append(plain_table(("arm", "volume", "a month", *further), rows, names=2))
    blocks += [Paragraph(line, QUIET) for line in (_catalogue(found), _prices(found)) if line]
    assumed = list(
        dict.fromkeys(_assumed(volume) for each in found for volume in each.volumes if volume.assumed)
    )
    if assumed:
        blocks.append(bullets(assumed, title="Assumed: not documented by the provider"))
    return Section(_TITLE, "volumes", tuple(blocks), link="Volumes")


def ranked(found: Sequence[ArmVolumes]) -> list[ArmVolumes]:
    """By stratum, the cheapest for the same work first; those without a price last."""
    strata = list(dict.fromkeys(each.stratum for each in found))
    return sorted(
        found,
        key=lambda each: (
            strata.index(each.stratum),
            each.work_price_ratio is None,
            each.work_price_ratio or 0.0,
        ),
    )


def price_ranking(found: Sequence[ArmVolumes]) -> list[str]:
    """Which storage is the cheapest for the same work, a sentence for each stratum with two prices."""
    told = []
    for stratum in dict.fromkeys(each.stratum for each in found):
        members = [each for each in ranked(found) if each.stratum == stratum and each.work_price_ratio]
        # The control, whose ratio is 1, has no interval; a ranking of what is not bounded would say too much.
        # Where all cost the same, the speeds say it.
        if (
            len({each.per_month for each in members}) < 2
            or sum(each.work_price_interval is None for each in members) > 1
        ):
            continue
        where = f" at {text.clean(stratum)}" if stratum else ""
        names = [f"{_volumes(each)} ({_month(each)} a month, {_same_work(each)})" for each in members]
        told.append(f"Price of the same work{where}, the cheapest first: {'; '.join(names)}.")
    return told


def _month(each: ArmVolumes) -> str:
    return "not known" if each.per_month is None else f"{each.per_month:,.2f} {_currency(each)}"


def _same_work(each: ArmVolumes) -> str:
    """The price of the same work over the control's, with its interval; what can't be told apart says so."""
    if each.work_price_ratio is None:
        return "not known"
    if each.work_price_interval is None:
        is_control = each.work_price_ratio == 1.0
        return text.ratio(each.work_price_ratio) + ("" if is_control else ", not bounded yet")
    low, high = each.work_price_interval
    shown = f"{text.ratio(each.work_price_ratio)} [{text.interval(each.work_price_interval)}]"
    return f"{shown}, undecided" if low <= 1 <= high else shown


def _volumes(each: ArmVolumes) -> str:
    words = [f"WAL: {volume.name}" if volume.holds == "wal" else volume.name for volume in each.volumes]
    return text.clean("; ".join(words))


def _of_million(each: ArmVolumes) -> str:
    return text.quantity(each.per_million_transactions, _currency(each)) or "not known"


def _currency(each: ArmVolumes) -> str:
    return text.clean(each.currency or "")


def _catalogue(found: Sequence[ArmVolumes]) -> str:
    dates = " and ".join(
        dict.fromkeys(text.clean(each.catalogue_date) for each in found if each.catalogue_date)
    )
    if not dates:
        return ""
    files = dict.fromkeys(text.clean(file) for each in found for file in each.catalogue_files)
    own = f", with {', '.join(files)}" if files else ""
    return f"The catalogue of volumes was compared with the providers' documents on {dates}{own}."


def _prices(found: Sequence[ArmVolumes]) -> str:
    lists = dict.fromkeys(
        f"{text.clean(each.region)}, prices as of {text.clean(each.price_date)}"
        for each in found
        if each.region and each.price_date
    )
    missing = dict.fromkeys(text.clean(name) for each in found for name in each.missing)
    words = [f"A month has 730 hours; {'; '.join(lists)}."] if lists else []
    given = dict.fromkeys(
        f"{_volumes(each)}{f' ({text.clean(each.price_date)})' if each.price_date else ''}"
        for each in found
        if each.price_given
    )
    if given:
        words.append(f"Your own prices (--price): {'; '.join(given)}.")
    if missing:
        words.append(f"The catalogue has no price for {', '.join(missing)}.")
    return " ".join(words)


def _assumed(volume: UsedVolume) -> str:
    known = "; ".join(each for each in volume.assumed if each != "latency")
    latency = (
        f"a latency of {text.figure(volume.latency_ms or 0.0, 6)} ms, which may be "
        f"{text.figure(volume.latency_low_ms or 0.0, 6)} to "
        f"{text.figure(volume.latency_high_ms or 0.0, 6)} ms"
        if volume.latency_assumed
        else ""
    )
    return text.clean(f"{volume.name}: {'; '.join(filter(None, (latency, known)))}")
