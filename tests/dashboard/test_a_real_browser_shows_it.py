"""Issue 7, item 3: the page in headless Chromium, over fleets that the autoscaler itself sizes."""

import re
from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tandem_autoscaler.simulator.traces import named
from tests.dashboard.served import Served, served
from tests.dashboard.simulated_world import World

CHAT = "#/prod/chat"
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


def opened(page: Page, at: Served, address: str = CHAT) -> Page:
    page.goto(at.url + address)
    expect(page.locator("#feed")).to_have_text("Live")
    return page


@pytest.fixture
def small() -> Iterator[Served]:
    """One service of its own, for tests that change it."""
    world = World()
    world.add("chat", named("dynamo-sine", 1, 1.0, 900.0), namespace="prod")
    with served(world) as running:
        running.run(120.0)
        yield running


def test_the_numbers_on_the_page_are_those_of_the_loop(page: Page, at: Served) -> None:
    opened(page, at)
    entry = at.world.autoscaler.entries[("prod", "chat")]
    for at_, decision in enumerate(entry.outcome.decisions.values()):
        row = page.get_by_role("row", name=re.compile("^target"))
        expect(row.get_by_role("cell").nth(at_)).to_have_text(str(decision.target))
        sentence = decision.message.partition(": ")[2]
        expect(page.locator(".decision").filter(has_text=sentence)).to_be_visible()
    kept = entry.outcome.tpot
    assert kept is not None and kept.tail_seconds is not None
    shown = page.locator(".card").filter(has=page.get_by_role("heading", name="TPOT")).locator("strong")
    expect(shown).to_have_text(f"{float(f'{kept.tail_seconds * 1000:.3g}'):g} ms")


def test_a_decision_opens_to_the_numbers_that_it_rests_on(page: Page, at: Served) -> None:
    opened(page, at)
    decode = page.locator(".decision").filter(has_text="decode")
    expect(decode.get_by_role("table")).to_be_hidden()
    decode.get_by_text("The numbers").click()
    expect(decode.get_by_role("row", name="output tokens that are asked for")).to_be_visible()
    # An answer later it is still open, as the reader left it.
    page.wait_for_timeout(1500)
    expect(decode.get_by_role("table")).to_be_visible()


def test_services_in_trouble_come_first_and_one_that_cannot_be_read_says_why(page: Page, at: Served) -> None:
    opened(page, at)
    names = page.locator("nav li .name").all_inner_texts()
    assert names[:2] == ["draft", "code"], names
    expect(page.locator("nav li.fault")).to_contain_text("slo.ttft")
    expect(page.locator("nav a[aria-current=page] .name")).to_have_text("chat")


def test_what_is_not_known_is_called_unknown_and_never_zero(page: Page, at: Served) -> None:
    opened(page, at, "#/batch/fresh")
    for promise in ("TTFT", "TPOT"):
        card = page.locator(".card").filter(has=page.get_by_role("heading", name=promise))
        expect(card.locator("strong")).to_have_text("unknown")
        expect(card.get_by_role("img")).to_have_attribute("aria-label", re.compile("nothing measured"))
    for fact, text in (("ready", "0"), ("target", "unknown"), ("limits", "unknown"), ("GPUs", "0")):
        row = page.get_by_role("row", name=re.compile(f"^{fact}"))
        assert row.get_by_role("cell").all_inner_texts() == [text, text]


def test_the_filter_narrows_the_list(page: Page, at: Served) -> None:
    opened(page, at)
    page.get_by_role("searchbox", name="Filter").fill("batch/n")
    expect(page.locator("nav li .name")).to_have_text(["night"])
    page.get_by_role("searchbox", name="Filter").fill("nobody")
    expect(page.locator("nav")).to_contain_text("No service has such a name.")


def test_new_decisions_arrive_by_themselves(page: Page, small: Served) -> None:
    opened(page, small)
    before = page.locator(".changes li").count()
    small.run(240.0)  # the load has grown
    expect(page.locator(".changes li").nth(before)).to_be_attached()
    entry = small.world.autoscaler.entries[("prod", "chat")]
    row = page.get_by_role("row", name=re.compile("^target"))
    expect(row.get_by_role("cell").first).to_have_text(str(entry.outcome.decisions["prefill"].target))


def test_the_chart_has_a_hole_where_nothing_was_measured(page: Page, small: Served) -> None:
    small.world.services[("prod", "chat")].silent = "connection refused"
    small.run(240.0)
    small.world.services[("prod", "chat")].silent = None
    small.run(120.0)
    opened(page, small)
    line = page.get_by_role("img", name=re.compile("^TTFT")).locator("path.line-0").get_attribute("d")
    assert line is not None and line.count("M") == 2, line


def test_workers_that_do_not_answer_are_named(page: Page, small: Served) -> None:
    small.world.services[("prod", "chat")].silent = "connection refused"
    small.run(120.0)
    opened(page, small)
    expect(page.locator(".warning")).to_contain_text("connection refused")
    expect(page.locator("nav .badge")).to_have_text("cannot decide")


def test_old_data_look_old_when_the_loop_stands_still(page: Page, small: Served) -> None:
    opened(page, small)
    assert "stale" not in (page.locator("body").get_attribute("class") or "")
    small.world.simulated_seconds += 60.0  # no tick since
    expect(page.locator("#feed")).to_have_text("Stale: the last decision was 60 s ago.")
    expect(page.locator("body")).to_have_class(re.compile("stale"))
    assert "grayscale" in page.locator(".columns").evaluate("element => getComputedStyle(element).filter")


