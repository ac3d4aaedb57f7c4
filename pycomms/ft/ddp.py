"""DistributedDataParallel whose members may come and go.

Annotations are not strings here: torch looks at those of a hook.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch._C._distributed_c10d import GradBucket
from torch.nn.parallel import DistributedDataParallel as TorchDDP

from pycomms.ft._own_groups import lone_backend, untold_group
from pycomms.ft._reduction import Latch

_REFUSED = ("process_group", "device_mesh", "find_unused_parameters", "static_graph", "init_sync")


class DistributedDataParallel(TorchDDP):
    """torch's DDP for a :class:`pycomms.ft.Session`: averages gradients over whoever is in, while the backward pass
    goes on.

    Its own group is of this process alone, so nothing in it asks for members to do something together but the hook that
    sums the buckets over the session's group. Buckets keep the layout that they begin with (torch makes them anew
    after the first step, which members that join later would do at another time). Buffers are each member's own; the
    session restores them for newcomers. Until a session has it, gradients are those of this member.

    Args:
        module: what is trained.
        kwargs: of torch's, but for process_group, device_mesh, find_unused_parameters, static_graph and init_sync.

    Raises:
        ValueError: one of these was given.
    """

    def __init__(self, module: nn.Module, **kwargs: Any) -> None:
        refused = [name for name in _REFUSED if name in kwargs]
        if refused:
            raise ValueError(
                f"ft.DistributedDataParallel: {', '.join(refused)} cannot be chosen: the session decides it"
            )
        super().__init__(module, process_group=untold_group(lone_backend()), find_unused_parameters=True, **kwargs)
        self._reduction = _Reduction()
        self.register_comm_hook(self._reduction, _sum_over_session)

    def aim(self, group: dist.ProcessGroup, latch: Latch, divisor: int) -> None:
        """Called by the session at each step: what the gradients of its backward passes are summed over.

        Raises:
            ValueError: some member would have no backward pass, and the others would wait for its gradients.
        """
        if divisor < group.size():
            raise ValueError(
                f"ft.DistributedDataParallel: a step of {divisor} micro-batches has none for some of {group.size()} "
                "members; give Session more micro_batches"
            )
        self._reduction.aim(group, latch, divisor)
        self.require_backward_grad_sync = True

    def reduces_next(self, is_last: bool) -> None:
        """Called by the session for each micro-batch: gradients gather until the last one's backward pass."""
        self.require_backward_grad_sync = is_last


class _Reduction:
    """What the hook sums over; set by the session at each step."""

    def __init__(self) -> None:
        self.group: dist.ProcessGroup | None = None
        self.latch = Latch()
        self.divisor = 1

    def aim(self, group: dist.ProcessGroup, latch: Latch, divisor: int) -> None:
        self.group, self.latch, self.divisor = group, latch, divisor


def _sum_over_session(reduction: _Reduction, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """A failure is latched and the bucket left as it is: DDP must see its reduction end."""
    tensor = bucket.buffer()
    done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    if reduction.group is None or reduction.latch.error is not None:
        done.set_result(tensor)
        return done
    try:
        work = reduction.group.allreduce([tensor])
    except Exception as err:
        reduction.latch.keep(err)
        done.set_result(tensor)
        return done

    def average(future: torch.futures.Future[Any]) -> torch.Tensor:
        try:
            future.wait()
            tensor.div_(reduction.divisor)
        except Exception as err:
            reduction.latch.keep(err)
        return tensor

    averaged: torch.futures.Future[torch.Tensor] = work.get_future().then(average)
    return averaged
