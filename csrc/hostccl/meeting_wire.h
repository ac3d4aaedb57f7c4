// What the ranks of a new communicator say to the process that convenes them, as bytes; between two hosts too.
// Any thread; plain data. Must not know: sockets.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "hostccl/hostccl.h"
#include "hostccl/net/address.h"
#include "hostccl/net/bytes.h"

namespace hostccl {

using net::Bytes16;

inline constexpr char kMeetingMagic[8] = {'h', 'o', 's', 't', 'c', 'c', 'l', '3'};
inline constexpr size_t kSocketNameBytes = 40;  // of an abstract Unix socket

// Where a process is, and where it is reached. A rank on the convener's host opens its TCP endpoint only when it hears that
// there are other hosts.
struct Whereabouts {
  Bytes16 host;                   // net::host_id
  net::Address::Encoded tcp;      // none: it is reached on its own host only
  char socket[kSocketNameBytes];  // see residence.h
};

// What a unique id holds.
struct MeetingPlace {
  char magic[sizeof(kMeetingMagic)];
  Bytes16 secret;
  Bytes16 agenda;  // what the ranks have agreed on before they come; the same on all
  Whereabouts convener;

  bool is_ours() const { return std::memcmp(magic, kMeetingMagic, sizeof(magic)) == 0; }
};
static_assert(sizeof(MeetingPlace) <= nccl_abi::kUniqueIdBytes);

struct JoinRequest {
  Bytes16 secret;
  Bytes16 agenda;
  int32_t rank;
  int32_t nranks;
  uint64_t segment_bytes;
  uint64_t by_hosts;  // PYCOMMS_REDUCE_BY_HOSTS
  int64_t timeout_ns;
  Whereabouts whereabouts;
};

struct JoinReply {
  // The descriptor of the segment comes with it, if the convener is on the same host.
  int32_t ok;
  // There are several hosts: when all have told their whereabouts, another reply follows, and if that is ok the whereabouts of
  // all ranks.
  int32_t has_roster;
  Failure failure;
};

// The last word of a rank to its convener. The end of a connection alone would name the wrong one: who has seen a member die
// may leave before the kernel has closed the connection of the dead.
struct Farewell {
  Failure why;  // kNone: it sees all others
};

static_assert(std::is_trivially_copyable_v<MeetingPlace> && std::is_trivially_copyable_v<JoinRequest> &&
              std::is_trivially_copyable_v<JoinReply> && std::is_trivially_copyable_v<Farewell>);

}  // namespace hostccl
