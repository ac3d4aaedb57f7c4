#include "nccl2/core/lane.h"

namespace pycomms {

Result<StreamHandle> Lane::stream(const char* name) {
  if (StreamHandle made = stream_.load(std::memory_order_acquire)) return made;
  const std::lock_guard lock(making_stream_);
  if (StreamHandle made = stream_.load(std::memory_order_acquire)) return made;
  Result<StreamHandle> made = runtime_.create_stream(name);
  if (made.is_ok()) stream_.store(made.value(), std::memory_order_release);
  return made;
}

bool Lane::help_stream(uint64_t position) {
  const GateHolder inside(helpers_);
  StreamHandle stream = stream_.load(std::memory_order_acquire);
  return inside && stream != nullptr && runtime_.help(stream, position);
}

bool Lane::help_requests() {
  if (engine_.host.comm_progress == nullptr) return false;
  const GateHolder inside(helpers_);
  return inside && comm_ != nullptr && engine_.host.comm_progress(comm_) != 0;
}

void Lane::close(Deadline deadline) {
  helpers_.close();
  static_cast<void>(helpers_.wait_until_empty(deadline));
  if (StreamHandle stream = stream_.exchange(nullptr)) runtime_.destroy_stream(stream);
}

}  // namespace pycomms
