"""Any message that a member, a host or the coordinator may send, for hypothesis."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hypothesis import strategies as st

from pycomms.ft.core.launch import HostReport, JobState, Phase, Place, Rule, Stand
from pycomms.ft.core.messages import (
    Announce,
    Beat,
    Change,
    Died,
    EpochId,
    Evict,
    Form,
    Leaving,
    MemberId,
    Position,
    Progress,
    Ready,
    Refused,
    Seat,
    Settled,
    Standing,
    Teach,
    Verdict,
)
from pycomms.ft.wire import AnnounceAgain, FormDelta, Hello, Message, SendWhole, Welcome


def texts(limit: int, *, least: int = 1) -> st.SearchStrategy[str]:
    """Anything that UTF-8 can say."""
    return st.text(st.characters(exclude_categories=["Cs"]), min_size=least, max_size=limit)


counts = st.integers(0, 2**63 - 1)
slots = st.integers(0, 2**20 - 1)
words = texts(60, least=0)
epochs = st.builds(EpochId, counts, counts)
members = st.builds(MemberId, texts(20), texts(20))
positions = st.one_of(
    st.builds(Position, committed=counts, standing=st.sampled_from(Standing)),
    st.integers(0, 2**63 - 2).map(lambda step: Position(committed=step, in_doubt=step + 1, standing=Standing.LOADED)),
)
nonces = texts(20).map(lambda text: text.replace(":", "-"))
handles = st.one_of(
    texts(40),
    st.builds("nccl2:1:{}:{}:{}:{}".format, nonces, st.integers(0, 9), st.integers(-1, 2**40), texts(20)),
)
seats = st.builds(Seat, member=members, slot=slots, handle=handles, position=positions)
some_members = st.lists(members, max_size=4).map(tuple)
some_seats = st.lists(seats, max_size=5, unique_by=lambda seat: seat.slot).map(tuple)
rosters = st.lists(seats, min_size=1, max_size=6, unique_by=lambda seat: seat.slot).map(
    lambda found: tuple(sorted(found, key=lambda seat: seat.slot))
)
deaths = st.dictionaries(members, words, max_size=4)
seconds = st.floats(0, 1e9)

forms = st.builds(
    Form,
    epoch=epochs,
    previous=st.none() | epochs,
    seats=rosters,
    died=deaths,
    joined=some_members,
    reason=words,
)

# Numbers that a double holds exactly, so that they come back as they were.
spans = st.integers(0, 2**20).map(lambda quarters: timedelta(seconds=quarters / 4))
rules = st.builds(
    Rule,
    name=texts(20, least=0),
    fewest=st.integers(1, 5),
    most=st.integers(5, 9),
    max_restarts=st.integers(0, 99),
    join=spans,
    last_call=spans,
)
ports = st.integers(0, 2**16 - 1)
jobs = st.builds(
    JobState,
    name=texts(20, least=0),
    round=counts,
    phase=st.sampled_from(Phase),
    places=st.lists(st.builds(Place, host=texts(20), first_rank=slots, slots=st.integers(1, 9)), max_size=3).map(tuple),
    master_addr=texts(20, least=0),
    master_port=ports,
    restarts=st.integers(0, 99),
    sessions=st.booleans(),
    training=st.booleans(),
    finished=st.booleans(),
    reason=words,
)
reports = st.builds(
    HostReport,
    host=texts(20),
    slots=st.integers(1, 9),
    rule=rules,
    node_rank=st.none() | st.integers(0, 9),
    address=texts(20, least=0),
    port=ports,
    round=counts,
    stand=st.sampled_from(Stand),
    again=words,
    sessions=st.booleans(),
    training=st.booleans(),
    finished=st.booleans(),
    reason=words,
    known=st.none() | jobs,
)

messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(
        Hello,
        host=texts(20),
        instance=texts(20),
        nonce=texts(20, least=0),
        version=st.integers(1, 2**32 - 1),
        heard=counts,
    ),
    st.builds(Welcome, boot=counts),
    st.builds(AnnounceAgain, reason=words, with_seats=st.booleans()),
    st.builds(SendWhole, member=members, epoch=epochs),
    st.builds(
        FormDelta,
        epoch=epochs,
        previous=epochs,
        digest=st.binary(min_size=16, max_size=16),
        gone=st.lists(slots, max_size=4).map(tuple),
        seats=some_seats,
        usual=positions,
        moved=st.dictionaries(slots, positions, max_size=4),
        died=deaths,
        joined=some_members,
        reason=words,
    ),
    st.builds(
        Announce,
        member=members,
        slot=st.none() | slots,
        pid=st.integers(0, 2**32 - 1),
        handle=handles,
        position=positions,
        min_ranks=st.integers(1, 2**20),
        epoch=st.none() | epochs,
        roster=texts(60, least=0),
        seats=some_seats,
    ),
    st.builds(
        Ready, member=members, epoch=epochs, handle=handles, position=positions, suspects=some_members, reason=words
    ),
    st.builds(Settled, member=members, epoch=epochs, seconds=seconds),
    st.builds(Progress, member=members, committed=counts, steps_per_second=seconds),
    st.builds(Leaving, member=members, reason=words),
    st.builds(Died, member=members, how=words),
    st.builds(Beat, host=texts(20)),
    st.builds(Change, epoch=epochs, died=deaths, joining=some_members, broken=st.booleans(), reason=words),
    forms,
    st.builds(Refused, member=members, verdict=st.sampled_from(Verdict), reason=words),
    st.builds(Evict, member=members, reason=words),
    st.builds(Teach, epoch=epochs),
    jobs,
    reports,
)


@st.composite
def successions(draw: st.DrawFn) -> tuple[Form, Form]:
    """A Form and one that follows it: some leave, some come, handles as after a regroup, or not."""
    before = draw(forms)
    uuid = before.epoch.uuid
    kept = []
    for rank, seat in enumerate(before.seats):
        what = draw(st.sampled_from(["stays", "stays", "stays", "moves", "leaves", "other handle", "other member"]))
        parts = seat.handle.split(":", 5)
        if len(parts) == 6:
            seat = replace(seat, handle=":".join([*parts[:3], str(rank), str(uuid), parts[5]]))
        if what == "moves":
            seat = replace(seat, position=draw(positions))
        elif what == "other handle":
            seat = replace(seat, handle=draw(handles))
        elif what == "other member":
            seat = replace(seat, member=draw(members))
        if what != "leaves":
            kept.append(seat)
    taken = {seat.slot for seat in kept}
    kept += [seat for seat in draw(some_seats) if seat.slot not in taken]
    after = draw(forms)
    ordered = tuple(sorted(kept, key=lambda seat: seat.slot)) or after.seats
    return before, replace(after, previous=before.epoch, seats=ordered)