def test_old_data_look_old_when_the_autoscaler_is_gone_and_new_ones_new(page: Page, small: Served) -> None:
    opened(page, small)
    page.route("**/api/**", lambda route: route.abort())
    expect(page.locator("#feed")).to_contain_text("cannot be reached since")
    expect(page.locator("body")).to_have_class(re.compile("stale"))
    expect(page.get_by_role("heading", name="prod / chat")).to_be_visible()
    page.unroute("**/api/**")
    expect(page.locator("#feed")).to_have_text("Live")
    expect(page.locator("body")).not_to_have_class(re.compile("stale"))


def test_one_service_whose_own_tick_fails_looks_old_alone(
    page: Page, small: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small.world.autoscaler, "_decide", _fails)
    small.run(60.0)
    opened(page, small)
    expect(page.locator(".warning")).to_contain_text("seen 60 s ago")
    expect(page.locator("nav .old")).to_have_text("seen 60 s ago")


def _fails(*_: object) -> None:
    raise RuntimeError("a fault that was planted")


def test_a_standby_and_an_empty_cluster_say_so(page: Page, browser: Browser) -> None:
    with served(World()) as nobody:
        page.goto(nobody.url)
        expect(page.locator("#feed")).to_have_text("The first tick has not ended yet.")
        nobody.run(5.0)
        expect(page.locator("main")).to_contain_text("There is no InferenceService yet")
        nobody.leading = False
        expect(page.locator("#feed")).to_contain_text("stands by")


def test_a_deleted_service_is_told_gone(page: Page, small: Served) -> None:
    opened(page, small)
    del small.world.services[("prod", "chat")]
    small.world.add("other")
    small.run(5.0)
    expect(page.locator("main")).to_contain_text("there is no service prod/chat")


def test_names_and_sentences_are_text_and_never_part_of_the_page(page: Page, small: Served) -> None:
    planted = '<img src=x onerror="window.owned = 1"><script>window.owned = 1</script>'
    small.world.refuse_scale = planted
    small.world.services[("prod", "chat")].silent = planted
    small.world.add("evil", slo={"ttft": planted, "tpot": "40ms"})
    small.run(60.0)
    opened(page, small)
    expect(page.locator(".warning").first).to_contain_text("<img src=x")
    assert page.evaluate("window.owned") is None
    assert page.locator("main img, nav img, main script, nav script").count() == 0


def test_nothing_is_asked_of_another_host(page: Page, at: Served) -> None:
    asked: set[str] = set()
    page.on("request", lambda request: asked.add(request.url))
    opened(page, at)
    assert asked and all(url.startswith(at.url) for url in asked), asked


def test_the_keyboard_reaches_everything(page: Page, at: Served) -> None:
    opened(page, at)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the service")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    expect(page.get_by_role("heading", name="prod / chat")).to_be_visible()
    link = page.locator("nav a").filter(has_text="assistant")
    link.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="prod / assistant")).to_be_visible()
    page.wait_for_timeout(1500)
    expect(link).to_be_focused()  # an answer later too
    expect(page.get_by_role("meter")).to_have_attribute("aria-label", re.compile("of 6 GPUs taken"))


def test_on_a_narrow_screen_list_and_service_take_turns(page: Page, at: Served) -> None:
    page.set_viewport_size(NARROW)
    opened(page, at, "")
    expect(page.locator("nav")).to_be_visible()
    page.locator("nav a").filter(has_text="chat").click()
    expect(page.get_by_role("heading", name="prod / chat")).to_be_visible()
    expect(page.locator("nav")).to_be_hidden()
    page.get_by_role("link", name="All services").click()
    expect(page.locator("nav")).to_be_visible()


@pytest.mark.parametrize("address", ["#/prod/chat", "#/prod/assistant", "#/batch/fresh", "#/prod/nobody", ""])
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_nothing_runs_over_the_edge(page: Page, at: Served, size: dict[str, int], address: str) -> None:
    page.set_viewport_size(size)  # type: ignore[arg-type]
    opened(page, at, address)
    page.wait_for_timeout(300)
    for summary in page.locator("summary").all():
        summary.click()
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= size["width"], f"{wide} px"
    over = page.evaluate(
        "[...document.querySelectorAll('.card *')].filter(one => one.getBoundingClientRect().right > "
        "one.closest('.card').getBoundingClientRect().right + 1).map(one => one.outerHTML.slice(0, 80))"
    )
    assert over == []


@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("address", ["#/prod/chat", "#/prod/code", "#/batch/fresh"])
def test_axe_finds_no_barrier(
    page: Page, at: Served, size: dict[str, int], colours: str, address: str
) -> None:
    """Names, roles, order of headings, contrast: the rules of WCAG 2.1 AA that a program can check."""
    page.set_viewport_size(size)  # type: ignore[arg-type]
    page.emulate_media(color_scheme=colours)  # type: ignore[arg-type]
    opened(page, at, address)
    page.get_by_role("heading", name="Conditions").wait_for()
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


def test_light_and_dark_are_two_pages(page: Page, at: Served) -> None:
    opened(page, at)
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(ground) != light
