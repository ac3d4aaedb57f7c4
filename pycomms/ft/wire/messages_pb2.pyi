from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Standing(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STANDING_UNSPECIFIED: _ClassVar[Standing]
    FRESH: _ClassVar[Standing]
    LOADED: _ClassVar[Standing]
    HOLLOW: _ClassVar[Standing]
    TRAINED: _ClassVar[Standing]

class Verdict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VERDICT_UNSPECIFIED: _ClassVar[Verdict]
    FULL: _ClassVar[Verdict]
    STALE: _ClassVar[Verdict]
    DUPLICATE: _ClassVar[Verdict]
    ENDED: _ClassVar[Verdict]

class Stand(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STAND_UNSPECIFIED: _ClassVar[Stand]
    READY: _ClassVar[Stand]
    RUNNING: _ClassVar[Stand]
    DONE: _ClassVar[Stand]
    FAILED: _ClassVar[Stand]
    LEFT: _ClassVar[Stand]

class JobPhase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOB_UNSPECIFIED: _ClassVar[JobPhase]
    JOB_GATHERING: _ClassVar[JobPhase]
    JOB_RUNNING: _ClassVar[JobPhase]
    JOB_DONE: _ClassVar[JobPhase]
    JOB_FAILED: _ClassVar[JobPhase]
STANDING_UNSPECIFIED: Standing
FRESH: Standing
LOADED: Standing
HOLLOW: Standing
TRAINED: Standing
VERDICT_UNSPECIFIED: Verdict
FULL: Verdict
STALE: Verdict
DUPLICATE: Verdict
ENDED: Verdict
STAND_UNSPECIFIED: Stand
READY: Stand
RUNNING: Stand
DONE: Stand
FAILED: Stand
LEFT: Stand
JOB_UNSPECIFIED: JobPhase
JOB_GATHERING: JobPhase
JOB_RUNNING: JobPhase
JOB_DONE: JobPhase
JOB_FAILED: JobPhase

class Envelope(_message.Message):
    __slots__ = ("to", "hello", "welcome", "announce_again", "send_whole", "form_delta", "announce", "ready", "settled", "progress", "leaving", "died", "beat", "host_report", "change", "form", "refused", "evict", "teach", "job_state")
    TO_FIELD_NUMBER: _ClassVar[int]
    HELLO_FIELD_NUMBER: _ClassVar[int]
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    ANNOUNCE_AGAIN_FIELD_NUMBER: _ClassVar[int]
    SEND_WHOLE_FIELD_NUMBER: _ClassVar[int]
    FORM_DELTA_FIELD_NUMBER: _ClassVar[int]
    ANNOUNCE_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    DIED_FIELD_NUMBER: _ClassVar[int]
    BEAT_FIELD_NUMBER: _ClassVar[int]
    HOST_REPORT_FIELD_NUMBER: _ClassVar[int]
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    FORM_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    EVICT_FIELD_NUMBER: _ClassVar[int]
    TEACH_FIELD_NUMBER: _ClassVar[int]
    JOB_STATE_FIELD_NUMBER: _ClassVar[int]
    to: _containers.RepeatedScalarFieldContainer[str]
    hello: Hello
    welcome: Welcome
    announce_again: AnnounceAgain
    send_whole: SendWhole
    form_delta: FormDelta
    announce: Announce
    ready: Ready
    settled: Settled
    progress: Progress
    leaving: Leaving
    died: Died
    beat: Beat
    host_report: HostReport
    change: Change
    form: Form
    refused: Refused
    evict: Evict
    teach: Teach
    job_state: JobState
    def __init__(self, to: _Optional[_Iterable[str]] = ..., hello: _Optional[_Union[Hello, _Mapping]] = ..., welcome: _Optional[_Union[Welcome, _Mapping]] = ..., announce_again: _Optional[_Union[AnnounceAgain, _Mapping]] = ..., send_whole: _Optional[_Union[SendWhole, _Mapping]] = ..., form_delta: _Optional[_Union[FormDelta, _Mapping]] = ..., announce: _Optional[_Union[Announce, _Mapping]] = ..., ready: _Optional[_Union[Ready, _Mapping]] = ..., settled: _Optional[_Union[Settled, _Mapping]] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ..., leaving: _Optional[_Union[Leaving, _Mapping]] = ..., died: _Optional[_Union[Died, _Mapping]] = ..., beat: _Optional[_Union[Beat, _Mapping]] = ..., host_report: _Optional[_Union[HostReport, _Mapping]] = ..., change: _Optional[_Union[Change, _Mapping]] = ..., form: _Optional[_Union[Form, _Mapping]] = ..., refused: _Optional[_Union[Refused, _Mapping]] = ..., evict: _Optional[_Union[Evict, _Mapping]] = ..., teach: _Optional[_Union[Teach, _Mapping]] = ..., job_state: _Optional[_Union[JobState, _Mapping]] = ...) -> None: ...

class Epoch(_message.Message):
    __slots__ = ("boot", "counter")
    BOOT_FIELD_NUMBER: _ClassVar[int]
    COUNTER_FIELD_NUMBER: _ClassVar[int]
    boot: int
    counter: int
    def __init__(self, boot: _Optional[int] = ..., counter: _Optional[int] = ...) -> None: ...

class Member(_message.Message):
    __slots__ = ("host", "nonce")
    HOST_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    host: str
    nonce: str
    def __init__(self, host: _Optional[str] = ..., nonce: _Optional[str] = ...) -> None: ...

class Position(_message.Message):
    __slots__ = ("committed", "in_doubt", "standing")
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    IN_DOUBT_FIELD_NUMBER: _ClassVar[int]
    STANDING_FIELD_NUMBER: _ClassVar[int]
    committed: int
    in_doubt: int
    standing: Standing
    def __init__(self, committed: _Optional[int] = ..., in_doubt: _Optional[int] = ..., standing: _Optional[_Union[Standing, str]] = ...) -> None: ...

class Seat(_message.Message):
    __slots__ = ("member", "slot", "handle", "position")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    member: Member
    slot: int
    handle: str
    position: Position
    def __init__(self, member: _Optional[_Union[Member, _Mapping]] = ..., slot: _Optional[int] = ..., handle: _Optional[str] = ..., position: _Optional[_Union[Position, _Mapping]] = ...) -> None: ...

class Death(_message.Message):
    __slots__ = ("member", "how")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    HOW_FIELD_NUMBER: _ClassVar[int]
    member: Member
    how: str
    def __init__(self, member: _Optional[_Union[Member, _Mapping]] = ..., how: _Optional[str] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("version", "host", "instance", "nonce", "heard")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    HEARD_FIELD_NUMBER: _ClassVar[int]
    version: int
    host: str
    instance: str
    nonce: str
    heard: int
    def __init__(self, version: _Optional[int] = ..., host: _Optional[str] = ..., instance: _Optional[str] = ..., nonce: _Optional[str] = ..., heard: _Optional[int] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("boot",)
    BOOT_FIELD_NUMBER: _ClassVar[int]
    boot: int
    def __init__(self, boot: _Optional[int] = ...) -> None: ...

class AnnounceAgain(_message.Message):
    __slots__ = ("reason", "with_seats")
    REASON_FIELD_NUMBER: _ClassVar[int]
    WITH_SEATS_FIELD_NUMBER: _ClassVar[int]
    reason: str
    with_seats: bool
    def __init__(self, reason: _Optional[str] = ..., with_seats: _Optional[bool] = ...) -> None: ...

class SendWhole(_message.Message):
    __slots__ = ("member", "epoch")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    member: Member
    epoch: Epoch
    def __init__(self, member: _Optional[_Union[Member, _Mapping]] = ..., epoch: _Optional[_Union[Epoch, _Mapping]] = ...) -> None: ...

class FormDelta(_message.Message):
    __slots__ = ("epoch", "previous", "digest", "gone", "seats", "usual", "moved", "died", "joined", "reason")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    SEATS_FIELD_NUMBER: _ClassVar[int]
    USUAL_FIELD_NUMBER: _ClassVar[int]
    MOVED_FIELD_NUMBER: _ClassVar[int]
    DIED_FIELD_NUMBER: _ClassVar[int]
    JOINED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    epoch: Epoch
    previous: Epoch
    digest: bytes
    gone: _containers.RepeatedScalarFieldContainer[int]
    seats: _containers.RepeatedCompositeFieldContainer[Seat]
    usual: Position
    moved: _containers.RepeatedCompositeFieldContainer[Moved]
    died: _containers.RepeatedCompositeFieldContainer[Death]
    joined: _containers.RepeatedCompositeFieldContainer[Member]
    reason: str
    def __init__(self, epoch: _Optional[_Union[Epoch, _Mapping]] = ..., previous: _Optional[_Union[Epoch, _Mapping]] = ..., digest: _Optional[bytes] = ..., gone: _Optional[_Iterable[int]] = ..., seats: _Optional[_Iterable[_Union[Seat, _Mapping]]] = ..., usual: _Optional[_Union[Position, _Mapping]] = ..., moved: _Optional[_Iterable[_Union[Moved, _Mapping]]] = ..., died: _Optional[_Iterable[_Union[Death, _Mapping]]] = ..., joined: _Optional[_Iterable[_Union[Member, _Mapping]]] = ..., reason: _Optional[str] = ...) -> None: ...

class Moved(_message.Message):
    __slots__ = ("slot", "position")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    slot: int
    position: Position
    def __init__(self, slot: _Optional[int] = ..., position: _Optional[_Union[Position, _Mapping]] = ...) -> None: ...

class Announce(_message.Message):
    __slots__ = ("member", "slot", "pid", "handle", "position", "min_ranks", "epoch", "roster", "seats")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    MIN_RANKS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ROSTER_FIELD_NUMBER: _ClassVar[int]
    SEATS_FIELD_NUMBER: _ClassVar[int]
    member: Member
    slot: int
    pid: int
    handle: str
    position: Position
    min_ranks: int
    epoch: Epoch
    roster: str
    seats: _containers.RepeatedCompositeFieldContainer[Seat]
    def __init__(self, member: _Optional[_Union[Member, _Mapping]] = ..., slot: _Optional[int] = ..., pid: _Optional[int] = ..., handle: _Optional[str] = ..., position: _Optional[_Union[Position, _Mapping]] = ..., min_ranks: _Optional[int] = ..., epoch: _Optional[_Union[Epoch, _Mapping]] = ..., roster: _Optional[str] = ..., seats: _Optional[_Iterable[_Union[Seat, _Mapping]]] = ...) -> None: ...

class Ready(_message.Message):
    __slots__ = ("member", "epoch", "handle", "position", "suspects", "reason")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    SUSPECTS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    member: Member
    epoch: Epoch
    handle: str
    position: Position
    suspects: _containers.RepeatedCompositeFieldContainer[Member]
    reason: str
    def __init__(self, member: _Optional[_Union[Member, _Mapping]] = ..., epoch: _Optional[_Union[Epoch, _Mapping]] = ..., handle: _Optional[str] = ..., position: _Optional[_Union[Position, _Mapping]] = ..., suspects: _Optional[_Iterable[_Union[Member, _Mapping]]] = ..., reason: _Optional[str] = ...) -> None: ...

class Settled(_message.Message):
    __slots__ = ("member", "epoch", "seconds")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    member: Member
    epoch: Epoch
    seconds: float
    def __init__(self, member: _Optional[_Union[Member, _Mapping]] = ..., epoch: _Optional[_Union[Epoch, _Mapping]] = ..., seconds: _Optional[float] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("member", "committed", "steps_per_second")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    STEPS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    member: Member
    committed: int
    steps_per_second: float
    def __init__(self, member: _Optional[_Union[Member, _Mapping]] = ..., committed: _Optional[int] = ..., steps_per_second: _Optional[float] = ...) -> None: ...

class Leaving(_message.Message):
    __slots__ = ("member", "reason")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    member: Member
    reason: str
    def __init__(self, member: _Optional[_Union[Member, _Mapping]] = ..., reason: _Optional[str] = ...) -> None: ...

class Died(_message.Message):
    __slots__ = ("member", "how")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    HOW_FIELD_NUMBER: _ClassVar[int]
    member: Member
    how: str
    def __init__(self, member: _Optional[_Union[Member, _Mapping]] = ..., how: _Optional[str] = ...) -> None: ...

class Beat(_message.Message):
    __slots__ = ("host",)
    HOST_FIELD_NUMBER: _ClassVar[int]
    host: str
    def __init__(self, host: _Optional[str] = ...) -> None: ...

class Change(_message.Message):
    __slots__ = ("epoch", "died", "joining", "reason", "broken")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    DIED_FIELD_NUMBER: _ClassVar[int]
    JOINING_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    BROKEN_FIELD_NUMBER: _ClassVar[int]
    epoch: Epoch
    died: _containers.RepeatedCompositeFieldContainer[Death]
    joining: _containers.RepeatedCompositeFieldContainer[Member]
    reason: str
    broken: bool
    def __init__(self, epoch: _Optional[_Union[Epoch, _Mapping]] = ..., died: _Optional[_Iterable[_Union[Death, _Mapping]]] = ..., joining: _Optional[_Iterable[_Union[Member, _Mapping]]] = ..., reason: _Optional[str] = ..., broken: _Optional[bool] = ...) -> None: ...

class Form(_message.Message):
    __slots__ = ("epoch", "previous", "seats", "died", "joined", "reason")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    SEATS_FIELD_NUMBER: _ClassVar[int]
    DIED_FIELD_NUMBER: _ClassVar[int]
    JOINED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    epoch: Epoch
    previous: Epoch
    seats: _containers.RepeatedCompositeFieldContainer[Seat]
    died: _containers.RepeatedCompositeFieldContainer[Death]
    joined: _containers.RepeatedCompositeFieldContainer[Member]
    reason: str
    def __init__(self, epoch: _Optional[_Union[Epoch, _Mapping]] = ..., previous: _Optional[_Union[Epoch, _Mapping]] = ..., seats: _Optional[_Iterable[_Union[Seat, _Mapping]]] = ..., died: _Optional[_Iterable[_Union[Death, _Mapping]]] = ..., joined: _Optional[_Iterable[_Union[Member, _Mapping]]] = ..., reason: _Optional[str] = ...) -> None: ...

class Refused(_message.Message):
    __slots__ = ("member", "verdict", "reason")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    member: Member
    verdict: Verdict
    reason: str
    def __init__(self, member: _Optional[_Union[Member, _Mapping]] = ..., verdict: _Optional[_Union[Verdict, str]] = ..., reason: _Optional[str] = ...) -> None: ...

class Evict(_message.Message):
    __slots__ = ("member", "reason")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    member: Member
    reason: str
    def __init__(self, member: _Optional[_Union[Member, _Mapping]] = ..., reason: _Optional[str] = ...) -> None: ...

class Teach(_message.Message):
    __slots__ = ("epoch",)
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    epoch: Epoch
    def __init__(self, epoch: _Optional[_Union[Epoch, _Mapping]] = ...) -> None: ...

class LaunchRule(_message.Message):
    __slots__ = ("name", "fewest", "most", "max_restarts", "join", "last_call")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FEWEST_FIELD_NUMBER: _ClassVar[int]
    MOST_FIELD_NUMBER: _ClassVar[int]
    MAX_RESTARTS_FIELD_NUMBER: _ClassVar[int]
    JOIN_FIELD_NUMBER: _ClassVar[int]
    LAST_CALL_FIELD_NUMBER: _ClassVar[int]
    name: str
    fewest: int
    most: int
    max_restarts: int
    join: float
    last_call: float
    def __init__(self, name: _Optional[str] = ..., fewest: _Optional[int] = ..., most: _Optional[int] = ..., max_restarts: _Optional[int] = ..., join: _Optional[float] = ..., last_call: _Optional[float] = ...) -> None: ...

class HostReport(_message.Message):
    __slots__ = ("host", "slots", "rule", "node_rank", "address", "port", "round", "stand", "again", "sessions", "training", "finished", "reason", "known")
    HOST_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    NODE_RANK_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    STAND_FIELD_NUMBER: _ClassVar[int]
    AGAIN_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    TRAINING_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    host: str
    slots: int
    rule: LaunchRule
    node_rank: int
    address: str
    port: int
    round: int
    stand: Stand
    again: str
    sessions: bool
    training: bool
    finished: bool
    reason: str
    known: JobState
    def __init__(self, host: _Optional[str] = ..., slots: _Optional[int] = ..., rule: _Optional[_Union[LaunchRule, _Mapping]] = ..., node_rank: _Optional[int] = ..., address: _Optional[str] = ..., port: _Optional[int] = ..., round: _Optional[int] = ..., stand: _Optional[_Union[Stand, str]] = ..., again: _Optional[str] = ..., sessions: _Optional[bool] = ..., training: _Optional[bool] = ..., finished: _Optional[bool] = ..., reason: _Optional[str] = ..., known: _Optional[_Union[JobState, _Mapping]] = ...) -> None: ...

class Place(_message.Message):
    __slots__ = ("host", "first_rank", "slots")
    HOST_FIELD_NUMBER: _ClassVar[int]
    FIRST_RANK_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    host: str
    first_rank: int
    slots: int
    def __init__(self, host: _Optional[str] = ..., first_rank: _Optional[int] = ..., slots: _Optional[int] = ...) -> None: ...

class JobState(_message.Message):
    __slots__ = ("name", "round", "phase", "places", "master_addr", "master_port", "restarts", "sessions", "training", "finished", "reason")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    PLACES_FIELD_NUMBER: _ClassVar[int]
    MASTER_ADDR_FIELD_NUMBER: _ClassVar[int]
    MASTER_PORT_FIELD_NUMBER: _ClassVar[int]
    RESTARTS_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    TRAINING_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    name: str
    round: int
    phase: JobPhase
    places: _containers.RepeatedCompositeFieldContainer[Place]
    master_addr: str
    master_port: int
    restarts: int
    sessions: bool
    training: bool
    finished: bool
    reason: str
    def __init__(self, name: _Optional[str] = ..., round: _Optional[int] = ..., phase: _Optional[_Union[JobPhase, str]] = ..., places: _Optional[_Iterable[_Union[Place, _Mapping]]] = ..., master_addr: _Optional[str] = ..., master_port: _Optional[int] = ..., restarts: _Optional[int] = ..., sessions: _Optional[bool] = ..., training: _Optional[bool] = ..., finished: _Optional[bool] = ..., reason: _Optional[str] = ...) -> None: ...
