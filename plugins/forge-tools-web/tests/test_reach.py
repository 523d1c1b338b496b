"""Addresses that web_fetch reaches, and private addresses, which it refuses in every notation."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from forge_tools_web.toolset import WebToolset

from forge_cli.testing import call

if TYPE_CHECKING:
    from conftest import Internet, Site, Worker

PUBLIC, OTHER = "93.184.216.34", "2606:4700::1111"


@pytest.mark.parametrize(
    "host",
    [
        *(
            "127.0.0.1",
            "127.1",
            "2130706433",
            "0x7f.1",
            "0x7f000001",
            "127.0.0.1.",
            "0.0.0.0",
            "localhost",
        ),
        *(
            "[::1]",
            "[::]",
            "[::ffff:127.0.0.1]",
            "[::ffff:7f00:1]",
            "[64:ff9b::7f00:1]",
            "[2002:7f00:1::]",
        ),
        *(
            "169.254.169.254",
            "[fd00:ec2::254]",
            "100.64.0.1",
            "10.0.0.1",
            "[fe80::1%25lo]",
            "127。0。0。1",
        ),
    ],
)
def test_private_addresses_are_refused_in_every_notation(
    worker: Worker, site: Site, host: str
) -> None:
    outcome = worker.fetch(f"http://{host}:{site.port}/secret")
    assert outcome.status == "error"
    assert "a private or local address; only the public internet can be reached" in outcome.error
    assert site.seen == []


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("file:///etc/passwd", "use http:// or https://"),
        ("data:text/html,hello", "use http:// or https://"),
        ("ftp://example.org/x", "use http:// or https://"),
        ("example.org", "use http:// or https://"),
        ("http:///x", "has no host"),
        ("http://0177.0.0.1/", "is not a URL"),
        ("http://a\n.example/", "is not a URL"),
        ("http://someone:secret@example.org/", "a user name or a password"),
        ("http://example.org:0/", "no valid port"),
        ("http://example.org:99999/", "no valid port"),
        ("http://no-such-name.example/", "the host 'no-such-name.example' does not exist"),
    ],
)
def test_invalid_web_address_is_refused(
    worker: Worker, internet: Internet, url: str, sentence: str
) -> None:
    outcome = worker.fetch(url, "allow_private: true")
    assert outcome.status == "error"
    assert sentence in outcome.error
    assert internet.connected == []


def test_private_address_is_reached_with_allow_private(worker: Worker, site: Site) -> None:
    site.html("/tides")
    outcome = worker.fetch(site.url("/tides"), "allow_private: true")
    assert outcome.status == "success"
    assert "twice a day" in outcome.value.content


def test_public_name_is_reached_at_its_resolved_address(
    worker: Worker, site: Site, internet: Internet
) -> None:
    site.html("/tides")
    internet.names["tides.example"] = [[PUBLIC]]
    internet.public = {PUBLIC}
    outcome = worker.fetch(site.url("/tides", "tides.example"))
    assert outcome.status == "success"
    assert site.seen == [f"tides.example:{site.port} /tides"]
    assert (internet.asked, internet.connected) == (["tides.example"], [PUBLIC])


def test_name_that_changes_its_address_after_the_check_is_not_followed(
    worker: Worker, make_site: Callable[[], Site], internet: Internet
) -> None:
    harmless = make_site()
    harmless.html("/")
    internet.names["rebind.example"] = [[PUBLIC], ["127.0.0.1"], ["127.0.0.1"]]
    internet.public = {PUBLIC}
    outcome = worker.fetch(harmless.url("/", "rebind.example"))
    assert outcome.status == "success"
    assert (internet.asked, internet.connected) == (["rebind.example"], [PUBLIC])
    again = worker.fetch(harmless.url("/", "rebind.example"))
    assert again.error.startswith("rebind.example resolves to a private or local address")
    assert internet.connected == [PUBLIC]


def test_name_that_rebinds_between_redirects_is_refused(
    worker: Worker, site: Site, internet: Internet
) -> None:
    site.redirect("/", "/secret")
    site.html("/secret")
    internet.names["rebind.example"] = [[PUBLIC], ["127.0.0.1"]]
    internet.public = {PUBLIC}
    outcome = worker.fetch(site.url("/", "rebind.example"))
    assert outcome.error.startswith("rebind.example resolves to a private or local address")
    assert site.seen == [f"rebind.example:{site.port} /"]


@pytest.mark.parametrize(
    "addresses", [["127.0.0.1"], [PUBLIC, "127.0.0.1"], ["::ffff:10.0.0.1"], ["fe80::1%eth0"]]
)
def test_name_with_one_private_address_is_refused(
    worker: Worker, site: Site, internet: Internet, addresses: list[str]
) -> None:
    internet.names["mixed.example"] = [addresses]
    internet.public = {PUBLIC}
    outcome = worker.fetch(site.url("/", "mixed.example"))
    assert outcome.error.startswith("mixed.example resolves to a private or local address")
    assert internet.connected == []


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("http://127.0.0.1:{port}/secret", "127.0.0.1 is a private or local address"),
        ("//0x7f.1:{port}/secret", "0x7f.1 is a private or local address"),
        (
            "http://inside.example:{port}/secret",
            "inside.example resolves to a private or local address",
        ),
        ("file:///etc/passwd", "use http:// or https://"),
        ("data:text/plain,x", "use http:// or https://"),
        ("http://me:pw@tides.example/", "a user name or a password"),
    ],
)
@pytest.mark.parametrize("status", [301, 307])
def test_each_redirect_is_checked_again(
    worker: Worker, site: Site, internet: Internet, target: str, sentence: str, status: int
) -> None:
    site.redirect("/", target.format(port=site.port), status)
    internet.names = {"tides.example": [[PUBLIC]], "inside.example": [["10.0.0.7"]]}
    internet.public = {PUBLIC}
    outcome = worker.fetch(site.url("/", "tides.example"))
    assert outcome.status == "error"
    assert sentence in outcome.error
    assert len(site.seen) == 1


def test_redirects_are_followed(worker: Worker, site: Site) -> None:
    for number in range(5):
        site.redirect(f"/{number}", f"{number + 1}", [301, 302, 303, 307, 308][number])
    site.html("/5")
    outcome = worker.fetch(site.url("/0"), "allow_private: true")
    assert outcome.value.content.startswith(f"[Tide tables \\[2026\\]]({site.url('/5')})")


def test_redirects_are_limited(worker: Worker, site: Site) -> None:
    site.redirect("/", "/")
    outcome = worker.fetch(site.url("/"), "allow_private: true")
    assert outcome.error == f"{site.url('/')} redirects more than 5 times"
    assert len(site.seen) == 6


def test_next_address_is_tried_after_a_failure(
    worker: Worker, site: Site, internet: Internet
) -> None:
    site.html("/")
    internet.names["two.example"] = [[OTHER, PUBLIC]]
    internet.public = {PUBLIC}
    assert worker.fetch(site.url("/", "two.example")).status == "success"
    assert internet.connected == [OTHER, PUBLIC]


def test_unreachable_host_is_reported(worker: Worker) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}/"
        assert worker.fetch(url, "allow_private: true").error.startswith(
            f"{url} cannot be fetched: "
        )


def test_proxies_of_the_environment_are_not_used(
    worker: Worker, make_site: Callable[[], Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    site, proxy = make_site(), make_site()
    site.html("/")
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, proxy.url())
    assert worker.fetch(site.url("/"), "allow_private: true").status == "success"
    assert proxy.seen == []


def test_impossible_fetch_raises_no_question(worker: Worker, internet: Internet) -> None:
    made = [call("web_fetch", url=url) for url in ("file:///etc/passwd", "http://127.1/")]
    seen = worker.seen(*made, settings="approval: {}", answers=[])
    assert (seen.statuses, seen.asked, internet.asked) == (["error", "error"], [], [])


def test_name_is_not_resolved_before_the_approval(worker: Worker, internet: Internet) -> None:
    url = "http://müller.example/?secret=1"
    seen = worker.seen(call("web_fetch", url=url), settings="approval: {}", answers=[False])
    assert (seen.statuses, internet.asked) == (["denied"], [])
    (request,) = seen.asked
    assert request.preview.content == "GET http://xn--mller-kva.example/?secret=1"
    assert request.risk == "medium"


@pytest.fixture(scope="session")
def certificate(need: Callable[[str], None], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for tides.example with its key, signed by itself."""
    need("openssl")
    openssl = shutil.which("openssl") or ""
    file = tmp_path_factory.mktemp("tls") / "pair.pem"
    name = ["-subj", "/CN=tides.example", "-addext", "subjectAltName=DNS:tides.example"]
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    subprocess.run(
        [openssl, "req", "-x509", *kind, *name, "-keyout", file, "-out", file.with_suffix(".crt")],
        check=True,
        capture_output=True,
    )
    file.write_bytes(file.read_bytes() + file.with_suffix(".crt").read_bytes())
    return file


@pytest.fixture
def secure(make_site: Callable[..., Site], certificate: Path) -> Site:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    site = make_site(context)
    site.html("/")
    return site


def test_certificate_must_match_the_name(
    worker: Worker,
    secure: Site,
    internet: Internet,
    certificate: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(WebToolset, "tls", ssl.create_default_context(cafile=certificate))
    internet.names = {
        "tides.example": [[PUBLIC]],
        "tides.example.": [[PUBLIC]],
        "other.example": [[PUBLIC]],
    }
    internet.public = {PUBLIC}
    assert worker.fetch(secure.url("/", "tides.example")).status == "success"
    assert worker.fetch(secure.url("/", "tides.example.")).status == "success"
    assert "other.example" in worker.fetch(secure.url("/", "other.example")).error
    assert len(secure.seen) == 2


def test_untrusted_certificate_is_refused(worker: Worker, secure: Site, internet: Internet) -> None:
    internet.names["tides.example"] = [[PUBLIC]]
    internet.public = {PUBLIC}
    outcome = worker.fetch(secure.url("/", "tides.example"))
    assert outcome.status == "error"
    assert "certificate" in outcome.error.lower()
    assert secure.seen == []
