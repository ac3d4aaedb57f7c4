"""The faults that there are: one table, which the parser, the list for users and the controller read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

Value = str | float | int | bool | list[int]


class Effect(Enum):
    """What a fault does to a job that deserves no blame for it."""

    DEATH = "death"  # the process ends: another one has to take its place
    STALL = "stall"  # it stands still: it goes on in time, or is replaced
    SLOW = "slow"  # it lags behind; nobody may die of that
    PROGRAM = "program"  # it does something else than the others: all have to be told, on the spot
    DATA = "data"  # its numbers are wrong
    NETWORK = "network"  # others do not hear of it for a while
    SERVICE = "service"  # coordinator or agent: workers train on
    RESOURCE = "resource"  # what it wants to open or write fails
    CLOCK = "clock"  # its time of day is wrong; nobody may die of that


class Form(Enum):
    """What the value of a setting has to be."""

    SECONDS = "seconds, 0 or more"
    COUNT = "a whole number, 0 or more"
    SHARE = "a number above 0, up to 1"
    FLAG = "true or false"
    CHOICE = "one of"
    RANKS = "a list of ranks"


@dataclass(frozen=True, kw_only=True)
class Setting:
    name: str
    form: Form
    default: Value
    what: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of fault.

    Attributes:
        inside: carried out by the process itself; otherwise by the controller, from outside.
        on_operation: concerns the operation at which it is triggered, so it needs one.
        in_program: happens in the thread that trains, which is in no operation then: it cannot be inside of one.
        on_service: may also be done to the coordinator or the agent.
        on_both_sides: one of its ranks comes to it, and all of them suffer, and `others` as well.
        on_emulator: of a GPU or of NCCL, both emulated.
    """

    name: str
    effect: Effect
    what: str
    settings: tuple[Setting, ...] = ()
    inside: bool = True
    on_operation: bool = False
    in_program: bool = False
    on_service: bool = False
    on_both_sides: bool = False
    on_emulator: bool = False


_FOR = Setting(name="for", form=Form.SECONDS, default=1.0, what="how long; 0: for good")
_SIDE = Setting(
    name="side",
    form=Form.CHOICE,
    default="input",
    choices=("input", "output"),
    what="input: before the operation, as if this rank had computed it; output: what the operation has given it",
)
_PEERS = Setting(name="peers", form=Form.RANKS, default=[], what="connections to these ranks only; empty: to all")

_STORE = Setting(
    name="store",
    form=Form.FLAG,
    default=False,
    what="true: only its connection to the store at MASTER_PORT, by which ranks find each other",
)

KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            name="kill",
            effect=Effect.DEATH,
            what="ends by a signal",
            settings=(
                Setting(
                    name="signal",
                    form=Form.CHOICE,
                    default="SIGKILL",
                    choices=("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"),
                    what="which",
                ),
            ),
            inside=False,
            on_service=True,
        ),
        Kind(
            name="exit",
            effect=Effect.DEATH,
            what="ends at once, without any clean-up (os._exit)",
            settings=(Setting(name="code", form=Form.COUNT, default=1, what="exit code"),),
        ),
        Kind(name="exception", effect=Effect.DEATH, what="an exception that nobody catches", in_program=True),
        Kind(name="segfault", effect=Effect.DEATH, what="reads memory that is not there"),
        Kind(name="abort", effect=Effect.DEATH, what="C's abort()"),
        Kind(name="oom", effect=Effect.DEATH, what="wants more than a limit gives: MemoryError", in_program=True),
        Kind(
            name="freeze",
            effect=Effect.STALL,
            what="is stopped (SIGSTOP), and goes on later (SIGCONT)",
            settings=(_FOR,),
            inside=False,
            on_service=True,
        ),
        Kind(
            name="hang",
            effect=Effect.STALL,
            in_program=True,
            what="user code does not come back",
            settings=(
                Setting(name="for", form=Form.SECONDS, default=0.0, what="how long; 0: for good"),
                Setting(name="gil", form=Form.FLAG, default=False, what="true: it keeps Python's lock"),
            ),
        ),
        Kind(
            name="slow",
            effect=Effect.SLOW,
            what="each operation begins late",
            settings=(_FOR, Setting(name="delay", form=Form.SECONDS, default=0.01, what="how late")),
        ),
        Kind(
            name="starve",
            # Whoever watches for stopped processes may take it for one, where the machine is late to continue it.
            effect=Effect.STALL,
            what="runs in slices only: stopped and continued by turns",
            settings=(
                _FOR,
                Setting(name="share", form=Form.SHARE, default=0.5, what="of the time that it runs"),
                Setting(name="period", form=Form.SECONDS, default=0.02, what="one turn"),
            ),
            inside=False,
        ),
        Kind(name="skip", effect=Effect.PROGRAM, what="leaves the operation out", on_operation=True),
        Kind(name="repeat", effect=Effect.PROGRAM, what="does the operation twice", on_operation=True),
        Kind(
            name="swap",
            effect=Effect.PROGRAM,
            what="does a barrier first: operations in another order",
            on_operation=True,
        ),
        Kind(name="shape", effect=Effect.PROGRAM, what="gives one element too few", on_operation=True),
        Kind(name="dtype", effect=Effect.PROGRAM, what="gives another type of elements", on_operation=True),
        Kind(name="nan", effect=Effect.DATA, what="one element is NaN", settings=(_SIDE,), on_operation=True),
        Kind(name="inf", effect=Effect.DATA, what="one element is infinite", settings=(_SIDE,), on_operation=True),
        Kind(
            name="bitflip", effect=Effect.DATA, what="one bit is another", settings=(_SIDE,), on_operation=True
        ),
        Kind(
            name="cut",
            effect=Effect.NETWORK,
            what="nothing comes in over TCP: the kernel drops what arrives",
            settings=(_FOR, _PEERS, _STORE),
        ),
        Kind(
            name="partition",
            effect=Effect.NETWORK,
            what="its ranks and others do not hear each other over TCP, nor do those that are started meanwhile",
            settings=(
                _FOR,
                Setting(name="others", form=Form.RANKS, default=[], what="the other side; empty: all but its ranks"),
            ),
            on_both_sides=True,
        ),
        Kind(
            name="loss",
            effect=Effect.NETWORK,
            what="a share of what comes in over TCP is lost",
            settings=(_FOR, Setting(name="share", form=Form.SHARE, default=0.1, what="of the packets"), _PEERS, _STORE),
        ),
        Kind(
            name="limit",
            effect=Effect.NETWORK,
            what="TCP sends so many bytes per second and no more",
            settings=(
                _FOR,
                Setting(name="rate", form=Form.COUNT, default=100_000, what="bytes per second"),
                _PEERS,
                _STORE,
            ),
        ),
        Kind(
            name="delay",
            effect=Effect.NETWORK,
            what="what comes in and goes out over TCP is late",
            settings=(_FOR, Setting(name="delay", form=Form.SECONDS, default=0.05, what="how late, each way"), _PEERS),
        ),
        Kind(
            name="corrupt",
            effect=Effect.DATA,
            what="one bit of what comes in over TCP is another",
            settings=(
                Setting(
                    name="part",
                    form=Form.CHOICE,
                    default="payload",
                    choices=("payload", "header"),
                    what="payload: amid the next long message; header: at the beginning of the next one",
                ),
                _PEERS,
            ),
        ),
        Kind(name="reset", effect=Effect.NETWORK, what="TCP connections are ended", settings=(_PEERS, _STORE)),
        Kind(
            name="gpu-late",
            effect=Effect.SLOW,
            what="each piece of work of its GPU begins late",
            settings=(_FOR, Setting(name="delay", form=Form.SECONDS, default=0.001, what="how late")),
            on_emulator=True,
        ),
        Kind(
            name="gpu-error",
            effect=Effect.DEATH,
            what="its GPU is broken: every call from now on returns an error",
            on_emulator=True,
        ),
        Kind(
            name="nccl-stuck",
            effect=Effect.STALL,
            what="its NCCL does not come to an end any more",
            settings=(
                Setting(
                    name="where",
                    form=Form.CHOICE,
                    default="call",
                    choices=("call", "stream", "making", "splitting"),
                    what="call: the next operation stays in progress; stream: it never ends there; making, splitting: "
                    "the next of a communicator",
                ),
            ),
            on_emulator=True,
        ),
        Kind(
            name="no-dumps",
            effect=Effect.RESOURCE,
            what="the flight recorder cannot write its dumps",
            settings=(_FOR,),
        ),
        Kind(
            name="no-room",
            effect=Effect.RESOURCE,
            what="neither files nor shared memory can grow any more (RLIMIT_FSIZE), nor of what it starts",
            settings=(_FOR,),
            inside=False,
            on_service=True,
        ),
        Kind(
            name="no-folder",
            effect=Effect.RESOURCE,
            what="a file is where a folder was: of all workers' records, the agent's logs or the coordinator's state",
            settings=(_FOR,),
            inside=False,
            on_service=True,
        ),
        Kind(
            name="clock",
            effect=Effect.CLOCK,
            what="the time of day jumps, as Python's time.time() says it",
            settings=(
                Setting(name="for", form=Form.SECONDS, default=0.0, what="how long; 0: for good"),
                Setting(name="by", form=Form.SECONDS, default=3600.0, what="how far"),
                Setting(name="back", form=Form.FLAG, default=False, what="true: backwards"),
                Setting(
                    name="host",
                    form=Form.FLAG,
                    default=False,
                    what="true: for all processes of the job, those too that are started later",
                ),
            ),
            inside=False,
            on_service=True,
        ),
        Kind(
            name="descriptors",
            effect=Effect.RESOURCE,
            what="no file or socket can be opened any more (RLIMIT_NOFILE)",
            settings=(_FOR, Setting(name="left", form=Form.COUNT, default=0, what="how many can")),
        ),
    )
}  # fmt: skip

SERVICES = ("coordinator", "agent")

OPERATIONS = (
    "all_reduce", "broadcast", "reduce", "all_gather", "all_gather_into_tensor", "reduce_scatter",
    "reduce_scatter_tensor", "all_to_all", "all_to_all_single", "gather", "scatter", "barrier", "monitored_barrier",
    "send", "recv", "isend", "irecv", "all_gather_object", "gather_object", "broadcast_object_list",
    "scatter_object_list", "batch_isend_irecv", "init_process_group", "new_group", "destroy_process_group",
)  # fmt: skip
"""Of torch.distributed, by its names; "any" is all of them."""

POINTS = {
    "joining": "it is about to announce itself",
    "regrouping": "an epoch was announced, and its group is about to be made",
    "serving": "it has the state, and gives a newcomer a part of it",
    "fetching": "it is about to fetch the state",
    "loading": "it has fetched the state, and is about to overwrite its own",
    "settled": "it is about to train in the new group",
    "step": "a step begins",
    "reduced": "the gradients of all are here",
    "voted": "it is about to say that it can commit",
    "decided": "all have said so, and it has not yet taken the step",
    "committed": "it has taken the step",
    "standing": "a failure was noticed, or it was asked to stop",
    "closing": "no step is left, and it is about to say so",
    "done": "all have said so",
}
"""Of a session of pycomms.ft."""
