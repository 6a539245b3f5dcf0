"""The World: three sources, and the newest wins (field case D11)."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tandem_api import names
from tandem_api.kubernetes.cluster import INFERENCE_SERVICE, POD, WORKER_POOL
from tandem_operator.watch.world import World

CHAT = ("team", "chat")


def pod(
    name: str = "chat-0", *, uid: str = "u1", version: int = 1, service: str | None = "chat"
) -> dict[str, Any]:
    labels = {names.LABEL_SERVICE: service} if service else {}
    return {
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": uid,
            "resourceVersion": str(version),
            "labels": labels,
        },
    }


def version_of(world: World, name: str = "chat-0") -> int | None:
    found = world.children(CHAT).get(("pods", name))
    return int(found["metadata"]["resourceVersion"]) if found else None


def test_an_older_report_is_not_news() -> None:
    world = World()
    assert world.put(POD, pod(version=5)) == CHAT
    assert world.put(POD, pod(version=4)) is None
    assert world.put(POD, pod(version=5)) is None
    assert version_of(world) == 5


def test_a_late_deletion_does_not_take_the_successor() -> None:
    world = World()
    world.put(POD, pod(uid="u2", version=9))
    assert world.remove(POD, pod(uid="u1", version=8)) is None
    assert version_of(world) == 9


def test_a_list_that_began_before_a_deletion_does_not_bring_it_back() -> None:
    world = World()
    world.put(POD, pod(version=3))
    world.remove(POD, pod(version=7))
    world.replace(POD, [pod(version=3)], since=world.mark())
    assert version_of(world) is None


def test_an_object_that_gets_its_label_back_is_seen_again() -> None:
    """A watch with a selector says DELETED when the label goes."""
    world = World()
    world.put(POD, pod(version=3))
    world.remove(POD, pod(version=4))
    assert world.put(POD, pod(version=5)) == CHAT


def test_a_list_finds_what_a_silent_watch_missed() -> None:
    world = World()
    world.put(POD, pod("chat-0"))
    world.put(POD, pod("chat-1", uid="u2"))
    changed = world.replace(POD, [pod("chat-1", uid="u2", version=9)], since=world.mark())
    assert changed == {CHAT}
    assert (version_of(world, "chat-0"), version_of(world, "chat-1")) == (None, 9)


def test_a_list_does_not_take_away_what_came_while_it_ran() -> None:
    world = World()
    since = world.mark()
    world.put(POD, pod("chat-9", uid="u9", version=99))
    assert world.replace(POD, [], since=since) == set()
    assert version_of(world, "chat-9") == 99


def test_a_pool_is_found_by_its_spec_when_it_has_lost_its_labels() -> None:
    world = World()
    pool = {
        "kind": names.WORKER_POOL,
        "metadata": {"name": "chat-decode", "namespace": "team", "uid": "p", "resourceVersion": "1"},
        "spec": {"service": "chat"},
    }
    assert world.put(WORKER_POOL, pool) == CHAT
    assert ("workerpools", "chat-decode") in world.children(CHAT)


def test_an_object_that_changes_its_service_leaves_the_old_one() -> None:
    world = World()
    world.put(POD, pod(version=1))
    world.put(POD, pod(version=2, service="other"))
    assert world.children(CHAT) == {}
    assert ("pods", "chat-0") in world.children(("team", "other"))


def test_what_we_have_deleted_counts_as_ending_until_the_server_says_more() -> None:
    world = World()
    world.put(POD, pod(version=1))
    world.expect_deletion(POD, "team", "chat-0", "another", gone_by="2026-01-01T00:00:00Z")
    assert "deletionTimestamp" not in world.children(CHAT)[("pods", "chat-0")]["metadata"]
    world.expect_deletion(POD, "team", "chat-0", "u1", gone_by="2026-01-01T00:00:00Z")
    assert "deletionTimestamp" in world.children(CHAT)[("pods", "chat-0")]["metadata"]
    assert world.put(POD, pod(version=2)) == CHAT


def test_a_report_from_before_our_deletion_does_not_call_it_off() -> None:
    """The kubelet wrote its status a moment before, and the watch tells of it a moment after the server's answer."""
    world = World()
    world.put(POD, pod(version=1))
    world.expect_deletion(POD, "team", "chat-0", "u1", gone_by="2026-01-01T00:00:00Z")
    world.put(POD, pod(version=2))
    assert "deletionTimestamp" in world.children(CHAT)[("pods", "chat-0")]["metadata"]
    world.remove(POD, pod(version=3))
    world.put(POD, pod(uid="u2", version=4))
    assert "deletionTimestamp" not in world.children(CHAT)[("pods", "chat-0")]["metadata"]


def test_services_are_not_their_own_children() -> None:
    world = World()
    service = {"kind": names.INFERENCE_SERVICE, "metadata": {"name": "chat", "namespace": "team", "uid": "s"}}
    assert world.put(INFERENCE_SERVICE, service) == CHAT
    assert world.services() == [CHAT]
    assert world.children(CHAT) == {}
    assert world.service(CHAT) is not None


EVENTS = st.lists(st.tuples(st.booleans(), st.integers(1, 30)), max_size=20)


@given(EVENTS)
def test_whatever_the_order_of_reports_the_newest_stands(reports: list[tuple[bool, int]]) -> None:
    world = World()
    for deleted, version in reports:
        (world.remove if deleted else world.put)(POD, pod(version=version))
    newest_put = max((version for deleted, version in reports if not deleted), default=0)
    newest_removal = max((version for deleted, version in reports if deleted), default=0)
    if newest_put > newest_removal:
        assert version_of(world) == newest_put
    elif newest_removal > newest_put:
        assert version_of(world) is None
