"""What each factor of a grid does: a ranking in words, a drawing, and tables of effects and interactions."""

from collections.abc import Sequence

from pgassay.model.further_results.effects import FactorEffects, Interaction, LevelEffect
from pgassay.report import text
from pgassay.report.compare.material import Material
from pgassay.report.section import (
    EVERYWHERE,
    QUIET,
    STRONG,
    TERMINAL,
    Bars,
    Block,
    Cell,
    Column,
    Figure,
    Fold,
    Group,
    Paragraph,
    Row,
    Section,
    Table,
    bullets,
)

FIGURE = "factors"
# A longer table is folded.
_ROWS_OPEN_MAX = 12


def section(material: Material) -> Section:
    """Which factor matters most, and where one depends on another; without blocks where nothing is known."""
    effects, margin = material.result.effects, material.result.margin
    if effects is None or all(size.ratio is None and size.at_most is None for size in effects.ranking):
        return Section("What matters most", "factors", ())
    first, *others = effects.sentences
    blocks: list[Block] = [Paragraph(text.clean(first), STRONG)]
    blocks += [bullets([text.clean(line) for line in others])] if others else []
    blocks += [Figure(FIGURE), _folded("main effects", _main_table(effects, margin), len(effects.main))]
    if effects.at:
        blocks.append(_behind("Effects at each level of another factor", _at_table(effects.at, margin)))
    if effects.interactions:
        blocks.append(_behind("Interactions", _interaction_table(effects.interactions, margin)))
    blocks += [Paragraph(text.clean(note), QUIET) for note in effects.notes]
    blocks.append(Paragraph(_rests_on(effects), QUIET))
    return Section("What matters most", "factors", tuple(blocks), link="Factors")


def _rests_on(effects: FactorEffects) -> str:
    return (
        f"Means over all levels of the other factors, from {text.plural(effects.rounds, 'round')} in which "
        f"every arm took part; {effects.family}."
    )


def _behind(title: str, table: Table) -> Fold:
    """A long table of what the sentences sum up; a terminal has no room for it."""
    return Fold(title, (table,), where=EVERYWHERE - TERMINAL)


def _folded(what: str, table: Table, rows: int) -> Block:
    return Fold(f"{rows} {what}", (table,)) if rows > _ROWS_OPEN_MAX else table


def _main_table(effects: FactorEffects, margin: float) -> Table:
    order = [size.factor for size in effects.ranking]
    rows = sorted(effects.main, key=lambda each: order.index(each.factor))
    columns = _columns("factor", "level vs. reference", "speed ratio")
    group = Group(tuple(_effect_row(each) for each in rows))
    return Table(columns, (group,), bars=Bars("speed", margin))


def _at_table(effects: Sequence[LevelEffect], margin: float) -> Table:
    columns = _columns("at", "level vs. reference", "speed ratio")
    rows = tuple(_effect_row(each, is_at=True) for each in effects)
    return Table(columns, (Group(rows),), bars=Bars("speed", margin))


def _interaction_table(interactions: Sequence[Interaction], margin: float) -> Table:
    columns = _columns("effect of", "level of the other factor, vs. which", "ratio of effects")
    rows = tuple(
        Row(
            (
                Cell(text.clean(f"{each.factor}: {each.level} over {each.reference}")),
                Cell(text.clean(f"{each.by}={each.by_level} over {each.by_reference}")),
                Cell(_word(each), "", (each.note,) if each.note else ()),
                Cell(text.ratio(each.ratio)),
                Cell(text.interval_or_why(each.interval, each.ratio)),
            ),
            bar=(each.interval, each.ratio),
        )
        for each in interactions
    )
    return Table(columns, (Group(rows),), bars=Bars("effect", margin))


def _columns(first: str, second: str, ratio: str) -> tuple[Column, ...]:
    return (
        Column(first, is_figure=False),
        Column(second, is_figure=False),
        Column("verdict", is_figure=False),
        Column(ratio, short="ratio"),
        Column("interval"),
    )


def _effect_row(each: LevelEffect, *, is_at: bool = False) -> Row:
    pair = f"{each.level} over {each.reference}"
    at = ", ".join(f"{name}={level}" for name, level in each.at.items())
    return Row(
        (
            Cell(text.clean(at if is_at else each.factor)),
            Cell(text.clean(f"{each.factor}: {pair}" if is_at else pair)),
            Cell(
                _word(each),
                "withheld" if each.withheld else each.verdict,
                (each.note,) if each.note else (),
            ),
            Cell(text.ratio(each.ratio)),
            Cell(text.interval_or_why(each.interval, each.ratio)),
        ),
        bar=(each.interval, each.ratio),
    )


def _word(each: LevelEffect | Interaction) -> str:
    if each.withheld:
        return "withheld"
    return "" if not each.rounds else each.verdict
