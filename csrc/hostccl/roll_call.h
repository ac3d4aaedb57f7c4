// All members report to rank 0 with a few bytes, and each hears who else has come and what they brought. Unlike a
// collective it may fail without harm: on a missed deadline those that came learn who did not, and the communicator stays
// healthy. Monitored barrier, split, grow, exchange and the making of a window are made of it.
//
// Collective, on the calling thread. Must not know: what the bytes mean.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "hostccl/p2p.h"
#include "hostccl/wait.h"

namespace hostccl {

inline constexpr int kReservedTags = 16;  // from the smallest int on: of roll calls, users' are above

inline constexpr size_t kReportBytes = 192;
using Report = std::array<std::byte, kReportBytes>;

enum class RollCallKind : int { kMonitoredBarrier = 1, kSplit = 2, kWindow = 3, kExchange = 4, kGrow = 5 };

struct RollCallResult {
  Result result;                // kSuccess, kTimeout, or why the communicator has failed
  std::vector<int> missing;     // on kTimeout
  std::vector<Report> reports;  // on kSuccess, by rank
};

RollCallResult roll_call(const Segment& segment, const PeerWatch& watch, P2p& p2p, RollCallKind kind,
                         const Report& mine, int64_t timeout_ns);

}  // namespace hostccl
