"""Works and futures: when they complete, what they hold, who may wait for them, and which threads callbacks run on."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _get_default_group

from pycomms import rma

from ._errors import Caught, needed
from ._harness import Ranks, context

_WAIT_S = 30.0


def _sum(world: int) -> float:
    return float(world * (world + 1) // 2)


def _started(rank: int, count: int = 1000) -> tuple[torch.Tensor, Any]:
    tensor = torch.full((count,), float(rank + 1))
    work = dist.all_reduce(tensor, async_op=True)
    assert work is not None
    return tensor, work


def check_work_of_one_rank(rank: int, world: int) -> None:
    """Rank 0 looks at its work before and after the others come."""
    if rank == 0:
        tensor, work = _started(rank)
        assert not work.is_completed()
        assert not work.get_future().done()
        context().signpost("seen")
    else:
        context().await_signpost("seen")
        tensor, work = _started(rank)
    assert work.wait() is True
    assert work.is_completed()
    assert work.is_success()
    assert work.exception() is None
    assert tensor[0] == _sum(world)
    (result,) = work.result()
    assert result.data_ptr() == tensor.data_ptr()
    work.wait()  # again


@pytest.mark.needs_torch("2.13", "Work.exception() in Python")
@pytest.mark.parametrize("world", [1, 2, 4])
def test_a_work_completes_when_all_have_come(ranks: Ranks, world: int) -> None:
    ranks.run(check_work_of_one_rank if world > 1 else check_work_alone, world=world)


def check_work_alone(rank: int, world: int) -> None:
    tensor, work = _started(rank)
    work.wait()
    assert work.is_completed()
    assert work.is_success()
    assert tensor[0] == 1


def check_future(rank: int, world: int) -> None:
    tensor, work = _started(rank)
    doubled = work.get_future().then(lambda future: future.value()[0] * 2)
    tripled = doubled.then(lambda future: future.value() * 1.5)
    assert torch.equal(doubled.wait(), tensor * 2)
    assert tripled.wait()[0] == _sum(world) * 3
    assert work.get_future().done()


@pytest.mark.parametrize("world", [1, 2, 4])
def test_callbacks_are_chained(ranks: Ranks, world: int) -> None:
    ranks.run(check_future, world=world)


def check_callback_that_communicates(rank: int, world: int) -> None:
    """A callback may itself use the group's objects and take its time: it runs under none of our locks."""
    _, work = _started(rank)
    called = threading.Event()

    def callback(future: torch.futures.Future[Any]) -> int:
        assert future.value()[0][0] == _sum(world)
        _get_default_group().size()
        called.set()
        return 7

    chained = work.get_future().then(callback)
    work.wait()
    assert chained.wait() == 7
    assert called.is_set()
    tensor, _ = _started(rank)
    dist.barrier()
    assert tensor[0] == _sum(world)


@pytest.mark.parametrize("world", [2, 3])
def test_callbacks_run_without_locks(ranks: Ranks, world: int) -> None:
    ranks.run(check_callback_that_communicates, world=world)


def check_callback_that_fails(rank: int, world: int) -> Caught:
    _, work = _started(rank)

    def callback(future: torch.futures.Future[Any]) -> None:
        raise ZeroDivisionError("in the callback")

    chained = work.get_future().then(callback)
    work.wait()
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    assert tensor[0] == world
    return needed(chained.wait)


def test_a_failing_callback_harms_nobody_else(ranks: Ranks) -> None:
    for caught in ranks.run(check_callback_that_fails, world=2):
        assert "in the callback" in caught.text


def check_wait_in_other_threads(rank: int, world: int) -> None:
    """Several threads wait for one work; the operation is issued by a thread that has ended by then."""
    with ThreadPoolExecutor(1) as issuer:
        tensor, work = issuer.submit(_started, rank).result(_WAIT_S)
    with ThreadPoolExecutor(4) as waiters:
        waits = [waiters.submit(work.wait) for _ in range(4)]
        assert all(wait.result(_WAIT_S) for wait in waits)
    assert tensor[0] == _sum(world)


@pytest.mark.parametrize("world", [1, 2, 3])
def test_any_thread_may_wait(ranks: Ranks, world: int) -> None:
    ranks.run(check_wait_in_other_threads, world=world)


def check_waiting_releases_the_gil(rank: int, world: int) -> None:
    """While rank 0 is blocked its other Python threads run: it is one of them that lets the others come."""
    if rank == 0:
        freed = threading.Event()

        def let_the_others_come() -> None:
            freed.wait(_WAIT_S)
            context().signpost("come")

        helper = threading.Thread(target=let_the_others_come)
        helper.start()
        work = dist.all_reduce(torch.ones(10), async_op=True)
        assert work is not None
        freed.set()
        work.wait()
        helper.join(_WAIT_S)
        dist.all_reduce(torch.ones(10))
    else:
        context().await_signpost("come")
        dist.all_reduce(torch.ones(10))
        dist.all_reduce(torch.ones(10))


