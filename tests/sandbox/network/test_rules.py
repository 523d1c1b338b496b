"""Network rules: covered names and ports, invalid entries, and the rules of a child worker."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_cli.core.errors import WorkerError
from forge_cli.files.document import read_document
from forge_cli.sandbox.network.rules import Network, NetworkRule, NetworkRules, narrowest_network
from forge_cli.sandbox.zones.config import SandboxConfig
from forge_cli.sandbox.zones.zones import Isolation
from forge_cli.schema.config import parse_config

HOSTS = [
    "example.com",
    "a.example.com",
    "b.a.example.com",
    "example.org",
    "xexample.com",
    "com",
    "8.8.8.8",
]
PORTS = [80, 443, 8080]
ENTRY = st.builds(
    lambda name, port: f"{name}{port}",
    st.sampled_from(
        ["example.com", "*.example.com", "*.a.example.com", "a.example.com", "*.com", "example.org"]
    ),
    st.sampled_from(["", ":80", ":443", ":8080"]),
)
RULES = st.lists(ENTRY, max_size=4).map(NetworkRules.read)


def wanted(tmp_path: Path, text: str) -> Isolation:
    file = tmp_path / "w.yaml"
    file.write_text(text)
    return parse_config(
        SandboxConfig, read_document(file).data, at=("sandbox",), file="w.yaml"
    ).wanted()


@pytest.mark.parametrize(
    ("entry", "covered"),
    [
        ("example.com", ["example.com:80", "example.com:443"]),
        ("EXAMPLE.com.", ["example.com:80", "example.com:443"]),
        ("example.com:8080", ["example.com:8080"]),
        ("*.example.com:443", ["a.example.com:443", "b.a.example.com:443"]),
        (
            "*.com:80",
            ["example.com:80", "a.example.com:80", "b.a.example.com:80", "xexample.com:80"],
        ),
        ("8.8.8.8:443", ["8.8.8.8:443"]),
        ("other.example", []),
    ],
)
def test_network_entry_covers_hosts_and_ports(entry: str, covered: list[str]) -> None:
    rule = NetworkRule.read(entry)
    assert [
        f"{host}:{port}" for host in HOSTS for port in PORTS if rule.covers(host, port)
    ] == covered


@pytest.mark.parametrize(
    "entry", ["a.example", "*.a.example:8080", "[2606:4700::1111]", "[2606:4700::1111]:53"]
)
def test_entry_is_told_as_it_is_written(entry: str) -> None:
    assert str(NetworkRule.read(entry)) == entry


BAD = [
    ('"*"', "'*' covers every name; write 'network: true' for the whole network"),
    ('"*:443"', "'*' covers every name; write 'network: true' for the whole network"),
    ('"a.*.com"', "'a.*.com' is not a valid host name"),
    ('"**.com"', "'**.com' is not a valid host name"),
    (
        "https://a.b/",
        "'https://a.b/' is not a host name; write api.example.org without URL parts",
    ),
    ("me@a.b", "'me@a.b' is not a host name; write api.example.org without URL parts"),
    ("a.b:0", "'0' is not a valid port"),
    ('"a.b:"', "'' is not a valid port"),
    ("a.b:70000", "'70000' is not a valid port"),
    (
        '"2606::1"',
        "'2606::1' is not a host name; write an IPv6 address as '[2001:db8::1]:443'",
    ),
    ("10.0.0.1", "'10.0.0.1' can never be reached: it is an address of a private network"),
    ('"[::1]:80"', "'[::1]:80' can never be reached: it is an address of this machine itself"),
    (
        "localhost:8080",
        "'localhost:8080' can never be reached: it is a name of this machine itself",
    ),
    ("app.localhost", "'app.localhost' can never be reached: it is a name of this machine itself"),
    ('"*.8.8.8.8"', "'*.8.8.8.8': an address has no names below it"),
    ("2130706433.", "'2130706433.' is neither a plain IPv4 address nor a name"),
    ('"a\\x1b[2Jb"', "'a\\x1b[2Jb' is not a valid host name"),
    ("[a]", "must be a string, not a list"),
]


@pytest.mark.parametrize(("entry", "sentence"), BAD)
def test_bad_entry_is_an_error_with_its_place(tmp_path: Path, entry: str, sentence: str) -> None:
    with pytest.raises(WorkerError) as caught:
        wanted(tmp_path, f"network:\n  - fine.example\n  - {entry}\n")
    assert str(caught.value) == f"{tmp_path}/w.yaml:3:5: sandbox.network[1]: {sentence}"


@pytest.mark.parametrize("value", ['"*"', "a.example", "{a: b}", "1"])
def test_network_is_a_boolean_or_a_list(tmp_path: Path, value: str) -> None:
    with pytest.raises(
        WorkerError, match=r"sandbox.network: must be true, false, or a list of names such as"
    ):
        wanted(tmp_path, f"network: {value}")


@pytest.mark.parametrize(
    ("text", "network"),
    [
        ("network: true", True),
        ("network: false", False),
        ("isolation: required", False),
        ("network: []", NetworkRules()),
        ("network: [a.example]\nisolation: required", NetworkRules.read(["a.example"])),
    ],
)
def test_network_setting_of_a_worker_is_applied(
    tmp_path: Path, text: str, network: Network
) -> None:
    assert wanted(tmp_path, text).network == network


def test_names_do_not_go_together_with_isolation_off(tmp_path: Path) -> None:
    with pytest.raises(
        WorkerError, match="names, which need confined commands, but isolation is off"
    ):
        wanted(tmp_path, "isolation: off\nnetwork: [a.example]")


@pytest.mark.parametrize("rules", [True, False, NetworkRules.read(["a.example"])])
def test_parent_without_the_network_leaves_none_and_one_with_all_of_it_all(
    rules: Network,
) -> None:
    assert narrowest_network(rules, False) is False
    assert narrowest_network(False, rules) is False
    assert narrowest_network(rules, True) == narrowest_network(True, rules) == rules


@given(RULES, RULES, st.sampled_from(HOSTS), st.sampled_from(PORTS))
def test_child_reaches_what_both_cover_and_nothing_else(
    own: NetworkRules, parent: NetworkRules, host: str, port: int
) -> None:
    found = narrowest_network(own, parent)
    assert isinstance(found, NetworkRules)
    assert found.covers(host, port) == (own.covers(host, port) and parent.covers(host, port))
    assert NetworkRules.read(found.names()) == found
