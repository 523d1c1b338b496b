"""Approvals on the page: cards that every tab sees; the first answer counts, and leaving answers nothing."""

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from forge_cli.testing import call, calls

from .conftest import Start
from .site import Site, say

REFUND = calls(call("refund", customer="Ana", amount=19))


def card(page: Page):
    return page.locator("#talk .card")


def choose(page: Page, choice: str) -> None:
    page.locator(f".card:visible [data-choice={choice}]").click()


def press(page: Page, key: str) -> None:
    """Press a key, once the card has been there for long enough to be meant."""
    page.wait_for_function(
        "() => performance.now() - document.querySelector('.card').shownAt > 600"
    )
    page.keyboard.press(key)


def decisions(site: Site) -> list[Any]:
    (path,) = (site.project.home / "sessions").glob("*.jsonl")
    lines = map(json.loads, path.read_text().splitlines())
    return [line for line in lines if line["type"] == "approvalDecided"]


def test_keys_of_the_terminal_decide_calls(start: Start) -> None:
    write = calls(call("write_file", path="/notes/a.md", content="Butter\n"))
    held = calls(call("hold"))
    site = start(
        REFUND,
        "Paid: {result}",
        REFUND,
        "Not paid: {result}",
        held,
        write,
        "Written.",
        write,
        "Again.",
    )
    site.project.write("notes/a.md", "Bread\n")
    page = site.talk()
    say(page, "Pay.")
    for words in ("clerk wants to call refund", "Ana", "risk: high"):
        expect(card(page)).to_contain_text(words)
    expect(card(page)).to_be_focused()
    page.locator("#mode option").first.evaluate(
        "each => (each.text = 'a mode that has a long name')"
    )
    rows = {
        round(page.locator(each).bounding_box()["y"]) // 8 for each in ("#mode", "#stop", "#send")
    }
    assert len(rows) == 1, "what belongs to the message is not in one row"
    for key in ("Enter", " ", "x", "Control+y"):
        press(page, key)
    assert decisions(site) == []
    press(page, "y")
    expect(page.locator(".entry.answer .words")).to_have_text("Paid: 19.00 paid back to Ana, slow")
    expect(card(page)).to_have_count(0)
    expect(page.locator("#message")).to_be_focused()

    say(page, "Again.")
    expect(card(page)).to_be_focused()
    press(page, "t")
    page.keyboard.press("Escape")  # leaves the sentence, and does not stop the worker
    expect(card(page)).to_be_focused()
    press(page, "t")
    page.keyboard.type("She has been paid, yes.")
    page.keyboard.press("Enter")
    expect(page.locator(".entry.answer .words").last).to_contain_text("She has been paid, yes.")

    say(page, "Write.")
    page.keyboard.type("yes")  # what is being written is not an answer
    site.project.write("gate", "")
    expect(card(page).locator(".minus")).to_contain_text("Bread")
    expect(card(page).locator(".plus")).to_contain_text("Butter")
    expect(page.locator("#message")).to_have_value("yes")
    page.locator("#message").fill("")
    card(page).focus()
    press(page, "e")
    expect(page.locator(".entry.answer .words").last).to_have_text("Written.")
    say(page, "Once more.")
    expect(page.locator(".entry.answer .words").last).to_have_text("Again.")
    answers = [each["approved"] for each in decisions(site) if each["by"] not in ("rule", "tool")]
    assert answers == [True, False, True, True]


@pytest.mark.long
@pytest.mark.needs("overlay")
def test_single_key_allows_rule_sets_permanently(start: Start) -> None:
    site = start(calls(call("shell", command="make build")), "Built.")
    site.project.write(
        "worker.yaml", "name: clerk\nmodel: script:script.yaml\ntoolsets: {shell: {}}\n"
    )
    site.project.write("Makefile", "build:\n\techo built > out\n")
    page = site.talk()
    say(page, "Build.")
    expect(card(page)).to_contain_text("use: [building, localhost, containers]")
    expect(card(page).locator("[data-choice]")).to_have_text(
        [re.compile("Allow from now on"), re.compile("Deny from now on")]
    )
    press(page, "y")
    expect(page.locator(".entry.answer .words")).to_have_text("Built.")
    assert "localhost" in (site.project.home / "config.yaml").read_text()
    assert site.project.read("out") == "built\n"


