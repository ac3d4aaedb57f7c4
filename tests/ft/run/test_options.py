"""The command line, beside torchrun's own parser."""

from __future__ import annotations

import argparse
import signal
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from pycomms.ft.coordinator.tls import Tls
from pycomms.ft.run.arguments import parser_of
from pycomms.ft.run.options import Kind, Options, Std, parse, streams_of

TOKEN = "--token-file=/token"
HOSTS = ("--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=node0", TOKEN)


def parsed(*arguments: str, **environment: str) -> Options:
    return parse([*arguments, "train.py", "--lr", "1"], environment)


def test_every_option_of_torchrun_is_there_in_each_of_its_spellings() -> None:
    from torch.distributed.run import get_args_parser

    ours = {name: action for action in parser_of({})._actions for name in action.option_strings}
    for action in get_args_parser()._actions:
        for name in action.option_strings:
            assert name in ours, name
            assert ours[name].dest == action.dest
            takes_value = not isinstance(action, argparse._HelpAction) and action.nargs != 0
            assert (ours[name].nargs != 0) == takes_value, name


def test_defaults() -> None:
    options = parsed()
    assert (options.fewest_nodes, options.most_nodes, options.per_node) == (1, 1, "1")
    assert (options.meeting.host, options.meeting.port, options.meeting.owner) == ("127.0.0.1", 0, True)
    assert options.program.kind is Kind.SCRIPT
    assert (options.program.name, options.program.arguments) == ("train.py", ("--lr", "1"))
    assert (options.max_restarts, options.spares, options.min_ranks) == (3, 0, None)
    assert options.shutdown == timedelta(seconds=30)
    assert options.signals == (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
    assert not options.warnings


def test_files_of_tls(tmp_path: Path) -> None:
    pem = str(tmp_path / "pem")
    (tmp_path / "pem").touch()
    told = {"PYCOMMS_TLS_CA": pem, "PYCOMMS_TLS_CERT": pem, "PYCOMMS_TLS_KEY": pem}
    assert parsed(*HOSTS, **told).tls == Tls(ca=Path(pem), cert=Path(pem), key=Path(pem))
    assert parsed(*HOSTS, f"--tls-ca={pem}", **told).tls == Tls(ca=Path(pem))
    assert parsed(*HOSTS).tls is None
    assert parsed(**told).tls is None
    assert parsed(f"--tls-ca={pem}").tls is None
    assert "the job has one host" in parsed(f"--tls-ca={pem}").warnings[0]


def test_environment_is_the_default_and_the_command_line_comes_first() -> None:
    told = {"PET_NPROC_PER_NODE": "4", "PET_MAX_RESTARTS": "7", "PET_STANDALONE": "1", "PET_MODULE": "1"}
    options = parsed("--max_restarts=2", **told)
    assert (options.per_node, options.max_restarts, options.program.kind) == ("4", 2, Kind.MODULE)
    assert parsed(TORCH_ELASTIC_SHUTDOWN_TIMEOUT="5").shutdown == timedelta(seconds=5)


@pytest.mark.parametrize(
    "arguments, expected",
    [
        (["--rdzv-endpoint=node0", "--rdzv-backend=c10d"], ("node0", 29400, None)),
        (["--rdzv-endpoint=node0:1", "--rdzv-backend=c10d", "--rdzv-conf=is_host=1"], ("node0", 1, True)),
        (["--rdzv-endpoint=[fd00::1]:7", "--rdzv-backend=c10d"], ("fd00::1", 7, None)),
        (["--master-addr=node0", "--master-port=500"], ("node0", 499, True)),
        (["--master-addr=node0", "--node-rank=1"], ("node0", 29499, False)),
        (["--coordinator=there:9"], ("there", 9, False)),
    ],
)
def test_where_hosts_meet(arguments: list[str], expected: tuple[Any, ...]) -> None:
    meeting = parsed("--nnodes=2", TOKEN, *arguments).meeting
    assert (meeting.host, meeting.port, meeting.owner) == expected


def test_coordinators_that_stand_by() -> None:
    meeting = parsed("--nnodes=2", TOKEN, "--rdzv-backend=c10d", "--rdzv-endpoint=a,b:1,[fd00::1]").meeting
    assert meeting.addresses == (("a", 29400), ("b", 1), ("fd00::1", 29400))
    assert parsed("--nnodes=2", TOKEN, "--coordinator=a:1,b:2").meeting.addresses == (("a", 1), ("b", 2))


def test_standalone_ignores_where_to_meet() -> None:
    options = parsed("--standalone", "--rdzv-endpoint=node0:1", "--rdzv-id=x", "--rdzv-backend=c10d")
    assert (options.meeting.host, options.meeting.port, options.run_id) == ("127.0.0.1", 0, "")


def test_elastic() -> None:
    options = parsed("--nnodes=1:4", "--rdzv-endpoint=n", TOKEN, "--rdzv-conf=join_timeout=5,last_call_timeout=0.5,x=1")
    assert (options.fewest_nodes, options.most_nodes) == (1, 4)
    assert (options.meeting.join, options.meeting.last_call) == (timedelta(seconds=5), timedelta(seconds=0.5))
    assert options.warnings == ("--rdzv-conf x: no meaning here",)
    assert options.token_file == Path("/token")


def test_streams() -> None:
    output = parsed("-r=0:1,2:3", "--tee=2").output
    assert [streams_of(output.redirects, rank) for rank in range(3)] == [Std.OUT, Std.NONE, Std.BOTH]
    assert streams_of(output.tee, 5) is Std.ERR


@pytest.mark.parametrize(
    "arguments, complaint",
    [
        (["--nnodes=2", TOKEN, "--rdzv-backend=c10d"], "--rdzv-endpoint is missing"),
        (["--nnodes=2", TOKEN, "--rdzv-endpoint=n:0"], "port 0 is for jobs on one host"),
        (["--nnodes=2", TOKEN, "--master-addr=n", "--node-rank=2"], "--node-rank is 2, expected 0 to 1"),
        (["--rdzv-endpoint=a:b"], "--rdzv-endpoint is 'a:b', expected HOST:PORT"),
        (["--nnodes=2", "--rdzv-endpoint=a,a", TOKEN], "expected each address once"),
        (["--nnodes=2", "--rdzv-endpoint=a,b", TOKEN, "--rdzv-conf=is_host=1"], "is_host is for one address"),
        (["--coordinator=here", TOKEN], "--coordinator is 'here', expected HOST:PORT"),
        (["--rdzv-conf=join_timeout=soon"], "expected seconds, more than 0"),
        (["--local-ranks-filter=a"], "--local-ranks-filter is 'a'"),
        (["--shutdown-timeout=-1"], "--shutdown-timeout is '-1'"),
        ([*HOSTS, "--tls-cert=c"], "--tls-cert is 'c' and --tls-key is missing"),
        ([*HOSTS, "--tls-ca=/nowhere"], "--tls-ca is '/nowhere': No such file"),
        ([*HOSTS, "--rdzv-conf=is_host=1", f"--tls-ca={__file__}"], "--tls-cert and --tls-key are missing"),
        (["--spares=-1"], "--spares is -1"),
        (["--min-ranks=0"], "--min-ranks is 0, expected 1 or more"),
        (["--min-ranks=5", "--nproc-per-node=2"], "--min-ranks is 5, expected at most the job's 2 workers"),
        (["--recovery-deadline=nan"], "recovery_deadline is nan s, expected at most"),
        (["--recovery-deadline=inf"], "recovery_deadline is inf s, expected at most"),
        (["--recovery-deadline=1e300"], "recovery_deadline is 1e+300 s, expected at most"),
        (["--coordinator-http=70000"], "--coordinator-http is 70000, expected a port, 0 to 65535"),
        (["--master-port=-1"], "--master-port is -1, expected a port, 0 to 65535"),
    ],
)
def test_complaints(arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        parsed(*arguments)
    assert end.value.code == 2
    assert complaint in capsys.readouterr().err
