"""What stands behind the pictures of the Grafana dashboards: the operator's pods are the fleet's workers, and a scrape
of them tells what the autoscaler reads."""

from pathlib import Path

import pytest

from docs.pictures.grafana.operated_world import OperatedWorld
from docs.pictures.grafana.questions import empty_panels
from docs.pictures.grafana.scrapes import Scrapes, worker_samples
from tandem_api.kubernetes.cluster import INFERENCE_SERVICE
from tandem_autoscaler.signals.exposition import parse
from tandem_autoscaler.simulator.readings import Readings
from tandem_autoscaler.simulator.traces import named
from tests.simulator.fleets import SMALL, fleet_of, poisson


def test_a_scrape_is_read_as_what_it_was_written_from() -> None:
    fleet = fleet_of(poisson(8.0, 100.0, output=80), 2, 3, SMALL)
    readings = Readings(fleet)
    fleet.advance(60.0)
    pods = readings.read()[1].pods
    assert len(pods) == 5
    for reading in pods.values():
        text = "".join(f"{sample.series} {sample.value!r}\n" for sample in worker_samples(reading))
        read = parse(text, uid=reading.uid, read_at_seconds=reading.read_at_seconds)
        # Of tokens by source those that were received are none, and are told of all the same.
        assert {name: read.counters[name] for name in reading.counters} == pytest.approx(
            dict(reading.counters)
        )
        # vLLM tells the KV cache as a share only.
        assert dict(read.gauges) == {
            name: value for name, value in reading.gauges.items() if name != "kv_tokens"
        }
        assert read.histograms.keys() == reading.histograms.keys()
        for name, histogram in reading.histograms.items():
            assert read.histograms[name].edges == histogram.edges
            assert read.histograms[name].counts == pytest.approx(histogram.counts)
            assert read.histograms[name].total == pytest.approx(histogram.total)


def test_the_operators_pods_are_the_fleets_workers(tmp_path: Path) -> None:
    """A load for several workers: the autoscaler asks for them, the operator makes them, the fleet starts them."""
    scrapes = Scrapes(tmp_path / "scrapes.txt")
    world = OperatedWorld(scrapes, gpu_budget=16, nodes={"node": 16})
    service = world.add("chat", named("step-x4", 1, 3.0, 300.0), namespace="prod")
    seen = []
    for _ in range(6):
        world.operate(30.0)
        found = world.server.get(INFERENCE_SERVICE, "chat")
        assert found is not None and service.fleet is not None
        roles = found["status"]["roles"]
        told = [
            roles[role][state]
            for role in ("prefill", "decode")
            for state in ("ready", "starting", "draining")
        ]
        census = service.fleet.census()
        _, *prefill = census[:4]
        _, *decode = census[4:]
        # A worker that drained is gone from the fleet while its pod still waits for its KV lease.
        assert told[0] == prefill[0] and told[3] == decode[0]
        assert told[1] == prefill[1] and told[4] == decode[1]
        assert told[2] >= prefill[2] and told[5] >= decode[2]
        seen.append(told)
    world.end()
    scrapes.close()
    assert max(told[0] + told[1] for told in seen) > 1, "nothing was scaled"
    lines = scrapes.path.read_text().splitlines()
    assert lines[-1] == "# EOF"
    for name in (
        "tandem_operator_workers",
        "tandem_autoscaler_target_replicas",
        "tandem:ttft_seconds_bucket",
    ):
        assert sum(line.startswith(name) for line in lines) >= 2 * 12  # roles, scrapes


def test_a_panel_without_data_is_no_picture() -> None:
    """Unless it says itself what that means."""

    def panel(number: int, **defaults: str) -> dict[str, object]:
        return {"id": number, "type": "stat", "title": f"{number}", "fieldConfig": {"defaults": defaults}}

    answers = {
        1: {"A": {"result": []}},
        2: {"A": {"result": []}},
        3: {"A": {"result": []}, "B": {"result": [1]}},
    }
    panels = [{"type": "row"}, panel(1), panel(2, noValue="none"), panel(3)]
    assert empty_panels({"dashboard": {"panels": panels}, "answers": answers}) == ["1"]
