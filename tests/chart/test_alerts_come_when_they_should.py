"""The alerts against made-up series (alerts.yaml), run by Prometheus' own promtool; and what every alert must carry."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.chart import CHART

RULES = CHART / "files" / "prometheus" / "rules.yaml"
CASES = Path(__file__).with_name("alerts.yaml")
PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(
    PROMTOOL is None, reason="NOT TESTED: no promtool here; `apt-get install prometheus` brings it"
)
ALERTS: dict[str, dict[str, Any]] = {
    rule["alert"]: rule
    for group in yaml.safe_load(RULES.read_text())["groups"]
    for rule in group["rules"]
    if "alert" in rule
}


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PROMTOOL or "", *arguments], capture_output=True, text=True, timeout=120)


@needs_promtool
def test_prometheus_accepts_the_rules() -> None:
    done = promtool("check", "rules", "--lint=all", "--lint-fatal", str(RULES))
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_they_come_and_go_as_the_cases_say(tmp_path: Path) -> None:
    cases = tmp_path / "alerts.yaml"
    cases.write_text(CASES.read_text().replace("RULES", str(RULES), 1))
    done = promtool("test", "rules", str(cases))
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_a_wrong_expectation_would_be_seen(tmp_path: Path) -> None:
    """Or the test above would prove nothing."""
    cases = tmp_path / "alerts.yaml"
    wrong = (
        CASES.read_text().replace("RULES", str(RULES), 1).replace("80% of the first", "81% of the first", 1)
    )
    cases.write_text(wrong)
    assert promtool("test", "rules", str(cases)).returncode != 0


def test_each_alert_is_seen_to_come_and_to_stay_away() -> None:
    came, stayed = set(), set()
    for case in yaml.safe_load(CASES.read_text())["tests"]:
        for one in case.get("alert_rule_test", []):
            (came if one["exp_alerts"] else stayed).add(one["alertname"])
    assert came == set(ALERTS)
    # Of a service's own, one that is well stands beside the one that is not.
    assert set(ALERTS) - stayed == {
        "TandemTPOTBurnsSlow",
        "TandemCannotScale",
        "TandemAtMaximum",
        "TandemGPUBudgetBinds",
    }


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_says_what_and_where_to_read_on(name: str) -> None:
    rule = ALERTS[name]
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert rule["for"]
    assert 10 < len(rule["annotations"]["summary"]) < 200
    page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
    assert (page, anchor) == ("docs/metrics.md", name.lower())
    assert re.search(rf"^### {name}\n\n\S", PAGE.read_text(), re.MULTILINE)


def test_the_page_has_no_runbook_of_an_alert_that_is_gone() -> None:
    assert set(re.findall(r"^### (\w+)$", PAGE.read_text(), re.MULTILINE)) == set(ALERTS)
