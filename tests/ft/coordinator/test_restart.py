"""A coordinator that is killed and comes back, with its log or without: epochs go on, and none is used twice."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from pycomms.ft.coordinator.auth import read_token
from pycomms.ft.core.messages import Announce, Change, Died, Form, MemberId, Position, Ready, Standing, Teach

from ._jobs import DEADLINE_S, Host, announce, formed, member, ready, run, settled
from ._process import serving

MEMBERS = [member("north", 0), member("north", 1), member("south", 2)]
RULE = ("--max-ranks", "3", "--recovery-deadline", "10")


def again(who: MemberId, form: Form, *, seated: bool = False) -> Announce:
    rank = next(rank for rank, seat in enumerate(form.seats) if seat.member == who)
    position = Position(committed=5, standing=Standing.LOADED)
    handle = f"nccl2:1:{who.nonce}:{rank}:{form.epoch.uuid}:a"
    return announce(
        who, form.seats[rank].slot, epoch=form.epoch, handle=handle, position=position,
        seats=form.seats if seated else (),
    )  # fmt: skip


async def attached(address: str, token: bytes, form: Form | None) -> tuple[Host, Host]:
    """Both hosts, whose members are in that epoch."""
    north, south = Host(address, "north", token=token), Host(address, "south", token=token)
    for host in (north, south):
        await host.__aenter__()
        for who in MEMBERS:
            if form is not None and who.host == host.name:
                await host.say(again(who, form))
    return north, south


@pytest.mark.parametrize("keeps_log", [True, False], ids=["with its log", "without"])
def test_epochs_go_on(keeps_log: bool, tmp_path: Path) -> None:
    token, state = tmp_path / "token", tmp_path / "state"
    options = (*RULE, "--state-dir", str(state))
    seen = []
    boots = []

    async def begin(address: str) -> Form:
        north, south = await attached(address, read_token(token), None)
        form = await formed([north, south], MEMBERS)
        boots.append(north.boot)
        await north.close()
        await south.close()
        return form

    async def go_on(address: str, form: Form) -> Form:
        """The new coordinator is taught the epoch; then a member fails, and all form the next one."""
        north, south = await attached(address, read_token(token), form)
        boots.append(north.boot)
        asked, other = north, south
        notice, to = await north.hear()
        assert (notice, to) == (Teach(epoch=form.epoch), ())
        await asked.say(again(MEMBERS[0], form, seated=True))
        positioned = replace(ready(MEMBERS[0], form), reason="a collective has failed")
        await asked.say(positioned)
        for host in (asked, other):
            assert (await host.expect(Change)).epoch == form.epoch
        await north.say(ready(MEMBERS[1], form))
        await south.say(ready(MEMBERS[2], form))
        following = await north.expect(Form)
        assert await south.expect(Form) == following
        assert following.previous == form.epoch
        assert [seat.member for seat in following.seats] == MEMBERS
        for who in MEMBERS:
            await (north if who.host == "north" else south).say(settled(who, following.epoch))
        await north.close()
        await south.close()
        return following

    with serving(token, *options) as (process, told):
        address = told["listening"]
        box: list[Form] = []

        async def first() -> None:
            box.append(await begin(address))

        run(first())
        process.kill()
        process.wait(DEADLINE_S)
    seen.append(box[0].epoch)
    for _ in range(2):
        if not keeps_log:
            shutil.rmtree(state)
        with serving(token, *options, listen=address) as (process, _):

            async def following() -> None:
                box.append(await go_on(address, box[-1]))

            run(following())
            process.kill()
            process.wait(DEADLINE_S)
        seen.append(box[-1].epoch)
    assert seen == sorted(set(seen))
    if keeps_log:
        assert boots == sorted(set(boots))


def test_a_death_while_there_is_no_coordinator_is_told_to_the_next(tmp_path: Path) -> None:
    token = tmp_path / "token"
    box: list[Form] = []

    async def begin(address: str) -> None:
        north, south = await attached(address, read_token(token), None)
        box.append(await formed([north, south], MEMBERS))
        await north.close()
        await south.close()

    async def go_on(address: str) -> None:
        (form,) = box
        async with Host(address, "north", token=read_token(token)) as north:
            await north.say(Died(member=MEMBERS[0], how="signal 9 (SIGKILL)"))
            await north.say(again(MEMBERS[1], form, seated=True))
            async with Host(address, "south", token=read_token(token)) as south:
                await south.say(again(MEMBERS[2], form))
                for host in (north, south):
                    assert (await host.expect(Change)).died == {MEMBERS[0]: "signal 9 (SIGKILL)"}
                ends: list[Ready] = [ready(MEMBERS[1], form), ready(MEMBERS[2], form)]
                await north.say(ends[0])
                await south.say(ends[1])
                following = await north.expect(Form)
                assert await south.expect(Form) == following
                assert [seat.member for seat in following.seats] == MEMBERS[1:]
                assert following.epoch > form.epoch

    with serving(token, *RULE) as (process, told):
        address = told["listening"]
        run(begin(address))
        process.kill()
        process.wait(DEADLINE_S)
    with serving(token, *RULE, listen=address):
        run(go_on(address))
