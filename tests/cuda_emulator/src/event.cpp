#include "event.h"

#include <utility>

#include "device.h"
#include "submission.h"

namespace cuemu {
namespace {

Op pass(std::shared_ptr<Recording> recording) {
  return {.what = "event record", .type = cuda_abi::kEventRecordNode, .run = [recording = std::move(recording)] {
            recording->time = std::chrono::steady_clock::now();
          }};
}

}  // namespace

void Event::record(Stream& stream, bool external) {
  require(&device == &stream.device, cuda_abi::kInvalidResourceHandle);
  const auto recording = std::make_shared<Recording>();
  const Op now = pass(recording);
  const Op at_launch = external_record();
  std::shared_ptr<Recording> before;  // these two are released outside the lock
  std::shared_ptr<Capture> capture_before;
  const std::lock_guard lock(submission_mutex());
  if (!stream.capture) {
    recording->point = submit_locked(stream, now);
    before = std::exchange(recording_, recording);
    capture_before = std::exchange(capture_, nullptr);
  } else if (external) {
    submit_locked(stream, at_launch);
  } else {
    require(!stream.capture->is_invalid, cuda_abi::kStreamCaptureInvalidated);
    capture_before = std::exchange(capture_, stream.capture);
    frontier_ = stream.frontier;
  }
}

void Event::make_wait(Stream& stream, bool external) {
  const Op wait{.what = "event wait", .type = cuda_abi::kWaitEventNode};
  const Op at_launch = external_wait();
  const std::lock_guard lock(submission_mutex());
  if (external && stream.capture) {
    submit_locked(stream, at_launch);
    return;
  }
  if (capture_) {
    require(!capture_->has_ended, cuda_abi::kCapturedEvent);
    join_capture_locked(stream, capture_, frontier_);
    return;
  }
  if (!recording_) return;
  if (stream.capture) {
    stream.capture->is_invalid = true;
    fail(cuda_abi::kStreamCaptureIsolation);
  }
  submit_locked(stream, wait, {recording_->point});
}

bool Event::query() const {
  const auto last = recording();
  return !last || last->point.done();
}

void Event::synchronize() const {
  if (const auto last = recording()) device.wait(last->point);
}

float Event::milliseconds_until(const Event& later) const {
  const auto first = timed_recording(), second = later.timed_recording();
  require(first->point.done() && second->point.done(), cuda_abi::kNotReady);
  return std::chrono::duration<float, std::milli>(second->time.load() - first->time.load()).count();
}

// Each launch makes a recording of its own, which the program sees as soon as the launch is in its stream.
Op Event::external_record() {
  return {.what = "external event record",
          .type = cuda_abi::kEventRecordNode,
          .at_launch = [self = shared_from_this()]() -> std::function<void()> {
            const auto timeline = std::make_shared<Timeline>();
            self->recording_ = std::make_shared<Recording>();
            self->recording_->point = {timeline, 1};
            self->capture_.reset();
            return [timeline, recording = self->recording_] {
              recording->time = std::chrono::steady_clock::now();
              timeline->advance();
            };
          }};
}

Op Event::external_wait() {
  return {.what = "external event wait",
          .type = cuda_abi::kWaitEventNode,
          .at_launch = [self = shared_from_this()]() -> std::function<void()> {
            if (!self->recording_) return [] {};
            return [point = self->recording_->point] { Stream::wait_here(point); };
          }};
}

std::shared_ptr<Recording> Event::recording() const {
  const std::lock_guard lock(submission_mutex());
  require(!capture_, cuda_abi::kCapturedEvent);
  return recording_;
}

std::shared_ptr<Recording> Event::timed_recording() const {
  require((flags & cuda_abi::kEventDisableTiming) == 0, cuda_abi::kInvalidResourceHandle);
  auto last = recording();
  require(last != nullptr, cuda_abi::kInvalidResourceHandle);
  return last;
}

}  // namespace cuemu
