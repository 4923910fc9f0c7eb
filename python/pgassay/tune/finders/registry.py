"""The table of finders: a new one is a file and a line here. What they offer is merged and thinned out."""

from collections import defaultdict
from collections.abc import Callable, Iterable

from pgassay.tune.candidate import Candidate, Symptom
from pgassay.tune.finders.base import ExpectedSaving, Finder, FinderOffer
from pgassay.tune.finders.design.brin import BRIN
from pgassay.tune.finders.design.btree import BTREE
from pgassay.tune.finders.design.covering import COVERING
from pgassay.tune.finders.design.expression import EXPRESSION
from pgassay.tune.finders.design.foreign_key import FOREIGN_KEY
from pgassay.tune.finders.design.gin import GIN
from pgassay.tune.finders.design.join import JOIN
from pgassay.tune.finders.design.like_prefix import LIKE_PREFIX
from pgassay.tune.finders.design.or_conditions import OR_CONDITIONS
from pgassay.tune.finders.design.partial import PARTIAL
from pgassay.tune.finders.design.partitioning import PARTITIONING
from pgassay.tune.finders.design.unneeded import UNNEEDED
from pgassay.tune.finders.evidence.plan_evidence import FinderEvidence, statement_ms
from pgassay.tune.finders.infrastructure.faster_volume import STORAGE
from pgassay.tune.finders.infrastructure.memory import MEMORY
from pgassay.tune.finders.infrastructure.planner_costs import PLANNER_COSTS
from pgassay.tune.finders.infrastructure.processors import PROCESSORS
from pgassay.tune.finders.infrastructure.reading_and_writing import READING_AND_WRITING
from pgassay.tune.finders.infrastructure.version import VERSION
from pgassay.tune.finders.operations.analyze import ANALYZE
from pgassay.tune.finders.operations.autovacuum import AUTOVACUUM
from pgassay.tune.finders.operations.bloat import BLOAT
from pgassay.tune.finders.operations.fillfactor import FILLFACTOR
from pgassay.tune.finders.operations.freeze import FREEZE
from pgassay.tune.finders.operations.vacuum import VACUUM

# A tenth of a statement's time is the least that a trial of some minutes tells from noise.
STATEMENT_GAIN_MIN = 0.10
SAVING_MS_MIN = 0.2
# No fix takes a statement's whole time: a prediction of nothing would be wrong by any factor.
RATIO_MIN = 0.002

FINDERS: tuple[Finder, ...] = (
    BTREE,
    JOIN,
    LIKE_PREFIX,
    PARTIAL,
    EXPRESSION,
    OR_CONDITIONS,
    COVERING,
    GIN,
    BRIN,
    FOREIGN_KEY,
    UNNEEDED,
    PARTITIONING,
    ANALYZE,
    VACUUM,
    AUTOVACUUM,
    BLOAT,
    FILLFACTOR,
    FREEZE,
    MEMORY,
    PLANNER_COSTS,
    PROCESSORS,
    READING_AND_WRITING,
    STORAGE,
    VERSION,
)


def find(symptom: Symptom) -> tuple[Candidate, ...]:
    """What may help the workload, with what it is predicted to do to each statement; most promising first.

    A candidate whose statements may all gain less than STATEMENT_GAIN_MIN at most is not among them, nor one
    that may gain less than the symptom's `gain_min` of the workload as it would be with all other statements
    at their predicted best, unless it is told for another reason than time. A workload of many statements is
    made faster one statement after the other: what is little beside all of them is much beside what is left.
    """
    evidence = FinderEvidence(symptom)
    offers = [offer for finder in FINDERS for offer in finder.find(evidence)]
    made = list(_merged(offers, evidence))
    return tuple(candidate for _, candidate in sorted(made, key=lambda each: (-each[0], each[1].id)))


def _merged(offers: Iterable[FinderOffer], evidence: FinderEvidence) -> Iterable[tuple[float, Candidate]]:
    """Offers of one id as one candidate, with the gain of the workload that it predicts."""
    groups: dict[str, list[FinderOffer]] = defaultdict(list)
    for offer in offers:
        groups[offer.candidate.id].append(offer)
    predicted = {id_: _ratios(same, evidence, lambda saving: saving.ms) for id_, same in groups.items()}
    best_of: dict[str, float] = {}
    for ratios in predicted.values():
        for name, ratio in ratios.items():
            best_of[name] = min(ratio, best_of.get(name, 1.0))
    for id_, same in groups.items():
        # The reason is that of the offer that saves most.
        best = max(same, key=lambda each: sum(saving.ms for saving in each.savings))
        ratios = predicted[id_]
        gain = sum((1 - ratio) * evidence.share(name) for name, ratio in ratios.items())
        # What the statements that it leaves alone take less with the best that was found for them.
        spared = sum((1 - best_of[name]) * evidence.share(name) for name in best_of.keys() - ratios.keys())
        told = any(each.without_gain for each in same)
        if told or _is_worth_trying(same, evidence, max(1 - spared, RATIO_MIN)):
            names = tuple(
                each.name
                for each in evidence.symptom.statements
                if each.name in ratios or each.name in best.candidate.statements
            )
            most = max(best.savings, key=lambda saving: saving.ms, default=None)
            more = {"statements": names, "predicted": ratios, "reason_of": most.statement if most else ""}
            yield gain, best.candidate.model_copy(update=more)


def _ratios(
    offers: list[FinderOffer], evidence: FinderEvidence, saves_ms: Callable[[ExpectedSaving], float]
) -> dict[str, float]:
    """New time over old for each statement: over all its plans, those that nothing changes included."""
    saved: dict[tuple[str, int], float] = defaultdict(float)
    for offer in offers:
        for saving in offer.savings:
            saved[saving.statement, saving.plan] += saves_ms(saving)
    names = {name for name, _ in saved}
    total: dict[str, float] = defaultdict(float)
    less: dict[str, float] = defaultdict(float)
    for statement, number, plan in evidence.plans:
        if statement.name in names:
            time = statement_ms(plan)
            total[statement.name] += time
            less[statement.name] += min(saved[statement.name, number], (1 - RATIO_MIN) * time)
    return {name: round(1 - less[name] / total[name], 4) for name in sorted(total)}


def _is_worth_trying(offers: list[FinderOffer], evidence: FinderEvidence, left: float) -> bool:
    """Whether what it may save is worth measuring it; `left` of the workload is what it is compared with."""
    ratios = _ratios(offers, evidence, lambda saving: saving.possible_ms)
    gain = sum((1 - ratio) * evidence.share(name) for name, ratio in ratios.items())
    most = max((saving.possible_ms for offer in offers for saving in offer.savings), default=0.0)
    return (
        most >= SAVING_MS_MIN
        and min(ratios.values(), default=1.0) <= 1 - STATEMENT_GAIN_MIN
        and gain >= evidence.symptom.gain_min * left
    )
