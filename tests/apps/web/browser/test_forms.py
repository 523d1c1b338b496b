"""Tools that a person calls on the page: a menu, a form, and the schema's own sentences at each field."""

import json

import pytest
from playwright.sync_api import Page, expect

from forge_cli.testing import call, calls

from .conftest import Start
from .site import Site, say


def field(page: Page, name: str):
    return page.locator("#tool").get_by_label(name)


def test_form_marks_the_invalid_field_and_calls_the_tool(start: Start) -> None:
    page = start("never said").talk()
    page.locator("#tools summary", has_text="Money").evaluate(
        "each => each.parentElement.open = true"
    )
    page.get_by_role("button", name="Refund").click()
    expect(field(page, "customer")).to_be_focused()
    field(page, "customer").fill("Ana")
    field(page, "amount").fill("-1")
    page.get_by_role("button", name="Call it").click()
    amount = field(page, "amount")
    expect(amount).to_have_attribute("aria-invalid", "true")
    expect(amount).to_be_focused()
    described = amount.get_attribute("aria-describedby") or ""
    error = page.locator(f"#{described.split()[-1]}")
    expect(error).to_contain_text("0")
    amount.fill("19")
    field(page, "speed").select_option("fast")
    amount.press("Enter")
    expect(page.locator("#tool[open]")).to_have_count(0)
    page.locator(".card [data-choice=once]").click()
    call = page.locator(".entry.call")
    call.locator("summary").first.click()
    expect(call).to_contain_text("19.00 paid back to Ana, fast")


@pytest.mark.long
def test_invalid_json_is_reported_at_once_and_cancel_calls_nothing(start: Start) -> None:
    page = start("never said").talk()
    page.locator("#tools summary", has_text="Money").evaluate(
        "each => each.parentElement.open = true"
    )
    page.get_by_role("button", name="Look up").click()
    field(page, "customer").fill("Ana")
    field(page, "tags").fill("[nonsense")
    page.get_by_role("button", name="Call it").click()
    expect(page.locator("#tool .error", has_text="not valid JSON")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#tool[open]")).to_have_count(0)
    expect(page.locator(".entry.call")).to_have_count(0)


EXACT = '''
from forge_cli import tool


@tool(needs_approval=False, manual="manual")
def member(number: int) -> str:
    """Find a member."""
    return f"member {number} is found"


@tool(needs_approval=False, manual="manual")
def bell() -> str:
    """Ring."""
    return "it rings"
'''


@pytest.mark.long
def test_number_is_passed_as_typed_and_enter_calls_a_tool_without_fields(
    site: Site,
) -> None:
    site.project.write("tools.py", EXACT)
    worker = "name: clerk\nmodel: script:script.yaml\ntoolsets: {custom: {module: ./tools.py, tools: [member, bell]}}\n"
    site.project.write("worker.yaml", worker)
    site.project.write("script.yaml", json.dumps({"turns": [{"text": "never said"}]}))
    page = site.start("worker.yaml").talk()
    page.get_by_role("button", name="member").click()
    field(page, "number").fill(
        "9007199254740993"
    )  # the next one that a script can hold is 9007199254740992
    field(page, "number").press("Enter")
    call = page.locator(".entry.call")
    call.locator("summary").first.click()
    expect(call).to_contain_text("member 9007199254740993 is found")
    page.get_by_role("button", name="bell").press("Enter")
    expect(page.locator("#tool[open]")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.locator("#tool[open]")).to_have_count(0)
    expect(call).to_have_count(2)


ASKS = '''
from forge_cli import ToolContext, tool


@tool(needs_approval=False)
async def paint(context: ToolContext) -> str:
    """Paint the door."""
    words = {"colour": {"type": "string"}, "size": {"enum": ["small", "large"]}}
    answer = await context.ask("Which colour?", {"type": "object", "properties": words, "required": list(words)})
    return f"painted {answer['colour']}, {answer['size']}" if answer else "not painted"
'''


@pytest.mark.long
def test_asking_tool_gets_an_answer_from_any_tab(site: Site) -> None:
    site.project.write("tools.py", ASKS)
    toolsets = "{custom: {module: ./tools.py, tools: [paint]}}"
    site.project.write("worker.yaml", f"name: clerk\nmodel: script:s.yaml\ntoolsets: {toolsets}\n")
    turns = [
        calls(call("paint")),
        {"text": "{result}"},
        calls(call("paint")),
        {"text": "Then: {result}"},
    ]
    site.project.write("s.yaml", json.dumps({"turns": turns}))
    page = site.start("worker.yaml").talk()
    say(page, "Paint it.")
    question = page.locator("#talk .card")
    expect(question).to_contain_text("Which colour?")
    other = site.talk(page.context)
    other.get_by_label("Your answer").fill("<b>green</b>")
    other.keyboard.press("Enter")
    question.get_by_role("button", name="large").click()
    expect(question).to_have_count(0)
    expect(page.locator(".entry.answer .words")).to_have_text("painted <b>green</b>, large")
    say(page, "Again.")
    question.get_by_role("button", name="Decline").click()
    expect(page.locator(".entry.answer .words").last).to_have_text("Then: not painted")


@pytest.mark.long
def test_child_workers_are_a_tree_in_their_call(site: Site) -> None:
    site.project.write("child.yaml", "name: child\nmodel: script:child.script.yaml\ntoolsets: {}\n")
    site.project.write("child.script.yaml", "turns: [{text: I checked it.}]\n")
    site.project.write(
        "worker.yaml", "name: lead\nmodel: script:s.yaml\ntoolsets: {workers: {allowed: [child]}}\n"
    )
    turns = [calls(call("child", input="Check.")), {"text": "Good."}]
    site.project.write("s.yaml", json.dumps({"turns": turns}))
    page = site.start("worker.yaml", "-y").talk()
    say(page, "Have it checked.")
    expect(page.locator("#tree")).to_contain_text("child")
    expect(page.locator(".entry.answer .words").last).to_have_text("Good.")
    assert "I checked it." in page.locator(".entry.call").first.text_content()
