"""Approvals on the page: every tab sees a request, the first answer counts, and leaving answers nothing."""

import json
from typing import Any

from playwright.sync_api import Page, expect

from forge_cli.testing import call, calls

from .conftest import Start
from .site import Site, say

REFUND = calls(call("refund", customer="Ana", amount=19))


def dialog(page: Page):
    return page.locator("#approval[open]")


def choose(page: Page, choice: str) -> None:
    page.locator(f"#approval [data-choice={choice}]").click()


def decisions(site: Site) -> list[Any]:
    (path,) = (site.project.home / "sessions").glob("*.jsonl")
    lines = map(json.loads, path.read_text().splitlines())
    return [line for line in lines if line["type"] == "approvalDecided"]


def test_a_call_is_approved_and_another_denied_with_a_sentence(start: Start) -> None:
    site = start(REFUND, "Paid: {result}", REFUND, "Not paid: {result}")
    page = site.talk()
    say(page, "Pay.")
    expect(dialog(page)).to_contain_text("refund asks for approval")
    expect(dialog(page)).to_contain_text("Ana")
    expect(dialog(page)).to_contain_text("risk: high")
    expect(page.locator("#approval-title")).to_be_focused()
    choose(page, "once")
    expect(page.locator(".entry.answer .words")).to_have_text("Paid: 19.00 paid back to Ana, slow")
    expect(dialog(page)).to_have_count(0)
    say(page, "Again.")
    expect(dialog(page)).to_be_visible()
    page.locator("#feedback").fill("She has been paid already.")
    choose(page, "no")
    expect(page.locator(".entry.answer .words").last).to_contain_text("She has been paid already.")
    assert [each["approved"] for each in decisions(site)] == [True, False]


def test_a_double_click_decides_one_request(start: Start) -> None:
    refunds = (calls(call("refund", customer=customer, amount=1)) for customer in ("Ana", "Ben"))
    site = start(*refunds, "Paid.")
    page = site.talk()
    say(page, "Pay.")
    expect(dialog(page)).to_contain_text("Ana")
    button = page.locator("#approval [data-choice=once]")
    button.click()
    expect(dialog(page)).to_contain_text("Ben")
    box = button.bounding_box()
    assert box
    page.mouse.move(box["x"] + 5, box["y"] + 5)
    page.mouse.down(click_count=2)
    page.mouse.up(click_count=2)
    expect(dialog(page)).to_contain_text("Ben")
    assert len(decisions(site)) == 1
    button.click()
    expect(page.locator(".entry.answer .words")).to_have_text("Paid.")
    assert len(decisions(site)) == 2


def test_escape_decides_nothing_and_leaves_a_way_back(start: Start) -> None:
    page = start(REFUND, "Paid.").talk()
    say(page, "Pay.")
    expect(dialog(page)).to_be_visible()
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    expect(dialog(page)).to_have_count(0)
    expect(page.locator("#waiting")).to_contain_text("refund waits for approval")
    expect(page.locator("#review")).to_be_focused()
    expect(page.locator("#status-text")).to_contain_text("Waiting")
    page.keyboard.press("Enter")
    expect(dialog(page)).to_be_visible()
    choose(page, "once")
    expect(page.locator(".entry.answer .words")).to_have_text("Paid.")
    expect(page.locator("#waiting")).to_be_hidden()


def test_two_tabs_see_the_same_request_and_the_first_answer_counts(start: Start) -> None:
    site = start(REFUND, "Paid.")
    context = site.context()
    one, other = site.talk(context), site.talk(context)
    say(one, "Pay.")
    expect(dialog(one)).to_be_visible()
    expect(dialog(other)).to_be_visible()
    assert other.title().startswith("(1) ")
    choose(other, "once")
    for page in (one, other):
        expect(page.locator(".entry.answer .words")).to_have_text("Paid.")
        expect(dialog(page)).to_have_count(0)
    assert len(decisions(site)) == 1


def test_closing_the_last_tab_answers_nothing_and_a_new_one_finds_the_request(start: Start) -> None:
    site = start(REFUND, "Paid.")
    context = site.context()
    page = site.talk(context)
    say(page, "Pay.")
    expect(dialog(page)).to_be_visible()
    address = page.url
    page.close()
    page = context.new_page()
    page.goto(address)
    expect(dialog(page)).to_contain_text("refund")
    assert decisions(site) == []
    choose(page, "session")
    expect(page.locator(".entry.answer .words")).to_have_text("Paid.")


def test_a_change_of_a_file_is_shown_as_a_diff(start: Start) -> None:
    site = start(calls(call("write_file", path="/notes/a.md", content="Butter\n")), "Done.")
    site.project.write("notes/a.md", "Bread\n")
    page = site.talk()
    say(page, "Write.")
    expect(dialog(page).locator(".minus")).to_contain_text("Bread")
    expect(dialog(page).locator(".plus")).to_contain_text("Butter")
    choose(page, "once")
    expect(page.locator(".entry.answer .words")).to_have_text("Done.")


def test_what_was_parked_waits_in_the_inbox(start: Start) -> None:
    site = start(REFUND, "Paid.")
    parked = site.project.forge("run", "worker.yaml", "Pay.", "-p", "--on-ask", "park")
    assert parked.returncode == 10, parked.stderr
    page = site.open()
    page.get_by_role("link", name="Inbox, 1 waiting").click()
    page.get_by_role("button", name="Review refund of clerk").click()
    expect(dialog(page)).to_contain_text("Ana")
    choose(page, "once")
    expect(page.locator("#parked")).to_contain_text("answered: yes")
    expect(page.locator("#inbox-count")).to_be_hidden()
    page.get_by_role("button", name="Resume clerk with refund").click()
    expect(page.locator(".entry.answer .words")).to_have_text("Paid.")
