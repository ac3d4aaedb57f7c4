// Sending and receiving the messages of a meeting (meeting_wire.h) over either kind of connection, with deadlines.
// Any thread. Must not know: what follows from them.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "base/clock.h"
#include "base/fd.h"
#include "hostccl/meeting_wire.h"

namespace hostccl {

// Sends all of it; false: the other side has gone, or takes nothing for five seconds.
bool tell(int to, std::span<const std::byte> message);
// descriptor: goes with it, -1: none.
bool tell(int to, const JoinReply& reply, int descriptor);

enum class Heard : uint8_t { kAll, kGone, kTimeout, kCancelled };
Heard hear(int from, std::span<std::byte> message, pycomms::Deadline deadline, const std::atomic<bool>& cancelled);
// descriptor: what came with it, if anything did.
Heard hear(int from, JoinReply& reply, pycomms::Fd& descriptor, pycomms::Deadline deadline,
           const std::atomic<bool>& cancelled);

}  // namespace hostccl
