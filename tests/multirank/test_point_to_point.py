"""send and recv: matching by peer and tag, any source, to oneself in a batch, many in flight, beside collectives."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

from ._errors import Caught, needed
from ._harness import Ranks, context


def check_tags_out_of_order(rank: int, world: int, count: int) -> None:
    tags = list(range(8))
    if rank == 0:
        works = [dist.isend(torch.full((count,), float(tag)), 1, tag=tag) for tag in tags]
        for work in works:
            assert work is not None
            work.wait()
    elif rank == 1:
        for tag in reversed(tags):
            tensor = torch.empty(count)
            assert dist.recv(tensor, 0, tag=tag) == 0
            assert torch.equal(tensor, torch.full((count,), float(tag))), tag


@pytest.mark.parametrize("count", [1, 5000, 1 << 20])
def test_tags_may_come_in_any_order(ranks: Ranks, count: int) -> None:
    ranks.run(check_tags_out_of_order, count, world=2)


def check_same_tag_keeps_order(rank: int, world: int) -> None:
    sizes = [7, 100_000, 1, 0, 3000, 300_000, 2]
    if rank == 0:
        works = [dist.isend(torch.full((size,), float(n)), 1) for n, size in enumerate(sizes)]
    else:
        out = [torch.empty(size) for size in sizes]
        works = [dist.irecv(tensor, 0) for tensor in out]
    for work in works:
        assert work is not None
        work.wait()
    if rank == 1:
        for n, tensor in enumerate(out):
            assert torch.equal(tensor, torch.full((sizes[n],), float(n))), n


@pytest.mark.nccl2_only("gloo does not finish a send of nothing")
def test_one_tag_keeps_the_order_of_the_sender(ranks: Ranks) -> None:
    ranks.run(check_same_tag_keeps_order, world=2)


def check_any_source(rank: int, world: int, rounds: int) -> None:
    if rank == 0:
        seen = []
        for _ in range(rounds * (world - 1)):
            tensor = torch.empty(100)
            source = dist.recv(tensor)
            assert torch.equal(tensor, torch.full((100,), float(source)))
            seen.append(source)
        assert sorted(seen) == sorted(list(range(1, world)) * rounds)
    else:
        for _ in range(rounds):
            dist.send(torch.full((100,), float(rank)), 0)
    dist.barrier()


@pytest.mark.parametrize("world", [2, 3, 4])
def test_any_source(ranks: Ranks, world: int) -> None:
    ranks.run(check_any_source, 20, world=world)


def check_any_source_with_tag(rank: int, world: int) -> None:
    """A receive for one tag leaves the messages of the others."""
    if rank == 0:
        for tag in (5, 3):
            for _ in range(world - 1):
                tensor = torch.empty(4)
                dist.recv(tensor, tag=tag)
                assert tensor[0] == tag
    else:
        works = [dist.isend(torch.full((4,), float(tag)), 0, tag=tag) for tag in (3, 5)]
        for work in works:
            assert work is not None
            work.wait()


def test_any_source_honours_tags(ranks: Ranks) -> None:
    ranks.run(check_any_source_with_tag, world=3)


def check_self_send(rank: int, world: int, count: int) -> None:
    out = torch.empty(count)
    mine = torch.full((count,), float(rank))
    ring = torch.empty(count)
    ops = [dist.P2POp(dist.isend, mine, rank), dist.P2POp(dist.irecv, out, rank)]
    if world > 1:
        ops.append(dist.P2POp(dist.isend, mine, (rank + 1) % world))
        ops.append(dist.P2POp(dist.irecv, ring, (rank - 1) % world))
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    assert torch.equal(out, mine)
    if world > 1:
        assert torch.equal(ring, torch.full((count,), float((rank - 1) % world)))


@pytest.mark.nccl2_only("gloo cannot send to itself")
@pytest.mark.parametrize("count", [1, 1 << 20])
@pytest.mark.parametrize("world", [1, 2, 3])
def test_a_batch_may_send_to_itself(ranks: Ranks, world: int, count: int) -> None:
    ranks.run(check_self_send, count, world=world)


def check_beside_collectives(rank: int, world: int) -> None:
    """A receive that waits does not hold up collectives, and the other way round."""
    out = torch.empty(1 << 18)
    receive = dist.irecv(out, (rank - 1) % world)
    assert receive is not None
    for _ in range(5):
        assert not receive.is_completed()
        tensor = torch.ones(1 << 18)
        dist.all_reduce(tensor)
        assert tensor[0] == world
    pending = dist.all_reduce(torch.ones(1 << 20), async_op=True)
    assert pending is not None
    send = dist.isend(torch.full((1 << 18,), float(rank)), (rank + 1) % world)
    assert send is not None
    for work in (receive, pending, send):
        work.wait()
    assert torch.equal(out, torch.full((1 << 18,), float((rank - 1) % world)))
    dist.barrier()


@pytest.mark.parametrize("world", [2, 3])
def test_point_to_point_is_independent_of_collectives(ranks: Ranks, world: int) -> None:
    ranks.run(check_beside_collectives, world=world)


def check_large_both_ways(rank: int, world: int) -> None:
    """Two blocking sends that cross, each larger than any buffer: only possible when receives were posted before."""
    count = 8 << 20
    out = torch.empty(count)
    receive = dist.irecv(out, 1 - rank)
    assert receive is not None
    dist.send(torch.full((count,), float(rank)), 1 - rank)
    receive.wait()
    assert torch.equal(out, torch.full((count,), float(1 - rank)))


def test_large_messages_cross(ranks: Ranks) -> None:
    ranks.run(check_large_both_ways, world=2)


def check_count_disagrees(rank: int, world: int) -> Caught:
    dist.all_reduce(torch.ones(1))
    if rank == 1:
        return needed(lambda: dist.recv(torch.ones(10), 0))

    def send_and_go_on() -> None:
        """A small message is out of the sender's hands before the receiver sees it: the next call tells."""
        dist.send(torch.ones(20), 1)
        dist.all_reduce(torch.ones(1))

    return needed(send_and_go_on)


@pytest.mark.nccl2_only("gloo ends the process group with a broken connection")
def test_send_and_recv_of_different_sizes_are_a_mismatch(ranks: Ranks) -> None:
    answers = ranks.run(check_count_disagrees, world=2, group_timeout=5.0)
    for rank, caught in enumerate(answers):
        assert caught.kind == "CollectiveMismatch", f"rank {rank}: {caught}"
        assert "20" in caught.text, caught.text
        assert "10" in caught.text, caught.text


def check_recv_of_a_silent_peer(rank: int, world: int) -> Caught | None:
    dist.all_reduce(torch.ones(1))
    if rank == 1:
        context().await_signpost("raised")
        return None
    caught = needed(lambda: dist.recv(torch.ones(10), 1))
    context().signpost("raised")
    return caught


@pytest.mark.nccl2_only("gloo does not name the peer")
def test_recv_has_a_deadline(ranks: Ranks) -> None:
    caught = ranks.run(check_recv_of_a_silent_peer, world=2, group_timeout=1.0)[0]
    assert caught.kind == "CollectiveTimeout", caught
    assert caught.ranks == (1,), caught
    assert "recv" in caught.text
