#include "nccl2/core/device_op.h"

namespace pycomms {

DeviceOp::~DeviceOp() {
  if (was_forked()) return;  // the device is the parent's
  if (start_ != nullptr) events_->release(start_, timed_, captured_);
  if (end_ != nullptr) events_->release(end_, timed_, captured_);
}

Status DeviceOp::begin_on(DeviceEvents& events, StreamHandle stream, bool timed, bool captured, int64_t deadline_ns) {
  events_ = &events;
  stream_ = stream;
  timed_ = timed && !captured;
  captured_ = captured;
  deadline_ns_ = deadline_ns;
  if (!timed_) return {};
  Result<EventHandle> mark = events.record(stream, true);
  if (!mark.is_ok()) return mark.status();
  start_ = mark.value();
  return {};
}

Status DeviceOp::end_on_stream() {
  Result<EventHandle> mark = events_->record(stream_, timed_);
  if (!mark.is_ok()) return mark.status();
  end_ = mark.value();
  return {};
}

Status DeviceOp::order(StreamHandle stream) {
  if (end_ == nullptr || stream == stream_) return {};
  return events_->wait(stream, end_);
}

Result<float> DeviceOp::duration_ms() const {
  if (!timed_ || start_ == nullptr || end_ == nullptr) {
    return Status(Code::kInvalidState, "the operation was not timed; see enableCollectivesTiming");
  }
  return events_->elapsed_ms(start_, end_);
}

}  // namespace pycomms
