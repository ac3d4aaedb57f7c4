"""Notices into envelopes, one per host and notice, each made once. Forms go as differences where that can be."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping

from pycomms.ft.coordinator.outbox import Outbox
from pycomms.ft.coordinator.tally import Tally
from pycomms.ft.core.messages import EpochId, Form, MemberId, Notice
from pycomms.ft.core.rule import Outgoing
from pycomms.ft.wire import delta, encode
from pycomms.ft.wire.codec import encode_to

_KEPT = 3  # Forms: the next one follows one of these


class Delivery:
    """outboxes: of the hosts that are attached. Who is not announces himself when he is, and is told then."""

    def __init__(self, outboxes: Mapping[str, Outbox], tally: Tally) -> None:
        self._outboxes = outboxes
        self._tally = tally
        self._forms: OrderedDict[EpochId, Form] = OrderedDict()

    def deliver(self, outgoing: Iterable[Outgoing]) -> None:
        """In this order, as far as one host is concerned."""
        shares: dict[tuple[int, str], list[str]] = {}  # notice and host → nonces
        notices: dict[int, Notice] = {}
        for one in outgoing:
            host = one.to.host if isinstance(one.to, MemberId) else one.to
            if host in self._outboxes:
                notices[id(one.notice)] = one.notice
                nonces = shares.setdefault((id(one.notice), host), [])
                if isinstance(one.to, MemberId):
                    nonces.append(one.to.nonce)
        bodies: dict[tuple[int, bool], bytes | None] = {}
        for (key, host), nonces in shares.items():
            self._share(self._outboxes[host], notices[key], tuple(nonces), bodies)
        for notice in notices.values():
            if isinstance(notice, Form):
                self._keep(notice)

    def send_whole(self, member: MemberId, epoch: EpochId) -> None:
        """To a member for which the difference was of no use."""
        outbox, form = self._outboxes.get(member.host), self._forms.get(epoch)
        if outbox is not None and form is not None:
            self._put(outbox, form, (member.nonce,), encode(form))

    def _share(
        self,
        outbox: Outbox,
        notice: Notice,
        nonces: tuple[str, ...],
        bodies: dict[tuple[int, bool], bytes | None],
    ) -> None:
        if not isinstance(notice, Form):
            self._put(outbox, notice, nonces, self._body(notice, False, bodies))
            return
        before = notice.previous
        knowing = [] if before is None else [nonce for nonce in nonces if outbox.told.get(nonce) == before]
        difference = self._body(notice, True, bodies) if knowing else None
        others = nonces
        if difference is not None:
            self._put(outbox, notice, tuple(knowing), difference)
            others = tuple(nonce for nonce in nonces if nonce not in knowing)
        if others:
            self._put(outbox, notice, others, self._body(notice, False, bodies))
        for nonce in nonces:
            outbox.has_told(nonce, notice.epoch)

    def _body(self, notice: Notice, as_difference: bool, bodies: dict[tuple[int, bool], bytes | None]) -> bytes | None:
        key = (id(notice), as_difference)
        if key not in bodies:
            bodies[key] = self._difference(notice) if as_difference else encode(notice)
        return bodies[key]

    def _difference(self, form: Notice) -> bytes | None:
        assert isinstance(form, Form)
        before = self._forms.get(form.previous) if form.previous else None
        found = delta(before, form) if before else None
        return encode(found) if found else None

    def _put(self, outbox: Outbox, notice: Notice, nonces: tuple[str, ...], body: bytes | None) -> None:
        assert body is not None
        to = encode_to(nonces)
        if outbox.put(body, to):
            self._tally.sent[type(notice).__name__] += 1
            self._tally.bytes_sent += len(to) + len(body)
        else:
            self._tally.overflows += 1

    def _keep(self, form: Form) -> None:
        self._forms[form.epoch] = form
        self._forms.move_to_end(form.epoch)
        while len(self._forms) > _KEPT:
            self._forms.popitem(last=False)
