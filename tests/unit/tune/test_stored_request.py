"""A request is stored as it was understood, and read again as the same, whatever its options' types are."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import tune_samples as samples
from pgassay.experiment.planning.request import CompareRequest
from pgassay.record.layout import TUNE_REQUEST_FILE
from pgassay.tune.running.stored_request import keep_request, kept_request
from pgassay.tune.tune_plan import PlannedTune, TuneRequest
from report_examples import spec


def test_a_kept_request_reads_again_with_all_its_options(tmp_path: Path) -> None:
    compare = CompareRequest(
        factors=(), workload="sql:slow.sql", cache="warm-pages", plans="work", margin=0.02, seed=3
    )
    request = TuneRequest(compare, out=tmp_path, clients=2)
    planned = cast(
        PlannedTune, SimpleNamespace(spec=spec({}), request=compare, statements=samples.STATEMENTS)
    )
    keep_request(tmp_path, request, planned, rewrites=False)
    kept = kept_request(tmp_path)
    assert kept is not None and kept[1] is False
    assert kept[0].compare.cache == "warm-pages" and kept[0].compare.plans == "work"
    assert (kept[0].compare.margin, kept[0].compare.seed) == (0.02, 3)
    assert kept[0].start is not None and kept[0].start.statements == samples.STATEMENTS
    assert kept[0].compare.restart == "needed"
    # One without the key is older than arms that take turns in one server.
    document = json.loads((tmp_path / TUNE_REQUEST_FILE).read_text())
    del document["request"]["compare"]["restart"]
    (tmp_path / TUNE_REQUEST_FILE).write_text(json.dumps(document))
    older = kept_request(tmp_path)
    assert older is not None and older[0].compare.restart == "each"
    # A value that an option can't have is another version's, or damage.
    document = json.loads((tmp_path / TUNE_REQUEST_FILE).read_text())
    document["request"]["compare"]["cache"] = "lukewarm"
    (tmp_path / TUNE_REQUEST_FILE).write_text(json.dumps(document))
    assert kept_request(tmp_path) is None
