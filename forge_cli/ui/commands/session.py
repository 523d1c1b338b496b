"""Commands for the session: status, title, transcript, files and other sessions."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

from rich.table import Table
from rich.text import Text

from forge_cli.core.actions import CommandEvent
from forge_cli.core.errors import ForgeError, UsageError
from forge_cli.core.events import Event
from forge_cli.core.text import counted, dollars, local_time, visible
from forge_cli.files.replace import make_file
from forge_cli.record.log import find_own_session, random_end, read_readable
from forge_cli.record.overview import Overview, readable_sessions
from forge_cli.record.undo import said_messages
from forge_cli.ui.commands.command import (
    Chat,
    Completion,
    SlashCommand,
    beginning,
    forward,
    in_two_columns,
)
from forge_cli.ui.facts import Facts
from forge_cli.ui.places import complete_path, typed_path
from forge_cli.ui.terminal.live import duration
from forge_cli.ui.terminal.slash import ParsedCommand
from forge_cli.ui.transcript.entries import read_transcript, words_and_commands
from forge_cli.ui.transcript.markdown import markdown

MIN_ID = 6
"""Characters of an id prefix; shorter text is searched for."""
MAX_SHOWN = 15
"""Entries of a list."""
MAX_PATHS = 1000
"""Paths of one command."""


async def status(chat: Chat, parsed: ParsedCommand) -> None:
    """Show the state of the conversation."""
    chat.show(in_two_columns(_status_rows(chat.facts), "bold"))


def _status_rows(facts: Facts) -> Iterator[tuple[str, str]]:
    usage = facts.usage
    yield "worker", facts.worker
    yield "model", facts.model
    yield "session", f"{facts.session} ({facts.title})" if facts.title else facts.session
    yield "turns", str(facts.turns)
    sent = f"{usage.sent_tokens:,} in"
    if usage.cache_read_tokens:
        sent += f" ({usage.cache_read_tokens:,} read from the cache)"
    yield "tokens", f"{sent}, {usage.output_tokens:,} out"
    yield "cost", "unknown" if facts.cost is None else dollars(facts.cost)
    yield "context", _context(facts)
    yield "folder", facts.workspace
    for zone in facts.zones:
        yield "zone", f"/{zone.get('name')} ({zone.get('mode')}): {zone.get('path')}"
    confined = ""
    if facts.confinement:
        confined = f", commands are {facts.confinement}"
    yield "isolation", f"{facts.isolation or 'none'}{confined}"
    yield "mode", facts.mode_title
    read_only = ", read-only" if facts.read_only else ""
    yield "approvals", f"{facts.approval_mode}, {counted(len(facts.grants), 'grant')}{read_only}"
    for grant in facts.grants:
        yield "granted", f"{grant.tool_name}: {grant.text}"
    yield from _running_rows(facts)


def _running_rows(facts: Facts) -> Iterator[tuple[str, str]]:
    for each in facts.running:
        age = duration(max(time.time() - each.started, 0))
        yield "running", f"{each.number}: {visible(each.command)} ({age})"


async def show_running(chat: Chat, parsed: ParsedCommand) -> None:
    """List the commands that run in the background."""
    rows = list(_running_rows(chat.facts))
    chat.show(in_two_columns(rows, "bold") if rows else "no command is running")


def _context(facts: Facts) -> str:
    """Return how much of the model's window is used."""
    if not facts.used:
        return "not counted yet"
    if not facts.window:
        return f"{facts.used:,} tokens of a window of unknown size"
    share = f"{facts.used / facts.window:.0%} of the window"
    return f"{facts.used:,} of {facts.window:,} tokens ({share})"


async def name(chat: Chat, parsed: ParsedCommand) -> Event | None:
    """Show or change the title."""
    if parsed.argv:
        return CommandEvent("name", parsed.argv)
    title = visible(chat.facts.title)
    chat.show(title or "this session has no title yet; /name TITLE sets one")
    return None


async def pick_session(chat: Chat, parsed: ParsedCommand) -> Event | None:
    """List sessions and resume the chosen one; other typed text is searched for."""
    search = " ".join(parsed.argv)
    listed: list[Overview] = []
    while True:
        found = find_sessions(chat.facts, search)
        chat.show(_session_list(found) if found else _none_found(chat.facts, search))
        listed = found or listed  # a number chooses from the last list on the screen
        if not found and not search:
            return None
        instead = "open one under Sessions, at the top of the page"
        answer = await chat.ask("number, id, or text to search for (Enter: stay) > ", instead)
        if not answer:
            return None
        search = answer
        picked = _picked(listed, answer)
        if picked is not None:
            return CommandEvent("resume", (picked,))


def _none_found(facts: Facts, search: str) -> str:
    scope = " in this folder"
    if search:
        scope = f" that contains '{visible(search)}'"
    return f"no other session of {visible(facts.worker)}{scope}"


