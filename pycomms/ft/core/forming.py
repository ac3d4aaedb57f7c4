"""Whether the next membership can be announced, and what it is."""

from __future__ import annotations

from pycomms.ft.core import changing
from pycomms.ft.core.job import Job
from pycomms.ft.core.messages import Form, MemberId, Seat, Verdict
from pycomms.ft.core.phases import Cause, Phase
from pycomms.ft.core.roster import Gone, Member, State


def may_begin(job: Job) -> bool:
    """Whether the first membership need not wait for more.

    All who are expected are enough at once, more than half of them after `gather`. Fewer may be newcomers of a job that
    goes on without its coordinator, which has not yet been told so; then, and where the log says that there was one,
    they wait for half of `rejoin`.
    """
    count = len(job.roster.waiting)
    if count == 0 or count >= job.rule.expected:
        return count > 0
    waited = job.now - job.since
    if 2 * count > job.rule.expected and not job.resumed and waited >= job.gather:
        return True
    return waited >= job.rejoin / 2


def try_to_form(job: Job) -> None:
    """To be called when nobody is awaited."""
    if job.muster is not None and job.phase is Phase.CHANGING:
        _count_attempt(job)
    objection = job.electorates.objection(job.fell_silent, job.stands_still)
    joining = [] if objection else newcomers(job)
    count = job.electorates.standing + len(joining)
    least = 1 if job.finishing else job.min_ranks
    if not objection and count < least:
        objection = f"{count} members, min_ranks is {least}"
    if objection:
        if job.phase is Phase.CHANGING:
            job.move(Cause.FEW, objection, wait=job.rejoin)
        elif objection != job.reason and job.phase is Phase.TOO_FEW:
            job.explain(objection)
        return
    _form(job, joining)


def _count_attempt(job: Job) -> None:
    assert job.muster is not None
    is_explained = bool(job.dead or job.muster.missing)
    if job.stood or is_explained:
        job.attempts = 0
        job.complaints.clear()
    else:
        job.attempts += 1
    if not is_explained:
        job.complaints.add(job.muster.accusers)
    if job.attempts >= job.rule.attempts:
        changing.exclude_worst(job)


def newcomers(job: Job) -> list[tuple[Member, int]]:
    """Those who can be told, each with the slot that it would have."""
    found: list[tuple[Member, int]] = []
    anywhere = []
    taken: set[int] = set()
    for member in job.roster.waiting.values():
        if not job.hosts.reachable(member.id.host):
            continue
        if member.slot is None:
            anywhere.append(member)
        elif member.slot not in taken and _is_free(job, member.slot, member.id):
            taken.add(member.slot)
            found.append((member, member.slot))
    if anywhere:
        free = (slot for slot in range(job.rule.max_ranks) if slot not in taken and _is_free(job, slot, None))
        found += zip(anywhere, free, strict=False)
    return found


def _is_free(job: Job, slot: int, newcomer: MemberId | None) -> bool:
    holder = job.roster.holder(slot)
    return holder is None or holder.id == newcomer or holder.state is State.MISSING


def _form(job: Job, newcomers: list[tuple[Member, int]]) -> None:
    staying = []
    for member_id in job.ranks:
        record = job.roster.living.get(member_id)
        if record is None:
            continue
        if record.state is State.READY:
            staying.append(record)
        else:
            lost = job.hosts.is_lost(member_id.host)
            how = job.hosts.why(member_id.host) if lost else "it did not stand still in time"
            silent = job.fell_silent(member_id)
            job.lose(member_id, Gone(how=how, certain=False, silent=silent, evicted=record.evicted))
    for member, slot in newcomers:
        job.roster.admit(member, slot)
    joined = [member for member, _ in newcomers]
    everybody = sorted([*staying, *joined], key=_slot)
    seats = tuple(_seat(member) for member in everybody)
    previous = job.epoch
    job.epoch = job.next_epoch()
    form = Form(
        epoch=job.epoch,
        previous=previous,
        seats=seats,
        died=job.dead,
        joined=tuple(member.id for member in joined),
        reason=_words(job, len(seats), len(joined)),
    )
    job.form = form
    job.dead = {}
    job.ranks = {seat.member: rank for rank, seat in enumerate(seats)}
    job.unsettled = dict.fromkeys(job.ranks)
    job.stood = False
    job.muster = None
    job.electorates.announced(job.epoch, job.ranks)
    job.move(Cause.ENOUGH, form.reason, wait=job.forming_time)
    for member in everybody:
        member.state = State.FORMING
        job.send(member.id, form)
    refuse_the_rest(job)


def refuse_the_rest(job: Job) -> None:
    """Those who wait for a slot that others have, who are in the epoch. Whose connection has ended may have died since
    it was ready: then there will be room for who waits.
    """
    is_full = len(job.ranks) >= job.rule.max_ranks and all(job.hosts.reachable(member.host) for member in job.ranks)
    for member in list(job.roster.waiting.values()):
        if member.slot is None:
            if is_full:
                job.roster.remove(member.id, None)
                job.refuse(member.id, Verdict.FULL, f"all {job.rule.max_ranks} slots are taken")
            continue
        holder = job.roster.holder(member.slot)
        if holder is not None and holder.id in job.ranks and job.hosts.reachable(holder.id.host):
            job.roster.remove(member.id, None)
            job.refuse(member.id, Verdict.DUPLICATE, f"{holder.id.host}/{holder.id.nonce[:8]} has slot {member.slot}")


def _slot(member: Member) -> int:
    assert member.slot is not None
    return member.slot


def _seat(member: Member) -> Seat:
    return Seat(member=member.id, slot=_slot(member), handle=member.handle, position=member.position)


def _words(job: Job, count: int, joined: int) -> str:
    if job.form is None:
        return f"the first {count} members"
    parts = [f"{count - joined} stay"]
    if job.dead:
        parts.append(f"{len(job.dead)} are gone")
    if joined:
        parts.append(f"{joined} join")
    return ", ".join(parts)
