// When the thread of a stream begins what is queued. Large work at once. Small work it leaves alone while more is being issued
// and for some microseconds after that: most issuers come to wait soon, and run it for less than what it costs to share
// their core with a second thread. Pure functions. Must not know: the stream.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"

namespace hostccl {

struct QueueState {
  bool empty = true;
  bool stopping = false;
  bool has_large = false;
  bool helped = false;    // somebody ran work since the thread last looked
  int64_t oldest_ns = 0;  // when the first of what is queued came
  int64_t latest_ns = 0;  // when the last came, also if it has been run
};

// Nothing came and nobody helped for so long: the issuer does something else.
inline constexpr int64_t kIssuerIsQuiet = 100 * pycomms::kMicrosecond;
inline constexpr int64_t kSmallWaitsAtMost = pycomms::kMillisecond;  // while more is issued
inline constexpr int64_t kGlance = 100 * pycomms::kMicrosecond;      // the thread looks again so soon after traffic
inline constexpr int64_t kParked = pycomms::kSecond;                 // until somebody wakes it

// How long the thread may sleep; 0: it is to run the front, or to end.
inline int64_t leisure(const QueueState& queue, int64_t now) {
  if (queue.stopping || queue.has_large) return 0;
  if (queue.empty) return queue.helped || now < queue.latest_ns + kGlance ? kGlance : kParked;
  if (queue.helped) return kIssuerIsQuiet;
  const int64_t due = std::min(queue.latest_ns + kIssuerIsQuiet, queue.oldest_ns + kSmallWaitsAtMost);
  return std::max<int64_t>(due - now, 0);
}

}  // namespace hostccl