def test_a_blocked_wait_lets_other_threads_run(ranks: Ranks) -> None:
    ranks.run(check_waiting_releases_the_gil, world=2)


def check_many_in_flight(rank: int, world: int) -> None:
    started = [_started(rank, count) for count in (1, 10, 100_000, 3, 50_000) * 20]
    for tensor, work in reversed(started):
        work.wait()
        assert torch.equal(tensor, torch.full_like(tensor, _sum(world)))


@pytest.mark.parametrize("world", [2, 4])
def test_works_may_be_waited_for_in_any_order(ranks: Ranks, world: int) -> None:
    ranks.run(check_many_in_flight, world=world)


def check_coalesced_block(rank: int, world: int, rounds: int) -> None:
    """One work for a block of all kinds of operations: when it is done, all of them are."""
    group: Any = _get_default_group()
    cpu = torch.device("cpu")
    for number in range(rounds):
        count = 1 + 4000 * number
        mine = torch.full((count,), float(rank + 1))
        summed, sent, received = mine.clone(), mine.clone(), torch.empty(count)
        copied, gathered, exchanged = mine.clone(), torch.empty(count * world), torch.empty(world * count)
        group._start_coalescing(cpu)
        group.allreduce([summed])
        group.send([sent], (rank + 1) % world, 0)
        group.recv([received], (rank - 1) % world, 0)
        group.broadcast(copied, world - 1)
        group._allgather_base(gathered, mine)
        group.alltoall_base(exchanged, mine.repeat(world), [], [])
        group._end_coalescing(cpu).wait()
        in_order = torch.arange(1.0, world + 1).repeat_interleave(count)
        assert torch.equal(summed, torch.full((count,), _sum(world)))
        assert torch.equal(received, torch.full((count,), float((rank - 1) % world + 1)))
        assert torch.equal(copied, torch.full((count,), float(world)))
        assert torch.equal(gathered, in_order)
        assert torch.equal(exchanged, in_order)


@pytest.mark.nccl2_only("gloo does not coalesce")
@pytest.mark.parametrize("world", [2, 3])
def test_the_work_of_a_coalesced_block_covers_all_of_it(ranks: Ranks, world: int) -> None:
    ranks.run(check_coalesced_block, 20, world=world)


def check_duration(rank: int, world: int) -> float:
    group: Any = _get_default_group()
    group._enable_collectives_timing()
    _, work = _started(rank, 1 << 20)
    work.wait()
    return float(work._get_duration())


@pytest.mark.nccl2_only("gloo does not time its works")
def test_duration_is_measured_in_ms(ranks: Ranks) -> None:
    for duration in ranks.run(check_duration, world=2):
        assert 0.0 < duration < 10_000.0


def check_failed_work(rank: int, world: int) -> tuple[Caught, Caught, Caught]:
    tensor = torch.ones(10 + rank)  # the ranks disagree
    work = dist.all_reduce(tensor, async_op=True)
    assert work is not None
    first = needed(work.wait)
    assert work.is_completed()
    assert not work.is_success()
    error = work.exception()
    assert error is not None
    again = needed(work.wait)
    through_future = needed(work.get_future().wait)
    return first, again, through_future


@pytest.mark.needs_torch("2.13", "Work.exception() in Python")
@pytest.mark.nccl2_only("gloo does not notice the disagreement")
def test_a_failed_work_never_says_success(ranks: Ranks) -> None:
    for errors in ranks.run(check_failed_work, world=2):
        assert [caught.kind for caught in errors[:2]] == ["CollectiveMismatch"] * 2, errors
        assert "all_reduce" in errors[2].text, errors[2]


def check_failed_work_after_a_refusal(rank: int, world: int) -> tuple[Caught, Caught, Caught]:
    """The engine keeps what it last refused, for each thread: it must not be taken for the reason of anything else."""
    win = rma.Window(torch.zeros(4, dtype=torch.int16))
    needed(lambda: win.accumulate(torch.ones(1, dtype=torch.int16), 1 - rank))
    win.close()
    return check_failed_work(rank, world)


@pytest.mark.needs_torch("2.13", "Work.exception() in Python")
@pytest.mark.nccl2_only("gloo does not notice the disagreement")
def test_a_failed_work_is_not_explained_by_an_earlier_refusal(ranks: Ranks) -> None:
    for errors in ranks.run(check_failed_work_after_a_refusal, world=2):
        assert [caught.kind for caught in errors[:2]] == ["CollectiveMismatch"] * 2, errors


