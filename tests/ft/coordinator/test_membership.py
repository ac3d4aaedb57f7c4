"""Hosts attach and members form epochs: what the core decides reaches whom it is for, once a host."""

from __future__ import annotations

from pycomms.ft.core.messages import Change, Died, Form, Refused, Verdict
from pycomms.ft.wire import FormDelta, Message, SendWhole

from ._jobs import Host, announce, coordinator, formed, member, ready, run

NORTH = [member("north", number) for number in range(3)]
SOUTH = [member("south", 0)]


def test_a_death_becomes_an_epoch_of_the_survivors() -> None:
    async def test() -> None:
        async with coordinator(3) as it, Host(it.address) as north, Host(it.address, "south") as south:
            first = await formed([north, south], NORTH[:2] + SOUTH)
            assert [seat.member for seat in first.seats] == NORTH[:2] + SOUTH
            await north.say(Died(member=NORTH[0], how="signal 9 (SIGKILL)"))
            for host in (north, south):
                assert (await host.expect(Change)).died == {NORTH[0]: "signal 9 (SIGKILL)"}
            await north.say(ready(NORTH[1], first))
            await south.say(ready(SOUTH[0], first))
            second = await north.expect(Form)
            assert await south.expect(Form) == second
            assert [seat.member for seat in second.seats] == [NORTH[1], *SOUTH]
            assert second.epoch > first.epoch
            counts = it.snapshot().counts
            assert (counts.deaths, counts.forms, counts.changes) == (1, 2, 1)

    run(test())


def test_a_host_is_told_once_for_all_its_members() -> None:
    async def test() -> None:
        async with coordinator(3) as it, Host(it.address) as north:
            for slot, who in enumerate(NORTH):
                await north.say(announce(who, slot))
            form, to = await north.hear()
            assert isinstance(form, Form)
            assert to == tuple(who.nonce for who in NORTH)
            assert it.snapshot().counts.sent == {"Form": 1}

    run(test())


def test_survivors_get_the_difference_and_newcomers_the_whole() -> None:
    async def test() -> None:
        async with coordinator(3) as it, Host(it.address) as north:
            first = await formed([north], NORTH)
            await north.say(Died(member=NORTH[2], how="x"))
            await north.expect(Change)
            newcomer = member("north", 3)
            await north.say(announce(newcomer, 2))
            for who in NORTH[:2]:
                await north.say(ready(who, first))
            told: dict[tuple[str, ...], Message] = {}
            while len(told) < 2:
                envelope = await north.read()
                if isinstance(envelope.message, (Form, FormDelta)):
                    told[envelope.to] = envelope.message
            assert isinstance(told["north-0", "north-1"], FormDelta)
            form = told["north-3",]
            assert isinstance(form, Form)
            await north.say(SendWhole(member=NORTH[0], epoch=form.epoch))
            again = await north.read()
            assert (again.message, again.to) == (form, ("north-0",))

    run(test())


def test_a_connection_that_is_new_is_told_whole_forms() -> None:
    async def test() -> None:
        async with coordinator(2) as it, Host(it.address) as north, Host(it.address, "south") as south:
            first = await formed([north, south], [NORTH[0], SOUTH[0]])
            await south.close()
            async with Host(it.address, "south", instance=south.instance) as back:
                where = first.seats[1]
                await back.say(announce(SOUTH[0], 1, epoch=first.epoch, handle=where.handle))
                await north.say(ready(NORTH[0], first))
                await back.expect(Change)
                await back.say(ready(SOUTH[0], first))
                while isinstance((envelope := await back.read()).message, Change):
                    pass  # told again, if the coordinator has heard of it later than of the other's end
                assert isinstance(envelope.message, Form)
                assert isinstance((await north.read()).message, (Change, FormDelta))

    run(test())


def test_a_member_that_is_no_longer_in_is_fenced() -> None:
    async def test() -> None:
        async with coordinator(2) as it, Host(it.address) as north:
            first = await formed([north], NORTH[:2])
            await north.say(Died(member=NORTH[0], how="x"))
            await north.say(ready(NORTH[0], first))
            assert (await north.expect(Refused)).verdict is Verdict.STALE

    run(test())
