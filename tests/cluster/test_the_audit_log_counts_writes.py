"""What the audit log says about who wrote what."""

import json
from pathlib import Path

from e2e.cluster.audit import AuditLog


def _event(verb: str, resource: str, *, agent: str = "tandem-operator/1", group: str = "") -> str:
    event = {
        "verb": verb,
        "user": {"username": "system:serviceaccount:tandem:operator"},
        "userAgent": agent,
        "objectRef": {"resource": resource, "namespace": "default", "name": "chat", "apiGroup": group},
        "responseStatus": {"code": 200},
        "requestReceivedTimestamp": "2026-01-01T00:00:00Z",
    }
    return json.dumps(event) + "\n"


def test_only_writes_after_the_mark_count(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.log")
    assert log.mark() == 0
    log.path.write_text(_event("create", "pods"))
    mark = log.mark()
    with log.path.open("a") as handle:
        handle.write(_event("patch", "inferenceservices", group="tandem.dev"))
    assert [(w.verb, w.resource) for w in log.writes_since(mark)] == [
        ("patch", "tandem.dev/inferenceservices")
    ]


def test_a_lease_counts_only_when_asked_for(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.log")
    log.path.write_text(_event("update", "leases", group="coordination.k8s.io"))
    assert log.writes_since(0) == []
    assert len(log.writes_since(0, leases=True)) == 1


def test_a_line_still_being_written_waits_for_the_next_look(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.log")
    whole = _event("delete", "pods")
    log.path.write_text(whole + whole[:40])
    assert len(log.writes_since(0)) == 1


def test_writers_are_told_apart_by_user_agent(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.log")
    log.path.write_text(_event("create", "pods") + _event("create", "pods", agent="kubectl/v1.34.4"))
    assert len(log.writes_since(0, user_agent="tandem-operator")) == 1