@pytest.mark.long
def test_wider_grant_is_chosen_after_its_key(start: Start) -> None:
    refunds = [
        calls(call("refund", customer=customer, amount=1)) for customer in ("Ana", "Ben", "Cleo")
    ]
    site = start(refunds[0], refunds[0], refunds[1], refunds[2], "Paid.")
    page = site.talk()
    say(page, "Pay.")
    expect(card(page)).to_contain_text("Ana")
    expect(card(page).locator(".offers li")).to_have_count(2)
    press(page, "2")  # means nothing before s
    press(page, "s")
    expect(page.locator(".card [data-choice=session]")).to_be_focused()
    page.keyboard.press("Escape")
    expect(card(page)).to_be_focused()
    assert decisions(site) == []
    press(page, "s")
    page.keyboard.press("Enter")  # the very call: its second time is not asked about
    expect(card(page)).to_contain_text("Ben")
    press(page, "s")
    page.keyboard.press("2")
    expect(page.locator(".entry.answer .words")).to_have_text("Paid.")
    assert [each["cached"] for each in decisions(site)] == [False, True, False, True]


@pytest.mark.long
def test_double_click_decides_one_request(start: Start) -> None:
    refunds = (calls(call("refund", customer=customer, amount=1)) for customer in ("Ana", "Ben"))
    site = start(*refunds, "Paid.")
    page = site.talk()
    say(page, "Pay.")
    expect(card(page)).to_contain_text("Ana")
    button = page.locator(".card [data-choice=once]")
    button.click()
    expect(card(page)).to_contain_text("Ben")
    button.scroll_into_view_if_needed()
    box = button.bounding_box()
    assert box
    page.mouse.move(box["x"] + 5, box["y"] + 5)
    page.mouse.down(click_count=2)
    page.mouse.up(click_count=2)
    expect(card(page)).to_contain_text("Ben")
    assert len(decisions(site)) == 1
    button.click()
    expect(page.locator(".entry.answer .words")).to_have_text("Paid.")
    assert len(decisions(site)) == 2


@pytest.mark.long
def test_card_out_of_sight_is_found_and_the_inbox_lists_all(start: Start) -> None:
    site = start("word\n\n" * 200, REFUND, "Paid.")
    page = site.talk()
    say(page, "Tell me.")
    expect(page.locator(".entry.answer .words")).to_contain_text("word")
    expect(page.locator("#status-text")).to_have_text("Ready")
    page.mouse.wheel(0, -3000)
    page.wait_for_function(
        "() => document.scrollingElement.scrollHeight - innerHeight - scrollY > 1000"
    )
    page.locator("#message").fill("Pay.")
    page.locator("#message").press("Enter")
    expect(page.locator("#waiting")).to_contain_text("clerk wants to call refund")
    page.locator("#review").click()
    expect(card(page)).to_be_in_viewport()
    expect(page.locator("#waiting")).to_be_hidden()

    page.get_by_role("link", name="Inbox 1 waiting").click()
    expect(page.locator("#parked .card")).to_contain_text("Ana")
    choose(page, "once")
    expect(page.locator("#parked")).to_contain_text("Nothing is waiting")
    expect(page.locator("#inbox-count")).to_be_hidden()
    page.go_back()
    expect(page.locator(".entry.answer .words").last).to_have_text("Paid.")


@pytest.mark.long
def test_parked_request_is_answered_in_the_inbox_and_resumed(start: Start) -> None:
    site = start(REFUND, "Paid.")
    parked = site.project.forge("run", "worker.yaml", "Pay.", "-p", "--on-ask", "park")
    assert parked.returncode == 10, parked.stderr
    page = site.open()
    page.get_by_role("link", name="Inbox 1 waiting").click()
    expect(page.locator("#parked .card")).to_contain_text("Ana")
    page.locator("#parked .card").focus()
    press(page, "y")
    expect(page.locator("#parked")).to_contain_text("answered: yes")
    page.get_by_role("button", name="Resume clerk with refund").click()
    expect(page.locator(".entry.answer .words")).to_have_text("Paid.")
