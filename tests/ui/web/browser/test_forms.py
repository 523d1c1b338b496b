"""Tools that a person calls on the page: a menu, a form, and the schema's own sentences at each field."""

from playwright.sync_api import Page, expect

from .conftest import Start


def field(page: Page, name: str):
    return page.locator("#tool").get_by_label(name)


def test_a_form_names_what_is_wrong_at_its_field_and_calls_the_tool(start: Start) -> None:
    page = start("never said").talk()
    page.locator("#tools summary", has_text="Money").evaluate("each => each.parentElement.open = true")
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
    page.get_by_role("button", name="Call it").click()
    expect(page.locator("#tool[open]")).to_have_count(0)
    choice = page.locator("#approval [data-choice=once]")
    call = page.locator(".entry.call")
    expect(choice.or_(call).first).to_be_visible()
    if choice.is_visible():
        choice.click()
    call.locator("summary").first.click()
    expect(call).to_contain_text("19.00 paid back to Ana, fast")


def test_json_that_is_not_json_is_told_at_once_and_cancel_calls_nothing(start: Start) -> None:
    page = start("never said").talk()
    page.locator("#tools summary", has_text="Money").evaluate("each => each.parentElement.open = true")
    page.get_by_role("button", name="Look up").click()
    field(page, "customer").fill("Ana")
    field(page, "tags").fill("[nonsense")
    page.get_by_role("button", name="Call it").click()
    expect(page.locator("#tool .error", has_text="this is not JSON")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#tool[open]")).to_have_count(0)
    expect(page.locator(".entry.call")).to_have_count(0)
