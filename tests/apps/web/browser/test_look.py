"""How the page looks and is used: dark, narrow, enlarged, by keyboard alone, and by those who cannot see it."""

import json
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from forge_cli.testing import call, calls

from .conftest import Start
from .site import Site, say

REFUND = calls(call("refund", customer="Ana", amount=19))
LONG = "word" * 60
ANSWER = f"""## Title

Some `code` and [a link](https://example.org).

| a | b |
|---|---|
| {LONG} | 2 |

```python
x = '{LONG}'
```
"""


def fits(page: Page) -> None:
    """Check that nothing is wider than the window, so that nobody has to scroll sideways."""
    wide = page.evaluate(
        """() => [...document.querySelectorAll("body *")].filter((each) => each.checkVisibility()
            && each.getBoundingClientRect().right > innerWidth + 1 && !each.closest("pre, .table, .unseen"))
            .map((each) => each.outerHTML.slice(0, 80))"""
    )
    assert wide == []
    assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")


def views(site: Site, page: Page):
    """Every main view of the page, one after the other."""
    yield "talk"
    page.locator("#message").press_sequentially("/")
    expect(page.locator("#completions")).to_be_visible()
    yield "completions"
    say(page, "/status")
    expect(page.locator(".entry.shown")).to_be_visible()
    say(page, "/model nonsense:x")
    expect(page.locator(".entry.error")).to_be_visible()
    say(page, "Pay.")
    expect(page.locator(".card")).to_be_visible()
    yield "card"
    page.locator(".card [data-key=t]").click()
    yield "reason"
    page.get_by_role("link", name="Inbox 1 waiting").click()
    expect(page.locator("#parked .card")).to_be_visible()
    yield "inbox"
    page.locator("#parked [data-choice=once]").click()
    page.go_back()
    expect(page.locator(".entry.answer .words")).to_contain_text("Some code")
    page.locator(".entry.call summary").first.click()
    yield "answered"
    page.locator("#margin").evaluate("each => each.open = true")
    page.locator("#tools details").first.evaluate("each => each.open = true")
    page.get_by_role("button", name="Refund").click()
    page.get_by_role("button", name="Call it").click()
    expect(page.locator("#tool [aria-invalid]").first).to_be_visible()
    yield "form"
    page.keyboard.press("Escape")
    page.get_by_role("button", name="End session").click()
    expect(page.locator("#reading")).to_be_visible()
    yield "reading"
    page.get_by_role("link", name="Sessions", exact=True).click()
    expect(page.locator("#session-list li")).to_have_count(1)
    yield "sessions"
    page.get_by_role("link", name="New").click()
    expect(page.locator("#recent li")).to_have_count(1)
    yield "home"
    page.evaluate("location.hash = '#/nonsense'")
    expect(page.locator("#nothing")).to_be_visible()
    yield "nothing"


@pytest.mark.long
@pytest.mark.parametrize(
    ("width", "height"), [(360, 640), (640, 400)], ids=["360 px", "zoom 200 %"]
)
def test_page_fits_a_narrow_or_enlarged_window(start: Start, width: int, height: int) -> None:
    site = start(REFUND, ANSWER)
    page = site.talk(viewport={"width": width, "height": height})
    for view in views(site, page):
        fits(page)
        if view == "card":
            assert page.evaluate(UNCOVERED)


UNCOVERED = """() => {
    const uncovered = (each) => {
        const { left, top, height } = each.getBoundingClientRect();
        return each.contains(document.elementFromPoint(left + 5, top + height / 2));
    };
    const dl = document.querySelector(".card dl.args");
    return uncovered(dl) && [...document.querySelectorAll(".card .choices button")].every((each) => {
        each.scrollIntoView({ block: "center" });
        return uncovered(each);
    });
}"""
"""Is what is asked in sight, and can its buttons be reached?"""


@pytest.mark.long
def test_axe_finds_no_accessibility_problem(start: Start, axe: Path) -> None:
    site = start(REFUND, ANSWER)
    page = site.talk()
    for view in views(site, page):
        page.evaluate(axe.read_text())
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            found = page.evaluate("axe.run().then((done) => done.violations)")
            told = [(each["id"], [node["html"][:120] for node in each["nodes"]]) for each in found]
            assert told == [], f"{view}, {scheme}: {json.dumps(told, indent=1)}"


@pytest.mark.long
def test_page_is_dark_if_the_system_is(start: Start) -> None:
    site = start("Hello.")
    shades = {}
    for scheme in ("light", "dark"):
        page = site.talk(color_scheme=scheme)
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        shades[scheme] = sum(map(int, colour.removeprefix("rgb(").removesuffix(")").split(",")))
    assert shades["light"] > 700
    assert shades["dark"] < 120


@pytest.mark.long
def test_keyboard_alone_can_do_everything(start: Start) -> None:
    site = start(REFUND, "Paid.")
    page = site.open()
    expect(page.locator("#log[data-ready]")).to_be_attached()
    page.get_by_role("link", name="New", exact=True).focus()
    page.keyboard.press("Enter")
    press_until(page, "document.activeElement.matches('#workers button')")
    page.keyboard.press("Enter")
    expect(page.locator("#message")).to_be_focused()
    page.keyboard.type("Pay.")
    page.keyboard.press("Enter")
    expect(page.locator(".card")).to_be_focused()
    press_until(page, "document.activeElement.dataset.choice === 'once'")
    page.keyboard.press("Space")
    expect(page.locator(".entry.answer .words")).to_have_text("Paid.")
    press_until(page, "document.activeElement.matches('.entry.call summary')", "Shift+Tab")
    page.keyboard.press("Enter")
    expect(page.locator(".entry.call")).to_contain_text("19.00 paid back to Ana")
    page.keyboard.press("Tab")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"


def press_until(page: Page, reached: str, key: str = "Tab") -> None:
    for _ in range(30):
        if page.evaluate(reached):
            return
        page.keyboard.press(key)
    raise AssertionError(f"the keyboard does not reach {reached}")


@pytest.mark.long
def test_screen_reader_has_landmarks_and_hears_an_answer_once(start: Start) -> None:
    page = start("One two three four.").talk()
    for role in ("banner", "navigation", "main", "complementary"):
        expect(page.get_by_role(role)).to_have_count(1)
    page.evaluate(
        """() => {
            window.heard = [];
            const place = document.getElementById("announce");
            new MutationObserver(() => window.heard.push(place.textContent)).observe(place, { childList: true });
        }"""
    )
    say(page, "Count.")
    page.wait_for_function("() => window.heard.some((each) => each.includes('four'))")
    assert len(page.evaluate("window.heard.filter((each) => each.includes('One'))")) == 1
    assert page.locator("[aria-live=polite]").count() == 1


@pytest.mark.long
def test_reduced_motion_stops_animations(start: Start) -> None:
    page = start("Hello.").talk(reduced_motion="reduce")
    page.evaluate("document.getElementById('status').dataset.state = 'thinking'")
    assert page.evaluate("getComputedStyle(document.querySelector('.dot')).animationName") == "none"
