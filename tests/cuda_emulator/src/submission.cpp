#include "submission.h"

#include <utility>

#include "capture.h"
#include "device.h"

namespace cuemu {
namespace {

// CUDA's implicit order: work in the legacy stream comes after all earlier work in the blocking streams of its device, and
// before all later work in them.
void add_implicit_order(Stream& stream, std::vector<Point>& after) {
  Stream& legacy = *stream.device.legacy_stream();
  if (&stream != &legacy) {
    if (Point tail = legacy.tail(); !tail.done()) after.push_back(std::move(tail));
    return;
  }
  refuse_legacy_locked(legacy);
  for (const auto& other : stream.device.streams()) {
    if (other.get() == &legacy || !other->is_blocking()) continue;
    if (Point tail = other->tail(); !tail.done()) after.push_back(std::move(tail));
  }
}

}  // namespace

std::mutex& submission_mutex() {
  static auto& leaked = *new std::mutex;
  return leaked;
}

Point submit_locked(Stream& stream, const Op& op, std::vector<Point> after) {
  if (stream.capture) {
    capture_op_locked(stream, op);
    return {};
  }
  if (stream.is_blocking()) add_implicit_order(stream, after);
  return stream.push(op, std::move(after));
}

}  // namespace cuemu
