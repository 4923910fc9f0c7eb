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
    heads = ("arm", "volume", "a month", *(("a million transactions",) if is_load else ()))
    rows = [
        [
            arm_at(each),
            _volumes(each),
            "not known" if each.per_month is None else f"{each.per_month:,.2f} {_currency(each)}",
            *([_of_million(each)] if is_load else []),
        ]
        for each in found
    ]
    blocks: list[Block] = [plain_table(heads, rows, names=2)]
    blocks += [Paragraph(line, QUIET) for line in (_catalogue(found), _prices(found)) if line]
    assumed = list(
        dict.fromkeys(_assumed(volume) for each in found for volume in each.volumes if volume.assumed)
    )
    if assumed:
        blocks.append(bullets(assumed, title="Assumed: not documented by the provider"))
    return Section(_TITLE, "volumes", tuple(blocks), link="Volumes")


def _volumes(each: ArmVolumes) -> str:
    words = [f"WAL: {volume.name}" if volume.holds == "wal" else volume.name for volume in each.volumes]
    return text.clean("; ".join(words))


def _of_million(each: ArmVolumes) -> str:
    return text.quantity(each.per_million_transactions, _currency(each)) or "not known"


def _currency(each: ArmVolumes) -> str:
    return text.clean(each.currency or "")


def _catalogue(found: Sequence[ArmVolumes]) -> str:
    dates = " and ".join(dict.fromkeys(text.clean(each.catalogue_date) for each in found))
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
    if missing:
        words.append(f"The catalogue has no price for {', '.join(missing)}.")
    return " ".join(words)


def _assumed(volume: UsedVolume) -> str:
    known = "; ".join(each for each in volume.assumed if each != "latency")
    latency = (
        f"a latency of {volume.latency_ms:g} ms, which may be {volume.latency_low_ms:g} to "
        f"{volume.latency_high_ms:g} ms"
        if volume.latency_assumed
        else ""
    )
    return text.clean(f"{volume.name}: {'; '.join(filter(None, (latency, known)))}")
