"""Victims (field case C2)."""

from hypothesis import given
from hypothesis import strategies as st

from tandem_operator.observe.observed import Observed, Quiet
from tandem_operator.observe.pod import PodView
from tandem_operator.plan.victims import victims


def pod(name: str, *, started: bool = True, created: float = 0.0, template: str = "new") -> PodView:
    return PodView(
        name=name,
        uid=name,
        role="decode",
        ready=started,
        started=started,
        created_at=created,
        template_hash=template,
    )


def order(pods: list[PodView], **quiet: Quiet) -> list[str]:
    observed = Observed("team", "chat", "u", 1, None, quiet=quiet)
    return [victim.name for victim in victims(pods, observed, wanted_hash="new")]


def test_starting_before_idle_before_busy() -> None:
    pods = [pod("a"), pod("b"), pod("c", started=False)]
    assert order(pods, a=Quiet(in_flight=12), b=Quiet(in_flight=0)) == ["c", "b", "a"]


def test_out_of_date_before_current() -> None:
    pods = [pod("a"), pod("b", template="old")]
    assert order(pods, a=Quiet(in_flight=0), b=Quiet(in_flight=5)) == ["b", "a"]


def test_least_kv_then_newest() -> None:
    pods = [pod("a", created=1), pod("b", created=2), pod("c", created=3)]
    loads = {
        "a": Quiet(in_flight=1, kv_usage=0.2),
        "b": Quiet(in_flight=1, kv_usage=0.1),
        "c": Quiet(in_flight=1, kv_usage=0.2),
    }
    assert order(pods, **loads) == ["b", "c", "a"]


def test_an_unknown_load_is_taken_for_the_greatest() -> None:
    assert order([pod("a"), pod("b")], a=Quiet(in_flight=None), b=Quiet(in_flight=99)) == ["b", "a"]


@given(
    st.permutations(
        [pod("a", created=1), pod("b", created=1), pod("c", started=False), pod("d", template="old")]
    )
)
def test_the_order_of_listing_does_not_matter(pods: list[PodView]) -> None:
    assert order(pods) == ["c", "d", "a", "b"]
