"""A gate as JUnit XML, which continuous integration systems show: one test case for each unit.

A slow-down is a failure; a unit of which nothing can be said is an error, since the gate's exit code is not
0 for it either. The format is what Jenkins' JUnit plug-in reads (testsuites, testsuite, testcase, failure,
error, system-out).
"""

import math
import re
from datetime import datetime
from xml.etree import ElementTree

from pgassay.analysis.gate.judge_gate import FAILED, unit_sentence
from pgassay.model.gates.gate import GateResult, GateUnit, GateWorkload

# What XML 1.0 can't hold (section 2.2): all control characters but tab, line feed and carriage return.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(result: GateResult) -> bytes:
    """The document, UTF-8."""
    counts = _counts(list(result.units), sum(each.stopped == "failed" for each in result.workloads))
    if result.outcome == "interrupted":
        # What was measured may all have passed, and the gate has not.
        counts |= {name: str(int(counts[name]) + 1) for name in ("tests", "errors")}
    suites = ElementTree.Element("testsuites", {"name": "pgassay gate", **counts})
    for workload in result.workloads:
        units = [unit for unit in result.units if unit.workload == workload.name]
        suites.append(_suite(workload, units, result.created_at))
    if result.outcome == "interrupted":
        suites.append(_interrupted(result))
    ElementTree.indent(suites)
    document: bytes = ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def _suite(workload: GateWorkload, units: list[GateUnit], created_at: str) -> ElementTree.Element:
    suite = ElementTree.Element(
        "testsuite",
        {
            "name": _legal(f"pgassay.{workload.name}"),
            **_counts(units, int(workload.stopped == "failed")),
            "time": f"{workload.seconds:.3f}" if math.isfinite(workload.seconds) else "0",
            # The schemas that others check against want no time zone.
            "timestamp": datetime.fromisoformat(created_at).replace(tzinfo=None).isoformat(),
        },
    )
    for unit in units:
        suite.append(_case(unit))
    if workload.stopped == "failed":
        suite.append(_failed(workload))
    if workload.promise:
        ElementTree.SubElement(suite, "system-out").text = _legal(workload.promise)
    return suite


def _failed(workload: GateWorkload) -> ElementTree.Element:
    """What was measured of it may have passed, and the gate has not."""
    named = {"classname": _legal(f"pgassay.{workload.name}"), "name": "(whole experiment)", "time": "0"}
    case = ElementTree.Element("testcase", named)
    sentence = _legal(f"{workload.name}: undecided: {FAILED}.")
    ElementTree.SubElement(case, "error", {"message": sentence, "type": "failed"}).text = sentence
    return case


def _interrupted(result: GateResult) -> ElementTree.Element:
    suite = ElementTree.Element(
        "testsuite", {"name": "pgassay", "tests": "1", "failures": "0", "errors": "1", "time": "0"}
    )
    suite.set("timestamp", datetime.fromisoformat(result.created_at).replace(tzinfo=None).isoformat())
    case = ElementTree.SubElement(
        suite, "testcase", {"classname": "pgassay", "name": "(whole gate)", "time": "0"}
    )
    sentence = _legal(result.verdict.splitlines()[0])
    error = ElementTree.SubElement(case, "error", {"message": sentence, "type": "interrupted"})
    error.text = sentence
    return suite


def _case(unit: GateUnit) -> ElementTree.Element:
    case = ElementTree.Element(
        "testcase",
        {
            "classname": _legal(f"pgassay.{unit.workload}"),
            "name": _legal(unit.statement or "(whole workload)"),
            # The gate's time is that of all units of a workload together.
            "time": "0",
        },
    )
    sentence = _legal(unit_sentence(unit))
    kinds = {"slow-down": "failure", "undecided": "error"}
    if unit.finding in kinds:
        found = ElementTree.SubElement(case, kinds[unit.finding], {"message": sentence, "type": unit.finding})
        found.text = sentence
    else:
        ElementTree.SubElement(case, "system-out").text = sentence
    return case


def _counts(units: list[GateUnit], failed: int) -> dict[str, str]:
    """failed: how many experiments ended before their time, each an error of its own."""
    return {
        "tests": str(len(units) + failed),
        "failures": str(sum(unit.finding == "slow-down" for unit in units)),
        "errors": str(sum(unit.finding == "undecided" for unit in units) + failed),
    }


def _legal(text: str) -> str:
    """The text with a question mark for every character that XML can't hold."""
    return _FORBIDDEN.sub("?", text)
