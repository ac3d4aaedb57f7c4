"""What hosts and the keeper of the job's state tell each other, into protobuf and back. As strict as the rest."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pycomms.ft.core.launch import HostReport, JobState, Phase, Place, Rule, Stand
from pycomms.ft.wire import messages_pb2 as pb
from pycomms.ft.wire.checks import COUNT, HOST, SLOTS, amount, below, text, words
from pycomms.ft.wire.checks import WORDS as LONGEST
from pycomms.ft.wire.errors import WireError

STANDS = {
    Stand.READY: pb.READY,
    Stand.RUNNING: pb.RUNNING,
    Stand.DONE: pb.DONE,
    Stand.FAILED: pb.FAILED,
    Stand.LEFT: pb.LEFT,
}
PHASES = {
    Phase.GATHERING: pb.JOB_GATHERING,
    Phase.RUNNING: pb.JOB_RUNNING,
    Phase.DONE: pb.JOB_DONE,
    Phase.FAILED: pb.JOB_FAILED,
}
_STANDS: dict[int, Stand] = {number: stand for stand, number in STANDS.items()}
_PHASES: dict[int, Phase] = {number: phase for phase, number in PHASES.items()}
_PORTS = 1 << 16
_HOSTS = 1 << 20


def write_report(message: HostReport) -> pb.HostReport:
    rule = message.rule
    return pb.HostReport(
        host=message.host,
        slots=message.slots,
        rule=pb.LaunchRule(
            name=rule.name,
            fewest=rule.fewest,
            most=rule.most,
            max_restarts=rule.max_restarts,
            join=rule.join.total_seconds(),
            last_call=rule.last_call.total_seconds(),
        ),
        node_rank=message.node_rank,
        address=message.address,
        port=message.port,
        round=message.round,
        stand=STANDS[message.stand],
        again=words(message.again),
        sessions=message.sessions,
        training=message.training,
        finished=message.finished,
        reason=words(message.reason),
        known=None if message.known is None else write_job(message.known),
    )


def write_job(message: JobState) -> pb.JobState:
    return pb.JobState(
        name=message.name,
        round=message.round,
        phase=PHASES[message.phase],
        places=[pb.Place(host=one.host, first_rank=one.first_rank, slots=one.slots) for one in message.places],
        master_addr=message.master_addr,
        master_port=message.master_port,
        restarts=message.restarts,
        sessions=message.sessions,
        training=message.training,
        finished=message.finished,
        reason=words(message.reason),
    )


def read_report(given: Any, where: str) -> HostReport:
    rule = given.rule
    fewest = below(rule.fewest, f"{where}.rule.fewest", _HOSTS, least=1)
    return HostReport(
        host=text(given.host, f"{where}.host", HOST),
        slots=below(given.slots, f"{where}.slots", SLOTS, least=1),
        rule=Rule(
            name=text(rule.name, f"{where}.rule.name", HOST, may_be_empty=True),
            fewest=fewest,
            most=below(rule.most, f"{where}.rule.most", _HOSTS, least=fewest),
            max_restarts=below(rule.max_restarts, f"{where}.rule.max_restarts", COUNT),
            join=_span(rule.join, f"{where}.rule.join"),
            last_call=_span(rule.last_call, f"{where}.rule.last_call"),
        ),
        node_rank=below(given.node_rank, f"{where}.node_rank", _HOSTS) if given.HasField("node_rank") else None,
        address=text(given.address, f"{where}.address", HOST, may_be_empty=True),
        port=below(given.port, f"{where}.port", _PORTS),
        round=below(given.round, f"{where}.round", COUNT),
        stand=_chosen(given.stand, f"{where}.stand", _STANDS),
        again=_words(given.again, f"{where}.again"),
        sessions=given.sessions,
        training=given.training,
        finished=given.finished,
        reason=_words(given.reason, f"{where}.reason"),
        known=read_job(given.known, f"{where}.known") if given.HasField("known") else None,
    )


def read_job(given: Any, where: str) -> JobState:
    return JobState(
        name=text(given.name, f"{where}.name", HOST, may_be_empty=True),
        round=below(given.round, f"{where}.round", COUNT),
        phase=_chosen(given.phase, f"{where}.phase", _PHASES),
        places=tuple(
            Place(
                host=text(one.host, f"{where}.places[{at}].host", HOST),
                first_rank=below(one.first_rank, f"{where}.places[{at}].first_rank", SLOTS),
                slots=below(one.slots, f"{where}.places[{at}].slots", SLOTS, least=1),
            )
            for at, one in enumerate(given.places)
        ),
        master_addr=text(given.master_addr, f"{where}.master_addr", HOST, may_be_empty=True),
        master_port=below(given.master_port, f"{where}.master_port", _PORTS),
        restarts=below(given.restarts, f"{where}.restarts", COUNT),
        sessions=given.sessions,
        training=given.training,
        finished=given.finished,
        reason=_words(given.reason, f"{where}.reason"),
    )


def _words(given: str, field: str) -> str:
    return text(given, field, LONGEST, may_be_empty=True)


def _span(given: float, field: str) -> timedelta:
    if amount(given, field) > 1e9:
        raise WireError(field, given, "up to 1e9 seconds")
    return timedelta(seconds=given)


def _chosen(given: int, field: str, choices: dict[int, Any]) -> Any:
    if given not in choices:
        raise WireError(field, given, " or ".join(map(str, choices)))
    return choices[given]
