// The order in which the program asked for things. One lock makes that order total: under it work is queued or captured,
// events are recorded, and the implicit order between the legacy stream and the blocking ones is made. Nothing under it
// blocks or calls out.
#pragma once

#include <mutex>
#include <vector>

#include "op.h"
#include "stream.h"

namespace cuemu {

std::mutex& submission_mutex();

// Queues the work on the stream, or adds it to the graph that the stream is being captured into; then the point is long past.
// Throws without having taken anything. Needs submission_mutex(); the op outlives the lock, so that nothing that it captured
// is released under it.
Point submit_locked(Stream& stream, const Op& op, std::vector<Point> after = {});
inline Point submit(Stream& stream, const Op& op) {
  const std::lock_guard lock(submission_mutex());
  return submit_locked(stream, op);
}

}  // namespace cuemu