def find_sessions(facts: Facts, text: str = "") -> list[Overview]:
    """Return the last sessions of this worker in this folder.

    With ``text``, search all folders, and the items of batches, for it in title, task and id.
    """
    found: list[Overview] = []
    for _, seen in readable_sessions():
        about = f"{seen.session} {seen.title} {seen.task}".casefold()
        is_here = text or (seen.workspace == facts.workspace and not seen.batch)
        is_other = seen.worker == facts.worker and seen.session != facts.session
        if is_here and is_other and text.casefold() in about:
            found.append(seen)
        if len(found) == MAX_SHOWN:
            break
    return found


def _session_list(found: Sequence[Overview]) -> Table:
    table = Table.grid(padding=(0, 1, 0, 0), expand=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    for number, seen in enumerate(found, 1):
        ended = local_time(seen.ended, "%b %d %H:%M")
        table.add_row(f"{number}.", Text(ended), Text(visible(_about(seen))))
    return table


def _about(seen: Overview) -> str:
    return " ".join((seen.title or words_and_commands(seen.task)[0] or seen.session).split())


def _picked(found: Sequence[Overview], answer: str) -> str | None:
    if answer.isdecimal() and 1 <= int(answer) <= len(found):
        return found[int(answer) - 1].session
    if len(answer) < MIN_ID:
        return None
    try:
        return find_own_session(answer).stem
    except ForgeError:
        return None


async def resume(chat: Chat, parsed: ParsedCommand) -> Event | None:
    """Resume a session by its id, or let the person choose."""
    if parsed.args:
        return CommandEvent("resume", parsed.args)
    return await pick_session(chat, parsed)


def complete_session(facts: Facts, text: str) -> list[str]:
    """Return completions of session ids."""
    sessions = find_sessions(facts)
    known = [Completion(random_end(seen.session), _about(seen)) for seen in sessions]
    return beginning(known, text)


async def save(chat: Chat, parsed: ParsedCommand) -> None:
    """Write the transcript, or only the last answer, to a new file."""
    last = "last" in parsed.options
    file = typed_path(chat.facts, "".join(parsed.args) or f"{chat.facts.session}.md")
    if not last:
        document = _transcript(chat.facts)
    elif chat.facts.last_answer:
        document = f"{chat.facts.last_answer}\n"
    else:
        raise UsageError("there is no answer yet")
    try:
        make_file(file, document)
    except FileExistsError:
        raise UsageError(f"{file} already exists", hint="name another file: /save FILE") from None
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}") from None
    chat.show(f"wrote {visible(str(file))} ({counted(len(document.encode()), 'byte')})")


def _transcript(facts: Facts) -> str:
    try:
        path = find_own_session(facts.session)
    except ForgeError:
        hint = "/save --last FILE writes the last answer"
        raise UsageError("this session is not stored, so it has no transcript", hint=hint) from None
    return markdown(read_transcript(read_readable(path).lines))


async def undo(chat: Chat, parsed: ParsedCommand) -> Event:
    """Restore changed files."""
    given = parsed.options
    words: list[str] = []
    for name in ("call", "turn"):
        if name in given:
            words += [f"--{name}", str(given[name])]
    words += [f"--{name}" for name in ("all", "redo", "list") if name in given]
    return CommandEvent("undo", tuple(words))


async def rewind(chat: Chat, parsed: ParsedCommand) -> Event | None:
    """Go back to a message; without a number, let the person choose one."""
    if parsed.args:
        return CommandEvent("rewind", parsed.args)
    said = said_messages(read_readable(find_own_session(chat.facts.session)).lines)
    if not said:
        chat.show("there is no message yet")
        return None
    table = Table.grid(padding=(0, 1, 0, 0), expand=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    for number, message in list(enumerate(said, 1))[-MAX_SHOWN:]:
        words, _ = words_and_commands(message.text)
        table.add_row(f"{number}.", Text(visible(" ".join(words.split()))))
    chat.show(table)
    question = "number of the message to go back to (Enter: stay) > "
    answer = await chat.ask(question, "/rewind N goes back to one of them")
    if answer:
        return CommandEvent("rewind", (answer,))
    return None


def words_at(session: str, line: int) -> str:
    """Return the text of the message that a rewind to ``line`` removed, for editing."""
    with suppress(ForgeError):  # the session may not be stored
        lines = read_readable(find_own_session(session)).lines
        # Without the event of the rewind, the message is still part of the history.
        before = [each for each in lines if getattr(each.event, "rewound", None) != line]
        for message in said_messages(before):
            if message.seq == line:
                return words_and_commands(message.text)[0]
    return ""


COMMANDS = (
    SlashCommand("status", status),
    SlashCommand("ps", show_running),
    SlashCommand("name", name, free=True),
    SlashCommand("sessions", pick_session, free=True),
    SlashCommand("resume", resume, complete_session, most=1),
    SlashCommand("save", save, complete_path, most=1, flags=frozenset({"last"})),
    SlashCommand(
        "undo", undo, options=frozenset({"call", "turn"}), flags=frozenset({"list", "all", "redo"})
    ),
    SlashCommand("rewind", rewind, most=1),
    SlashCommand("draft", forward("draft")),
    SlashCommand("review", forward("review")),
    SlashCommand("apply", forward("apply"), complete_path, most=MAX_PATHS),
    SlashCommand("drop", forward("drop")),
    SlashCommand("reload", forward("reload")),
)
