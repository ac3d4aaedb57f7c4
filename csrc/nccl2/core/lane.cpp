#include "nccl2/core/lane.h"

namespace pycomms {

bool Lane::help_stream(uint64_t position) {
  const GateHolder inside(helpers_);
  StreamHandle stream = stream_.if_made();
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
  stream_.end();
}

}  // namespace pycomms
