"""The work left in a batch: what is completed is left alone, and what has changed since is told first."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from forge_cli.apps.batch.counts import BatchCounts
from forge_cli.apps.batch.inputs import BatchInputs, InputItem
from forge_cli.apps.batch.store import BatchRecord, ItemRecord
from forge_cli.core.errors import UsageError
from forge_cli.core.text import counted, did_you_mean, visible
from forge_cli.record.batch import is_answered
from forge_cli.record.places import new_session_id

SHOWN = 5
_SETTLED = ("completed", "parked")


@dataclass(frozen=True)
class RestartChoice:
    """The items that start over although they were done: these keys, or everything."""

    keys: frozenset[str] | None = None

    def covers(self, key: str) -> bool:
        return self.keys is None or key in self.keys


@dataclass(frozen=True)
class BatchPlan:
    """The items of a batch, and what is known of them."""

    inputs: BatchInputs
    record: BatchRecord
    counts: BatchCounts
    removed: Sequence[str] = ()
    """Keys of items that are not among the inputs any more."""

    def todo(self) -> Iterator[tuple[InputItem, str]]:
        """Each item that is to be worked on, with the id of its session; one that is parked once it is answered."""
        for item in self.inputs:
            known = self.record.items.get(item.key)
            if known is None or (known.digest != item.digest and known.state not in _SETTLED):
                yield item, new_session_id()
            elif known.state == "parked":
                if is_answered(known.session):
                    self.counts.parked -= 1
                    yield item, known.session
            elif known.state != "completed":
                self.counts.failed -= known.state == "failed"
                yield item, known.session if known.resumes else new_session_id()


def make_plan(inputs: BatchInputs, record: BatchRecord, digest: str, restart: RestartChoice | None) -> BatchPlan:
    """Read all inputs once; UsageError where something has changed since it was done, unless it starts over.

    ``digest`` is that of the worker.
    """
    counts, changed, keys = BatchCounts(), list[str](), set[str]()
    wanted = restart.keys if restart and restart.keys else frozenset()
    for item in inputs.checked():
        counts.total += 1
        known = record.items.get(item.key)
        if wanted or known:
            keys.add(item.key)
        if known is None or (restart and restart.covers(item.key)):
            continue
        if known.digest != item.digest and known.state in _SETTLED:
            changed.append(item.key)
        if known.digest == item.digest or known.state in _SETTLED:
            counts.add(known.state)
    _check_keys(wanted, keys)
    if changed:
        hint = f"--restart {_named(changed)} does them again, --restart does everything again, -o starts a new file"
        raise UsageError(f"the input of {_named(changed)} has changed since it was done", hint=hint)
    settled = sum(item.state in _SETTLED for item in record.items.values())
    if record.worker_digest not in ("", digest) and settled and restart is None:
        open_items = [key for key, item in record.items.items() if item.state not in _SETTLED]
        rest = f", --restart {_named(open_items)} only what was not completed" if open_items else ""
        hint = f"--restart does everything again{rest}; -o starts a new file"
        raise UsageError(f"the worker has changed since {counted(settled, 'item')} of it were done", hint=hint)
    removed = [key for key in record.items if key not in keys]
    return BatchPlan(inputs, _restarted(record, restart), counts, removed)


def _restarted(record: BatchRecord, restart: RestartChoice | None) -> BatchRecord:
    if restart:
        kept: dict[str, ItemRecord] = {key: item for key, item in record.items.items() if not restart.covers(key)}
        record.items = kept
    return record


def _check_keys(wanted: Collection[str], known: Collection[str]) -> None:
    for key in wanted:
        if key not in known:
            raise UsageError(f"--restart {visible(key)}: there is no such item", hint=did_you_mean(key, known, ""))


def _named(keys: Collection[str]) -> str:
    shown = " ".join(visible(key) for key in list(keys)[:SHOWN])
    return f"{shown} and {len(keys) - SHOWN} more" if len(keys) > SHOWN else shown