def check_future_result(rank: int, world: int) -> Any:
    _, work = _started(rank)
    work.wait()
    return int(work.get_future_result().wait())


@pytest.mark.nccl2_only("gloo has no future of the result's kind")
def test_future_result_tells_success(ranks: Ranks) -> None:
    assert ranks.run(check_future_result, world=2) == [0, 0]  # WorkResult.SUCCESS


def check_sequence_numbers(rank: int, world: int) -> tuple[int, int]:
    group: Any = _get_default_group()
    before = int(group._get_sequence_number_for_group())
    for _ in range(3):
        dist.all_reduce(torch.ones(1))
    return before, int(group._get_sequence_number_for_group())


@pytest.mark.needs_torch("2.14", "the sequence number of a group of ours")
@pytest.mark.parametrize("world", [1, 3])
def test_sequence_numbers_count_collectives(ranks: Ranks, world: int) -> None:
    answers = ranks.run(check_sequence_numbers, world=world)
    assert len(set(answers)) == 1
    before, after = answers[0]
    assert after == before + 3


def check_timeout_of_one_call(rank: int, world: int) -> Caught | None:
    """The timeout given to one call counts for that call: the group's own is 30 s."""
    if rank == 1:
        context().await_signpost("raised")
        return None
    caught = needed(lambda: dist.barrier(timeout=timedelta(milliseconds=300)))
    context().signpost("raised")
    return caught


@pytest.mark.needs_torch("2.13", "barrier(timeout=...)")
@pytest.mark.nccl2_only("gloo's barrier ignores it on Linux")
def test_a_call_may_bring_its_own_timeout(ranks: Ranks) -> None:
    caught = ranks.run(check_timeout_of_one_call, world=2)[0]
    assert caught.kind == "CollectiveTimeout", caught
    assert caught.seconds() < 2.0


def check_completion_hook(rank: int, world: int) -> list[str]:
    group: Any = _get_default_group()
    seen: list[str] = []
    done = threading.Event()

    def hook(info: Any) -> None:
        seen.append(str(info.op_type))
        if len(seen) == 3:
            done.set()

    group._register_on_completion_hook(hook)
    for _ in range(3):
        work = dist.all_reduce(torch.ones(1), async_op=True)
        assert work is not None
        work.wait()
    group._wait_for_pending_works()
    done.wait(5.0)
    return seen


@pytest.mark.nccl2_only("gloo has no completion hooks")
def test_completion_hooks_are_called(ranks: Ranks) -> None:
    for seen in ranks.run(check_completion_hook, world=2, fresh=True):
        assert len(seen) == 3
        assert all("ALLREDUCE" in op for op in seen), seen


def check_receive_before_what_is_queued(rank: int, world: int, batched: bool) -> None:
    """Rank 0 waits for a receive while a collective of its own is queued that cannot run before it goes on."""
    total, received, sent = torch.ones(4), torch.zeros(3), torch.ones(3)
    for _ in range(50):
        if rank == 0:
            first = dist.all_reduce(total, async_op=True)
            if batched:
                for work in dist.batch_isend_irecv([dist.P2POp(dist.irecv, received, 1)]):
                    work.wait()
            else:
                receive = dist.irecv(received, 1)
                assert receive is not None
                receive.wait()
            dist.send(sent, 1)
            assert first is not None
            first.wait()
        else:
            dist.send(sent, 0)
            dist.recv(received, 0)
            dist.all_reduce(total)


@pytest.mark.parametrize("batched", [False, True])
def test_a_receive_does_not_wait_for_a_queued_collective(ranks: Ranks, batched: bool) -> None:
    ranks.run(check_receive_before_what_is_queued, batched, world=2, group_timeout=10.0)


def check_wait_ends_with_its_own_work(rank: int, world: int) -> None:
    """Rank 0 waits for the first of two collectives; the second cannot run before it goes on."""
    first, second, message = torch.ones(4), torch.ones(4), torch.ones(3)
    for _ in range(1500):
        if rank == 0:
            works = [dist.all_reduce(tensor, async_op=True) for tensor in (first, second)]
            works[0].wait()
            for peer in range(1, world):
                dist.send(message, peer)
            works[1].wait()
        else:
            dist.all_reduce(first)
            dist.recv(message, 0)
            dist.all_reduce(second)


@pytest.mark.parametrize("world", [2, 3])
def test_a_waiter_does_not_run_what_is_behind_its_own_work(ranks: Ranks, world: int) -> None:
    ranks.run(check_wait_ends_with_its_own_work, world=world, group_timeout=10.0)
